//! The trait that every store implements, and its requests and answers as data.

use std::future::Future;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::definitions::{Defined, Definition, StoredDefinition};
use super::super::letters::{AskLetters, Discarded, Letters, StoredLetter};
use super::super::listing::{AskRuns, Heads, Listed, RunCursor, Stranded, Tally};
use super::super::reports::{Report, StoredReport};
use super::super::retention::{Archived, Prune, Pruned};
use super::{
    Claim, Claimed, Commit, Committed, Create, Created, Expired, GuardRow, Holding, LeasedTask,
    Loaded, QueueRow, Renewed, StoreError,
};
use crate::run::{LetterId, RunId, TaskId, Version};
use crate::time::Timestamp;

/// Defines [`Request`], [`Answer`] and [`Store`] from one table. A row names the method, then its
/// request with the arguments, then what the answer carries.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $method:ident: $name:ident $(($only:ident: $of:ty))? $({ $($field:ident: $type:ty),* })?
            => ($($answer:ident: $carries:ty)?);
    )*) => {
        /// A call of one of [`Store`]'s methods, as data.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(missing_docs, reason = "the fields are the method's arguments")]
        pub enum Request {
            $($(#[$doc])* $name $(($of))? $({ $($field: $type),* })?,)*
        }

        /// The answer to a [`Request`], under the same name.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Answer {
            $(#[doc = concat!("What [`Store::", stringify!($method), "`] returns.")]
            $name $(($carries))?,)*
        }

        /// Durable state. Callers use the named methods. An implementation answers [`Store::ask`],
        /// to which all of them lead, and overrides none of them.
        ///
        /// A request may be sent again after [`StoreError::Unknown`] and then has the same effect
        /// once.
        pub trait Store: Send + Sync + 'static {
            /// Answers a request with the `Answer` of the same name.
            ///
            /// # Errors
            /// See [`StoreError`]: it says whether the request may have had an effect.
            fn ask(
                &self,
                request: Request,
            ) -> impl Future<Output = Result<Answer, StoreError>> + Send;

            /// Ends when another process may have made something due. This is a hint: it may be
            /// false, late or missing, so a caller that waits for it also asks now and then. By
            /// default it never ends. A store over another store passes that one's hints on.
            fn news(&self) -> impl Future<Output = ()> + Send {
                std::future::pending()
            }

            $($(#[$doc])*
            ///
            /// # Errors
            /// As [`Store::ask`].
            #[allow(unused_parens, reason = "they are the unit where the answer carries nothing")]
            fn $method(
                &self,
                $($only: $of)? $($($field: $type),*)?
            ) -> impl Future<Output = Result<($($carries)?), StoreError>> + Send {
                async move {
                    match self.ask(Request::$name $(($only))? $({ $($field),* })?).await? {
                        Answer::$name $(($answer))? => Ok(($($answer)?)),
                        _ => Err(another_answer(stringify!($method))),
                    }
                }
            })*
        }
    };
}

requests! {
    /// The store's time.
    clock: Clock => (at: Timestamp);

    /// Adds a run. Idempotent on the caller's run id and, if given, on the submission key.
    create: Create(create: Create) => (created: Created);

    /// Reserves due tasks that the claimer can run, earliest first. It uses up no attempt: if no
    /// commit of `AttemptStarted` follows, the reservation lapses and the task is due again.
    claim: Claim(claim: Claim) => (claimed: Claimed);

    /// Records what happened to one run, all or nothing.
    commit: Commit(commit: Commit) => (committed: Committed);

    /// Extends leases that their holders still hold, and keeps the progress that heartbeats brought.
    renew: Renew(held: Vec<Holding>) => (renewed: Renewed);

    /// Leases whose end, or whose attempt's deadline, has passed; earliest first. Changes nothing.
    expired: Expired { limit: usize } => (expired: Expired);

    /// The leased tasks of active runs by run and task, from the one after `after`. For recovery.
    leases: Leases { after: Option<(RunId, TaskId)>, limit: usize } => (leases: Vec<LeasedTask>);

    /// A run's newest snapshot and the events after it. With `after`, only the events after that
    /// version; if those were trimmed, the snapshot after all.
    load: Load { run: RunId, after: Option<Version> } => (loaded: Option<Loaded>);

    /// Runs in the order of their ids, from the one after `after`.
    heads: Heads { after: Option<RunId>, limit: usize } => (heads: Heads);

    /// Active runs that no claim finds, since they have no row in the queue, and those that the active
    /// projection lacks; the oldest first, from the one after `after`. Looks at `limit` runs, 0
    /// counts as 1: whether or not any is found, the answer says where to go on. For recovery.
    stranded: Stranded { after: Option<RunCursor>, limit: usize } => (stranded: Stranded);

    /// A run's rows in the queue, by task. For recovery and checks.
    queue: Queue(run: RunId) => (rows: Vec<QueueRow>);

    /// Forgets a run's events below `below`, which must not be above its newest snapshot.
    trim: Trim { run: RunId, below: Version } => ();

    /// Dead letters in the order of their ids.
    letters: Letters(ask: AskLetters) => (letters: Letters);

    /// One dead letter.
    letter: Letter(id: LetterId) => (letter: Option<StoredLetter>);

    /// Marks a waiting dead letter as discarded, for good.
    discard: Discard { id: LetterId, reason: String } => (discarded: Discarded);

    /// Marks a run that has ended or is deactivated as archived: recovery leaves it alone. A commit
    /// that makes the run active again removes the mark.
    archive: Archive(run: RunId) => (archived: Archived);

    /// Removes all records of runs that ended long ago. Looks at a bounded number of runs.
    prune: Prune(prune: Prune) => (pruned: Pruned);

    /// A page of runs, the newest first.
    list: List(ask: AskRuns) => (listed: Listed);

    /// How many runs there are.
    tally: Tally => (tally: Tally);

    /// Every action's guards, by the action's name. For display.
    guards: Guards => (rows: Vec<GuardRow>);

    /// Stores a workflow definition under its name, in place of the one before it.
    define: Define(definition: Definition) => (defined: Defined);

    /// The newest definition of a name.
    definition: Definition(name: String) => (stored: Option<StoredDefinition>);

    /// Definitions in the order of their names, from the one after `after`.
    definitions: Definitions { after: Option<String>, limit: usize }
        => (page: Vec<StoredDefinition>);

    /// Stores what a node reports of itself, in place of its last report.
    report: Report(report: Report) => ();

    /// What nodes reported last, by the node's name. A damaged report is left out.
    reports: Reports => (reports: Vec<StoredReport>);
}

/// The request reached something that did not understand it, so it may have had any effect.
fn another_answer(method: &str) -> StoreError {
    StoreError::Unknown(format!("the store answered another request than `{method}`"))
}

/// A shared store is a store.
impl<S: Store> Store for Arc<S> {
    fn ask(&self, request: Request) -> impl Future<Output = Result<Answer, StoreError>> + Send {
        (**self).ask(request)
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        (**self).news()
    }
}
