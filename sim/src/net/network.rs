//! The network as a whole: hosts, plan, counts, and every open end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use madsim::net::TcpStream;
use retrial::run::mix;
use retrial::time::{Mono, Nanos};
use tokio::sync::Notify;

use super::conn::{Conn, End, Ending};
use super::plan::{Direction, Effect, NetPlan};
use super::{SimConnector, SimListener};
use crate::clock::true_now;
use crate::fault::{FaultKind, Strikes};
use crate::incarnation::Incarnation;
use crate::trace::{Kind, Trace};

/// The simulated network of one seed. Clones share it. All but its making belongs inside the world,
/// where there is a true time.
#[derive(Clone, Debug)]
pub struct Net(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seed: u64,
    plan: NetPlan,
    trace: Trace,
    strikes: Strikes,
    healed: AtomicBool,
    changed: Notify,
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    hosts: BTreeMap<String, Host>,
    /// How many connections each link has seen.
    links: BTreeMap<(String, String), u64>,
    listeners: BTreeMap<SocketAddr, Incarnation>,
    /// Made but not yet accepted, by the connecting and the listening address.
    backlog: BTreeMap<(SocketAddr, SocketAddr), VecDeque<Arc<Conn>>>,
    ends: BTreeMap<u64, Arc<End>>,
    next_end: u64,
    /// Nodes that a user's fault keeps apart, each pair in both orders.
    parted: BTreeSet<(String, String)>,
    /// How often a user's fault parted two nodes.
    partings: u64,
}

/// How long a sender waits before it sends a lost piece again; then twice as long each time.
const RESEND: Nanos = Nanos::from_millis(200);

/// A host name's node and address.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: Arc<str>,
    pub(super) ip: IpAddr,
}

/// An obstacle to making a connection.
pub(super) enum Obstacle {
    Refused,
    Waits { until: Mono },
}

impl Net {
    /// A network under `plan`. `seed` cuts what crosses it into pieces.
    #[must_use]
    pub fn new(seed: u64, plan: NetPlan, trace: Trace, strikes: Strikes) -> Self {
        Self(Arc::new(Shared {
            seed,
            plan,
            trace,
            strikes,
            healed: AtomicBool::new(false),
            changed: Notify::new(),
            tables: Mutex::default(),
        }))
    }

    /// Adds `node` with the address `ip` of its madsim node. Its name is its first host name.
    pub fn add_node(&self, node: &str, ip: IpAddr) {
        self.tables().hosts.insert(node.to_owned(), Host { node: node.into(), ip });
    }

    /// Gives `node`, already added, another host name, as in a URL. An unknown node adds nothing.
    pub fn add_alias(&self, host: &str, node: &str) {
        let mut tables = self.tables();
        if let Some(found) = tables.hosts.get(node).cloned() {
            tables.hosts.insert(host.to_owned(), found);
        }
    }

    /// The connector of `incarnation`.
    #[must_use]
    pub fn connector(&self, incarnation: Incarnation) -> SimConnector {
        SimConnector::new(self.clone(), incarnation)
    }

    /// Listens at `port` of `incarnation`'s node; to be called on that node.
    ///
    /// # Errors
    /// `NotFound` when the node was never added; what madsim says when the port is taken.
    pub async fn listen(
        &self,
        incarnation: Incarnation,
        port: u16,
    ) -> std::io::Result<SimListener> {
        SimListener::bind(self.clone(), incarnation, port).await
    }

    /// Switches every fault off for good: hung connections and silent streams continue. Connections
    /// that were reset or cut stay so.
    pub fn heal(&self) {
        self.0.healed.store(true, Ordering::SeqCst);
        self.record("net", Kind::Input, "the network heals", &[]);
        let ends: Vec<_> = self.tables().ends.values().cloned().collect();
        ends.iter().for_each(|end| end.conn.state().release());
        self.0.changed.notify_waiters();
    }

    /// Stands for a fault's place in the plan where two nodes are parted by [`Net::part`].
    pub(super) const BY_HAND: usize = usize::MAX;

    /// Keeps two nodes apart until [`Net::join`], or until the network heals: no connection is
    /// made, no byte arrives.
    pub(crate) fn part(&self, one: &str, other: &str) {
        {
            let mut tables = self.tables();
            tables.parted.extend(both(one, other));
            tables.partings += 1;
        }
        self.record("net", Kind::Note, &format!("{one} and {other} are parted"), &[]);
    }

    /// How often two nodes were parted by [`Net::part`].
    pub(crate) fn partings(&self) -> u64 {
        self.tables().partings
    }

    /// Lets two nodes meet again that were kept apart by [`Net::part`].
    pub(crate) fn join(&self, one: &str, other: &str) {
        let ends: Vec<_> = {
            let mut tables = self.tables();
            tables.parted.retain(|pair| !both(one, other).contains(pair));
            tables.ends.values().cloned().collect()
        };
        self.record("net", Kind::Note, &format!("{one} and {other} meet again"), &[]);
        ends.iter().for_each(|end| end.conn.state().wake());
        self.0.changed.notify_waiters();
    }

    fn is_parted_by_hand(&self, from: &str, to: &str) -> bool {
        !self.is_healed() && self.tables().parted.contains(&(from.to_owned(), to.to_owned()))
    }

    /// Whether [`Net::heal`] was called.
    #[must_use]
    pub fn is_healed(&self) -> bool {
        self.0.healed.load(Ordering::SeqCst)
    }

    /// `node` is back: the peers of its dead lives' streams, silent until now, see a reset.
    pub fn node_restarted(&self, node: &str) {
        let dead = self.take_dead(node);
        for end in &dead {
            self.record(
                node,
                Kind::Message,
                &format!("{} is reset by restart", end.conn.name),
                &[],
            );
            end.conn.state().reset(end.out);
            drop(end.inner().take());
        }
        for conn in
            self.take_backlog(|incarnation| incarnation.node() == node && incarnation.is_over())
        {
            conn.state().reset(Direction::Response);
        }
    }

    /// How many streams `node`'s dead lives have left open. None after [`Net::node_restarted`].
    #[must_use]
    pub fn silent(&self, node: &str) -> usize {
        self.tables().ends.values().filter(|end| is_dead(end, node)).count()
    }

    /// How many streams are open in all.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tables().ends.len()
    }

    fn take_dead(&self, node: &str) -> Vec<Arc<End>> {
        let mut tables = self.tables();
        let (dead, rest) =
            std::mem::take(&mut tables.ends).into_iter().partition(|(_, end)| is_dead(end, node));
        tables.ends = rest;
        let dead: BTreeMap<u64, Arc<End>> = dead;
        dead.into_values().collect()
    }

    fn take_backlog(&self, of: impl Fn(&Incarnation) -> bool) -> Vec<Arc<Conn>> {
        let mut tables = self.tables();
        let mut taken = Vec::new();
        for queue in tables.backlog.values_mut() {
            let (out, rest) = queue.drain(..).partition::<VecDeque<_>, _>(|c| of(&c.to));
            taken.extend(out);
            *queue = rest;
        }
        tables.backlog.retain(|_, queue| !queue.is_empty());
        taken
    }

    pub(super) fn host(&self, name: &str) -> Option<Host> {
        self.tables().hosts.get(name).cloned()
    }

    /// The number of the next connection from `from` to `to`.
    pub(super) fn count_link(&self, from: &str, to: &str) -> u64 {
        let mut tables = self.tables();
        let next = tables.links.entry((from.to_owned(), to.to_owned())).or_default();
        *next += 1;
        *next - 1
    }

    /// Records who listens at `addr`. Connections that waited there for an earlier listener are
    /// reset.
    pub(super) fn note_listener(&self, addr: SocketAddr, incarnation: Incarnation) {
        let earlier = self.tables().listeners.insert(addr, incarnation);
        let Some(earlier) = earlier else { return };
        for conn in self.take_backlog(|incarnation| same(incarnation, &earlier)) {
            conn.state().reset(Direction::Response);
        }
    }

    pub(super) fn listener(&self, addr: SocketAddr) -> Option<Incarnation> {
        self.tables().listeners.get(&addr).cloned()
    }

    /// Keeps a new end. The connecting one also waits in the listener's backlog.
    pub(super) fn keep(
        &self,
        incarnation: &Incarnation,
        out: Direction,
        conn: &Arc<Conn>,
        inner: TcpStream,
    ) -> Arc<End> {
        let mut tables = self.tables();
        let id = tables.next_end;
        tables.next_end += 1;
        if let (Direction::Request, Ok(local), Ok(peer)) =
            (out, inner.local_addr(), inner.peer_addr())
        {
            tables.backlog.entry((local, peer)).or_default().push_back(Arc::clone(conn));
        }
        let end = End::new(id, incarnation.clone(), out, Arc::clone(conn), inner);
        tables.ends.insert(id, Arc::clone(&end));
        end
    }

    /// The connection that was made from `peer` to `addr`, first come first served.
    pub(super) fn accepted(&self, peer: SocketAddr, addr: SocketAddr) -> Option<Arc<Conn>> {
        self.tables().backlog.get_mut(&(peer, addr))?.pop_front()
    }

    /// Its holder has dropped the end. A dead incarnation's stays open, silent.
    pub(super) fn dropped(&self, end: &End) {
        if end.incarnation.is_over() {
            return;
        }
        self.tables().ends.remove(&end.id);
        let mut state = end.conn.state();
        let pipe = state.pipe(end.out);
        pipe.finish(pipe.sent, Ending::Closed);
        let back = state.pipe(end.out.back());
        back.finish(back.read, Ending::Reset);
        drop(state);
        drop(end.inner().take());
    }

    /// The first fault that keeps the connection from being made now, counted.
    pub(super) fn obstacle(&self, from: &str, to: &str, number: u64) -> Option<Obstacle> {
        let now = true_now();
        let link = format!("{from}>{to}#{number}");
        if self.is_parted_by_hand(from, to) {
            return Some(Obstacle::Waits { until: Mono::from_nanos(u64::MAX) });
        }
        for (_, fault) in self.faults() {
            let parted = fault.parts(from, to, now) || fault.parts(to, from, now);
            let covered = fault.covers(from, to, number, now);
            let until = fault.window.until;
            match fault.effect {
                Effect::Refuse if covered => {
                    self.strike(from, FaultKind::Refuse, &format!("{link} is refused"));
                    return Some(Obstacle::Refused);
                }
                Effect::Hang if covered => {
                    self.strike(from, FaultKind::ConnectHang, &format!("{link} hangs"));
                    return Some(Obstacle::Waits { until });
                }
                Effect::Partition | Effect::OneWay if parted => {
                    self.strike(from, fault.effect.kind(), &format!("{link} finds no way"));
                    return Some(Obstacle::Waits { until });
                }
                _ => {}
            }
        }
        None
    }

    /// Until when bytes from `sender` can't reach `receiver`, and by which fault.
    pub(super) fn parted(&self, sender: &str, receiver: &str, now: Mono) -> Option<(usize, Mono)> {
        if self.is_parted_by_hand(sender, receiver) {
            return Some((Self::BY_HAND, Mono::from_nanos(u64::MAX)));
        }
        let found = self.faults().find(|(_, fault)| fault.parts(sender, receiver, now));
        found.map(|(i, fault)| (i, fault.window.until))
    }

    /// The faults with their places in the plan; none once healed.
    pub(super) fn faults(&self) -> impl Iterator<Item = (usize, &super::NetFault)> {
        let on = !self.is_healed();
        self.0.plan.faults.iter().enumerate().filter(move |_| on)
    }

    /// The kind of the fault at this place in the plan.
    pub(super) fn kind(&self, fault: usize) -> FaultKind {
        self.0.plan.faults[fault].effect.kind()
    }

    /// How much later what begins at `position` arrives when so many sendings of a hundred are
    /// lost.
    pub(super) fn lost(
        &self,
        conn: &Conn,
        direction: Direction,
        position: u64,
        percent: u8,
    ) -> Nanos {
        let mut chance = conn.chance(self.0.trace.redraw(self.0.seed), direction, position);
        let (mut late, mut wait) = (Nanos::ZERO, RESEND);
        // A sender gives up some time; no piece is lost more often than this.
        for _ in 0..6 {
            chance = mix(chance);
            if chance % 100 >= u64::from(percent) {
                break;
            }
            late = late.saturating_add(wait);
            wait = wait.saturating_add(wait);
        }
        late
    }

    /// The most bytes that one call may move.
    pub(super) fn step(&self, conn: &Conn, direction: Direction, position: u64) -> usize {
        let seed = self.0.trace.redraw(self.0.seed);
        if self.0.plan.short { conn.step(seed, direction, position) } else { usize::MAX }
    }

    /// Chance of the `number`-th connection's own.
    pub(super) fn draw(&self, number: u64) -> u64 {
        mix(self.0.trace.redraw(self.0.seed) ^ mix(number))
    }

    /// Notified when the network heals.
    pub(super) fn changed(&self) -> &Notify {
        &self.0.changed
    }

    pub(super) fn strike(&self, lane: &str, kind: FaultKind, text: &str) {
        self.0.strikes.strike(kind);
        self.record(lane, Kind::Fault, &format!("{kind}: {text}"), &[]);
    }

    pub(super) fn record(&self, lane: &str, kind: Kind, text: &str, detail: &[u8]) {
        self.0.trace.record(true_now(), lane, kind, text, detail);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn both(one: &str, other: &str) -> [(String, String); 2] {
    [(one.to_owned(), other.to_owned()), (other.to_owned(), one.to_owned())]
}

fn is_dead(end: &End, node: &str) -> bool {
    end.incarnation.node() == node && end.incarnation.is_over()
}

fn same(a: &Incarnation, b: &Incarnation) -> bool {
    a.node() == b.node() && a.number() == b.number()
}
