//! Whatever the plan: what is read is a prefix of what was written, all of it unless a connection
//! was ended, and one seed is one history.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "clippy takes a test's helpers for production code"
)]

use crate::net_world;

use madsim::time::sleep;
use net_world::*;
use proptest::prelude::*;
use retrial::time::Nanos;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::net::{Direction, Effect, NetFault, NetPlan, ShimStream, Which};
use retrial_sim::unstable::trace::Fingerprint;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// When the network heals, in milliseconds.
const HEAL: u64 = 30_000;

fn effects() -> impl Strategy<Value = Effect> {
    let place = || (0..600_u64, prop_oneof![Just(Direction::Request), Just(Direction::Response)]);
    let long = || (0..60_000_u64).prop_map(Nanos::from_millis);
    prop_oneof![
        1 => Just(Effect::Refuse),
        2 => Just(Effect::Hang),
        2 => place().prop_map(|(byte, direction)| Effect::ResetAt { byte, direction }),
        2 => place().prop_map(|(byte, direction)| Effect::CutAt { byte, direction }),
        3 => (place(), long())
            .prop_map(|((byte, direction), lasts)| Effect::Stall { byte, direction, lasts }),
        3 => long().prop_map(|by| Effect::Delay { by }),
        3 => Just(Effect::Partition),
        2 => Just(Effect::OneWay),
    ]
}

fn faults() -> impl Strategy<Value = NetFault> {
    let node = || prop_oneof![Just(None), Just(Some("a".to_owned())), Just(Some("b".to_owned()))];
    let times = (0..40_000_u64, 0..40_000_u64).prop_map(|(a, b)| window(a.min(b), a.max(b)));
    let which = prop_oneof![Just(Which::Every), (0..3_u64).prop_map(Which::Nth)];
    (times, node(), node(), which, effects())
        .prop_map(|(window, from, to, which, effect)| NetFault { window, from, to, which, effect })
}

/// What one connection carried: for each end, what it read and whether it read the clean end.
type Carried = Option<[(Vec<u8>, bool); 2]>;

/// The bytes that the end named `node` writes on its `n`-th connection.
fn script(node: &str, n: u64) -> Vec<u8> {
    (0..500_u64).map(|i| (i * 31 + n * 7 + node.len() as u64) as u8).collect()
}

/// Writes `bytes` in pieces with pauses, closes, and reads to the end.
async fn both_ways(stream: ShimStream, bytes: Vec<u8>) -> (Vec<u8>, bool) {
    let (mut reads, mut writes) = tokio::io::split(stream);
    let writer = madsim::task::spawn(async move {
        for piece in bytes.chunks(90) {
            if writes.write_all(piece).await.is_err() {
                return;
            }
            sleep(millis(1_000)).await;
        }
        let _ = writes.shutdown().await;
    });
    let mut heard = Vec::new();
    let clean = reads.read_to_end(&mut heard).await.is_ok();
    writer.await.unwrap();
    (heard, clean)
}

/// Three connections, one after the other, under `faults`.
fn run(seed: u64, faults: Vec<NetFault>) -> (Vec<Carried>, u64, Fingerprint) {
    within(seed, NetPlan { faults, short: true }, |world| async move {
        let (a, b) = (world.node("a", 1), world.node("b", 2));
        let net = world.net.clone();
        let (hand_over, mut ends) = tokio::sync::mpsc::unbounded_channel();
        b.spawn(async move {
            let listener = net.listen(incarnation("b"), 80).await.unwrap();
            while let Ok(stream) = listener.accept().await {
                let n = stream.name().rsplit('#').next().unwrap().parse().unwrap();
                let _ = hand_over.send(madsim::task::spawn(both_ways(stream, script("bb", n))));
            }
        });
        let net = world.net.clone();
        let talks = a.spawn(async move {
            sleep(millis(5)).await;
            let mut carried = Vec::new();
            for n in 0..3 {
                let made = net.connector(incarnation("a")).connect_to("b", 80).await;
                let Ok(stream) = made else {
                    carried.push(None);
                    continue;
                };
                let at_a = both_ways(stream, script("a", n)).await;
                let at_b = ends.recv().await.unwrap().await.unwrap();
                carried.push(Some([at_a, at_b]));
            }
            carried
        });
        sleep(millis(HEAL)).await;
        world.net.heal();
        let carried = talks.await.unwrap();
        let ended = world.struck(FaultKind::Reset) + world.struck(FaultKind::Cut);
        (carried, ended, world.trace.fingerprint())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    #[test]
    fn bytes_arrive_in_order_and_whole_unless_ended(
        seed in any::<u64>(),
        faults in prop::collection::vec(faults(), 0..6),
    ) {
        let (carried, ended, fingerprint) = run(seed, faults.clone());
        let mut broken = 0;
        for (n, ends) in (0..).zip(&carried) {
            let Some([at_a, at_b]) = ends else { continue };
            for ((heard, clean), written) in [(at_a, script("bb", n)), (at_b, script("a", n))] {
                prop_assert!(written.starts_with(heard), "connection {} garbled", n);
                prop_assert!(*clean || ended > 0, "connection {} was reset by nobody", n);
            }
            let whole = at_a.0.len() == 500 && at_b.0.len() == 500;
            broken += u64::from(!whole || !at_a.1 || !at_b.1);
        }
        prop_assert!(broken <= ended, "{} broken, {} ended", broken, ended);
        prop_assert_eq!(run(seed, faults).2, fingerprint);
    }
}
