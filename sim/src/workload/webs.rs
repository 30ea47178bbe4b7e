//! Any graph: steps one after another, each behind some of those before it, led to by some, or both.

use serde_json::{Value, json};

use super::partial_success::quorum;
use super::sketch::{Sketch, failed, fine};

const IDS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// Four to seven steps. Joins that can do without some, edges on failure, on success and on either.
pub(super) fn web(sketch: &mut Sketch<'_>) {
    let count = sketch.draw.between(4, 7) as usize;
    for (n, id) in IDS.into_iter().enumerate().take(count) {
        let (after, others): (Vec<&str>, Vec<&str>) =
            IDS[..n].iter().copied().partition(|_| sketch.draw.chance(35));
        sketch.step(id, &after);
        if sketch.draw.chance(20) {
            sketch.fan();
            if sketch.draw.chance(30) {
                let success = quorum(sketch, 3);
                sketch.word("success", success);
            }
        }
        if after.len() > 1 && sketch.draw.chance(50) {
            let join = quorum(sketch, after.len() as u64);
            sketch.word("join", join);
        }
        if sketch.draw.chance(30) {
            sketch.arg("errors", json!("${_errors}"));
        }
        if sketch.draw.chance(40) {
            for from in others {
                if sketch.draw.chance(40) {
                    edge(sketch, from, id);
                }
            }
        }
    }
}

fn edge(sketch: &mut Sketch<'_>, from: &str, to: &str) {
    let priority = sketch.draw.between(1, 5) as i64;
    let condition: Option<Value> = match sketch.draw.below(6) {
        0 => return sketch.catch(from, to, priority, json!(true)),
        1 => {
            return sketch.catch(
                from,
                to,
                priority,
                json!(["HTTPError", "TIMEOUT", "WORK_FAILED"]),
            );
        }
        2 => Some(failed()),
        3 => Some(json!({"type": "exists", "field": "state._errors.1"})),
        4 => Some(fine()),
        _ => None,
    };
    sketch.edge(from, to, priority, condition);
}
