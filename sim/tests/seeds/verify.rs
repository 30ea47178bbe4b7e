//! The receipt of determinism, and that it can fail: leaks of many kinds are planted in a simulated
//! world and run in two processes. Each shows as a difference, or the simulation stands before it,
//! so that it gives both the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "they are the leaks")]

use std::collections::{HashMap, HashSet};
use std::future::ready;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime};

use retrial::time::{Mono, Nanos};
use retrial_sim::unstable::history::History;
use retrial_sim::unstable::runtime::run_seed;
use retrial_sim::unstable::trace::{Kind, Trace};
use retrial_sim::unstable::verify::{Difference, Receipt};
use retrial_sim::unstable::workload::draw;

/// How a leak is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrashOutcome {
    /// The histories differ, and the line that leaked is named.
    Found,
    /// The simulation gives both processes the same.
    Tamed,
}
use CrashOutcome::{Found, Tamed};

/// Something of the outside that finds its way in.
type Leak = fn() -> String;

static CALLS: AtomicU64 = AtomicU64::new(0);

/// Each kind, how it is treated, and how it leaks.
const LEAKS: [(&str, CrashOutcome, Leak); 19] = [
    ("hash map order", Tamed, || {
        let map: HashMap<u32, ()> = (0..64).map(|n| (n, ())).collect();
        format!("{:?}", map.keys().collect::<Vec<_>>())
    }),
    ("hash set order", Tamed, || {
        let set: HashSet<u32> = (0..64).collect();
        format!("{:?}", set.iter().collect::<Vec<_>>())
    }),
    ("wall clock", Tamed, || format!("{:?}", SystemTime::now())),
    ("monotonic clock", Tamed, || {
        let then = Instant::now();
        format!("{:?}", then.elapsed())
    }),
    ("system randomness", Tamed, || {
        let mut bytes = [0_u8; 16];
        getrandom(&mut bytes);
        format!("{bytes:?}")
    }),
    ("a file of randomness", Found, || {
        let mut bytes = [0_u8; 16];
        std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
        format!("{bytes:?}")
    }),
    ("process id", Found, || std::process::id().to_string()),
    ("thread name", Tamed, || format!("{:?}", std::thread::current().name())),
    ("address of the heap", Found, || format!("{:p}", Box::leak(Box::new([0_u8; 1 << 20])))),
    ("address of the stack", Found, || {
        let here = 0_u8;
        format!("{:p}", &raw const here)
    }),
    ("address of code", Found, || format!("{:p}", leak as *const ())),
    ("global counter", Found, || CALLS.fetch_add(1, Ordering::SeqCst).to_string()),
    ("environment", Found, || format!("{:?}", std::env::var("TZ"))),
    ("arguments", Found, || format!("{:?}", std::env::args().next_back())),
    ("working folder", Found, || format!("{:?}", std::env::current_dir())),
    ("a file's content", Found, || {
        std::fs::read_to_string("name").unwrap_or_else(|e| e.to_string())
    }),
    ("a file's number", Found, || {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::metadata("name").unwrap().ino().to_string()
    }),
    ("select without an order", Found, || (0..64).map(|_| either()).collect()),
    ("standard input", Found, || {
        let mut text = String::new();
        std::io::stdin().read_line(&mut text).unwrap();
        text
    }),
];

fn leak() {}

/// Which of two things that are both ready is taken.
fn either() -> char {
    let mut taken = std::pin::pin!(async {
        tokio::select! {
            () = ready(()) => 'a',
            () = ready(()) => 'b',
        }
    });
    let mut context = Context::from_waker(Waker::noop());
    match taken.as_mut().poll(&mut context) {
        Poll::Ready(taken) => taken,
        Poll::Pending => unreachable!("both are ready"),
    }
}

/// The system's own source of chance, as libraries ask it.
fn getrandom(bytes: &mut [u8]) {
    use std::hash::{BuildHasher as _, RandomState};
    for chunk in bytes.chunks_mut(8) {
        let drawn = RandomState::new().hash_one(0_u8).to_be_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
}

const ASKED: &str = "RETRIAL_TEST_LEAK";

/// Not a test of its own: what the two processes do.
#[test]
fn one_leaking_process() {
    let Ok(place) = std::env::var(ASKED) else { return };
    let (_, _, leak) = LEAKS[place.parse::<usize>().unwrap()];
    let trace = Trace::new(true);
    // Another seed first, in one of them: what it leaves behind in the process must not matter.
    let rounds = 1 + std::env::var("TZ").map_or(0, |_| 1);
    for round in 0..rounds {
        let trace = if round + 1 == rounds { trace.clone() } else { Trace::new(false) };
        run_seed(7, Nanos::from_secs(60), move || {
            let at = |n| Mono::from_nanos(n);
            trace.record(at(1), "node-0", Kind::Input, "begins", &[]);
            // Hashed and not shown, as the bytes of a message are.
            trace.record(at(2), "node-0", Kind::Message, "sends", leak().as_bytes());
            trace.record(at(3), "node-0", Kind::Input, "ends", &[]);
            ready(())
        })
        .unwrap();
    }
    print!("<<{}>>", History::new(&draw(7), trace.lines()).marked());
}

fn process(place: usize, folder: &Path, zone: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["verify::one_leaking_process", "--exact", "--nocapture"]);
    command.args(zone).current_dir(folder).env(ASKED, place.to_string());
    command.env_remove("TZ").envs(zone.map(|zone| ("TZ", zone)));
    let input = std::fs::File::open(folder.join("name")).unwrap();
    let ran = command.stdin(input).output().unwrap();
    let text = String::from_utf8(ran.stdout).unwrap();
    let history = text.split_once("<<").and_then(|(_, rest)| rest.split_once(">>"));
    history.unwrap_or_else(|| panic!("{text}")).0.to_owned()
}

#[test]
fn d4_every_kind_of_leak_is_found_or_tamed() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(here.path().join("name"), "here\n").unwrap();
    std::fs::write(there.path().join("name"), "there\n").unwrap();
    let mut wrong = Vec::new();
    for (place, (name, outcome, _)) in LEAKS.iter().enumerate() {
        let one = process(place, here.path(), None);
        let other = process(place, there.path(), Some("Asia/Kathmandu"));
        let difference = Difference::first(&one, &other);
        let as_meant = match (outcome, &difference) {
            (Tamed, None) => true,
            // What was drawn is the first line, what begins the second.
            (Found, Some(Difference { line: 3, one, .. })) => one.ends_with("sends"),
            _ => false,
        };
        if !as_meant {
            wrong.push(format!("{name}, to be {outcome:?}: {difference:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn d4_a_receipt_of_seeds_lived_through_twice() {
    let program = Path::new(env!("CARGO_BIN_EXE_retrial-sim"));
    let receipt = Receipt::of(10..16, None, program, 2, |_| {}).unwrap();
    assert_eq!(receipt.differing, []);
    assert_eq!(receipt.seeds, 6);
    assert!(receipt.lines > 600, "{receipt:?}");
    let words = receipt.words();
    assert!(words.starts_with(&format!("6 seeds ran twice, {} lines: 0 differ\n", receipt.lines)));
}

/// A worker that looks at its surroundings is found out, and its first line that differs named.
#[test]
fn d4_a_worker_that_looks_around_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("leaky");
    let real = env!("CARGO_BIN_EXE_retrial-sim");
    // The seed that it is asked for is another where it has a time zone.
    let script = format!(
        "#!/bin/sh\nif [ -n \"$TZ\" ]; then /bin/sed -u 's/^3$/4/' | {real} \"$@\" | /bin/sed -u 's/\"seed\":4/\"seed\":3/'; \
        /bin/mv \"$3/4.history\" \"$3/3.history\" 2>/dev/null; else exec {real} \"$@\"; fi\n"
    );
    std::fs::write(&program, script).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let receipt = Receipt::of(3..4, None, &program, 1, |_| {}).unwrap();
    let [found] = &receipt.differing[..] else { panic!("{receipt:?}") };
    assert_eq!(found.seed, 3);
    assert!(receipt.words().contains("1 differ"), "{}", receipt.words());
}
