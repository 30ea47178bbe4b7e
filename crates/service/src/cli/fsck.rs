//! `retrial fsck`: reads everything in a store, and reports the damage.

use std::process::ExitCode;

use retrial::run::{self, RunId, Version};
use retrial::store::{AskLetters, LetterFilter, Loaded, Store, StoreError};
use serde::Serialize;

use super::Lookup;
use super::error::CliError;
use super::output::{print, print_json};
use super::stores;
use super::target;

/// Records asked for at once.
const PAGE: usize = 256;

/// Read everything in a store, and name what is damaged.
///
/// Changes no run. Damaged runs are never worked on; all others go on.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Arguments {
    /// The store's file or postgres://... [default: the one .redb file in .retrial/]
    #[arg(value_name = "STORE")]
    store: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const AFTER: &str = "Exit codes: 0 nothing is damaged, 1 something is, 2 bad input, 3 the store \
can't be opened.";

/// The counts of records that were read.
#[derive(Debug, Default, Serialize)]
struct Found {
    runs: u64,
    letters: u64,
    workflows: u64,
    damaged: Vec<Damage>,
}

#[derive(Debug, Serialize)]
struct Damage {
    /// Which record.
    what: String,
    why: String,
}

pub(super) fn main(arguments: &Arguments, lookup: Lookup) -> Result<ExitCode, CliError> {
    let given = arguments.store.clone().or_else(|| lookup("RETRIAL_STORE"));
    target::block_on(async {
        let found = match given.as_deref().filter(|place| stores::is_database(place)) {
            Some(url) => {
                let store = stores::database(url).await?;
                let found = Found::of(&store).await;
                store.close().await;
                found
            }
            None => {
                let file = stores::file(given.as_deref().map(std::path::Path::new))?;
                let store = stores::in_file(&file).await?;
                let found = Found::of(&store).await;
                store.close().await;
                found
            }
        };
        let found = found.map_err(|error| CliError::store(error.to_string()))?;
        if arguments.json {
            print_json(&serde_json::to_value(&found).unwrap_or_default())?;
        } else {
            print(&found.words())?;
        }
        Ok(ExitCode::from(u8::from(!found.damaged.is_empty())))
    })
}

impl Found {
    async fn of(store: &impl Store) -> Result<Self, StoreError> {
        let mut found = Self::default();
        found.read_runs(store).await?;
        found.read_letters(store).await?;
        found.read_workflows(store).await?;
        found.read_guards(store).await?;
        Ok(found)
    }

    async fn read_runs(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = store.heads(after, PAGE).await?;
            let last = page.runs.last().map(|head| head.run);
            let whole = page.runs.iter().map(|head| (head.run, false));
            let runs = whole.chain(page.damaged.iter().map(|run| (*run, true)));
            for (run, is_damaged) in runs {
                self.runs += 1;
                self.read_run(store, run, is_damaged).await?;
            }
            after = last;
            if page.runs.len() < PAGE {
                return Ok(());
            }
        }
    }

    async fn read_run(
        &mut self,
        store: &impl Store,
        run: RunId,
        is_damaged: bool,
    ) -> Result<(), StoreError> {
        let mut why = None;
        for after in [None, Some(Version::START)] {
            why = why.or(damage(store.load(run, after).await)?.and_then(|read| match read {
                Ok(loaded) => undecoded(loaded),
                Err(why) => Some(why),
            }));
        }
        let unread = || "its record is not what was written".to_owned();
        if let Some(why) = why.or_else(|| is_damaged.then(unread)) {
            self.add(format!("run {run}"), why);
        }
        Ok(())
    }

    async fn read_letters(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let filter = LetterFilter::default();
            let page = store.letters(AskLetters { after, limit: PAGE, filter }).await?;
            let ids = page.letters.iter().map(|head| head.id).chain(page.damaged);
            for id in ids {
                self.letters += 1;
                let read = damage(store.letter(id).await)?;
                let why = match read {
                    Some(Ok(letter)) => {
                        run::decode_letter(&letter.body).err().map(|error| error.to_string())
                    }
                    Some(Err(why)) => Some(why),
                    None => Some("it is missing".to_owned()),
                };
                if let Some(why) = why {
                    self.add(format!("letter {id}"), why);
                }
            }
            after = page.letters.last().map(|head| head.id);
            if page.letters.len() < PAGE {
                return Ok(());
            }
        }
    }

    async fn read_workflows(&mut self, store: &impl Store) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            match store.definitions(after.clone(), PAGE).await {
                Ok(page) => {
                    self.workflows += page.len() as u64;
                    after = page.last().map(|stored| stored.definition.name.clone());
                    if page.len() < PAGE {
                        return Ok(());
                    }
                }
                Err(StoreError::Broken(why)) => {
                    self.add("workflows".to_owned(), why);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn read_guards(&mut self, store: &impl Store) -> Result<(), StoreError> {
        for row in store.guards().await? {
            if row.standing.is_none() {
                let why = "they are not what was written".to_owned();
                self.add(format!("guards of action {}", row.action), why);
            }
        }
        Ok(())
    }

    fn add(&mut self, what: String, why: String) {
        self.damaged.push(Damage { what, why });
    }

    fn words(&self) -> String {
        let Self { runs, letters, workflows, damaged } = self;
        let lines = damaged.iter().map(|Damage { what, why }| format!("{what}: {why}\n"));
        let verdict = match damaged.len() {
            0 => "nothing is damaged".to_owned(),
            1 => "1 record is damaged".to_owned(),
            n => format!("{n} records are damaged"),
        };
        let read =
            format!("{runs} runs, {letters} letters and {workflows} workflows: {verdict}.\n");
        lines.chain([read]).collect()
    }
}

/// An answer, or the damage of the requested record.
fn damage<T>(
    answer: Result<Option<T>, StoreError>,
) -> Result<Option<Result<T, String>>, StoreError> {
    match answer {
        Ok(read) => Ok(read.map(Ok)),
        Err(StoreError::Broken(why)) => Ok(Some(Err(why))),
        Err(error) => Err(error),
    }
}

/// The parts of a run that can be read but not decoded.
fn undecoded(loaded: Loaded) -> Option<String> {
    let snapshot = loaded.snapshot.and_then(|kept| run::decode_snapshot(&kept.state).err());
    let events = loaded.tail.events.iter().find_map(|event| run::decode(event).err());
    snapshot.or(events).map(|error| error.to_string())
}
