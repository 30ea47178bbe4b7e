//! C18: what a task that failed for good leaves behind, and what people do with it.

use retrial::action::Call;
use retrial::engine::{CommandError, Config, Submission, SubmitError};
use retrial::failure::Failure;
use retrial::policy::GiveUp;
use retrial::run::{LetterId, NotRedrivable, Outcome};
use retrial::store::{AskLetters, LetterFilter, LetterStatus, Store as _};
use retrial::workflow::{StepIx, Workflow, WorkflowParts};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::*;

const ALL: AskLetters = AskLetters {
    after: None,
    limit: 99,
    filter: LetterFilter {
        workflow: None,
        action: None,
        code: None,
        waiting: false,
        since: None,
        until: None,
    },
};

/// The first item of the first step.
fn of(run: retrial::run::RunId, item: u32) -> LetterId {
    LetterId { run, task: retrial::run::TaskId { step: StepIx(0), item } }
}

/// Fails with the attempt's number in its message until it is mended.
fn broken() -> (Acts, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let acts = Acts::new(move |call: Call| {
        let mended = is_mended.load(Ordering::SeqCst);
        async move {
            match mended {
                true => Ok(call.args),
                false => Err(Failure::http(503, &format!("busy {}", call.attempt))),
            }
        }
    });
    (acts, mended)
}

#[tokio::test(start_paused = true)]
async fn c18_a_final_failure_leaves_a_letter_with_all_that_is_known() {
    let (store, acts) = (Watched::new(), broken().0);
    let engine = start(&store, &acts, Config::default()).await;
    let args = json!({ "card": "${input.card}" });
    let parts = WorkflowParts {
        name: "pay".into(),
        input: json!({ "card": { "number": "4111" } }).as_object().cloned().unwrap(),
        steps: vec![step("charge", patient(3), &[], args)],
        ..WorkflowParts::default()
    };
    let run = submit(&engine, Arc::new(Workflow::try_from(parts).unwrap())).await;
    soon(engine.outcome(run)).await.unwrap();
    let heads = engine.letters(ALL).await.unwrap().letters;
    let dead = engine.letter(of(run, 0)).await.unwrap();
    assert_eq!(heads, std::slice::from_ref(&dead.head));
    assert_eq!((dead.head.workflow.as_str(), dead.head.code.as_str()), ("pay", "503"));
    assert_eq!((dead.head.status, dead.head.redrives), (LetterStatus::Waiting, None));
    let letter = dead.letter;
    assert_eq!((letter.step.as_str(), letter.action.as_str()), ("charge", "act"));
    assert_eq!((letter.attempts, letter.reason), (3, GiveUp::Exhausted));
    assert_eq!(letter.error.message, "busy 3");
    let message = |failure: Option<Failure>| failure.unwrap().message().to_owned();
    assert_eq!((message(letter.first), message(letter.last)), ("busy 1".into(), "busy 3".into()));
    assert_eq!(letter.payload, Some(json!({ "card": { "number": "4111" } })));
    assert_eq!(letter.payload, Some(acts.calls()[2].args.clone()), "as it was invoked");
    assert_eq!(store.heads(None, 9).await.unwrap().runs[0].letters, 1);
}

#[tokio::test(start_paused = true)]
async fn c18_a_run_that_goes_on_leaves_its_letter_all_the_same() {
    let acts = Acts::new(|call: Call| async move {
        match call.step.as_str() {
            "first" => Err(Failure::http(404, "gone")),
            _ => Ok(call.args),
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let handler = step("mend", patient(1), &[], json!({ "why": "${_last_error.code}" }));
    let first = step("first", patient(3), &[], json!({}));
    let run = submit(&engine, handled(first, handler)).await;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    let heads = engine.letters(ALL).await.unwrap().letters;
    assert_eq!(heads.iter().map(|head| head.id).collect::<Vec<_>>(), [of(run, 0)]);
}

#[tokio::test(start_paused = true)]
async fn c18_a_redriven_task_runs_alone_on_the_arguments_that_were_kept() {
    let (store, (acts, mended)) = (Watched::new(), broken());
    let engine = start(&store, &acts, Config::default()).await;
    let run = submit(&engine, fan_out(3, patient(2))).await;
    soon(engine.outcome(run)).await.unwrap();
    assert_eq!(engine.letters(ALL).await.unwrap().letters.len(), 3);
    mended.store(true, Ordering::SeqCst);
    let redriven = engine.redrive(of(run, 2)).await.unwrap().run;
    let ended = soon(engine.outcome(redriven)).await.unwrap();
    assert_eq!(ended.outcome, Outcome::Completed);
    let last = acts.calls().pop().unwrap();
    assert_eq!((last.run, last.args, last.attempt), (redriven, json!({ "item": 2 }), 1));
    assert_eq!((last.step.as_str(), ended.state.workflow().name()), ("each", "fan"));
    let policy = |state: &retrial::run::RunState| state.workflow().steps()[0].policy.clone();
    assert_eq!(policy(&ended.state), policy(&engine.state(run).await.unwrap()));
    let status = engine.letter(of(run, 2)).await.unwrap().head.status;
    assert_eq!(status, LetterStatus::Redriven { run: redriven });
}

#[tokio::test(start_paused = true)]
async fn c18_a_letter_is_redriven_once_also_by_two_nodes_and_after_a_crash() {
    let (store, (acts, _)) = (Watched::new(), broken());
    let config = Config { sole_owner: false, ..Config::default() };
    let one = start(&store, &acts, config.clone()).await;
    let two = start(&store, &acts, config.clone()).await;
    let run = submit(&one, fan_out(1, patient(1))).await;
    soon(one.outcome(run)).await.unwrap();
    let (a, b) = tokio::join!(one.redrive(of(run, 0)), two.redrive(of(run, 0)));
    let (won, lost) = if a.is_ok() { (a, b) } else { (b, a) };
    let first = won.unwrap().run;
    let refused = SubmitError::AlreadyRedriven { letter: of(run, 0), run: first };
    assert_eq!(lost.unwrap_err(), refused);
    drop((one, two));
    let three = start(&store, &acts, config).await;
    assert_eq!(three.redrive(of(run, 0)).await.unwrap_err(), refused);
    let taken = CommandError::AlreadyRedriven { letter: of(run, 0), run: first };
    assert_eq!(three.discard(of(run, 0), "late").await.unwrap_err(), taken);
    // It fails again: a new letter, linked to the first.
    soon(three.outcome(first)).await.unwrap();
    let again = three.letter(of(first, 0)).await.unwrap();
    assert_eq!((again.head.redrives, again.head.status), (Some(of(run, 0)), LetterStatus::Waiting));
    assert_eq!(again.letter.payload, Some(json!({ "item": 0 })));
    assert_eq!(store.heads(None, 9).await.unwrap().runs.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn c18_a_discarded_letter_stays_so() {
    let (acts, _) = broken();
    let engine = alone(&acts, Config::default()).await;
    let run = submit(&engine, fan_out(2, patient(1))).await;
    soon(engine.outcome(run)).await.unwrap();
    engine.discard(of(run, 0), "token=hunter2 no use").await.unwrap();
    engine.discard(of(run, 0), "again").await.unwrap();
    let LetterStatus::Discarded { reason } = engine.letter(of(run, 0)).await.unwrap().head.status
    else {
        panic!("it waits")
    };
    assert!(reason.ends_with("no use") && !reason.contains("hunter2"), "{reason}");
    let refused = engine.redrive(of(run, 0)).await.unwrap_err();
    assert_eq!(refused, SubmitError::LetterDiscarded(of(run, 0)));
    let unknown = of(run, 7);
    assert_eq!(engine.redrive(unknown).await.unwrap_err(), SubmitError::UnknownLetter(unknown));
    let refused = engine.discard(unknown, "none").await.unwrap_err();
    assert_eq!(refused, CommandError::UnknownLetter(unknown));
    let filter = LetterFilter { waiting: true, ..LetterFilter::default() };
    let waiting = engine.letters(AskLetters { filter, ..ALL }).await.unwrap().letters;
    assert_eq!(waiting.iter().map(|head| head.id).collect::<Vec<_>>(), [of(run, 1)]);
}

/// What looks like a reference in a payload is a text, and stays one.
#[tokio::test(start_paused = true)]
async fn c18_a_payload_is_never_read_as_a_template() {
    let (acts, mended) = broken();
    let engine = alone(&acts, Config::default()).await;
    let steps = vec![step("a", patient(1), &[], json!({ "x": "${input.x}" }))];
    let input = json!({ "x": "${input.secret} ${" }).as_object().cloned().unwrap();
    let run = engine.submit(Submission::new(workflow(steps)).with_input(input)).await.unwrap().run;
    soon(engine.outcome(run)).await.unwrap();
    mended.store(true, Ordering::SeqCst);
    let redriven = engine.redrive(of(run, 0)).await.unwrap().run;
    soon(engine.outcome(redriven)).await.unwrap();
    let calls = acts.calls();
    assert_eq!(calls[1].args, json!({ "x": "${input.secret} ${" }));
    assert_eq!(calls[1].args, calls[0].args);
}

#[tokio::test(start_paused = true)]
async fn c18_a_payload_too_large_to_keep_is_left_out_and_said_so() {
    let acts = Acts::new(|call: Call| async move {
        match call.step.as_str() {
            "big" => Ok(json!("x".repeat(200_000))),
            _ => Err(Failure::http(404, "no")),
        }
    });
    let engine = alone(&acts, Config::default()).await;
    let many: Vec<_> = std::iter::repeat_n("${steps.big.result}", 6).collect();
    let steps = vec![
        step("big", patient(1), &[], json!({})),
        step("sum", patient(1), &[0], json!({ "all": many })),
    ];
    let run = submit(&engine, workflow(steps)).await;
    soon(engine.outcome(run)).await.unwrap();
    let letter = LetterId { run, task: retrial::run::TaskId { step: StepIx(1), item: 0 } };
    let found = engine.letter(letter).await.unwrap().letter;
    assert_eq!((found.payload, found.attempts), (None, 0));
    assert_eq!(found.error.code.as_str(), "ARGUMENTS_TOO_LARGE");
    let refused = engine.redrive(letter).await.unwrap_err();
    assert_eq!(refused, SubmitError::NotRedrivable { letter, why: NotRedrivable::NoPayload });
    assert_eq!(acts.calls().len(), 1, "no action is given that much");
}

/// What can't be read back is refused before it is stored.
#[tokio::test(start_paused = true)]
async fn x8_a_submission_nested_too_deeply_is_refused() {
    let (acts, mended) = broken();
    mended.store(true, Ordering::SeqCst);
    let engine = alone(&acts, Config::default()).await;
    let nested = |depth: usize| (0..depth).fold(json!(1), |inner, _| json!([inner]));
    let steps = vec![step("a", patient(1), &[], json!({}))];
    let submit = async |depth: usize| {
        let input = json!({ "x": nested(depth) }).as_object().cloned().unwrap();
        engine.submit(Submission::new(workflow(steps.clone())).with_input(input)).await
    };
    let run = submit(90).await.unwrap().run;
    assert_eq!(soon(engine.outcome(run)).await.unwrap().outcome, Outcome::Completed);
    for depth in [100, 120, 500] {
        let refused = submit(depth).await.unwrap_err();
        assert!(matches!(refused, SubmitError::TooDeep { most: 100, .. }), "{refused}");
    }
    let steps = vec![step("a", patient(1), &[], json!({ "x": nested(110) }))];
    let refused = engine.submit(Submission::new(workflow(steps))).await.unwrap_err();
    assert!(matches!(refused, SubmitError::TooDeep { .. }), "{refused}");
}
