//! Races of two requests: every order of what the two send. What a client sends without waiting for
//! answers between arrives together.

use std::num::NonZeroU32;
use std::sync::Arc;

use retrial::guard::{Ended, GuardInput, GuardRules};
use retrial::run::{LetterId, Token, Version};
use retrial::store::{
    Claim, ClaimId, ClaimedTask, Commit, CommitId, Create, Definition, Fence, Guarding, Holder,
    Holding, Prune, QueueChange, Request, RunPhase,
};
use retrial::time::Nanos;

use super::turns::{Choice, Next};
use super::world::World;
use crate::postgres_faults::script::{LONG, Story};

const SHORT: Nanos = Nanos::new(5_000);

/// Every path through decisions among so many choices each.
#[derive(Default)]
struct Paths {
    /// What is chosen, and of how many.
    path: Vec<(usize, usize)>,
    walked: usize,
    /// The connection that is let go on while it does not wait for answers, and whether it writes.
    going: Option<(usize, u64, bool)>,
    /// The same decisions have led elsewhere.
    is_lost: bool,
    how: How,
    has_ticked: bool,
}

/// What else happens in a race.
#[derive(Clone, Copy, Default)]
struct How {
    /// The clock goes on, at any one place.
    in_time: bool,
    /// The answer to the first store's `COMMIT` never arrives.
    unheard: bool,
}

impl Paths {
    fn choose(&mut self, choices: &[Choice]) -> Next {
        let goes_on = |choice: &Choice| {
            let Some((store, line, wrote)) = self.going else { return false };
            let is_going = (store, line) == (choice.store, choice.waiting.line);
            let goes_on = choice.waiting.is_pipelined || wrote && writes(choice);
            is_going && goes_on || keeps_time(choice)
        };
        let place = match choices.iter().position(goes_on) {
            Some(place) => place,
            None => self.decide(choices.len() + usize::from(self.how.in_time && !self.has_ticked)),
        };
        if place == choices.len() {
            self.has_ticked = true;
            return Next::Tick;
        }
        let Choice { store, waiting } = &choices[place];
        self.going = Some((*store, waiting.line, writes(&choices[place])));
        match self.how.unheard && *store == 0 && waiting.text == "COMMIT" {
            true => Next::LoseAnswer(place),
            false => Next::Release(place),
        }
    }

    fn decide(&mut self, of: usize) -> usize {
        if self.walked == self.path.len() {
            self.path.push((0, of));
        }
        let (chosen, then) = self.path[self.walked];
        self.walked += 1;
        self.is_lost |= of != then;
        chosen.min(of - 1)
    }

    /// The next path; false where this was the last.
    fn advance(&mut self) -> bool {
        (self.walked, self.going, self.has_ticked) = (0, None, false);
        while let Some((chosen, of)) = self.path.pop() {
            if chosen + 1 < of {
                self.path.push((chosen + 1, of));
                return true;
            }
        }
        false
    }
}

/// Whether it writes. What a transaction writes is sent together, though not always in one piece.
fn writes(choice: &Choice) -> bool {
    let writes = ["INSERT", "UPDATE", "DELETE", "SELECT pg_notify"];
    writes.iter().any(|verb| choice.waiting.text.starts_with(verb))
}

/// Whether it keeps the time that was answered, after the transaction.
fn keeps_time(choice: &Choice) -> bool {
    choice.waiting.text.starts_with("UPDATE clock")
}

/// Has the two requests that `prepare` makes race in every order. It gets a number that no other race
/// has.
async fn race(
    world: &mut World,
    what: &str,
    prepare: impl AsyncFnMut(&mut World, u64) -> [Request; 2],
) {
    race_so(How::default(), world, what, prepare).await;
}

async fn race_so(
    how: How,
    world: &mut World,
    what: &str,
    mut prepare: impl AsyncFnMut(&mut World, u64) -> [Request; 2],
) {
    let new = || Paths { how, ..Paths::default() };
    let (mut paths, mut orders, mut begun) = (new(), 0, 1);
    loop {
        orders += 1;
        world.races += 1;
        let number = world.races;
        world.empty().await;
        let requests = prepare(world, number).await;
        let requests = requests.into_iter().enumerate().collect();
        world.ask_together(requests, |choices| paths.choose(choices)).await;
        for run in [0, 1].map(|nth| story(number, nth).run()) {
            world.ask(0, Request::Load { run, after: Some(Version::START) }).await;
            world.ask(1, Request::Queue(run)).await;
        }
        world.ask(1, Request::Heads { after: None, limit: 9 }).await;
        if paths.is_lost {
            // A statement that a connection has not prepared before is sent otherwise.
            (paths, orders, begun) = (new(), 0, begun + 1);
            assert!(begun < 30, "{what}: the same decisions lead elsewhere");
        } else if !paths.advance() {
            break;
        }
    }
    println!("{what}: {orders} orders");
    assert!(orders > 5, "{what}: they hardly met");
}

/// The stories of a race.
fn story(number: u64, nth: u64) -> Story {
    Story::plain(number * 10 + nth)
}

/// A claim of a store's own.
fn claim(place: u64, number: u64, limit: usize, lasts: Nanos) -> Claim {
    let id = ClaimId { writer: place, counter: number * 2 };
    Claim { id, limit, lasts, ..story(number, place).claim(limit) }
}

fn of(place: u64, commit: Commit) -> Request {
    let id = CommitId { writer: place, ..commit.id };
    Request::Commit(Commit { id, ..commit })
}

/// So many stories, each with a task that is claimed for so long by store 0.
async fn claimed(world: &mut World, number: u64, stories: u64, lasts: Nanos) -> Vec<ClaimedTask> {
    for nth in 0..stories {
        world.ask(0, Request::Create(story(number, nth).create())).await;
    }
    let mut tasks = world.claim(0, claim(0, number, stories as usize, lasts)).await.tasks;
    tasks.sort_by_key(|task| (0..stories).find(|nth| story(number, *nth).run() == task.run));
    tasks
}

/// A story whose attempt is in progress at store 0, and its token.
async fn begun(world: &mut World, number: u64) -> Token {
    let [task] = &claimed(world, number, 1, LONG).await[..] else { panic!() };
    world.ask(0, of(0, story(number, 0).start(task))).await;
    task.token
}

/// Its start, with a lease that lasts so long.
fn start_for(number: u64, task: &ClaimedTask, lasts: Nanos) -> Commit {
    let start = story(number, 0).start(task);
    let lease = start.queue.iter().cloned().map(|change| match change {
        QueueChange::Lease { task, attempt, token, timeout, heartbeat, .. } => {
            QueueChange::Lease { task, attempt, token, lasts, timeout, heartbeat }
        }
        other => other,
    });
    Commit { queue: lease.collect(), ..start }
}

/// The start of a story's attempt, which an action that makes one attempt at once must admit.
fn admitted(number: u64, nth: u64, task: &ClaimedTask) -> Commit {
    let attempt = Holder { run: task.run, task: task.task, token: task.token };
    let inputs = vec![GuardInput::Admit { attempt, first: true, tokens: 0 }];
    Commit { guards: vec![guarding(inputs)], ..story(number, nth).start(task) }
}

fn guarding(inputs: Vec<GuardInput<Holder>>) -> Guarding {
    let rules = GuardRules { concurrency: NonZeroU32::new(1), ..GuardRules::default() };
    Guarding { action: "one at once".to_owned(), rules: Arc::new(rules), inputs }
}

/// A run that has ended with a letter.
async fn ended_with_a_letter(world: &mut World, number: u64) -> LetterId {
    let token = begun(world, number).await;
    let rich = Story::rich(number * 10).end(token);
    let (guards, creates, phase) = (vec![], vec![], RunPhase::Failed);
    let end = Commit { guards, creates, phase, snapshot: None, ..rich };
    let task = end.letters[0].task;
    world.ask(0, of(0, end)).await;
    LetterId { run: story(number, 0).run(), task }
}

fn redrive(number: u64, nth: u64, letter: LetterId) -> Request {
    Request::Create(Create { key: None, redrives: Some(letter), ..story(number, nth).create() })
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_races_for_tasks_in_every_order() {
    let world = &mut World::of(2).await;
    let in_time = How { in_time: true, ..How::default() };
    let unheard = How { unheard: true, ..How::default() };
    race(world, "two claims of the same tasks", async |world, number| {
        for nth in 0..2 {
            world.ask(0, Request::Create(story(number, nth).create())).await;
        }
        [claim(0, number, 1, LONG), claim(1, number, 2, LONG)].map(Request::Claim)
    })
    .await;
    race_so(
        in_time,
        world,
        "a start whose claim runs out, and another's claim",
        async |world, number| {
            let task = &claimed(world, number, 1, SHORT).await[0];
            let start = of(0, story(number, 0).start(task));
            [start, Request::Claim(claim(1, number, 1, LONG))]
        },
    )
    .await;
    race_so(
        unheard,
        world,
        "a claim that nobody hears the answer to, and another's",
        async |world, number| {
            for nth in 0..3 {
                world.ask(0, Request::Create(story(number, nth).create())).await;
            }
            // Its writer has claimed before.
            let id = ClaimId { writer: 0, counter: number * 2 - 1 };
            world.claim(0, Claim { id, ..claim(0, number, 1, LONG) }).await;
            [claim(0, number, 2, LONG), claim(1, number, 2, LONG)].map(Request::Claim)
        },
    )
    .await;
    race(world, "two claims, and each writer's last is over", async |world, number| {
        for nth in 0..2 {
            world.ask(0, Request::Create(story(number, nth).create())).await;
        }
        for place in 0..2 {
            let id = ClaimId { writer: place, counter: number * 2 - 1 };
            let last = Claim { id, ..claim(place, number, 1, SHORT) };
            world.claim(place as usize, last).await;
        }
        world.turn(SHORT.get()).await;
        [claim(0, number, 2, LONG), claim(1, number, 2, LONG)].map(Request::Claim)
    })
    .await;
    race(world, "a start and its run's end", async |world, number| {
        let task = &claimed(world, number, 1, LONG).await[0];
        let end =
            Commit { phase: RunPhase::Cancelled, expect: Version(2), ..story(number, 0).rival() };
        [of(0, story(number, 0).start(task)), of(1, end)]
    })
    .await;
    race_so(
        in_time,
        world,
        "a renewal of a lease that runs out, and its end",
        async |world, number| {
            let task = &claimed(world, number, 1, LONG).await[0];
            world.ask(0, of(0, start_for(number, task, SHORT))).await;
            let ClaimedTask { run, task, token, .. } = *task;
            let renewal = Holding { run, task, token, lasts: LONG, heartbeat: None };
            let lapsed = Commit {
                fences: vec![Fence::Lapsed { task, token }],
                queue: vec![QueueChange::Remove { task }],
                ..story(number, 0).rival()
            };
            [Request::Renew(vec![renewal]), of(1, lapsed)]
        },
    )
    .await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_races_of_commits_in_every_order() {
    let world = &mut World::of(2).await;
    race(world, "two commits at the same place", async |world, number| {
        let token = begun(world, number).await;
        [of(0, story(number, 0).end(token)), of(1, story(number, 0).rival())]
    })
    .await;
    race(world, "a commit and a load", async |world, number| {
        let token = begun(world, number).await;
        let end = Commit { guards: vec![], ..Story::rich(number * 10).end(token) };
        let load = Request::Load { run: story(number, 0).run(), after: Some(Version::START) };
        [of(0, end), load]
    })
    .await;
    race(world, "two starts of an action with one place", async |world, number| {
        let tasks = claimed(world, number, 2, LONG).await;
        [0, 1].map(|nth| of(nth, admitted(number, nth, &tasks[nth as usize])))
    })
    .await;
    race(world, "a start, and the end that frees its place", async |world, number| {
        let tasks = claimed(world, number, 2, LONG).await;
        world.ask(0, of(0, admitted(number, 0, &tasks[0]))).await;
        let ClaimedTask { run, task, token, .. } = tasks[0];
        let attempt = Holder { run, task, token };
        let ended = vec![GuardInput::Ended { attempt, how: Ended::Well, refill: 0 }];
        let guards = vec![guarding(ended)];
        let end = Commit { guards, ..story(number, 0).end(token) };
        [of(0, end), of(1, admitted(number, 1, &tasks[1]))]
    })
    .await;
}

#[tokio::test]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_races_of_runs_and_letters_in_every_order() {
    let world = &mut World::of(2).await;
    race(world, "two submissions with one key", async |_, number| {
        let first = story(number, 0).create();
        let second = Create { run: story(number, 1).run(), ..first.clone() };
        [first, second].map(Request::Create)
    })
    .await;
    race(world, "two redrives of one letter", async |world, number| {
        let letter = ended_with_a_letter(world, number).await;
        [redrive(number, 1, letter), redrive(number, 2, letter)]
    })
    .await;
    race(world, "a redrive and a discard", async |world, number| {
        let id = ended_with_a_letter(world, number).await;
        [redrive(number, 1, id), Request::Discard { id, reason: "nobody wants it".into() }]
    })
    .await;
    race(world, "a redrive, and its run's removal", async |world, number| {
        let letter = ended_with_a_letter(world, number).await;
        let (archived_only, with_letters) = (false, true);
        let prune =
            Prune { after: None, limit: 9, older_than: Nanos::ZERO, archived_only, with_letters };
        [redrive(number, 1, letter), Request::Prune(prune)]
    })
    .await;
    let define = |number: u64, text: &str| Definition {
        name: format!("flow {number}"),
        format: "ir".into(),
        text: text.to_owned().into(),
    };
    race(world, "two definitions of a new name", async |_, number| {
        ["one", "another"].map(|text| Request::Define(define(number, text)))
    })
    .await;
    race(world, "two definitions of a known name", async |world, number| {
        world.ask(0, Request::Define(define(number, "the first"))).await;
        ["one", "another"].map(|text| Request::Define(define(number, text)))
    })
    .await;
}
