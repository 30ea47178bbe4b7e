//! One run's story through the seam, told to several stores: it touches everything that a commit
//! can touch, and its bytes follow from a number.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use retrial::guard::{Breaker, Ended, GuardInput, GuardRules};
use retrial::run::{Digest, RunId, TaskId, Token, Version};
use retrial::store::{
    Claim, ClaimId, ClaimedTask, Commit, CommitId, Committed, Create, Created, Fence, Guarding,
    Holder, LetterRow, QueueChange, ResultRow, RunPhase, Store,
};
use retrial::time::Nanos;
use retrial::workflow::{Able, Need, StepIx, Via};

use crate::postgres_faults::patience::{patient, together};

/// Never over while a test runs.
pub(crate) const LONG: Nanos = Nanos::from_secs(100_000);

/// The story with this number. However large that is, the story's bytes are as many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Story {
    pub(crate) number: u64,
    is_rich: bool,
}

fn task(item: u32) -> TaskId {
    TaskId { step: StepIx(1), item }
}

fn due(item: u32, after: Nanos) -> QueueChange {
    let need = Need { action: "act".into(), via: Via::Function };
    QueueChange::Due { task: task(item), attempt: 1, after, need, progress: None }
}

impl Story {
    /// Its end changes all that a commit can change.
    pub(crate) fn rich(number: u64) -> Self {
        Self { number, is_rich: true }
    }

    /// Its end is that of any task that has succeeded.
    pub(crate) fn plain(number: u64) -> Self {
        Self { number, is_rich: false }
    }

    pub(crate) fn run(self) -> RunId {
        RunId::from_random(1, self.number)
    }

    /// The run that the commit under test adds.
    pub(crate) fn child(self) -> RunId {
        RunId::from_random(2, self.number)
    }

    fn events(self, from: u64, many: u64) -> Vec<Bytes> {
        (from..from + many).map(|n| format!("event {n} of {:09}", self.number).into()).collect()
    }

    /// Two events, one task that is due and one that waits.
    pub(crate) fn create(self) -> Create {
        Create {
            run: self.run(),
            key: Some(format!("key {:09}", self.number)),
            digest: Digest::of(&self.number.to_be_bytes()),
            id: Default::default(),
            workflow: "story".into(),
            events: self.events(0, 2),
            queue: vec![due(0, Nanos::ZERO), due(1, LONG)],
            phase: RunPhase::Running,
            redrives: None,
            fields: Default::default(),
        }
    }

    /// Claims the first task of so many stories.
    pub(crate) fn claim(self, limit: usize) -> Claim {
        let id = ClaimId { writer: 7, counter: self.number };
        Claim {
            id,
            limit,
            lasts: LONG,
            chance: self.number,
            able: Arc::new(Able::Anything),
            full: [].into(),
        }
    }

    fn commit(self, place: u64, expect: u64, events: u64) -> Commit {
        Commit {
            id: CommitId { writer: 7, counter: self.number * 10 + place },
            run: self.run(),
            expect: Version(expect),
            fences: vec![],
            events: self.events(expect, events),
            queue: vec![],
            results: vec![],
            letters: vec![],
            phase: RunPhase::Running,
            snapshot: None,
            guards: vec![],
            raised: vec![],
            creates: vec![],
        }
    }

    fn guard(self, inputs: Vec<GuardInput<Holder>>) -> Vec<Guarding> {
        if !self.is_rich {
            return vec![];
        }
        let twice = NonZeroU32::new(2);
        let breaker = Breaker::new(twice, None, LONG, NonZeroU32::MIN).unwrap();
        let rules = Arc::new(GuardRules { breaker: Some(breaker), ..GuardRules::default() });
        vec![Guarding { action: format!("act {:09}", self.number), rules, inputs }]
    }

    fn attempt(self, token: Token) -> Holder {
        Holder { run: self.run(), task: task(0), token }
    }

    /// The attempt of the task that was claimed starts.
    pub(crate) fn start(self, claimed: &ClaimedTask) -> Commit {
        let (token, lasts) = (claimed.token, LONG);
        let (timeout, heartbeat) = (None, None);
        let lease =
            QueueChange::Lease { task: task(0), attempt: 1, token, lasts, timeout, heartbeat };
        let admit = GuardInput::Admit { attempt: self.attempt(token), first: true, tokens: 0 };
        Commit {
            fences: vec![Fence::Held { task: task(0), token }],
            queue: vec![lease],
            guards: self.guard(vec![admit]),
            ..self.commit(1, 2, 1)
        }
    }

    /// The commit under test: the attempt ends.
    pub(crate) fn end(self, token: Token) -> Commit {
        let result = format!("\"{:09}\"", self.number).into();
        let plain = Commit {
            fences: vec![Fence::Held { task: task(0), token }],
            queue: vec![QueueChange::Remove { task: task(0) }],
            results: vec![ResultRow { task: task(0), attempt: 1, result }],
            ..self.commit(2, 3, 2)
        };
        if self.is_rich { self.enriched(plain, token) } else { plain }
    }

    fn enriched(self, plain: Commit, token: Token) -> Commit {
        let (how, attempt) = (Ended::Badly, self.attempt(token));
        let letter = LetterRow {
            task: task(1),
            action: "act".into(),
            code: "503".into(),
            message: "no".into(),
            body: format!("letter of {:09}", self.number).into(),
        };
        let queue = vec![due(0, LONG)];
        let create = Create { run: self.child(), key: None, queue, ..self.create() };
        let more = [due(2, LONG), QueueChange::Remove { task: task(1) }];
        Commit {
            queue: plain.queue.into_iter().chain(more).collect(),
            letters: vec![letter],
            snapshot: Some(format!("state of {:09}", self.number).into()),
            guards: self.guard(vec![GuardInput::Ended { attempt, how, refill: 0 }]),
            creates: vec![create],
            ..plain
        }
    }

    /// What another writer would do at the same place.
    pub(crate) fn rival(self) -> Commit {
        let id = CommitId { writer: 8, counter: self.number };
        Commit { id, ..self.commit(0, 3, 1) }
    }

    /// Another attempt wants to start; the breaker opens with the second failure in a row.
    pub(crate) fn admit_again(self, nth: u64, expect: u64) -> Commit {
        let attempt = self.attempt(Token::from_random(nth, self.number));
        let admit = GuardInput::Admit { attempt, first: true, tokens: 0 };
        Commit { guards: self.guard(vec![admit]), ..self.commit(2 + nth, expect, 1) }
    }

    /// It ends as the first did.
    pub(crate) fn end_again(self, nth: u64, expect: u64) -> Commit {
        let attempt = self.attempt(Token::from_random(nth - 1, self.number));
        let ended = GuardInput::Ended { attempt, how: Ended::Badly, refill: 0 };
        Commit { guards: self.guard(vec![ended]), ..self.commit(2 + nth, expect, 1) }
    }
}

/// Tells stories up to their ends, and gives the tokens of the attempts that are in progress then.
pub(crate) async fn begin(store: &impl Store, stories: &[Story]) -> Vec<Token> {
    let create = async |story: &Story| {
        let created = patient(|| store.create(story.create())).await;
        assert!(matches!(created, Created::New { .. }), "{created:?}");
    };
    together(stories.iter().map(create)).await;
    let claimed = patient(|| store.claim(stories[0].claim(stories.len()))).await.tasks;
    let start = async |story: &Story| {
        let task = claimed.iter().find(|task| task.run == story.run()).unwrap();
        let started = patient(|| store.commit(story.start(task))).await;
        let done = matches!(started, Committed::Applied { .. } | Committed::Already { .. });
        assert!(done, "{started:?}");
        task.token
    };
    together(stories.iter().map(start)).await
}
