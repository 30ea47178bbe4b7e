//! Connections that break within every message of an exchange, and between any two.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use retrial::run::Version;
use retrial::runtime::TokioRuntime;
use retrial::store::{Commit, Committed, MemoryStore, Store, StoreError};

use crate::postgres_faults::opened::{Opened, open};
use crate::postgres_faults::patience::{patient, together};
use crate::postgres_faults::script::{Story, begin};
use crate::postgres_faults::twin::kept;
use crate::postgres_proxy::{Fault, From, Passed, Proxy, Stream, Strike, Way};
use retrial_testkit::postgres_server::Server;

type Twin = MemoryStore<TokioRuntime>;

/// A store behind a proxy, and a twin that nothing ever happens to.
struct Bench {
    proxy: Proxy,
    /// Not through the proxy.
    direct: Opened,
    store: Opened,
    twin: Twin,
    stories: u64,
    kind: fn(u64) -> Story,
    /// Dropped last.
    #[expect(dead_code, reason = "it is there as long as the others")]
    server: Server,
}

/// The results of the cases.
#[derive(Debug, Default)]
struct Came {
    cases: u64,
    /// The first answer said that it had landed.
    told: u64,
    unknown: u64,
    /// It had landed when it was sent again.
    landed: u64,
}

impl Bench {
    async fn set_up(kind: fn(u64) -> Story) -> Self {
        let server = Server::start();
        let database = server.database().await;
        let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        let url = server.url(&database);
        let through = url.replace(&server.port().to_string(), &proxy.port().to_string());
        let store = open(&through).await;
        let twin = MemoryStore::new(TokioRuntime::current());
        let direct = open(&url).await;
        Self { proxy, direct, store, twin, stories: 0, kind, server }
    }

    /// So many stories up to their ends, calmly.
    async fn begin(&mut self, many: u64) -> Vec<Case> {
        let numbers = self.stories + 1..=self.stories + many;
        self.stories += many;
        let stories: Vec<_> = numbers.map(self.kind).collect();
        let here = begin(&self.direct, &stories).await;
        let there = begin(&self.twin, &stories).await;
        let case = |(story, (here, there)): (&Story, _)| {
            let (commit, of_twin) = (story.end(here), story.end(there));
            Case { story: *story, commit, of_twin }
        };
        stories.iter().zip(here.into_iter().zip(there)).map(case).collect()
    }

    /// The shortest exchange each way in which a commit is sent and answered, calmly.
    async fn measure(&mut self) -> (Stream, Stream) {
        let mut passed = Vec::new();
        // The first exchange of a connection is longer, and now and then a time is kept beside it.
        for Case { commit, of_twin, .. } in self.begin(6).await {
            self.proxy.passed();
            let answer = self.store.commit(commit).await.unwrap();
            assert!(matches!(answer, Committed::Applied { .. }), "{answer:?}");
            passed.push(self.proxy.passed());
            self.twin.commit(of_twin).await.unwrap();
        }
        let shortest = |way: fn(&Passed) -> &Stream| {
            passed.iter().map(way).min_by_key(|stream| stream.bytes).unwrap().clone()
        };
        (shortest(|passed| &passed.to_server), shortest(|passed| &passed.to_client))
    }

    /// The commit's exchange breaks at `fault`; the answers to the writer.
    async fn cut(&self, commit: &Commit, fault: Fault) -> Result<Committed, StoreError> {
        self.proxy.arm(fault);
        let told = self.store.commit(commit.clone()).await;
        assert!(self.proxy.disarm(), "nothing was struck by {fault:?}");
        told
    }

    /// A commit whose exchange breaks at each of `faults` lands once.
    async fn lands_once(&mut self, faults: &[Fault]) -> Came {
        let mut came = Came::default();
        for some in faults.chunks(50) {
            let cases = self.begin(some.len() as u64).await;
            for (case, fault) in cases.iter().zip(some) {
                self.case(case, *fault, &mut came).await;
            }
            let compare = |case: &Case| difference(&self.direct, &self.twin, case.story);
            let differences = together(cases.iter().map(compare)).await;
            let differences: Vec<_> = differences.into_iter().flatten().collect();
            assert!(differences.is_empty(), "after {some:?}: {differences:?}");
        }
        came
    }

    async fn case(&self, case: &Case, fault: Fault, came: &mut Came) {
        let first = self.cut(&case.commit, fault).await;
        let again = patient(|| self.store.commit(case.commit.clone())).await;
        let landed = match kind(&again) {
            "applied" => false,
            "already" => true,
            _ => panic!("{fault:?}: sent again it is answered {again:?}"),
        };
        let lied = match &first {
            Err(StoreError::NotDone(_)) => landed,
            Err(StoreError::Unknown(_)) => false,
            Ok(_) => !landed,
            Err(StoreError::Broken(_)) => true,
        };
        assert!(!lied, "{fault:?}: the writer got {first:?}, and when it asked again {again:?}");
        let third = patient(|| self.store.commit(case.commit.clone())).await;
        assert_eq!((kind(&third), version(&third)), ("already", version(&again)), "{fault:?}");
        self.twin.commit(case.of_twin.clone()).await.unwrap();
        came.cases += 1;
        came.told += u64::from(first.is_ok());
        came.unknown += u64::from(matches!(first, Err(StoreError::Unknown(_))));
        came.landed += u64::from(landed);
    }
}

/// One fault at each of `places`, by turns an end and a reset.
fn faults(way: Way, from: From, places: impl Iterator<Item = u64>) -> Vec<Fault> {
    let strike = |passing: u64| if passing.is_multiple_of(2) { Strike::End } else { Strike::Reset };
    places.map(|passing| Fault { way, from, passing, strike: strike(passing) }).collect()
}

/// Before, within and at the last byte of each message: whoever reads does nothing with a part of one.
fn of_all_messages(stream: &Stream) -> impl Iterator<Item = u64> {
    let ends = stream.messages[1..].iter().chain([&stream.bytes]);
    let places = stream.messages.iter().zip(ends);
    let places = places.flat_map(|(begin, end)| [*begin, begin + 1, begin.midpoint(*end), end - 1]);
    places.collect::<BTreeSet<_>>().into_iter()
}

/// Every byte of `COMMIT` and of its answer.
fn of_the_last_word() -> Vec<Fault> {
    let asked = faults(Way::ToServer, From::Commit, 0..12);
    let answered = faults(Way::ToClient, From::Commit, 0..18);
    [asked, answered].concat()
}

/// A story before its end.
struct Case {
    story: Story,
    commit: Commit,
    /// The same with its twin's own token.
    of_twin: Commit,
}

/// Whether the store keeps what its twin keeps, and its guards have counted once; what differs.
async fn difference(store: &impl Store, twin: &impl Store, story: Story) -> Option<String> {
    for run in [story.run(), story.child()] {
        let (here, there) = (kept(store, run).await, kept(twin, run).await);
        if here != there {
            return Some(format!("run {run} is kept as {here:?}, and its twin as {there:?}"));
        }
    }
    // Of a plain story they are commits as any.
    for commit in [story.admit_again(1, 5), story.end_again(2, 6), story.admit_again(3, 7)] {
        let here = patient(|| store.commit(commit.clone())).await;
        let there = patient(|| twin.commit(commit.clone())).await;
        if kind(&here) != kind(&there) {
            return Some(format!("{commit:?} is answered {here:?}, and by its twin {there:?}"));
        }
    }
    None
}

fn version(answer: &Committed) -> Option<Version> {
    match *answer {
        Committed::Applied { version, .. } | Committed::Already { version, .. } => Some(version),
        _ => None,
    }
}

fn kind(answer: &Committed) -> &'static str {
    match answer {
        Committed::Applied { .. } => "applied",
        Committed::Already { .. } => "already",
        Committed::Conflict { .. } => "conflict",
        Committed::Behind { .. } => "behind",
        Committed::Held { .. } => "held",
        Committed::Untold { .. } => "untold",
        Committed::Fenced { .. } => "fenced",
    }
}

impl Came {
    fn put_to_the_test(&self) {
        println!("{self:?}");
        let (landed, unknown) = (self.landed, self.unknown);
        assert!(0 < landed && landed < unknown + self.told && unknown < self.cases, "{self:?}");
    }
}

// The outcome of a commit whose exchange is cut may be unknown, and asking again shows it,
// whichever message was the last that the server saw.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_commit_cut_in_any_message_to_the_server_lands_once() {
    let mut bench = Bench::set_up(Story::plain).await;
    let (asked, _) = bench.measure().await;
    let all = faults(Way::ToServer, From::Arming, of_all_messages(&asked));
    bench.lands_once(&[all, of_the_last_word()].concat()).await.put_to_the_test();
}

// Nor whichever was the last that the client saw.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_commit_cut_in_any_message_to_the_client_lands_once() {
    let mut bench = Bench::set_up(Story::plain).await;
    let (_, answered) = bench.measure().await;
    let all = faults(Way::ToClient, From::Arming, of_all_messages(&answered));
    bench.lands_once(&[all, of_the_last_word()].concat()).await.put_to_the_test();
}

// The same of one that changes all that a commit can change.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_rich_commit_cut_at_many_bytes_lands_once() {
    let mut bench = Bench::set_up(Story::rich).await;
    let (to_server, to_client) = bench.measure().await;
    let asked = faults(Way::ToServer, From::Arming, (0..to_server.bytes).step_by(23));
    let answered = faults(Way::ToClient, From::Arming, (0..to_client.bytes).step_by(23));
    bench.lands_once(&[asked, answered, of_the_last_word()].concat()).await.put_to_the_test();
}

// A writer that was overtaken meanwhile gets that answer, and only where nothing had landed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn a_commit_cut_and_overtaken_has_a_definite_answer() {
    let mut bench = Bench::set_up(Story::plain).await;
    let (to_server, to_client) = bench.measure().await;
    let asked = faults(Way::ToServer, From::Arming, (0..to_server.bytes).step_by(67));
    let answered = faults(Way::ToClient, From::Arming, (0..to_client.bytes).step_by(67));
    let (mut overtaken, mut landed) = (0, 0);
    for fault in [asked, answered, of_the_last_word()].concat() {
        let [warm, Case { story, commit, .. }] = &bench.begin(2).await[..] else { panic!() };
        // A connection's first exchange is longer.
        patient(|| bench.store.commit(warm.commit.clone())).await;
        let first = bench.cut(commit, fault).await;
        let rival = patient(|| bench.direct.commit(story.rival())).await;
        let again = patient(|| bench.store.commit(commit.clone())).await;
        let both = (kind(&rival), kind(&again));
        let is_overtaken = both == ("applied", "conflict");
        let has_landed = both == ("conflict", "already");
        let right = match first {
            Ok(_) => has_landed,
            Err(StoreError::NotDone(_)) => is_overtaken,
            Err(_) => is_overtaken || has_landed,
        };
        assert!(right, "{fault:?}: after {first:?} rival and writer are answered {both:?}");
        (overtaken, landed) = (overtaken + u64::from(is_overtaken), landed + u64::from(has_landed));
    }
    println!("{overtaken} were overtaken, {landed} had landed");
    assert!(overtaken > 0 && landed > 0, "only one side was put to the test");
}

/// The judge is no yes-man.
#[tokio::test]
async fn what_is_lost_or_doubled_is_seen() {
    let told = async |change: fn(&mut Commit)| {
        let (store, twin) =
            (Twin::new(TokioRuntime::current()), Twin::new(TokioRuntime::current()));
        let story = Story::rich(1);
        let mut commit = story.end(begin(&store, &[story]).await[0]);
        let of_twin = story.end(begin(&twin, &[story]).await[0]);
        twin.commit(of_twin).await.unwrap();
        change(&mut commit);
        store.commit(commit).await.unwrap();
        difference(&store, &twin, story).await
    };
    assert_eq!(told(|_| {}).await, None);
    let changes: [fn(&mut Commit); 7] = [
        |c| c.events.truncate(1),
        |c| c.queue.truncate(2),
        |c| c.results.clear(),
        |c| c.letters.clear(),
        |c| c.snapshot = None,
        |c| c.creates.clear(),
        |c| c.guards.clear(),
    ];
    for (place, change) in changes.into_iter().enumerate() {
        assert!(told(change).await.is_some(), "change {place} is not seen");
    }
}
