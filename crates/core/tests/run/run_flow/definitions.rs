//! Definitions by their text: shared by runs, and not kept for ever.

use std::sync::{Arc, Weak};

use retrial_core::policy::{Dialect, Policy};
use retrial_core::run::{DecodeError, Definitions, Digest, Event, RunId, RunState, encode};
use retrial_core::time::Timestamp;
use retrial_core::workflow::{Step, Workflow, WorkflowParts};
use serde_json::Map;

fn named(name: &str) -> Arc<Workflow> {
    let steps = vec![Step::new("a", "act", Policy::no_retries(Dialect::Builder))];
    let parts = WorkflowParts { name: name.into(), steps, ..WorkflowParts::default() };
    Arc::new(Workflow::try_from(parts).expect("a workflow"))
}

/// The definition that the stored creation of a run of `workflow` is read with.
fn read(definitions: &mut Definitions, workflow: &Arc<Workflow>) -> Arc<Workflow> {
    let (id, now) = (RunId::from_random(1, 2), Timestamp::default());
    let (_, events) =
        RunState::create(id, 7, Arc::clone(workflow), Map::new(), now).expect("a run");
    let read = definitions.decode_creation(&encode(&events[0])).expect("it can be read");
    match read.event {
        Event::RunCreated { workflow, .. } => workflow,
        other => panic!("{other:?}"),
    }
}

#[test]
fn runs_of_one_workflow_share_its_definition() {
    let mut definitions = Definitions::default();
    let (one, other) = (named("one"), named("other"));
    let first = read(&mut definitions, &one);
    assert_eq!((&first, &read(&mut definitions, &other)), (&one, &other));
    assert!(Arc::ptr_eq(&first, &read(&mut definitions, &one)));
}

#[test]
fn definitions_that_nobody_asks_for_are_forgotten() {
    let mut definitions = Definitions::default();
    let (used, unused) = (named("used"), named("unused"));
    let forgotten: Weak<_> = Arc::downgrade(&read(&mut definitions, &unused));
    let kept: Weak<_> = Arc::downgrade(&read(&mut definitions, &used));
    for n in 0..200 {
        read(&mut definitions, &named(&n.to_string().repeat(4_000)));
        read(&mut definitions, &used);
    }
    assert!(forgotten.upgrade().is_none(), "it is kept for ever");
    assert!(kept.upgrade().is_some(), "it is read again and again");
}

#[test]
fn another_event_is_no_creation() {
    let (id, now) = (RunId::from_random(1, 2), Timestamp::default());
    let (_, events) = RunState::create(id, 7, named("one"), Map::new(), now).expect("a run");
    let read = Definitions::default().decode_creation(&encode(&events[1]));
    assert!(matches!(read, Err(DecodeError::Damaged(_))), "{read:?}");
}

#[test]
fn a_digest_is_that_of_the_pair_as_json() {
    let workflow = named("one");
    let input: Map<_, _> = [("a".to_owned(), 1.into())].into_iter().collect();
    let text = serde_json::to_string(&(&*workflow, &input)).expect("text");
    assert_eq!(Digest::of_pair(&workflow, &input), Digest::of(text.as_bytes()));
}
