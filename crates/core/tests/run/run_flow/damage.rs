//! A state that its own events can't lead to: what is decided then is refused, never dropped.

use retrial_core::run::{self, Impossible, RunState};

use super::*;

/// A run whose step is at work; the state says that it has not begun.
fn damaged(flow: Flow) -> (RunState, World) {
    let mut world = set(flow.build(), [("a", 0, vec![hangs()])]);
    world.run_to(0);
    let stored = String::from_utf8(run::encode_snapshot(&world.state).to_vec()).expect("text");
    assert!(stored.contains(r#""phase":"active""#), "{stored}");
    let stored = stored.replacen(r#""phase":"active""#, r#""phase":"waiting""#, 1);
    (run::decode_snapshot(stored.as_bytes()).expect("a state"), world)
}

#[test]
fn an_impossible_event_is_an_error() {
    let (mut state, world) = damaged(Flow::new().step("a", once()));
    let (task, number) = (task(0, 0), state.version());
    let token = token_of(task, 1);
    let input = Input::Succeeded { task, token, result: json!(1).into() };
    assert_eq!(
        state.handle(&input, world.now, &world.functions),
        Err(Impossible { number, event: "task_succeeded" })
    );
    assert_eq!(state.version(), number, "the event is not folded in");
}
