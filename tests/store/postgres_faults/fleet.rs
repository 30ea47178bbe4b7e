//! Nodes as processes, and the hand that starts, kills, stops and wakes them.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::time::Duration;

use retrial::run::RunId;
use retrial::store::{AskRuns, RunFilter, RunPhase, Store};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::postgres_faults::node::{PLAN, Plan, Said, Told};
use crate::postgres_faults::patience::patient;

/// Runs submitted in one piece.
const PIECE: u64 = 25;
/// The most runs that are not known to have ended.
const AHEAD: u64 = 400;

/// How often the store is looked at.
const LOOK: Duration = Duration::from_secs(3);

/// Nodes of one store. They are killed when it is dropped.
pub(crate) struct Fleet {
    plan: Plan,
    nodes: Vec<Node>,
    say: mpsc::UnboundedSender<Heard>,
    hear: mpsc::UnboundedReceiver<Heard>,
    /// Numbers that wait to be given to a node, as ranges.
    waiting: Vec<(u64, u64)>,
    /// The run that each number was acknowledged with.
    pub(crate) submitted: BTreeMap<u64, RunId>,
    /// Runs whose end a node has told of.
    told: BTreeSet<RunId>,
    /// Runs that have ended, as far as is known.
    pub(crate) ended: BTreeSet<RunId>,
    pub(crate) refused: Vec<(usize, RunId, String)>,
    /// How long each claim took, in microseconds.
    pub(crate) claims: Vec<u32>,
    pub(crate) kills: u64,
}

struct Node {
    child: Child,
    input: ChildStdin,
    /// What it had to submit.
    given: Vec<(u64, u64)>,
    life: u64,
    ready: bool,
}

/// What the node at a place, in one of its lives, has said.
struct Heard {
    place: usize,
    life: u64,
    /// Nothing where it has ended.
    said: Option<Said>,
}

impl Fleet {
    pub(crate) async fn start(plan: Plan, nodes: usize) -> Self {
        let (say, hear) = mpsc::unbounded_channel();
        let mut fleet = Self {
            plan,
            nodes: Vec::new(),
            say,
            hear,
            waiting: Vec::new(),
            submitted: BTreeMap::new(),
            told: BTreeSet::new(),
            ended: BTreeSet::new(),
            refused: Vec::new(),
            claims: Vec::new(),
            kills: 0,
        };
        for _ in 0..nodes {
            fleet.add().await;
        }
        fleet
    }

    /// One node more, once it is ready.
    pub(crate) async fn add(&mut self) {
        let place = self.nodes.len();
        let node = self.node(place, 0);
        self.nodes.push(node);
        while !self.nodes[place].ready {
            self.listen().await;
        }
    }

    fn node(&self, place: usize, life: u64) -> Node {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "postgres_faults::node::works_until_its_input_ends",
                "--exact",
                "--include-ignored",
                "--nocapture",
                // With one, the harness would begin the node's first line.
                "--test-threads=2",
            ])
            .env(PLAN, serde_json::to_string(&self.plan).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let say = self.say.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // The test harness around the node has its own lines.
                if let Ok(said) = serde_json::from_str(&line) {
                    let _ = say.send(Heard { place, life, said: Some(said) });
                }
            }
            let _ = say.send(Heard { place, life, said: None });
        });
        Node { child, input, given: Vec::new(), life, ready: false }
    }

    /// Waits for the next thing that a node says, and takes it in.
    pub(crate) async fn listen(&mut self) {
        let Heard { place, life, said } = self.hear.recv().await.unwrap();
        let Some(said) = said else {
            assert!(self.nodes[place].life > life, "node {place} has ended by itself");
            return;
        };
        match said {
            Said::Ready => self.nodes[place].ready |= self.nodes[place].life == life,
            Said::Submitted(number, run) => {
                let first = *self.submitted.entry(number).or_insert(run);
                assert_eq!(first, run, "number {number} was acknowledged with two runs");
            }
            Said::Ended(run) => {
                assert!(self.told.insert(run), "two nodes ended run {run}");
                self.ended.insert(run);
            }
            Said::Refused(run, how) => self.refused.push((place, run, how)),
            Said::Claims(took) => self.claims.extend(took),
        }
    }

    /// Learns from the store which runs have ended: a killed node does not report some of them.
    pub(crate) async fn look(&mut self, store: &impl Store) {
        // Those that are submitted meanwhile are not known yet, and so not taken to have ended.
        let known: BTreeSet<RunId> = self.submitted.values().copied().collect();
        let left = unfinished(store).await;
        self.ended.extend(known.difference(&left));
    }

    /// Has these numbers submitted, the last excluded, each at least once.
    pub(crate) fn submit(&mut self, from: u64, to: u64) {
        self.waiting.push((from, to));
    }

    /// Gives what waits to the nodes that are ready.
    pub(crate) async fn hand_out(&mut self) {
        let ready = self.nodes.iter_mut().filter(|node| node.ready);
        let mut ready: Vec<_> = ready.collect();
        while !ready.is_empty() {
            let Some((from, to)) = self.waiting.pop() else { return };
            ready.rotate_left(1);
            ready[0].given.push((from, to));
            let line = serde_json::to_string(&Told::Submit(from, to)).unwrap() + "\n";
            // Where the node has just died, what it was given comes back.
            let _ = ready[0].input.write_all(line.as_bytes()).await;
        }
    }

    /// Kills the node at `place` and starts it again. What it may not have submitted waits again.
    pub(crate) async fn kill(&mut self, place: usize) {
        self.kills += 1;
        self.nodes[place].child.kill().await.unwrap();
        let next = self.node(place, self.nodes[place].life + 1);
        let dead = std::mem::replace(&mut self.nodes[place], next);
        let open = |(from, to): &(u64, u64)| (*from..*to).any(|n| !self.submitted.contains_key(&n));
        self.waiting.extend(dead.given.into_iter().filter(open));
    }

    /// Stops the node at `place` where it stands. Its threads stop one after the other: returns when
    /// all have.
    pub(crate) fn stop(&self, place: usize) {
        let node = self.signal(place, Signal::STOP);
        // One that has ended is left for its own `wait`.
        let change = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(node), change).unwrap();
    }

    /// Has the runs with the numbers below `runs` submitted and waits until they have ended, while
    /// `strike` strikes again and again. It says how long to wait before the next time.
    pub(crate) async fn work_off(
        &mut self,
        store: &impl Store,
        runs: u64,
        strike: impl AsyncFnMut(&mut Self) -> Duration,
    ) {
        self.work(store, || (runs, true), strike).await;
    }

    /// The same for so long with so many runs a second.
    pub(crate) async fn work_for(
        &mut self,
        store: &impl Store,
        long: Duration,
        rate: u64,
        strike: impl AsyncFnMut(&mut Self) -> Duration,
    ) {
        let begun = Instant::now();
        let due = || {
            let elapsed = begun.elapsed().min(long);
            (elapsed.as_secs() * rate, elapsed == long)
        };
        self.work(store, due, strike).await;
    }

    /// `due` says how many runs are to be submitted by now, and whether there come no more.
    async fn work(
        &mut self,
        store: &impl Store,
        due: impl Fn() -> (u64, bool),
        mut strike: impl AsyncFnMut(&mut Self) -> Duration,
    ) {
        let mut asked = 0;
        let mut strike_at = Instant::now() + Duration::from_millis(500);
        let mut look_at = Instant::now();
        loop {
            let (ended, (by_now, is_all)) = (self.ended.len() as u64, due());
            if is_all && ended == by_now {
                return;
            }
            while asked < by_now && asked < ended + AHEAD {
                let next = (asked + PIECE).min(by_now);
                self.submit(asked, next);
                asked = next;
            }
            self.hand_out().await;
            tokio::select! {
                biased;
                () = sleep_until(strike_at) => {
                    let after = strike(self).await;
                    strike_at = Instant::now() + after;
                }
                () = sleep_until(look_at) => {
                    self.look(store).await;
                    look_at = Instant::now() + LOOK;
                }
                () = self.listen() => {}
                () = sleep(Duration::from_millis(20)) => {}
            }
        }
    }

    /// Lets the node at `place` go on.
    pub(crate) fn wake(&self, place: usize) {
        self.signal(place, Signal::CONT);
    }

    /// The bytes of memory that the node at `place` uses itself.
    pub(crate) fn memory(&self, place: usize) -> u64 {
        let pages = std::fs::read_to_string(format!("/proc/{}/statm", self.pid(place)));
        let pages = pages.unwrap_or_default();
        let resident = pages.split(' ').nth(1).and_then(|n| n.parse::<u64>().ok());
        resident.unwrap_or_default() * 4_096
    }

    fn pid(&self, place: usize) -> u32 {
        self.nodes[place].child.id().unwrap()
    }

    fn signal(&self, place: usize, signal: Signal) -> Pid {
        let pid = i32::try_from(self.pid(place)).ok().and_then(Pid::from_raw).unwrap();
        kill_process(pid, signal).unwrap();
        pid
    }
}

/// The runs that have not ended.
async fn unfinished(store: &impl Store) -> BTreeSet<RunId> {
    let phase = Some(RunPhase::Running);
    let (mut runs, mut before) = (BTreeSet::new(), None);
    loop {
        let filter = RunFilter { phase, ..RunFilter::default() };
        let ask = AskRuns { before, limit: 500, filter };
        let page = patient(|| store.list(ask.clone())).await;
        runs.extend(page.runs.iter().map(|head| head.run));
        before = page.next;
        if before.is_none() {
            return runs;
        }
    }
}
