//! What is asked: small worlds, so that ids, tokens and versions meet again and again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use retrial::guard::{Breaker, Ended, ErrorBudget, GuardInput, GuardRules, Pace};
use retrial::policy::Share;
use retrial::run::{Digest, LetterId, Progress, RunId, TaskId, Token, Version};
use retrial::store::{
    Answer, AskLetters, AskRuns, Claim, ClaimId, Commit, CommitId, Committed, Create, Created,
    Definition, Fence, Guarding, Heartbeat, Holder, Holding, LetterFilter, LetterRow, Prune,
    QueueChange, Report, Request, ResultRow, RunCursor, RunFilter, RunHead, RunPhase, Store,
    StoreError,
};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{Able, Need, StepIx, Via};

const RUNS: u64 = 3;
const TASKS: u64 = 3;
const WRITERS: u64 = 2;

/// What a store answered, errors by their kind: their words are the store's own.
pub(crate) type Answered = Result<Answer, Refused>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refused {
    NotDone,
    Broken,
}

pub(crate) async fn ask(store: &impl Store, request: Request) -> Answered {
    store.ask(request).await.map_err(|error| match error {
        StoreError::NotDone(_) => Refused::NotDone,
        StoreError::Broken(_) => Refused::Broken,
        StoreError::Unknown(why) => panic!("nothing fails here: {why}"),
    })
}

/// Without the time of the answer.
pub(crate) fn untimed(mut answered: Answered) -> Answered {
    match &mut answered {
        Ok(Answer::Load(Some(loaded))) => loaded.at = Timestamp::default(),
        Ok(Answer::Heads(heads)) => heads.at = Timestamp::default(),
        Ok(Answer::Letters(letters)) => letters.at = Timestamp::default(),
        Ok(Answer::List(listed)) => listed.at = Timestamp::default(),
        Ok(Answer::Tally(tally)) => tally.at = Timestamp::default(),
        _ => {}
    }
    answered
}

/// One step: time goes on by `turn` microseconds, then something is asked that `dice` choose.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) turn: u64,
    kind: u8,
    dice: [u64; 12],
}

impl Op {
    pub(crate) fn any() -> impl Strategy<Value = Self> {
        let turn = prop_oneof![Just(0), 1..10_u64, 10..60_u64];
        let dice = prop::array::uniform12(0..1_000_000_u64);
        (turn, 0..30_u8, dice).prop_map(|(turn, kind, dice)| Self { turn, kind, dice })
    }

    /// One of the same, from numbers. No claim that it asks repeats an older one.
    pub(crate) fn drawn(mut draw: impl FnMut(u64) -> u64) -> Self {
        let (turn, kind) = ([0, draw(10), draw(60)][draw(3) as usize], draw(30) as u8);
        let mut dice = std::array::from_fn(|_| draw(1_000_000));
        if matches!(kind, 2..=6) {
            dice[0] |= 1;
        }
        Self { turn, kind, dice }
    }
}

/// What was asked and seen so far, from which the next question is made.
#[derive(Default)]
pub(crate) struct Script {
    asked: u64,
    versions: [u64; RUNS as usize],
    tokens: Vec<(RunId, TaskId, Token)>,
    commits: Vec<Commit>,
    claims: Vec<Claim>,
    creates: Vec<Create>,
    letters: Vec<LetterId>,
    cursors: Vec<RunCursor>,
    /// Left an alert unraised, which it raises now.
    untold: Option<Commit>,
}

fn run(n: u64) -> RunId {
    RunId::from_random(0, n % RUNS)
}

fn place_of(named: RunId) -> usize {
    (0..RUNS).position(|n| run(n) == named).unwrap()
}

fn name(n: u64) -> String {
    ["a", "b", "ab"][n as usize % 3].to_owned()
}

/// None, one or two; PostgreSQL's text can't contain every character.
fn fields(n: u64) -> BTreeMap<String, String> {
    let values = ["ada", "a\0\u{1}", "ada = \"1\"", ""];
    let field = |(name, n): (&str, u64)| {
        (n % 3 > 0).then(|| (name.to_owned(), values[n as usize / 3 % 4].to_owned()))
    };
    [("customer", n), ("order.id", n / 12)].into_iter().filter_map(field).collect()
}

fn task(n: u64) -> TaskId {
    TaskId { step: StepIx(0), item: (n % TASKS) as u32 }
}

fn need(n: u64) -> Need {
    let via = if n.is_multiple_of(5) { Via::Http } else { Via::Function };
    Need { action: ["a", "b"][(n % 2) as usize].into(), via }
}

fn able(n: u64) -> Arc<Able> {
    let functions = ["a", "b"].into_iter().take((n % 3) as usize).map(Into::into).collect();
    let only = Able::Only { http: n.is_multiple_of(2), functions };
    Arc::new(if n.is_multiple_of(7) { Able::Anything } else { only })
}

fn again<T: Clone>(given: &[T], dice: u64) -> Option<T> {
    // One question in four repeats an older one.
    (dice.is_multiple_of(4) && !given.is_empty())
        .then(|| given[(dice / 4) as usize % given.len()].clone())
}

impl Script {
    pub(crate) fn call(&mut self, op: Op) -> Request {
        self.asked += 1;
        let mut d = op.dice;
        if self.asked < RUNS {
            d[0] = self.asked * 4 + 1;
            return Request::Create(self.create(d));
        }
        match op.kind {
            0..=1 => Request::Create(again(&self.creates, d[0]).unwrap_or_else(|| self.create(d))),
            2..=6 => Request::Claim(again(&self.claims, d[0]).unwrap_or_else(|| self.claim(d))),
            7..=13 if self.untold.is_some() && !d[0].is_multiple_of(4) => {
                let id = CommitId { writer: d[4] % WRITERS, counter: self.asked };
                Request::Commit(Commit { id, ..self.untold.take().unwrap() })
            }
            7..=13 => Request::Commit(again(&self.commits, d[0]).unwrap_or_else(|| self.commit(d))),
            14..=15 => Request::Renew(vec![self.holding(d), self.holding([d[7]; 12])]),
            16 if d[1].is_multiple_of(2) => {
                let after = (!d[2].is_multiple_of(3)).then(|| (run(d[2]), task(d[3])));
                Request::Leases { after, limit: d[0] as usize % 4 }
            }
            16 => Request::Expired { limit: d[0] as usize % 4 },
            17 => Request::Load { run: run(d[0]), after: self.some_version(d) },
            18 if d[0].is_multiple_of(2) => {
                let after = (!d[1].is_multiple_of(4)).then(|| run(d[1]));
                match d[3].is_multiple_of(2) {
                    true => Request::Heads { after, limit: d[2] as usize % 4 },
                    // Of all runs: whether those that have ended are looked at is the store's own.
                    false => Request::Stranded { after: self.cursor(d[1]), limit: 9 },
                }
            }
            18 => Request::Queue(run(d[0])),
            20 => Request::Letters(self.ask_letters(d)),
            21 => Request::Letter(self.letter(d[0])),
            22 => {
                Request::Discard { id: self.letter(d[0]), reason: format!("reason {}", d[1] % 3) }
            }
            23 => Request::Archive(run(d[0])),
            24 => Request::Prune(Self::prune(d)),
            25 | 26 => Request::List(self.ask_runs(d)),
            27 => Request::Tally,
            28 if d[0].is_multiple_of(2) => Request::Define(Self::definition(d)),
            28 if d[0].is_multiple_of(5) => {
                let body = format!("report {}", self.asked).into();
                Request::Report(Report { node: name(d[1]), body })
            }
            28 if d[0].is_multiple_of(3) => Request::Definition(name(d[1])),
            28 => {
                let after = d[1].is_multiple_of(2).then(|| name(d[2]));
                Request::Definitions { after, limit: d[3] as usize % 4 }
            }
            _ => {
                let below = Version(d[1] % (self.versions[(d[0] % RUNS) as usize] + 2));
                Request::Trim { run: run(d[0]), below }
            }
        }
    }

    pub(crate) fn saw(&mut self, request: &Request, answered: &Answered) {
        match request {
            Request::Create(create) => self.creates.push(create.clone()),
            Request::Claim(claim) => self.claims.push(claim.clone()),
            Request::Commit(commit) => self.commits.push(commit.clone()),
            _ => {}
        }
        match (request, answered) {
            (Request::Create(create), Ok(Answer::Create(Created::New { .. }))) => {
                let place = &mut self.versions[place_of(create.run)];
                *place = (*place).max(create.events.len() as u64);
            }
            (Request::Commit(commit), Ok(Answer::Commit(Committed::Applied { version, .. }))) => {
                let place = place_of(commit.run);
                self.versions[place] = version.0;
                for create in &commit.creates {
                    let place = &mut self.versions[place_of(create.run)];
                    *place = (*place).max(create.events.len() as u64);
                }
                let letters = commit.letters.iter();
                self.letters.extend(letters.map(|l| LetterId { run: commit.run, task: l.task }));
            }
            (Request::Commit(commit), Ok(Answer::Commit(Committed::Untold { raised, .. }))) => {
                self.untold = Some(Commit { raised: raised.clone(), ..commit.clone() });
            }
            (_, Ok(Answer::Prune(pruned))) => {
                pruned.runs.iter().for_each(|run| self.versions[place_of(*run)] = 0);
            }
            (_, Ok(Answer::List(listed))) => {
                let at = |h: &RunHead| RunCursor { created: h.created, run: h.run };
                self.cursors.extend(listed.runs.iter().map(at));
            }
            (_, Ok(Answer::Claim(claimed))) => {
                self.tokens.extend(claimed.tasks.iter().map(|t| (t.run, t.task, t.token)));
            }
            _ => {}
        }
    }

    /// Everything durable.
    pub(crate) fn everything() -> impl Iterator<Item = Request> {
        let runs = (0..RUNS).flat_map(|n| {
            let load = |after| Request::Load { run: run(n), after };
            [load(None), load(Some(Version(0))), Request::Queue(run(n))]
        });
        let filter = LetterFilter::default();
        let letters = Request::Letters(AskLetters { after: None, limit: 99, filter });
        let list = AskRuns { before: None, limit: 9, filter: RunFilter::default() };
        runs.chain([Request::Heads { after: None, limit: 9 }, letters, Request::List(list)])
            .chain([Request::Tally, Request::Definitions { after: None, limit: 9 }])
            .chain([Request::Reports])
    }

    fn some_version(&self, d: [u64; 12]) -> Option<Version> {
        let all = self.versions[(d[0] % RUNS) as usize] + 2;
        (!d[1].is_multiple_of(3)).then_some(Version(d[2] % all))
    }

    fn create(&self, d: [u64; 12]) -> Create {
        Create {
            run: run(d[0] / 4),
            key: d[1].is_multiple_of(3).then(|| format!("key {}", d[1] % 2)),
            digest: Digest::of(&[u8::from(d[2].is_multiple_of(5))]),
            id: Default::default(),
            workflow: ["w", "Work"][d[10] as usize % 2].into(),
            events: self.events(d[3] % 3),
            queue: (0..d[4] % 4).map(|n| self.change(d[5].rotate_left(n as u32), n)).collect(),
            phase: RunPhase::Running,
            redrives: d[6].is_multiple_of(3).then(|| self.letter(d[7])),
            fields: fields(d[11]),
        }
    }

    fn claim(&self, d: [u64; 12]) -> Claim {
        Claim {
            id: ClaimId { writer: d[1] % WRITERS, counter: self.asked },
            limit: d[2] as usize % 4,
            lasts: Nanos::new(d[3] % 40 * 1_000 + self.asked),
            chance: d[4],
            able: able(d[5]),
            full: d[6]
                .is_multiple_of(3)
                .then(|| ["a", "b"][d[7] as usize % 2].into())
                .into_iter()
                .collect(),
        }
    }

    fn commit(&self, d: [u64; 12]) -> Commit {
        // Mostly about the run of the token that the fences and leases will name.
        let (claimed, ..) = self.token(d[6]);
        let queue: Vec<_> =
            (0..d[8] % 4).map(|n| self.change(d[9].rotate_left(n as u32), n)).collect();
        let at = if d[1].is_multiple_of(3) { run(d[1] / 3) } else { claimed };
        let place = place_of(at);
        let behind = if d[2].is_multiple_of(6) { d[2] % 4 } else { 0 };
        let phases = [RunPhase::Running, RunPhase::Running, RunPhase::Paused];
        let rests = [RunPhase::Deactivated, RunPhase::Cancelled, RunPhase::Completed];
        let phase = if d[3].is_multiple_of(5) { rests } else { phases };
        Commit {
            id: CommitId { writer: d[4] % WRITERS, counter: self.asked },
            run: at,
            expect: Version(self.versions[place].saturating_sub(behind) + d[2] / 999_000),
            fences: (0..d[5] % 3).filter_map(|n| self.fence(d[6] + n * 3)).collect(),
            events: self.events(d[7] % 4),
            guards: self.guards(at, &queue, d),
            queue,
            results: (0..d[10] % 2).map(|n| self.result(d[10] + n)).collect(),
            phase: phase[(d[3] % 3) as usize],
            snapshot: d[11].is_multiple_of(4).then(|| format!("state {}", self.asked).into()),
            letters: (0..d[0] % 3 / 2).map(|_| self.letter_row(d)).collect(),
            raised: vec![],
            creates: (0..d[1] % 5 / 4).map(|_| self.creation(d)).collect(),
        }
    }

    /// A run that a commit adds: without key or letter.
    fn creation(&self, d: [u64; 12]) -> Create {
        let queue = (0..d[4] % 3).map(|n| self.change(d[5].rotate_left(n as u32), 10 + n));
        let queue = queue.collect();
        Create { run: run(d[2]), key: None, redrives: None, queue, ..self.create(d) }
    }

    /// Starts ask to be admitted, and now and then some attempt is said to have ended.
    fn guards(&self, run: RunId, queue: &[QueueChange], d: [u64; 12]) -> Vec<Guarding> {
        let admit = queue.iter().filter_map(|change| match *change {
            QueueChange::Lease { task, token, .. } => {
                let attempt = Holder { run, task, token };
                Some(GuardInput::Admit { attempt, first: true, tokens: 0 })
            }
            _ => None,
        });
        let hows = [Ended::Well, Ended::Badly, Ended::Badly, Ended::Silently];
        let ended = (0..d[11] % 3).map(|n| {
            let (_, task, token) = self.token(d[11] + n);
            let how = hows[(d[10] + n) as usize % hows.len()];
            GuardInput::Ended { attempt: Holder { run, task, token }, how, refill: 0 }
        });
        let inputs: Vec<_> = ended.chain(admit).collect();
        let of = |action: &str, rules: GuardRules, inputs: &[GuardInput<Holder>]| Guarding {
            action: action.to_owned(),
            rules: Arc::new(rules),
            inputs: inputs.to_vec(),
        };
        let n = NonZeroU32::new;
        let breaker = Breaker::new(n(2), None, Nanos::new(30_000), n(1).unwrap()).ok();
        let rate = Pace::new(n(2).unwrap(), Nanos::new(40_000)).ok();
        let half = Share::from_millionths(500_000).unwrap();
        let window = Nanos::new(40_000);
        let budget = || ErrorBudget::new(half, window, n(1).unwrap(), [600_000, 1_000_000]).ok();
        let strict = || GuardRules {
            breaker,
            concurrency: n(2),
            error_budget: budget(),
            ..GuardRules::default()
        };
        let paced = || GuardRules { rate, ..GuardRules::default() };
        match d[8] / 4 % 4 {
            0 if !inputs.is_empty() => vec![of("strict", strict(), &inputs)],
            1 if !inputs.is_empty() => vec![of("paced", paced(), &inputs)],
            2 if inputs.len() > 1 => {
                let (first, rest) = inputs.split_at(1);
                vec![of("strict", strict(), first), of("paced", paced(), rest)]
            }
            _ => vec![],
        }
    }

    fn events(&self, n: u64) -> Vec<Bytes> {
        (0..n).map(|n| format!("event {} {n}", self.asked).into()).collect()
    }

    fn result(&self, n: u64) -> ResultRow {
        let attempt = (n % 3) as u32;
        ResultRow { task: task(n), attempt, result: format!("result {}", self.asked).into() }
    }

    /// A task fails for good once, so each letter is of another.
    fn letter_row(&self, d: [u64; 12]) -> LetterRow {
        let task = TaskId { step: StepIx(0), item: self.asked as u32 };
        let body = format!("letter {}", self.asked).into();
        let (code, message) = (format!("E{}", d[1] % 2), format!("went wrong {}", self.asked));
        LetterRow { task, action: "a".into(), code, message, body }
    }

    /// Mostly one that was written.
    fn letter(&self, n: u64) -> LetterId {
        let len = self.letters.len() as u64;
        match n.checked_rem(len).filter(|_| !n.is_multiple_of(5)) {
            Some(place) => self.letters[place as usize],
            None => LetterId { run: run(n), task: task(n) },
        }
    }

    fn ask_letters(&self, d: [u64; 12]) -> AskLetters {
        let code = d[1].is_multiple_of(3).then(|| "E1".to_owned());
        let time = |n: u64| self.cursor(n);
        let filter = LetterFilter {
            code,
            waiting: d[2].is_multiple_of(2),
            since: time(d[6]).filter(|_| d[7].is_multiple_of(4)).map(|at| at.created),
            until: time(d[8]).filter(|_| d[9].is_multiple_of(4)).map(|at| at.created),
            ..Default::default()
        };
        let after = d[3].is_multiple_of(2).then(|| self.letter(d[4]));
        AskLetters { after, limit: d[5] as usize % 4, filter }
    }

    /// The place of a run that was listed, or none.
    fn cursor(&self, n: u64) -> Option<RunCursor> {
        self.cursors.get(n as usize % (self.cursors.len() + 1)).copied()
    }

    fn ask_runs(&self, d: [u64; 12]) -> AskRuns {
        let phase = [RunPhase::Running, RunPhase::Failed, RunPhase::Paused][d[0] as usize % 3];
        let texts = ["w", "WORK", "0", "00000000-0000", "x"];
        let time = |n: u64| self.cursor(n).map(|at| at.created);
        let filter = RunFilter {
            phase: d[1].is_multiple_of(3).then_some(phase),
            workflow: d[2].is_multiple_of(5).then(|| "w".to_owned()),
            text: d[3].is_multiple_of(3).then(|| texts[d[4] as usize % 5].to_owned()),
            letters: d[5].is_multiple_of(5),
            key: d[8].is_multiple_of(9).then(|| format!("key {}", d[9] % 3)),
            code: d[8].is_multiple_of(7).then(|| format!("E{}", d[9] % 3)),
            fields: fields(if d[8].is_multiple_of(4) { d[9] } else { 0 }),
            since: time(d[10]).filter(|_| d[8].is_multiple_of(5)),
            until: time(d[11]).filter(|_| d[9].is_multiple_of(5)),
        };
        AskRuns { before: self.cursor(d[6]), limit: d[7] as usize % 4, filter }
    }

    fn definition(d: [u64; 12]) -> Definition {
        let format = ["ir", "toml"][d[2] as usize % 2].to_owned();
        Definition { name: name(d[1]), format, text: format!("text {}", d[3] % 2).into() }
    }

    fn prune(d: [u64; 12]) -> Prune {
        Prune {
            after: d[0].is_multiple_of(4).then(|| run(d[1])),
            limit: d[2] as usize % 4,
            older_than: Nanos::new(d[3] % 50 * 1_000),
            archived_only: d[4].is_multiple_of(2),
            with_letters: d[5].is_multiple_of(2),
        }
    }

    /// Mostly a token that was given, for the task that it was given for.
    fn token(&self, n: u64) -> (RunId, TaskId, Token) {
        match self.tokens.len() as u64 {
            0 => (run(n), task(n), Token::from_random(n, n)),
            // The newest are the likeliest to be good.
            len => self.tokens[(len - 1 - n % 3.min(len)) as usize],
        }
    }

    fn fence(&self, n: u64) -> Option<Fence> {
        let (_, task, token) = self.token(n);
        match n % 5 {
            0..=2 => Some(Fence::Held { task, token }),
            3 => Some(Fence::Lapsed { task, token }),
            _ => None,
        }
    }

    /// Lengths differ by nanoseconds that no other row has.
    fn change(&self, n: u64, place: u64) -> QueueChange {
        let after = Nanos::new(n % 50 * 1_000 + self.asked * 4 % 1_000 + place);
        let attempt = (n % 4) as u32 + 1;
        let (_, claimed, token) = self.token(n);
        match n % 6 {
            0..=2 => {
                let progress = n.is_multiple_of(8).then(|| self.progress(n));
                QueueChange::Due { task: task(n / 6), attempt, after, need: need(n), progress }
            }
            3 | 4 => QueueChange::Lease {
                task: claimed,
                attempt,
                token,
                lasts: after,
                timeout: (!n.is_multiple_of(4))
                    .then_some(Nanos::new(n / 7 % 50 * 1_000 + self.asked)),
                heartbeat: n
                    .is_multiple_of(3)
                    .then_some(Nanos::new(n / 11 % 50 * 1_000 + self.asked)),
            },
            _ => QueueChange::Remove { task: task(n / 6) },
        }
    }

    fn holding(&self, d: [u64; 12]) -> Holding {
        let (claimed, task, token) = self.token(d[0]);
        let run = if d[1].is_multiple_of(5) { run(d[1]) } else { claimed };
        let heartbeat = (!d[3].is_multiple_of(3)).then(|| Heartbeat {
            within: Nanos::new(d[4] % 50 * 1_000 + self.asked),
            progress: d[5].is_multiple_of(2).then(|| self.progress(d[6])),
        });
        let lasts = Nanos::new(d[2] % 50 * 1_000 + self.asked);
        Holding { run, task, token, lasts, heartbeat }
    }

    /// Its text goes with its number, as one task's would.
    fn progress(&self, n: u64) -> Progress {
        let number = self.asked / 2 + n % 3;
        Progress {
            number,
            json: Some(format!("{number}").into()),
            checked: number.is_multiple_of(2),
        }
    }
}
