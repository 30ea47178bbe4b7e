//! `retrial-lab run`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use retrial_core::dialect::parse_duration;
use retrial_core::time::Nanos;
use retrial_lab::change::{self, Tried};
use retrial_lab::judge::{Verdict, judge};
use retrial_lab::model::{LONGEST, MOST_SEEDS, Scenario};
use retrial_lab::page;
use retrial_lab::read;
use retrial_lab::summary::Summary;
use retrial_lab::terminal;
use serde_json::json;

use super::error::CliError;

/// The outage that a policy is tried on unless asked otherwise.
const OUTAGE: Nanos = Nanos::from_secs(30);

#[derive(Debug, Args)]
pub(super) struct Asked {
    /// The lab file; without it the policy is tried on a usual service
    file: Option<PathBuf>,
    /// The policy of all clients: a text in any dialect, or a file with one
    #[arg(long, required_unless_present = "file")]
    policy: Option<String>,
    /// The step of a workflow file whose policy is meant
    #[arg(long)]
    step: Option<String>,
    /// Take what the clients call down for this long, in place of the triggers
    #[arg(long, value_name = "LENGTH")]
    outage: Option<String>,
    /// A second policy, or a second lab file, to set beside the first
    #[arg(long, value_name = "FILE|TEXT")]
    against: Option<String>,
    /// How many seeds
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SEEDS)))]
    seeds: Option<u32>,
    /// Write all figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the report to this file as a page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the series over time to this file as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// How many threads; it changes no figure
    #[arg(long)]
    jobs: Option<usize>,
}

/// Runs and judges; 0 for a system that recovers.
pub(super) fn run(asked: &Asked) -> Result<ExitCode, CliError> {
    let first = first(asked)?;
    let second = second(asked, &first)?;
    let jobs = super::jobs(asked.jobs);
    let seeds = |scenario: &Scenario| asked.seeds.unwrap_or(scenario.seeds);
    let summarised =
        |scenario: &Scenario| Summary::of(scenario, &judge(scenario, seeds(scenario), jobs));
    let own = summarised(&first);
    let other = second.as_ref().map(summarised);
    let worse = own.verdict != Verdict::Recovers;
    let tried = worse.then(|| change::tried(&first, seeds(&first), jobs));
    let mut sides = vec![("first", &own)];
    sides.extend(other.as_ref().map(|other| ("second", other)));
    if let Some(file) = &asked.json {
        super::write(file, &as_json(&own, other.as_ref(), tried.as_deref()))?;
    }
    if let Some(file) = &asked.html {
        let mut pages = vec![("first", &first, &own)];
        pages.extend(second.as_ref().zip(other.as_ref()).map(|(s, o)| ("second", s, o)));
        super::write(file, &page::report(&pages, tried.as_deref()))?;
    }
    if let Some(file) = &asked.csv {
        super::write(file, &as_csv(&first, &sides))?;
    }
    let text = terminal::report(&first, &sides, tried.as_deref());
    super::print(&text);
    Ok(ExitCode::from(u8::from(worse)))
}

fn outage(asked: &Asked) -> Result<Option<Nanos>, CliError> {
    let Some(text) = &asked.outage else { return Ok(None) };
    let refuse = |why: &str| {
        let (message, help) = why.split_once("; ").unwrap_or((why, "write a length such as 30s"));
        CliError::plain(format!("--outage: {message}"), help)
    };
    let length = parse_duration(text).map_err(|why| refuse(&why))?;
    if length > Nanos::new(LONGEST.get() / 10) {
        return Err(refuse(&format!("`{text}` is too long; use at most 3d")));
    }
    Ok(Some(length))
}

fn first(asked: &Asked) -> Result<Scenario, CliError> {
    let given = asked.policy.as_deref();
    let given = given.map(|text| super::policy(text, asked.step.as_deref())).transpose()?;
    let outage = outage(asked)?;
    let Some(file) = &asked.file else {
        let policy = given.unwrap_or(retrial_core::policy::Policy::no_retries(
            retrial_core::policy::Dialect::Builder,
        ));
        return Ok(read::usual(&policy, outage.unwrap_or(OUTAGE)));
    };
    let mut scenario = super::scenario(file)?;
    if let Some(policy) = given {
        scenario = scenario.with_policy(&policy);
    }
    if let Some(outage) = outage {
        read::with_outage(&mut scenario, outage);
    }
    Ok(scenario)
}

/// The same scenario with the second policy; or that of a second lab file.
fn second(asked: &Asked, first: &Scenario) -> Result<Option<Scenario>, CliError> {
    let Some(text) = asked.against.as_deref() else { return Ok(None) };
    let path = PathBuf::from(text);
    if path.is_file() {
        let (name, contents) = super::text_of(&path)?;
        if read::is_lab_file(&contents) {
            return Ok(Some(read::scenario(&name, &contents, &read::folder(&name))?));
        }
    }
    let policy = super::policy(text, asked.step.as_deref())?;
    Ok(Some(first.clone().with_policy(&policy)))
}

fn as_json(own: &Summary, other: Option<&Summary>, tried: Option<&[Tried]>) -> String {
    let tried = tried.map(|all| {
        let one = |t: &Tried| {
            json!({ "change": t.words, "verdict": t.verdict, "recovered": t.recovered })
        };
        all.iter().map(one).collect::<Vec<_>>()
    });
    super::json(&json!({ "first": own, "second": other, "changes": tried }))
}

/// A row for each stretch of time of each side.
fn as_csv(scenario: &Scenario, sides: &[terminal::Side<'_>]) -> String {
    let mut text = String::from(
        "side,at,offered,good,bad,attempts,retries,denied,dead letters,p50,p99,wasted,open,waiting,tokens",
    );
    let plain = |name: &str| name.replace([',', '"', '\n'], "_");
    for service in &scenario.services {
        let _ = write!(text, ",load {0},queue {0}", plain(&service.name));
    }
    for edge in &scenario.edges {
        let _ = write!(text, ",amplification {}", plain(&edge.name));
    }
    text.push('\n');
    for (name, summary) in sides {
        for p in &summary.series {
            let tokens = p.tokens.map(|n| n.to_string()).unwrap_or_default();
            let _ = write!(
                text,
                "{name},{},{},{},{},{},{},{},{},{},{},{},{},{},{tokens}",
                p.at,
                p.offered,
                p.good,
                p.bad,
                p.attempts,
                p.retries,
                p.denied,
                p.dead_letters,
                p.p50,
                p.p99,
                p.wasted,
                p.open,
                p.waiting
            );
            // A second lab file may have fewer parts, or more.
            let cell = |values: &[f64], at| values.get(at).map_or(String::new(), f64::to_string);
            for at in 0..scenario.services.len() {
                let _ = write!(text, ",{},{}", cell(&p.load, at), cell(&p.queue, at));
            }
            for at in 0..scenario.edges.len() {
                let _ = write!(text, ",{}", cell(&p.amplification, at));
            }
            text.push('\n');
        }
    }
    text
}
