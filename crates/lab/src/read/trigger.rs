//! `[[triggers]]`.

use retrial_core::dialect::Diagnostic;
use retrial_core::dialect::tree::{Fields, Node};
use retrial_core::time::Nanos;

use super::Names;
use super::value::{length, number, share, time};
use crate::model::{Arrivals, Class, MOST_PARTS, Trigger, TriggerKind};

const KEYS: [&str; 7] = ["kind", "on", "at", "length", "factor", "share", "parts"];
const KINDS: [&str; 8] =
    ["spike", "pause", "capacity", "errors", "slow", "crash", "deploy", "loss"];

/// Reads the triggers of a run of this length.
pub(super) fn read(
    node: &Node,
    names: &Names,
    classes: &[Class],
    run: Nanos,
) -> Result<Vec<Trigger>, Diagnostic> {
    let items = node.items()?;
    if items.len() > MOST_PARTS {
        let error = node.place.error("there are too many triggers");
        return Err(error.help_with(format!("use at most {MOST_PARTS}")));
    }
    items.iter().map(|item| trigger(item, names, classes, run)).collect()
}

fn trigger(
    node: &Node,
    names: &Names,
    classes: &[Class],
    run: Nanos,
) -> Result<Trigger, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    let kinds = KINDS.map(|kind| (kind, kind));
    let word = fields.require("kind", &format!("use {}", KINDS.join(", ")))?;
    let kind = word.choice(&kinds)?;
    let at = time(fields.require("at", "write at = \"60s\"")?)?;
    let length_node = fields.require("length", "write length = \"30s\"")?;
    let lasts = length(length_node, run)?;
    if at.saturating_add(lasts) >= run {
        let error = length_node.place.error("the trigger does not end before the run does");
        return Err(
            error.help_with(format!("the run lasts {run}: begin sooner, or run for longer"))
        );
    }
    Ok(Trigger { kind: kind_of(kind, &fields, names, classes)?, at, length: lasts })
}

fn kind_of(
    kind: &str,
    fields: &Fields<'_>,
    names: &Names,
    classes: &[Class],
) -> Result<TriggerKind, Diagnostic> {
    let on = fields.require("on", "name what it happens to: on = \"api\"")?;
    for key in ["factor", "share", "parts"] {
        let wanted = match kind {
            "spike" | "slow" => "factor",
            "capacity" | "errors" | "loss" => "share",
            "deploy" => "parts",
            _ => "",
        };
        if let Some(node) = fields.get(key).filter(|_| key != wanted) {
            let error = node.place.error(format!("`{key}` has no effect on `{kind}`"));
            return Err(error.help_with("leave it out"));
        }
    }
    let factor = || number(fields.require("factor", "write factor = 3")?, 1_000.0);
    let part = || share(fields.require("share", "write share = 0.5")?);
    let service = || Names::find(&names.services, on);
    Ok(match kind {
        "spike" => {
            let class = Names::find(&names.classes, on)?;
            if !matches!(classes[class].arrivals, Arrivals::Open { .. }) {
                let error = on.place.error("a spike needs an open stream");
                return Err(error.help_with("use arrivals = { poisson = 70 } or constant"));
            }
            TriggerKind::Spike(class, factor()?)
        }
        "pause" => TriggerKind::Pause(service()?),
        "capacity" => TriggerKind::Capacity(service()?, part()?),
        "errors" => TriggerKind::Errors(service()?, part()?),
        "slow" => TriggerKind::Slow(service()?, factor()?),
        "crash" => TriggerKind::Crash(service()?),
        "deploy" => {
            let parts = fields.require("parts", "write parts = 4")?;
            TriggerKind::Deploy(service()?, parts.count(1, 1_000)?)
        }
        _ => TriggerKind::Loss(Names::find(&names.edges, on)?, part()?),
    })
}
