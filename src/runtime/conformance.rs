//! The suite that every runtime passes.
//!
//! Decides by example what the seam's documentation means. Must never know how a runtime keeps time
//! or runs tasks. To add a case, write a function over a [`Harness`] and add it to [`cases`]. It
//! needs time that passes only while every task waits, so that no case races the machine.

use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::Poll;

use tokio::sync::oneshot;

use super::{Runtime, WorkLost};
use crate::time::{Mono, Nanos};

/// A runtime under test, and its world.
pub trait Harness {
    /// The runtime's type.
    type Runtime: Runtime;

    /// The runtime.
    fn runtime(&self) -> Self::Runtime;

    /// The runtime of another process.
    fn another(&self) -> Self::Runtime;
}

/// One case.
pub struct Case<H> {
    /// What must hold.
    pub name: &'static str,
    /// Checks it. Must be called inside the runtime.
    pub run: for<'a> fn(&'a H) -> Checked<'a>,
}

/// A case's verdict: what is wrong.
pub type Checked<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// The message of the case's panicking work. If a panic ends the whole world, as in a simulation,
/// this message is the verdict.
pub const PANICS: &str = "planted in blocking work";

/// Every case.
#[must_use]
pub fn cases<H: Harness>() -> Vec<Case<H>> {
    macro_rules! cases {
        ($($case:ident,)*) => {
            vec![$(Case { name: stringify!($case), run: |harness| Box::pin($case(harness)) }),*]
        };
    }
    cases![
        time_never_goes_back,
        a_sleep_ends_when_its_time_has_come,
        a_sleep_means_an_instant_and_not_a_length,
        sleeps_into_the_past_starve_nobody,
        chance_does_not_repeat,
        a_spawned_task_runs_by_itself,
        a_dropped_task_is_aborted,
        a_detached_task_runs_on,
        a_task_that_has_ended_can_be_dropped,
        blocking_work_gives_its_value,
        blocking_work_outlives_its_caller,
        blocking_work_that_panics_is_lost,
    ]
}

type Done = Result<(), String>;

const fn millis(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn holds(is: bool, what: &str) -> Done {
    if is { Ok(()) } else { Err(what.to_owned()) }
}

async fn pass(runtime: &impl Runtime, by: Nanos) {
    runtime.sleep_until(runtime.now().after(by)).await;
}

async fn time_never_goes_back<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let mut last = runtime.now();
    for n in 0..200 {
        if n % 50 == 0 {
            pass(&runtime, millis(3)).await;
        }
        // A clone is a handle to the same clock.
        for now in [runtime.now(), runtime.clone().now()] {
            holds(now >= last, &format!("{now:?} comes after {last:?}"))?;
            last = now;
        }
    }
    Ok(())
}

async fn a_sleep_ends_when_its_time_has_come<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    for by in [0, 1, 999_999, 1_000_000, 250_000_000, 1_500_000_001].map(Nanos::new) {
        let at = runtime.now().after(by);
        runtime.sleep_until(at).await;
        let now = runtime.now();
        holds(now >= at, &format!("a sleep of {by} until {at:?} ends at {now:?}"))?;
    }
    Ok(())
}

/// Of two sleeps, the one with the earlier end ends first, in either order of their starts.
async fn a_sleep_means_an_instant_and_not_a_length<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    pass(&runtime, millis(500)).await;
    let (begun, long_over) = (runtime.now(), Arc::new(AtomicBool::new(false)));
    let (clock, over) = (runtime.clone(), Arc::clone(&long_over));
    let _task = runtime.spawn(async move {
        clock.sleep_until(begun.after(millis(400))).await;
        over.store(true, Ordering::SeqCst);
    });
    pass(&runtime, millis(200)).await;
    runtime.sleep_until(begun.after(millis(300))).await;
    holds(!long_over.load(Ordering::SeqCst), "a sleep until 300 ms ends after one until 400 ms")?;
    runtime.sleep_until(begun.after(millis(600))).await;
    holds(long_over.load(Ordering::SeqCst), "a sleep until 600 ms ends before one until 400 ms")
}

async fn sleeps_into_the_past_starve_nobody<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    pass(&runtime, millis(5)).await;
    let (before, had_its_turn) = (runtime.now(), Arc::new(AtomicBool::new(false)));
    let turn = Arc::clone(&had_its_turn);
    let _task = runtime.spawn(async move { turn.store(true, Ordering::SeqCst) });
    for _ in 0..10_000 {
        runtime.sleep_until(Mono::default()).await;
        if had_its_turn.load(Ordering::SeqCst) {
            let took = runtime.now().since(before);
            return holds(took < millis(1_000), &format!("sleeps into the past took {took}"));
        }
    }
    Err("10000 sleeps into the past let no other task run".to_owned())
}

async fn chance_does_not_repeat<H: Harness>(harness: &H) -> Done {
    let (runtime, another) = (harness.runtime(), harness.another());
    let clone = runtime.clone();
    let drawn: BTreeSet<u64> =
        (0..500).flat_map(|_| [runtime.random(), clone.random(), another.random()]).collect();
    holds(drawn.len() == 1_500, &format!("{} of 1500 draws differ", drawn.len()))?;
    let ones: u32 = drawn.iter().map(|draw| draw.count_ones()).sum();
    // 64 * 1500 / 2, plus or minus ten standard deviations.
    holds((46_450..=49_550).contains(&ones), &format!("{ones} of 96000 bits are set"))
}

async fn a_spawned_task_runs_by_itself<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let (tell, told) = oneshot::channel();
    let inner = runtime.clone();
    let _task = runtime.spawn(async move {
        pass(&inner, millis(2)).await;
        // Whoever waits for it is there, or the case has failed.
        let _ = tell.send(7);
    });
    holds(told.await == Ok(7), "a spawned task did not run to its end")
}

/// Counts every 10 ms until it is dropped, and reports the drop. It has a last count, in case
/// sleeps take no time.
fn ticking(
    runtime: &impl Runtime,
) -> (Arc<AtomicU32>, oneshot::Receiver<()>, impl Future<Output = ()> + Send + 'static) {
    let (ticks, (held, gone)) = (Arc::new(AtomicU32::new(0)), oneshot::channel());
    let (clock, count) = (runtime.clone(), Arc::clone(&ticks));
    let future = async move {
        let _held = held;
        for _ in 0..10_000 {
            pass(&clock, millis(10)).await;
            count.fetch_add(1, Ordering::SeqCst);
        }
    };
    (ticks, gone, future)
}

async fn a_dropped_task_is_aborted<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let (ticks, mut gone, future) = ticking(&runtime);
    let task = runtime.spawn(future);
    pass(&runtime, millis(55)).await;
    let before = ticks.load(Ordering::SeqCst);
    holds(before >= 1, "a spawned task has not run")?;
    holds(
        gone.try_recv().is_err_and(|e| e == oneshot::error::TryRecvError::Empty),
        "it is gone before it is dropped",
    )?;
    drop(task);
    // Soon, but not at once.
    pass(&runtime, millis(5)).await;
    let seen = ticks.load(Ordering::SeqCst);
    pass(&runtime, millis(1_000)).await;
    holds(ticks.load(Ordering::SeqCst) == seen, "a dropped task runs on")?;
    holds(
        gone.try_recv() == Err(oneshot::error::TryRecvError::Closed),
        "what a dropped task holds is kept",
    )
}

async fn a_detached_task_runs_on<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let (ticks, _gone, future) = ticking(&runtime);
    runtime.spawn(future).detach();
    pass(&runtime, millis(55)).await;
    let before = ticks.load(Ordering::SeqCst);
    pass(&runtime, millis(55)).await;
    let after = ticks.load(Ordering::SeqCst);
    holds(before >= 1 && after > before, &format!("a detached task counts {before}, then {after}"))
}

async fn a_task_that_has_ended_can_be_dropped<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let (tell, told) = oneshot::channel();
    let task = runtime.spawn(async move { drop(tell.send(vec![1])) });
    pass(&runtime, millis(5)).await;
    drop(task);
    holds(told.await == Ok(vec![1]), "a task that has ended left no result")
}

async fn blocking_work_gives_its_value<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let text = String::from("by value");
    let answer = runtime.blocking(move || text + ", both ways").await;
    holds(answer.as_deref() == Ok("by value, both ways"), &format!("the answer is {answer:?}"))
}

async fn blocking_work_outlives_its_caller<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    let (tell, told) = oneshot::channel();
    {
        let done = move || tell.send(()).is_ok();
        let mut work = pin!(runtime.blocking(done));
        // Polled once it has begun; then its caller goes away.
        poll_fn(|cx| {
            let _ = work.as_mut().poll(cx);
            Poll::Ready(())
        })
        .await;
    }
    holds(told.await == Ok(()), "blocking work ended with its caller")
}

async fn blocking_work_that_panics_is_lost<H: Harness>(harness: &H) -> Done {
    let runtime = harness.runtime();
    #[expect(clippy::panic, reason = "that is the case")]
    let answer = runtime.blocking(|| -> u32 { panic!("{PANICS}") }).await;
    holds(answer == Err(WorkLost), &format!("the answer is {answer:?}"))?;
    let after = runtime.blocking(|| 8).await;
    holds(after == Ok(8), &format!("and of the work after it {after:?}"))
}
