use bytes::Bytes;
use retrial::observe::{Notice, json};
use retrial::run::{Event, Version};
use retrial::store::{QueueRow, QueueState, ResultRow};
use retrial::workflow::{Need, Via};
use retrial_sim::unstable::evidence::{JSON_LINES, METRICS, Output};
use retrial_sim::unstable::oracle::durability::{
    ACTED_BEFORE_WRITING, ARRIVAL_AFTER_SUCCESS, DAMAGED_WITHOUT_ROT, NEVER_TOLD, QUEUE_ROW_WRONG,
    RESULT_LOST, RESULT_UNEARNED, RUN_ALTERED, RUN_LOST, STRAY_ARRIVAL, SUCCEEDED_RAN_AGAIN,
    TIME_WENT_BACK, TOLD_BUT_LOST, TOLD_BY_THE_DEAD, TOLD_OTHERWISE, VERSION_GAP, judge,
};
use retrial_sim::unstable::oracle::json_lines::{
    LINE_BROKEN, LINE_MISSING, LINE_OUT_OF_ORDER, LINE_WRONG, WRONG_COUNT,
};
use retrial_sim::unstable::scenario::Reply;
use retrial_sim::unstable::scenario::STORE;
use serde_json::{Value, json as value};

use crate::kit::{
    Script, at, exhausted, fanned, found, healthy, policy, recovered, server_error, status, step,
    store, task, workflow,
};

fn need() -> Need {
    Need { action: "do_a".into(), via: Via::Http }
}

#[test]
fn whole_worlds_pass() {
    healthy(&judge(&recovered().world));
    healthy(&judge(&exhausted().world));
    healthy(&judge(&fanned().world));
}

#[test]
fn a_lost_run_is_found_unless_nobody_was_promised_it() {
    let mut script = recovered();
    let run = script.run_mut();
    (run.version, run.acknowledged) = (Version::START, true);
    run.events.clear();
    run.results.clear();
    script.world.observed.clear();
    script.world.ledger.clear();
    found(&judge(&script.world), RUN_LOST);
    script.run_mut().acknowledged = false;
    healthy(&judge(&script.world));
    script.run_mut().acknowledged = true;
    script.run_mut().damaged = true;
    found(&judge(&script.world), DAMAGED_WITHOUT_ROT);
    script.world.rot = true;
    assert!(judge(&script.world).findings.is_empty(), "a damaged run is reported, not lost");
}

#[test]
fn a_run_created_with_another_seed_is_found() {
    let mut script = recovered();
    script.run_mut().seed = 43;
    found(&judge(&script.world), RUN_ALTERED);
}

#[test]
fn a_run_created_with_another_input_is_found() {
    let object = |value: Value| value.as_object().cloned().unwrap_or_default();
    let created = |defaults: Value, submitted: Value, input: Value| {
        let mut parts = workflow(vec![step("a", policy(3))]);
        parts.input = object(defaults);
        let mut script = Script::new(parts);
        script.run_mut().input = Some(object(submitted));
        if let Event::RunCreated { input: kept, .. } = &mut script.run_mut().events[0].event {
            *kept = object(input);
        }
        let report = judge(&script.world);
        report.findings.iter().any(|f| f.reason == RUN_ALTERED)
    };
    let defaults = || value!({ "a": 1, "b": 1 });
    assert!(!created(defaults(), value!({ "a": 2 }), value!({ "a": 2, "b": 1 })));
    // What was submitted counts, and nothing is left out or comes from elsewhere.
    assert!(created(defaults(), value!({ "a": 2 }), value!({ "a": 1, "b": 1 })));
    assert!(created(defaults(), value!({ "a": 2 }), value!({ "a": 2 })));
    assert!(created(defaults(), value!({ "a": 2 }), value!({ "a": 2, "b": 1, "c": 1 })));
}

#[test]
fn a_tail_that_was_told_and_then_lost_is_found() {
    let mut script = recovered();
    script.run_mut().events.pop();
    script.run_mut().version = Version(script.run().version.0 - 1);
    found(&judge(&script.world), TOLD_BUT_LOST);
}

#[test]
fn another_event_under_a_told_number_is_found() {
    let script = recovered().alter(|r| {
        if let Event::AttemptFailed { failure, .. } = &mut r.event {
            *failure = retrial::failure::Failure::http(500, "other");
        }
    });
    found(&judge(&script.world), TOLD_OTHERWISE);
}

#[test]
fn a_node_that_tells_after_its_death_is_found() {
    let mut script = recovered();
    script.world.lifespans[0].died = Some(at(250));
    found(&judge(&script.world), TOLD_BY_THE_DEAD);
    script.world.lifespans[0].died = Some(at(300));
    healthy(&judge(&script.world));
}

#[test]
fn what_nobody_was_told_is_found_unless_its_teller_died() {
    let mut script = recovered();
    script.world.observed.remove(3);
    found(&judge(&script.world), NEVER_TOLD);
    script.world.lifespans[0].died = Some(at(300));
    healthy(&judge(&script.world));
    script.world.lifespans[0].node = STORE.to_owned();
    found(&judge(&script.world), NEVER_TOLD);
}

#[test]
fn w12_success_that_runs_again_is_found() {
    let mut script = recovered();
    script.start(task(0, 0), 4, Reply::SuccessTrue);
    let report = judge(&script.world);
    found(&report, SUCCEEDED_RAN_AGAIN);
    found(&report, ARRIVAL_AFTER_SUCCESS);
}

#[test]
fn what_arrives_without_a_durable_start_is_found() {
    let script = exhausted().without(|e| matches!(e, Event::AttemptStarted { attempt: 3, .. }));
    found(&judge(&script.world), ACTED_BEFORE_WRITING);
    let mut script = recovered();
    script.world.ledger[0].receipt_token = Some("nobody".to_owned());
    found(&judge(&script.world), STRAY_ARRIVAL);
}

#[test]
fn a_gap_in_the_numbers_is_found() {
    let mut script = recovered();
    script.run_mut().version = script.run().version.after(1);
    found(&judge(&script.world), VERSION_GAP);
}

#[test]
fn time_that_goes_back_is_found() {
    let script = recovered().alter(|r| {
        if matches!(r.event, Event::RunEnded { .. }) {
            r.at = store(1);
        }
    });
    found(&judge(&script.world), TIME_WENT_BACK);
}

#[test]
fn w11_results_are_kept_for_successes_only() {
    let mut script = recovered();
    script.run_mut().results[0].result = Bytes::from_static(b"{}");
    found(&judge(&script.world), RESULT_LOST);
    let mut script = recovered();
    script.run_mut().results.clear();
    found(&judge(&script.world), RESULT_LOST);
    let mut script = recovered();
    let row = ResultRow { task: task(0, 0), attempt: 1, result: Bytes::from_static(b"{}") };
    script.run_mut().results.push(row);
    found(&judge(&script.world), RESULT_UNEARNED);
}

/// A run whose one task waits for its second attempt.
fn waiting() -> Script {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
    script
}

#[test]
fn a10_a_timer_that_was_lost_is_found() {
    let mut script = waiting();
    found(&judge(&script.world), QUEUE_ROW_WRONG);
    let state = QueueState::Due { at: store(100), need: need() };
    script.run_mut().queue = vec![QueueRow { task: task(0, 0), attempt: 2, state, progress: None }];
    healthy(&judge(&script.world));
    script.run_mut().queue[0].attempt = 3;
    found(&judge(&script.world), QUEUE_ROW_WRONG);
}

#[test]
fn a_row_left_behind_by_an_ended_run_is_found() {
    let mut script = recovered();
    let state = QueueState::Due { at: store(100), need: need() };
    script.run_mut().queue = vec![QueueRow { task: task(0, 0), attempt: 2, state, progress: None }];
    found(&judge(&script.world), QUEUE_ROW_WRONG);
}

#[test]
fn a_task_that_was_never_queued_is_found() {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    script.enter(0, 1);
    found(&judge(&script.world), QUEUE_ROW_WRONG);
}

/// The lines that a node alone writes of a script, and its counters.
fn written(change: impl Fn(&mut Vec<String>)) -> Script {
    let mut script = recovered();
    let run = script.world.runs[0].clone();
    let workflow = &run.workflow;
    let mut lines: Vec<String> = (0..)
        .zip(&run.events)
        .map(|(n, recorded)| {
            let (number, at, event) = (Version(n), recorded.at, &recorded.event);
            let notice = Notice { run: run.id, workflow, number, at, event };
            serde_json::Value::Object(json::object(&notice)).to_string() + "\n"
        })
        .collect();
    change(&mut lines);
    let source = format!("{JSON_LINES} n0/0");
    script.world.outputs.push(Output { source, text: lines.concat() });
    script
}

#[test]
fn a15_lines_that_tell_the_history_pass() {
    healthy(&judge(&written(|_| {}).world));
}

#[test]
fn a15_a_line_that_is_missing_is_found() {
    found(&judge(&written(|lines| drop(lines.remove(3))).world), LINE_OUT_OF_ORDER);
    found(&judge(&written(|lines| drop(lines.pop())).world), LINE_MISSING);
}

#[test]
fn a15_a_line_that_is_cut_is_found() {
    let cut = |lines: &mut Vec<String>| {
        let last = lines.last_mut().unwrap();
        last.truncate(last.len() - 9);
    };
    found(&judge(&written(cut).world), LINE_BROKEN);
}

#[test]
fn a15_lines_in_another_order_are_found() {
    found(&judge(&written(|lines| lines.swap(2, 3)).world), LINE_OUT_OF_ORDER);
    found(&judge(&written(|lines| lines.insert(3, lines[2].clone())).world), LINE_OUT_OF_ORDER);
}

#[test]
fn a15_a_line_that_says_something_else_is_found() {
    for (from, to) in [
        ("\"attempt\":2", "\"attempt\":3"),
        ("\"retry_delay\":0.1", "\"retry_delay\":0.2"),
        ("\"is_retry\":false", "\"is_retry\":true"),
        ("\"retry_attempt\":1", "\"retry_attempt\":2"),
        ("\"will_retry\":true", "\"will_retry\":false"),
        ("\"code\":\"503\"", "\"code\":\"500\""),
        ("\"event\":\"task_succeeded\"", "\"event\":\"task_failed\""),
    ] {
        let changed = |lines: &mut Vec<String>| {
            let line = lines.iter_mut().find(|line| line.contains(from)).unwrap();
            *line = line.replacen(from, to, 1);
        };
        found(&judge(&written(changed).world), LINE_WRONG);
    }
}

#[test]
fn c16_counters_that_miscount_are_found() {
    let counted = |retries: u32| {
        let mut script = recovered();
        let text = format!(
            "retrial_attempts_total{{action=a,outcome=failure,code=503}} 2\n\
             retrial_attempts_total{{action=a,outcome=success,code=none}} 1\n\
             retrial_retries_total{{action=a,kind=failure}} {retries}\n\
             retrial_tasks_total{{action=a,outcome=succeeded}} 1\n\
             retrial_runs_total{{workflow=w,outcome=completed}} 1\n"
        );
        script.world.outputs.push(Output { source: METRICS.to_owned(), text });
        script
    };
    healthy(&judge(&counted(2).world));
    found(&judge(&counted(3).world), WRONG_COUNT);
}
