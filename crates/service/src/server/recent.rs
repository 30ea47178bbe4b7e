//! What the attempts of each action came to in the last hour and the last day, on each node. A node
//! keeps its counts in the store, so that they outlive it and every node shows them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::actions::{known, share};
use super::service::ServiceState;
use retrial::engine::World;
use retrial::failure::sanitise::clean;
use retrial::observe::Notice;
use retrial::run::Event;
use retrial::store::{Report, Store, StoreError};
use retrial::time::{Nanos, Timestamp};

/// The most actions that are counted by name.
const MOST_ACTIONS: usize = 100;
/// The windows, each with the length of its slots. The slot that now is in is one of them.
const HOUR: Window = Window { slot: Nanos::from_secs(300), slots: 12 };
const DAY: Window = Window { slot: Nanos::from_secs(3_600), slots: 24 };

/// A stretch of time up to now, counted in slots.
#[derive(Clone, Copy, Debug)]
struct Window {
    slot: Nanos,
    slots: u64,
}

impl Window {
    fn slot_of(self, at: Timestamp) -> u64 {
        at.as_nanos() / self.slot.get()
    }

    fn first(self, now: Timestamp) -> u64 {
        (self.slot_of(now) + 1).saturating_sub(self.slots)
    }

    /// From the start of the first slot until now.
    fn length(self, now: Timestamp) -> Nanos {
        now.since(Timestamp::from_nanos(self.first(now).saturating_mul(self.slot.get())))
    }
}

/// What attempts came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    succeeded: u64,
    failed: u64,
    retries: u64,
    /// How many attempts took how long: see [`bucket`].
    took: BTreeMap<u8, u64>,
}

/// The bucket of a length of time: four for each doubling of microseconds.
fn bucket(took: Nanos) -> u8 {
    let us = (took.get() / 1_000).max(1);
    let doublings = us.ilog2();
    let quarter = (us << 2 >> doublings) & 3;
    // At most 53 doublings make 64 bits of nanoseconds.
    u8::try_from(u64::from(doublings) * 4 + quarter).unwrap_or(u8::MAX)
}

/// The longest length in a bucket, in seconds.
fn seconds(bucket: u8) -> f64 {
    let (doublings, quarter) = (i32::from(bucket / 4), f64::from(bucket % 4));
    2_f64.powi(doublings) * (1.0 + (quarter + 1.0) / 4.0) / 1e6
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.retries += other.retries;
        other.took.iter().for_each(|(bucket, n)| *self.took.entry(*bucket).or_default() += n);
    }

    /// At most so many of a hundred attempts took longer.
    fn quantile(&self, percent: u64) -> Option<f64> {
        let all: u64 = self.took.values().sum();
        let wanted = all.saturating_mul(percent).div_ceil(100);
        let mut seen = 0;
        let mut buckets = self.took.iter();
        let found = buckets.find(|(_, n)| {
            seen += **n;
            seen >= wanted
        });
        found.map(|(bucket, _)| seconds(*bucket))
    }

    fn to_json(&self, over: Nanos) -> Value {
        let attempts = self.succeeded + self.failed;
        let minutes = std::time::Duration::from(over).as_secs_f64().max(1.0) / 60.0;
        let quantiles = [("p50", 50), ("p90", 90), ("p99", 99)];
        let took =
            quantiles.map(|(name, percent)| (name.to_owned(), self.quantile(percent).into()));
        json!({
            "attempts": attempts,
            "failed": self.failed,
            "retries": self.retries,
            "error_rate": share(self.failed, attempts),
            "retry_rate": share(self.retries, attempts),
            "attempts_per_minute": share(attempts, 1) / minutes,
            "took_seconds": Value::Object(took.into_iter().collect()),
        })
    }
}

/// One action's counts, by slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slots {
    hour: BTreeMap<u64, Counts>,
    day: BTreeMap<u64, Counts>,
}

impl Slots {
    fn count(&mut self, at: Timestamp, count: impl Fn(&mut Counts)) {
        for (window, slots) in [(HOUR, &mut self.hour), (DAY, &mut self.day)] {
            let slot = window.slot_of(at);
            if !slots.contains_key(&slot) {
                *slots = slots.split_off(&window.first(at));
            }
            count(slots.entry(slot).or_default());
        }
    }

    fn add(&mut self, other: &Self) {
        for (slots, others) in [(&mut self.hour, &other.hour), (&mut self.day, &other.day)] {
            others.iter().for_each(|(slot, counts)| slots.entry(*slot).or_default().add(counts));
        }
    }

    fn to_json(&self, now: Timestamp) -> Value {
        let over = |window: Window, slots: &BTreeMap<u64, Counts>| {
            let mut all = Counts::default();
            slots.range(window.first(now)..).for_each(|(_, counts)| all.add(counts));
            all.to_json(window.length(now))
        };
        json!({ "hour": over(HOUR, &self.hour), "day": over(DAY, &self.day) })
    }
}

/// A node's counts by action.
type ByAction = BTreeMap<String, Slots>;

/// This node's counts.
#[derive(Debug, Default)]
pub(super) struct Recent(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    actions: ByAction,
    /// Whether there is something that was not reported.
    is_news: bool,
}

impl Recent {
    /// Counts an event of `action`.
    pub(super) fn take(&self, action: &str, notice: &Notice<'_>) {
        let count: &dyn Fn(&mut Counts) = match notice.event {
            Event::AttemptFailed { took, .. } => &|counts| {
                counts.failed += 1;
                *counts.took.entry(bucket(*took)).or_default() += 1;
            },
            Event::TaskSucceeded { spent, .. } => &|counts| {
                counts.succeeded += 1;
                *counts.took.entry(bucket(spent.working)).or_default() += 1;
            },
            Event::RetryScheduled { .. } => &|counts| counts.retries += 1,
            _ => return,
        };
        let mut counted = self.counted();
        counted.is_news = true;
        let name = known(&counted.actions, action.to_owned(), MOST_ACTIONS);
        counted.actions.entry(name).or_default().count(notice.at, count);
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is shown of each action: over all nodes, and by node.
pub(super) struct RecentActions(BTreeMap<String, BTreeMap<String, Slots>>, Timestamp);

impl RecentActions {
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// The action's counts; zeros if there are none.
    pub(super) fn of(&self, action: &str) -> Value {
        let mut all = Slots::default();
        let mut nodes = Vec::new();
        for (node, slots) in self.0.get(action).into_iter().flatten() {
            all.add(slots);
            let mut shown = slots.to_json(self.1);
            shown["node"] = clean(node).into();
            nodes.push(shown);
        }
        let mut shown = all.to_json(self.1);
        shown["nodes"] = nodes.into();
        shown
    }
}

impl<W: World> ServiceState<W> {
    /// The counts of all nodes. Those of others are as old as their last reports.
    pub(super) async fn recent(&self) -> Result<RecentActions, StoreError> {
        let now = self.engine.store().clock().await?;
        let mut nodes = self.reported().await?;
        nodes.insert(self.node(), self.monitor.recent.counted().actions.clone());
        let mut by_action = BTreeMap::<String, BTreeMap<String, Slots>>::new();
        for (node, actions) in nodes {
            for (action, slots) in actions {
                by_action.entry(action).or_default().insert(node.clone(), slots);
            }
        }
        Ok(RecentActions(by_action, now))
    }

    /// What each node reported last.
    async fn reported(&self) -> Result<BTreeMap<String, ByAction>, StoreError> {
        let stored = self.engine.store().reports().await?;
        // A later release may report something else.
        let read =
            |Report { node, body }: Report| Some((node, serde_json::from_slice(&body).ok()?));
        Ok(stored.into_iter().filter_map(|stored| read(stored.report)).collect())
    }

    /// Goes on from what the node of this name reported last.
    pub(super) async fn resume_recent(&self) {
        let Ok(mut reported) = self.reported().await else { return };
        let before = reported.remove(&self.node()).unwrap_or_default();
        let mut counted = self.monitor.recent.counted();
        for (action, slots) in &before {
            counted.actions.entry(action.clone()).or_default().add(slots);
        }
    }

    /// Stores this node's counts where they have changed. What fails is tried again with the next
    /// report.
    pub(super) async fn report_recent(&self) {
        let actions = {
            let mut counted = self.monitor.recent.counted();
            if !std::mem::take(&mut counted.is_news) {
                return;
            }
            counted.actions.clone()
        };
        let Ok(body) = serde_json::to_vec(&actions) else { return };
        let report = Report { node: self.node(), body: body.into() };
        if let Err(error) = self.engine.store().report(report).await {
            tracing::debug!(%error, "the counts of actions are not in the store yet");
            self.monitor.recent.counted().is_news = true;
        }
    }

    fn node(&self) -> String {
        self.settings.node.clone().unwrap_or_else(|| "node".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minutes(n: u64) -> Timestamp {
        Timestamp::from_nanos(1_000_000 * 3_600_000_000_000).after(Nanos::from_secs(n * 60))
    }

    #[test]
    fn a_bucket_holds_what_is_a_quarter_apart() {
        for us in [0, 1, 2, 3, 4, 5, 7, 8, 1_000, 1_249, 1_000_000, u32::MAX] {
            let taken = f64::from(us.max(1)) / 1e6;
            let longest = seconds(bucket(Nanos::new(u64::from(us) * 1_000)));
            assert!(longest > taken && longest <= taken * 1.2501, "{us}: {longest}");
        }
        assert_eq!(bucket(Nanos::ZERO), 0);
        assert!(bucket(Nanos::MAX) > bucket(Nanos::from_secs(1 << 30)));
    }

    #[test]
    fn a_window_forgets_what_is_older() {
        let mut slots = Slots::default();
        for minute in 0..=120 {
            slots.count(minutes(minute), |counts| counts.succeeded += 1);
        }
        let shown = slots.to_json(minutes(120));
        // From minute 65 on, since slots of five minutes begin with the hour.
        assert_eq!(
            (&shown["hour"]["attempts"], &shown["day"]["attempts"]),
            (&json!(56), &json!(121))
        );
        assert_eq!((slots.hour.len(), slots.day.len()), (12, 3));
        let later = slots.to_json(minutes(120 + 24 * 60));
        assert_eq!((&later["hour"]["attempts"], &later["day"]["attempts"]), (&json!(0), &json!(0)));
    }

    #[test]
    fn rates_and_latencies_are_those_of_all_attempts() {
        let mut counts = Counts::default();
        for ms in 1..=100 {
            *counts.took.entry(bucket(Nanos::from_millis(ms))).or_default() += 1;
        }
        (counts.succeeded, counts.failed, counts.retries) = (90, 10, 5);
        let shown = counts.to_json(Nanos::from_secs(600));
        assert_eq!((&shown["error_rate"], &shown["retry_rate"]), (&json!(0.1), &json!(0.05)));
        assert_eq!(shown["attempts_per_minute"], 10.0);
        for (name, ms) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)] {
            let took = shown["took_seconds"][name].as_f64().unwrap_or_default() * 1e3;
            assert!(took >= ms && took < ms * 1.26, "{name}: {took}");
        }
        // Of three the longer ones are those that few took longer than.
        let mut few = Counts::default();
        let took = [1, 10, 100].map(|ms| bucket(Nanos::from_millis(ms)));
        few.took = took.map(|bucket| (bucket, 1)).into();
        let found = [33, 50, 90, 99].map(|percent| few.quantile(percent));
        let [one, two, three] = took.map(|bucket| Some(seconds(bucket)));
        assert_eq!(found, [one, two, three, three]);
        assert_eq!(Counts::default().to_json(Nanos::ZERO)["took_seconds"]["p50"], Value::Null);
    }

    #[test]
    fn what_is_added_up_is_what_was_counted_at_once() {
        let (mut one, mut other, mut both) = Default::default();
        for minute in 0..200 {
            let at = minutes(minute);
            let count = |counts: &mut Counts| {
                counts.failed += 1;
                *counts.took.entry(bucket(Nanos::from_secs(minute + 1))).or_default() += 1;
            };
            Slots::count(&mut both, at, count);
            Slots::count(if minute % 3 == 0 { &mut one } else { &mut other }, at, count);
        }
        one.add(&other);
        let kept =
            serde_json::to_vec(&one).ok().and_then(|text| serde_json::from_slice(&text).ok());
        assert_eq!(
            kept.map(|kept: Slots| kept.to_json(minutes(199))),
            Some(both.to_json(minutes(199)))
        );
    }
}
