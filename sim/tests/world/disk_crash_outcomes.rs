//! What the simulated disk makes of bytes: fates, tears, strikes, latency, planned calls.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use proptest::prelude::*;
use redb::StorageBackend;
use retrial::time::{Mono, Nanos};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::disk::{
    Change, CrashOutcome, DiskPlan, FailedSync, Image, OpAt, OpKind, SECTOR, SimDisk, Slow,
};
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::Window;
use retrial_sim::unstable::records::Records;

/// Three sectors of `a`, durable, over which `b`, `c` and `d` are written without a sync: `b` over
/// all, `c` over the second sector, `d` over the end and beyond.
fn image() -> Image {
    let mut image = Image::holding(vec![b'a'; 3 * SECTOR as usize]);
    image.change(5, Change::Write(0, vec![b'b'; 3 * SECTOR as usize].into()));
    image.change(6, Change::Write(SECTOR, vec![b'c'; SECTOR as usize].into()));
    image.change(8, Change::Write(3 * SECTOR - 2, b"dddd".as_slice().into()));
    image
}

/// The first byte of each sector, and the end.
fn shown(bytes: &[u8]) -> String {
    let firsts = bytes.iter().step_by(SECTOR as usize);
    let last = bytes.iter().skip(3 * SECTOR as usize - 2);
    firsts.chain(last).map(|b| if *b == 0 { '0' } else { char::from(*b) }).collect()
}

#[test]
fn fates_do_what_they_say() {
    let check = |outcome: CrashOutcome, expected: (&str, u64, u64)| {
        let left = image().after(outcome);
        assert_eq!((shown(&left.bytes).as_str(), left.lost, left.torn), expected, "{outcome:?}");
    };
    check(CrashOutcome::KeepAll, ("bcbddddd", 0, 0));
    check(CrashOutcome::LoseAll, ("aaaaa", 3, 0));
    check(CrashOutcome::KeepFirst(1), ("bbbbb", 2, 1));
    check(CrashOutcome::KeepFirst(2), ("bcbbb", 1, 1));
    check(CrashOutcome::KeepOnly(1), ("acaaa", 2, 0));
    check(CrashOutcome::KeepOnly(2), ("aaaddddd", 2, 0));
    check(CrashOutcome::LoseOnly(0), ("acaddddd", 1, 0));
    check(CrashOutcome::LoseOnly(1), ("bbbddddd", 1, 1));
}

#[test]
fn a_lost_write_that_changed_nothing_is_no_strike() {
    let mut image = Image::holding(vec![b'a'; 1024]);
    image.change(0, Change::Write(0, vec![b'a'; 1024].into()));
    image.change(1, Change::SetLen(1024));
    let left = image.after(CrashOutcome::LoseAll);
    assert_eq!((left.lost, left.torn), (0, 0));
    assert_eq!(left.bytes, image.seen());
}

#[test]
fn lengths_are_lost_and_kept_like_writes() {
    let mut image = Image::holding(vec![b'a'; 10]);
    image.change(0, Change::SetLen(20));
    image.change(1, Change::Write(15, b"bb".as_slice().into()));
    image.change(2, Change::SetLen(16));
    assert_eq!(image.seen(), b"aaaaaaaaaa\0\0\0\0\0b");
    assert_eq!(image.after(CrashOutcome::KeepOnly(1)).bytes, b"aaaaaaaaaa\0\0\0\0\0bb");
    assert_eq!(image.after(CrashOutcome::KeepOnly(2)).bytes.len(), 16);
    image.sync();
    assert_eq!(image.after(CrashOutcome::LoseAll).bytes, image.seen());
}

proptest! {
    /// After any fate each byte is one that was durable or one that an unsynced write put there,
    /// and which of both changes only between sectors.
    #[test]
    fn a_tear_mixes_whole_sectors(seed: u64, offset in 0_u64..3000, len in 1_usize..3000) {
        let old = vec![1_u8; 4096];
        let mut image = Image::holding(old);
        image.change(9, Change::Write(offset, vec![2; len].into()));
        let left = image.after(CrashOutcome::Drawn(seed));
        prop_assert_eq!(&left, &image.after(CrashOutcome::Drawn(seed)));
        for (at, pair) in left.bytes.windows(2).enumerate() {
            let next = at as u64 + 1;
            let edge = next == offset || next == offset + len as u64 || next.is_multiple_of(SECTOR);
            prop_assert!(pair[0] == pair[1] || edge || next >= 4096, "torn at {}", next);
        }
        let new = left.bytes.iter().filter(|b| **b == 2).count();
        prop_assert_eq!((left.lost, left.torn), match new {
            n if n == len => (0, 0),
            0 => (1, 0),
            _ => (0, 1),
        });
    }

    #[test]
    fn a_synced_write_survives_every_fate(seed: u64, offset in 0_u64..3000, len in 1_usize..3000) {
        let mut image = Image::holding(Vec::new());
        image.change(0, Change::Write(offset, vec![2; len].into()));
        image.sync();
        prop_assert_eq!(image.after(CrashOutcome::Drawn(seed)).bytes, image.seen());
    }
}

#[test]
fn some_seed_loses_some_tears_and_some_keeps_all() {
    let lefts: Vec<_> = (0..100).map(|seed| image().after(CrashOutcome::Drawn(seed))).collect();
    assert!(lefts.iter().any(|left| left.torn > 0));
    assert!(lefts.iter().any(|left| left.lost > 0 && left.torn == 0));
    assert!(lefts.iter().any(|left| left.lost + left.torn == 0));
    // A later write is kept where an earlier one is lost: they are reordered.
    assert!(lefts.iter().any(|left| shown(&left.bytes).starts_with("aca")));
}

#[test]
fn a_failed_sync_leaves_the_writes_open() {
    let check = |failed_sync, seen: &[u8], durable: &[u8], lost: Option<u64>| {
        let records = Records::new(false, 0);
        let eio = vec![OpAt::Nth(OpKind::Sync, 0)];
        let plan = DiskPlan { eio, failed_sync, ..DiskPlan::default() };
        let disk = SimDisk::new("n", plan, &records);
        let file = disk.open(&Incarnation::new("n", 0));
        file.write(0, b"new").unwrap();
        assert!(file.sync_data().is_err());
        assert_eq!((disk.image().seen(), disk.image().durable()), (seen, durable));
        let counts = records.strikes.counts();
        assert_eq!(counts.get(&FaultKind::Eio), Some(&1));
        assert_eq!(counts.get(&FaultKind::LostWrite), lost.as_ref());
        assert!(file.sync_data().is_ok());
        assert_eq!(disk.image().durable(), seen);
    };
    check(FailedSync::StaysDirty, b"new", b"", None);
    check(FailedSync::Settled(CrashOutcome::KeepAll), b"new", b"new", None);
    check(FailedSync::Settled(CrashOutcome::LoseAll), b"", b"", Some(1));
}

#[test]
fn eio_on_a_write_changes_nothing_and_on_a_read_gives_nothing() {
    let records = Records::new(true, 0);
    let eio = vec![OpAt::Nth(OpKind::Write, 1), OpAt::Number(3), OpAt::Nth(OpKind::SetLen, 0)];
    let disk = SimDisk::new("n", DiskPlan { eio, ..DiskPlan::default() }, &records);
    let file = disk.open(&Incarnation::new("n", 0));
    file.write(0, b"one").unwrap();
    assert!(file.write(0, b"two").is_err());
    let mut out = [0; 3];
    file.read(0, &mut out).unwrap();
    assert_eq!(&out, b"one");
    let mut out = [0; 3];
    assert!(file.read(0, &mut out).is_err());
    assert_eq!(out, [0; 3]);
    assert!(file.set_len(99).is_err());
    assert_eq!(file.len().unwrap(), 3);
    assert!(file.read(1, &mut out).is_err());
    let lines: Vec<String> = records.trace.lines().into_iter().map(|line| line.text).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    write 0+3 #0
    write 0+3 #1
    EIO on write 0+3 #1
    read 0+3 #2
    read 0+3 #3
    EIO on read 0+3 #3
    set_len 99 #4
    EIO on set_len 99 #4
    len #5
    read 1+3 #6
    ");
}

#[test]
fn a_crash_can_fall_into_any_call() {
    let check = |op, outcome, durable: &[u8]| {
        let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
        let incarnation = Incarnation::new("n", 0);
        let file = disk.open(&incarnation);
        disk.at_op(op, {
            let (disk, incarnation) = (disk.clone(), incarnation.clone());
            move || {
                incarnation.end();
                disk.crash(outcome);
            }
        });
        let calls = [file.write(0, b"one"), file.sync_data(), file.write(1, b"two")];
        let failed = calls.iter().position(Result::is_err);
        assert_eq!(failed, Some(usize::try_from(op).unwrap()));
        assert_eq!(disk.image().durable(), durable, "call {op}, {outcome:?}");
    };
    check(0, CrashOutcome::KeepAll, b"one");
    check(0, CrashOutcome::LoseAll, b"");
    check(1, CrashOutcome::KeepAll, b"one");
    check(1, CrashOutcome::LoseAll, b"");
    check(2, CrashOutcome::KeepAll, b"otwo");
    check(2, CrashOutcome::LoseAll, b"one");
}

#[test]
fn calls_add_to_the_latency_debt_until_healed() {
    let plan = DiskPlan {
        write_latency: Nanos::new(10),
        read_latency: Nanos::new(3),
        sync_latency: Nanos::new(100),
        slow: vec![Slow { at: OpAt::Nth(OpKind::Sync, 1), by: Nanos::new(5_000) }],
        ..DiskPlan::default()
    };
    let records = Records::new(false, 0);
    let disk = SimDisk::new("n", plan, &records);
    let file = disk.open(&Incarnation::new("n", 0));
    file.write(0, b"x").unwrap();
    file.set_len(2).unwrap();
    file.read(0, &mut [0]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(disk.disk_latency().take(), Nanos::new(123));
    file.sync_data().unwrap();
    assert_eq!(disk.disk_latency().take(), Nanos::new(5_100));
    assert_eq!(records.strikes.counts()[&FaultKind::SlowSync], 1);
    disk.heal();
    file.sync_data().unwrap();
    assert_eq!(disk.disk_latency().take(), Nanos::ZERO);
    assert_eq!(disk.ops(), 6);
    assert_eq!(disk.ops_by_kind()[&OpKind::Sync], 3);
}

#[test]
fn a_full_disk_says_so() {
    let disk = SimDisk::new("n", DiskPlan::default(), &Records::new(false, 0));
    let file = disk.open(&Incarnation::new("n", 0));
    for result in [file.set_len(u64::MAX), file.write(u64::MAX - 1, b"xxx")] {
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    }
}

/// ENOSPC: what was written once has its room; what never was finds none, and nothing changes.
#[test]
fn a_disk_without_room_takes_only_what_has_room_already() {
    let plan = DiskPlan { full: vec![Window::ALWAYS], ..DiskPlan::default() };
    let records = Records::new(false, 0);
    let disk = SimDisk::holding(Vec::new(), "n", plan, &records);
    let file = disk.open(&Incarnation::new("n", 0));
    file.set_len(9_000).unwrap();
    let refused = file.write(100, b"one").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    assert!(disk.image().seen().iter().all(|byte| *byte == 0));
    assert_eq!(records.strikes.counts()[&FaultKind::DiskFull], 1);
    disk.heal();
    file.write(100, b"one").unwrap();
    assert_eq!(&disk.image().seen()[100..103], b"one");

    let half = Window { from: Mono::from_nanos(0), until: Mono::from_nanos(0) };
    let plan = DiskPlan { full: vec![half], ..DiskPlan::default() };
    let disk = SimDisk::new("n", plan, &records);
    disk.open(&Incarnation::new("n", 0)).write(0, b"x").unwrap();
    assert_eq!(records.strikes.counts()[&FaultKind::DiskFull], 1, "the window is empty");
}

#[test]
fn plans_are_plain_data() {
    let plan = DiskPlan {
        eio: vec![OpAt::Number(3), OpAt::Nth(OpKind::Sync, 1)],
        failed_sync: FailedSync::Settled(CrashOutcome::Drawn(7)),
        sync_latency: Nanos::from_millis(2),
        ..DiskPlan::default()
    };
    let json = serde_json::to_string(&plan).unwrap();
    insta::assert_snapshot!(json, @r#"{"eio":[{"number":3},{"nth":["sync",1]}],"failed_sync":{"settled":{"drawn":7}},"read_latency":0,"write_latency":0,"sync_latency":2000000,"slow":[],"rot":[],"full":[]}"#);
    assert_eq!(serde_json::from_str::<DiskPlan>(&json).unwrap(), plan);
    assert!(serde_json::from_str::<DiskPlan>(r#"{"eoi": []}"#).is_err());
}
