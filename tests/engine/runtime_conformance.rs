//! The tokio runtime passes the suite that every runtime passes, on time that goes on only while
//! everybody waits; and the suite finds runtimes out that break the seam's words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;
use std::future::Future;

use retrial::runtime::conformance::{Case, Harness, cases};
use retrial::runtime::{Runtime, Task, TokioRuntime, WorkLost};
use retrial::time::{Mono, Nanos, Timestamp};

/// Numbers that several threads draw at once are all different.
#[tokio::test]
async fn no_number_is_drawn_twice() {
    let runtime = TokioRuntime::current();
    let drawn = std::thread::scope(|scope| {
        let draw = || (0..200_000).map(|_| runtime.random()).collect::<Vec<u64>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<u64>>()
    });
    let different: BTreeSet<&u64> = drawn.iter().collect();
    assert_eq!(different.len(), drawn.len());
}

struct OnTokio;

impl Harness for OnTokio {
    type Runtime = TokioRuntime;

    fn runtime(&self) -> TokioRuntime {
        TokioRuntime::current()
    }

    fn another(&self) -> TokioRuntime {
        TokioRuntime::current()
    }
}

/// What is wrong, by case, each on a fresh tokio. A panic counts as wrong.
fn failing<H: Harness + Send + 'static>(make: impl Fn() -> H) -> Vec<String> {
    let names = cases::<H>().into_iter().map(|case| case.name).enumerate();
    let wrong = names.filter_map(|(number, name)| {
        let harness = make();
        let ran = std::thread::scope(|scope| {
            let case = scope.spawn(move || {
                let tokio = tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .start_paused(true)
                    .build()
                    .unwrap();
                let Case { run, .. } = cases::<H>().swap_remove(number);
                tokio.block_on(run(&harness))
            });
            case.join()
        });
        match ran {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(format!("{name}: {why}")),
            Err(_) => Some(format!("{name}: a panic")),
        }
    });
    wrong.collect()
}

#[test]
fn tokio_conforms() {
    assert_eq!(failing(|| OnTokio), Vec::<String>::new());
}

/// The wall clock counts from 1970.
#[tokio::test]
async fn tokios_wall_clock_tells_the_date() {
    let year_2020 = 1_577_836_800_000_000_000;
    assert!(TokioRuntime::current().wall().as_nanos() > year_2020);
}

#[derive(Clone, Copy, Debug)]
enum Flaw {
    WholeSeconds,
    SleepsFromNow,
    WakesEarly,
    NeverGivesWay,
    DrawsRepeat,
    DrawsSmall,
    NothingIsAborted,
    EverythingIsAborted,
    WorkDiesWithItsCaller,
}

#[derive(Clone)]
struct Flawed(TokioRuntime, Flaw);

impl Runtime for Flawed {
    fn now(&self) -> Mono {
        let now = self.0.now();
        match self.1 {
            Flaw::WholeSeconds => Mono::from_nanos(now.as_nanos() / 1_000_000_000 * 1_000_000_000),
            _ => now,
        }
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn random(&self) -> u64 {
        match self.1 {
            Flaw::DrawsRepeat => 0x5555_5555_5555_5555,
            Flaw::DrawsSmall => self.0.random() >> 16,
            _ => self.0.random(),
        }
    }

    async fn sleep_until(&self, at: Mono) {
        let now = self.0.now();
        match self.1 {
            Flaw::NeverGivesWay if at <= now => {}
            Flaw::WakesEarly => {
                let early = at.since(now).saturating_sub(Nanos::from_millis(2));
                self.0.sleep_until(now.after(early)).await;
            }
            Flaw::SleepsFromNow => self.0.sleep_until(now.after(at.since(Mono::default()))).await,
            _ => self.0.sleep_until(at).await,
        }
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let task = self.0.spawn(future);
        match self.1 {
            Flaw::NothingIsAborted => {
                task.detach();
                Task::new(|| ())
            }
            Flaw::EverythingIsAborted => {
                drop(task);
                Task::new(|| ())
            }
            _ => task,
        }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        if matches!(self.1, Flaw::WorkDiesWithItsCaller) {
            self.0.sleep_until(self.0.now().after(Nanos::from_millis(1))).await;
        }
        self.0.blocking(work).await
    }
}

struct WithFlaw(Flaw);

impl Harness for WithFlaw {
    type Runtime = Flawed;

    fn runtime(&self) -> Flawed {
        Flawed(TokioRuntime::current(), self.0)
    }

    fn another(&self) -> Flawed {
        self.runtime()
    }
}

#[test]
fn the_suite_finds_each_flaw() {
    let found = |flaw| {
        let wrong = failing(|| WithFlaw(flaw));
        let name = |wrong: &String| wrong.split_once(':').unwrap().0.to_owned();
        format!("{flaw:?}: {}\n", wrong.iter().map(name).collect::<Vec<_>>().join(", "))
    };
    let all = [
        Flaw::WholeSeconds,
        Flaw::SleepsFromNow,
        Flaw::WakesEarly,
        Flaw::NeverGivesWay,
        Flaw::DrawsRepeat,
        Flaw::DrawsSmall,
        Flaw::NothingIsAborted,
        Flaw::EverythingIsAborted,
        Flaw::WorkDiesWithItsCaller,
    ];
    insta::assert_snapshot!(all.map(found).concat(), @r"
    WholeSeconds: a_sleep_ends_when_its_time_has_come, a_dropped_task_is_aborted, a_detached_task_runs_on
    SleepsFromNow: a_sleep_means_an_instant_and_not_a_length
    WakesEarly: a_sleep_ends_when_its_time_has_come
    NeverGivesWay: sleeps_into_the_past_starve_nobody
    DrawsRepeat: chance_does_not_repeat
    DrawsSmall: chance_does_not_repeat
    NothingIsAborted: a_dropped_task_is_aborted
    EverythingIsAborted: a_sleep_means_an_instant_and_not_a_length, sleeps_into_the_past_starve_nobody, a_spawned_task_runs_by_itself, a_dropped_task_is_aborted, a_detached_task_runs_on, a_task_that_has_ended_can_be_dropped
    WorkDiesWithItsCaller: blocking_work_outlives_its_caller
    ");
}
