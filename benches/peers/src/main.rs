//! Retrial beside its peers on one PostgreSQL server: jobs that do nothing are submitted before and
//! then worked off. Rounds are interleaved on a private server that waits for the disk.
//!
//! ```text
//! cargo run --release -p retrial-bench -- [--jobs N] [--rounds N] [--json FILE] [--html FILE] [CASE]...
//! ```
//!
//! The peers are in `programs/`, each a program of its own, which is built first (Node's needs `npm`).
//! To add one, write its program and a row of [`cases::CASES`].
#![allow(clippy::disallowed_methods, reason = "a bench measures real time, outside any simulation")]

mod cases;
mod floor;
mod measure;
mod page;
mod programs;
mod report;
mod statements;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use retrial_testkit::postgres_server::{Server, Setup};

use crate::cases::{Case, Kind};
use crate::measure::{Phase, Used};
use crate::programs::{Programs, Work};
use crate::report::{Report, Round};

/// Retrial beside its peers on one PostgreSQL server of its own.
#[derive(Debug, Parser)]
struct Args {
    /// How many jobs each round works off.
    #[arg(long, default_value_t = 2_000)]
    jobs: u64,
    /// How many rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// How many jobs at once.
    #[arg(long, default_value_t = 256)]
    at_once: usize,
    /// How many runs wait for an hour in the case `retrial-pending`.
    #[arg(long, default_value_t = 100_000)]
    pending: u64,
    /// After each round of Retrial's, print the statements that took the server the longest.
    #[arg(long)]
    statements: bool,
    /// Also write all rounds as JSON to this file.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Also write a page for a browser to this file.
    #[arg(long)]
    html: Option<PathBuf>,
    /// The cases; all of them where none is named. Those that they are set beside are measured as well.
    #[arg(value_parser = cases::named)]
    cases: Vec<&'static Case>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let asked = |case: &'static Case| args.cases.is_empty() || args.cases.contains(&case);
    let beside =
        |case: &'static Case| cases::CASES.iter().any(|c| asked(c) && c.beside() == case.name);
    let cases: Vec<&'static Case> = cases::CASES.iter().filter(|c| asked(c) || beside(c)).collect();
    let programs = Programs::build(&cases)?;
    let (name, value) = statements::SETTING;
    let settings = args.statements.then(|| (name.to_owned(), value.to_owned()));
    let settings = settings.into_iter().collect();
    let server = Arc::new(Server::start_as(Setup { fsync: true, settings, ..Setup::default() }));
    let mut report = Report::new(&args, &server).await?;
    for round in 0..args.rounds {
        for at in 0..cases.len() {
            // Nobody is always the first.
            let case = cases[(at + round) % cases.len()];
            let (submit, work) = measured(&args, &server, &programs, case)
                .await
                .with_context(|| format!("{} in round {round}", case.name))?;
            let measured = Round { case: case.name.to_owned(), round, submit, work };
            println!("{}", measured.line());
            report.rounds.push(measured);
        }
    }
    println!("\n{}", report.table());
    if let Some(file) = &args.json {
        std::fs::write(file, serde_json::to_vec_pretty(&report)?)?;
    }
    if let Some(file) = &args.html {
        std::fs::write(file, page::html(&report))?;
    }
    Ok(())
}

/// What submission and work of a case took, on a database of its own.
async fn measured(
    args: &Args,
    server: &Arc<Server>,
    programs: &Programs,
    case: &Case,
) -> Result<(Phase, Phase)> {
    let database = server.database().await;
    let watcher = server.client("postgres").await;
    if case.kind == Kind::Floor {
        return floor::run(server, &watcher, &database, args.jobs).await;
    }
    let asked = Work { url: server.url(&database), jobs: args.jobs, at_once: args.at_once };
    programs.run(case, &asked, "setup").await?;
    let own = server.client(&database).await;
    if case.kind == Kind::Pending {
        programs.run(case, &Work { jobs: args.pending, ..asked.clone() }, "submit").await?;
        own.batch_execute("UPDATE retrial.queue SET due = due + 3600000000000").await?;
        // Rows that wait since long were vacuumed since they were written.
        own.batch_execute("VACUUM ANALYZE").await?;
    }
    own.batch_execute("CHECKPOINT").await?;
    if case.kind == Kind::Snapshot {
        own.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await?;
    }
    let phase = async |name: &str| {
        let before = Used::now(server, &watcher, &database).await?;
        let seconds = programs.run(case, &asked, name).await?;
        // A connection counts its transactions when it ends.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let after = Used::now(server, &watcher, &database).await?;
        anyhow::Ok(before.until(&after, seconds, args.jobs))
    };
    let submit = phase("submit").await?;
    let listed = args.statements && case.is_own();
    if listed {
        statements::reset(&own).await?;
    }
    let work = phase("work").await?;
    if listed {
        for line in statements::lines(&own, args.jobs).await? {
            println!("{line}");
        }
    }
    Ok((submit, work))
}
