//! Every state that a power failure may leave of the embedded store's disk, within the bounds that
//! the room says. Promise 5: what was acknowledged is there, what was not is there whole or not at
//! all. And: disks that must be found out, and the number of states beside a count of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Mutex;

use redb::StorageBackend;
use retrial_sim::unstable::disk::{Change, SECTOR};
use retrial_sim::unstable::disk_states::{
    DiskTrace, Effect, Length, Op, Recorded, Report, WINDOW, count, examine, record,
};

const JOBS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn every_state_of_a_short_workload_holds() {
    let tape = record(Length::Short, |disk| disk).unwrap();
    let judged = Mutex::new(0);
    let report = examine(&tape, WINDOW, JOBS, || *judged.lock().unwrap() += 1);
    assert!(report.held(), "{}", report.words());
    assert_eq!(judged.into_inner().unwrap(), report.counts.distinct);
    let (ops, syncs) = (report.counts.ops, report.counts.syncs);
    assert!(ops > 100 && syncs > 10 && report.counts.steps == 5, "{}", report.words());
    assert!(report.counts.distinct > 1_000 && report.counts.torn > 5_000, "{}", report.words());
    assert_eq!(tape, record(Length::Short, |disk| disk).unwrap(), "it is the same each time");
}

/// The whole workload's states are too many to judge here; what the page says of them is not.
#[test]
fn the_whole_workload_has_every_kind_of_call_and_as_many_states_as_the_page_says() {
    let tape = record(Length::Whole, |disk| disk).unwrap();
    let calls: BTreeSet<String> = tape
        .steps
        .iter()
        .flatten()
        .map(|made| made.call.to_string().split(" of ").next().unwrap().to_owned())
        .collect();
    let kinds: Vec<&str> = calls.iter().map(String::as_str).collect();
    assert_eq!(
        kinds,
        [
            "the archiving",
            "the commit",
            "the creation",
            "the discarding",
            "the pruning",
            "the renewal",
            "the trimming",
        ]
    );
    assert!(tape.steps.iter().any(|made| made.len() > 1), "two calls in one step");
    let words = count(&tape, WINDOW).words();
    assert!(include_str!("../../../docs/simulation.md").contains(&words), "{words}");
}

/// A disk that ignores syncs.
#[derive(Debug)]
struct Spoilt {
    disk: Recorded,
    how: How,
    owes: Mutex<u32>,
}

#[derive(Clone, Copy, Debug)]
enum How {
    /// It never syncs.
    Never,
    /// It syncs before the first write after two syncs, those of a commit and of its mark: the caller
    /// got its answer too early.
    Late,
}

impl Spoilt {
    fn pay(&self) -> io::Result<()> {
        let mut owes = self.owes.lock().unwrap();
        if *owes < 2 {
            return Ok(());
        }
        *owes = 0;
        self.disk.sync_data()
    }
}

impl StorageBackend for Spoilt {
    fn len(&self) -> io::Result<u64> {
        self.disk.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.pay()?;
        self.disk.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        *self.owes.lock().unwrap() += u32::from(matches!(self.how, How::Late));
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.pay()?;
        self.disk.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.pay()?;
        self.disk.close()
    }
}

fn on_a_spoilt_disk(how: How, window: usize) -> Report {
    let spoil = move |disk| Spoilt { disk, how, owes: Mutex::new(0) };
    examine(&record(Length::Short, spoil).unwrap(), window, JOBS, || ())
}

/// How many breaches say this.
fn saying(report: &Report, what: &str) -> usize {
    report.breaches.iter().filter(|breach| breach.why.contains(what)).count()
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn a_disk_that_never_syncs_is_found_out() {
    let report = on_a_spoilt_disk(How::Never, 1);
    assert_eq!(report.counts.syncs, 0);
    // Without syncs nothing keeps an order between a database's pages either.
    let found = ["acknowledged steps: runs and versions", "does not open"];
    let [lost, closed] = found.map(|what| saying(&report, what));
    assert!(lost >= 4 && closed > 50, "{lost} and {closed}: {}", report.words());
}

#[test]
fn a_disk_that_syncs_late_is_found_out() {
    let report = on_a_spoilt_disk(How::Late, 1);
    let lost = saying(&report, "acknowledged steps");
    let all = report.breaches.len();
    assert!(lost >= 1 && all > 20, "{lost} of {all}: {}", report.words());
}

/// A tape of these effects, of which nothing was asked.
fn tape(effects: Vec<Effect>) -> DiskTrace {
    let op = |effect| Op { effect, begun: 0, acked: 0 };
    DiskTrace { ops: effects.into_iter().map(op).collect(), steps: vec![] }
}

/// Writes `byte` over so many sectors from `sector` on.
fn write(sector: u64, sectors: u64, byte: u8) -> Effect {
    let bytes = vec![byte; (sectors * SECTOR) as usize];
    Effect::Change(Change::Write(sector * SECTOR, bytes.into()))
}

/// The states of a tape by the words of the room, in the plainest way: how many there are, and how
/// many differ. Only of tapes whose writes cover whole sectors, shown as a byte a sector.
fn naive(tape: &DiskTrace, window: usize) -> (usize, usize) {
    let (mut durable, mut dirty): (Vec<u8>, Vec<Vec<(usize, u8)>>) = (vec![], vec![]);
    let (mut states, mut seen) = (0, BTreeSet::new());
    for effect in tape.ops.iter().map(|op| &op.effect).chain([&Effect::Read]) {
        if let Effect::Change(Change::Write(offset, bytes)) = effect {
            let first = (*offset / SECTOR) as usize;
            let sectors = bytes.chunks(SECTOR as usize).enumerate();
            dirty.push(sectors.map(|(i, sector)| (first + i, sector[0])).collect());
        }
        let old = dirty.len() - dirty.len().min(window);
        let mut add = |keep: &dyn Fn(usize, usize) -> bool| {
            let mut bytes = durable.clone();
            for (i, write) in dirty.iter().enumerate() {
                let kept = write.iter().enumerate().filter(|(nth, _)| keep(i, *nth));
                for (_, (at, byte)) in kept {
                    bytes.resize(bytes.len().max(at + 1), 0);
                    bytes[*at] = *byte;
                }
            }
            states += 1;
            seen.insert(bytes);
        };
        for mask in 0..1 << (dirty.len() - old) {
            add(&|i, _| i >= old && mask >> (i - old) & 1 == 1);
            if old > 0 {
                add(&|i, _| i < old || mask >> (i - old) & 1 == 1);
            }
        }
        for (torn, write) in dirty.iter().enumerate().skip(old) {
            for tear in 1..write.len() {
                for head in [true, false] {
                    let part = |nth: usize| (nth < tear) == head;
                    add(&|i, nth| i != torn || part(nth));
                    add(&|i, nth| i == torn && part(nth));
                    add(&|i, nth| i < torn || i == torn && part(nth));
                }
            }
        }
        if *effect == Effect::Sync {
            for (at, byte) in dirty.drain(..).flatten() {
                durable.resize(durable.len().max(at + 1), 0);
                durable[at] = byte;
            }
        }
    }
    (states, seen.len())
}

#[test]
fn the_number_of_states_is_right() {
    let check = |effects: Vec<Effect>, window, states: u64| {
        let tape = tape(effects);
        let counted = count(&tape, window);
        let (all, distinct) = naive(&tape, window);
        assert_eq!((counted.states, counted.distinct), (all as u64, distinct as u64), "{tape:?}");
        assert_eq!(counted.states, states, "{tape:?}");
    };
    check(vec![], 8, 1);
    // Before and after the write; again at the end.
    check(vec![write(0, 1, 1)], 8, 2 + 2);
    // A sync makes nothing durable in its middle.
    check(vec![write(0, 1, 1), Effect::Sync], 8, 2 + 2 + 1);
    // Two sectors have one tear, two parts of it, three ways for the others.
    let two = || vec![write(0, 2, 1), write(1, 1, 2), Effect::Sync, write(2, 3, 3), Effect::Read];
    check(two(), 8, (2 + 6) + (4 + 6) + (4 + 6) + 3 * (2 + 2 * 6));
    // What is older than the window is kept or lost whole.
    check(two(), 1, (2 + 6) + 4 + 4 + 3 * (2 + 2 * 6));
    let many: Vec<Effect> = (0..6).map(|n| write(n % 4, 1 + n % 3, n as u8 + 1)).collect();
    let tears = |from: u64, to: u64| (from..to).map(|n| n % 3 * 6).sum::<u64>();
    let of = |n: u64| match n {
        0..=3 => (1 << n) + tears(0, n),
        _ => 16 + tears(n - 3, n),
    };
    check(many, 3, (1..=6).map(of).sum::<u64>() + of(6));
}
