//! The decision core: a run's state, its inputs and its events. Pure.
//!
//! Decides everything that happens to a run. Must never know clocks, chance, I/O, async, stores or
//! how an action is invoked: time is an argument, chance a function of (run seed, task, attempt).
//! To add an input, add a variant to [`Input`] and its arm in `decide`; to add an event, add a
//! variant to [`Event`], its arm in `apply`, its stored form, its line in the printer and a golden
//! record.
//!
//! The order of calls: [`RunState::create`] once, then [`RunState::handle`] for each input. `now`
//! never goes back; where it does, the last event's time stands in its place.

mod advance;
mod apply;
mod codec;
mod cost;
mod decide;
mod definitions;
mod ends;
mod errors;
mod event;
mod failing;
mod group;
mod handle;
mod ids;
mod letter;
mod progress;
mod quarantine;
mod queue;
mod rollback;
mod route;
mod state;
mod stored;
mod task;
mod task_time;
mod timing;
mod view;

pub use apply::Impossible;
pub use cost::Cost;
pub use decide::{Input, Lapse};
pub use event::{Event, Outcome, Recorded, RetryOf, RouteCause};
pub use ids::{Digest, RunId, TaskId, Token, Version};
pub use letter::{Letter, LetterId, NotALetter, NotRedrivable};
pub use progress::Progress;
pub use state::{Phase, RunState, StepPhase, StepState};
pub use task::{TaskPhase, TaskState};
pub use task_time::TaskTime;
pub use timing::GroupTiming;

unstable! {
    use view::{Prepared};
    use ids::{mix};
    use state::{RollbackState};
    use queue::{Waits, queue_of, waits_for};
    use decide::{broken_ensures, decide};
    use codec::{DecodeError, MAX_NESTING, decode, decode_letter, encode, encode_all, encode_letter, encode_snapshot, nesting};
    use advance::{advance};
    use definitions::{Definitions, decode_snapshot};
}
