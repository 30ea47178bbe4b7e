//! Orders to an engine of the older release.

use std::sync::Arc;

use older::engine::{
    CommandError, DeadLetter, Engine, EventsError, Handle, Retention, Submission, SubmitError,
};
use older::run::RunState;
use older::store::{AskLetters, LetterFilter};
use older::time::Nanos;
use retrial_sim::unstable::evidence::Told;
use retrial_sim::unstable::retrial::engine as newer;
use retrial_sim::unstable::retrial::run::Version;
use retrial_sim::unstable::retrial::store::StoreError;
use retrial_sim::unstable::world::{Boxed, Listener, Order, Orders};

use crate::{World, across};

pub(crate) struct Running(pub(crate) Engine<World>);

impl Orders for Running {
    fn serve(&self, order: Order) -> Boxed<'_, ()> {
        Box::pin(serve(&self.0, order))
    }
}

async fn serve(engine: &Engine<World>, order: Order) {
    // The caller may be gone by then.
    match order {
        Order::Submit(asked, reply) => {
            let submitted = engine.submit(submission(&asked)).await;
            let _ = reply.send(submitted.map(|s| across(&s.run)).map_err(refusal));
        }
        Order::Cancel(run, reply) => {
            let done = engine.cancel(across(&run), "called off by its user").await;
            let _ = reply.send(done.map_err(error));
        }
        Order::Rollback(run, reply) => {
            let done = engine.rollback(across(&run), "rolled back by its user").await;
            let _ = reply.send(done.map_err(error));
        }
        Order::Deactivate(run, reply) => {
            let _ = engine.deactivate(across(&run)).await;
            let _ = reply.send(());
        }
        Order::Activate(run, reply) => {
            let _ = engine.activate(across(&run)).await;
            let _ = reply.send(());
        }
        Order::Pause(run, reply) => {
            let _ = engine.pause(across(&run), "somebody looks at it").await;
            let _ = reply.send(());
        }
        Order::Resume(run, reply) => {
            let _ = engine.resume(across(&run)).await;
            let _ = reply.send(());
        }
        Order::Fail(run, step, item, reply) => {
            let done = engine.fail(across(&run), &step, item, "somebody gave it up").await;
            let _ = reply.send(done.map_err(error));
        }
        Order::Release(run, reply) => {
            let done = engine.release(across(&run), None, None, "somebody looked at it").await;
            let _ = reply.send(done.map_err(error));
        }
        Order::Archive(run, reply) => {
            let _ = reply.send(engine.archive(across(&run)).await.map_err(error));
        }
        Order::Letters(reply) => {
            let filter = LetterFilter::default();
            let ask = AskLetters { after: None, limit: 10_000, filter };
            let page = engine.letters(ask).await;
            let _ = reply.send(page.map(|page| across(&page)).map_err(error));
        }
        Order::Letter(id, reply) => {
            let letter = engine.letter(across(&id)).await;
            let _ = reply.send(letter.map(|letter| read(&letter)).map_err(error));
        }
        Order::Redrive(id, reply) => {
            let redriven = engine.redrive(across(&id)).await;
            let _ = reply.send(redriven.map(|new| across(&new.run)).map_err(refusal));
        }
        Order::Discard(id, reply) => {
            let _ = reply.send(engine.discard(across(&id), "nobody wants it").await.map_err(error));
        }
        Order::Prune(retention, reply) => {
            let gone = engine.prune(kept(retention)).await;
            let _ = reply.send(gone.map(|runs| across(&runs)).map_err(error));
        }
        Order::Follow(run, from, listener) => {
            let _ = follow(engine.handle(across(&run)), from, &listener).await;
        }
        Order::Shutdown(reply) => {
            engine.clone().shutdown().await;
            let _ = reply.send(());
        }
    }
}

/// Tells what there is to tell, while somebody listens.
async fn follow(run: Handle<World>, from: Option<Version>, listener: &Listener) -> Option<()> {
    let Some(Version(from)) = from else {
        let outcome = run.outcome().await.map(|ended| Told::Outcome(across(&ended.outcome)));
        return listener.tell(outcome.unwrap_or_else(|e| Told::Refused(e.to_string()))).await;
    };
    // 0.1.0 waits for ever for what follows the end.
    let state = run.state().await;
    let is_past_the_end = |s: &RunState| s.outcome().is_some() && from >= s.version().0;
    if state.as_ref().is_ok_and(is_past_the_end) {
        return listener.tell(Told::Over).await;
    }
    let mut events = run.events_from(older::run::Version(from));
    while let Some(next) = events.next().await {
        let told = match next {
            Ok(happened) => Told::Event(Version(happened.number.0), across(&happened.recorded)),
            Err(EventsError::Compacted { from, to }) => {
                Told::Compacted(Version(from.0), Version(to.0))
            }
            Err(EventsError::Run(error)) => {
                return listener.tell(Told::Refused(error.to_string())).await;
            }
        };
        listener.tell(told).await?;
    }
    listener.tell(Told::Over).await
}

fn submission(asked: &newer::Submission) -> Submission {
    Submission {
        workflow: Arc::new(across(&*asked.workflow)),
        input: asked.input.clone(),
        key: asked.key.clone(),
        id: asked.id.map(|(run, seed)| (across(&run), seed)),
        redrives: asked.redrives.map(|letter| across(&letter)),
        require_actions: asked.require_actions,
    }
}

fn kept(retention: newer::Retention) -> Retention {
    let newer::Retention { older_than, archived_only, with_letters } = retention;
    Retention { older_than: Nanos::new(older_than.get()), archived_only, with_letters }
}

fn read(letter: &DeadLetter) -> newer::DeadLetter {
    newer::DeadLetter { head: across(&letter.head), letter: across(&letter.letter) }
}

fn error(error: CommandError) -> newer::CommandError {
    use newer::CommandError as Newer;
    match error {
        CommandError::UnknownRun(run) => Newer::UnknownRun(across(&run)),
        CommandError::Broken(why) => Newer::Broken(why),
        CommandError::UnknownStep { run, step } => Newer::UnknownStep { run: across(&run), step },
        CommandError::NothingWaits { run, step } => Newer::NothingWaits { run: across(&run), step },
        CommandError::NothingHeld(run) => Newer::NothingHeld(across(&run)),
        CommandError::NotAtRest(run) => Newer::NotAtRest(across(&run)),
        CommandError::UnknownLetter(letter) => Newer::UnknownLetter(across(&letter)),
        CommandError::AlreadyRedriven { letter, run } => {
            Newer::AlreadyRedriven { letter: across(&letter), run: across(&run) }
        }
        CommandError::Closing => Newer::Closing,
    }
}

fn refusal(error: SubmitError) -> newer::SubmitError {
    use newer::SubmitError as Newer;
    match error {
        SubmitError::KeyConflict { key, run } => Newer::KeyConflict { key, run: across(&run) },
        SubmitError::UnknownFunction { step, name } => Newer::UnknownFunction { step, name },
        SubmitError::BadInput(why) => Newer::BadInput(why),
        SubmitError::InputTooLarge { size, most } => Newer::InputTooLarge { size, most },
        SubmitError::TooDeep { depth, most } => Newer::TooDeep { depth, most },
        SubmitError::AlreadyRedriven { letter, run } => {
            Newer::AlreadyRedriven { letter: across(&letter), run: across(&run) }
        }
        SubmitError::LetterDiscarded(letter) => Newer::LetterDiscarded(across(&letter)),
        SubmitError::UnknownLetter(letter) => Newer::UnknownLetter(across(&letter)),
        SubmitError::Closing => Newer::Closing,
        SubmitError::Broken(why) => Newer::Broken(across(&why)),
        // No simulated user tells these apart from other refusals.
        SubmitError::MissingAction { .. } | SubmitError::NotRedrivable { .. } => {
            Newer::Broken(StoreError::NotDone(error.to_string()))
        }
    }
}
