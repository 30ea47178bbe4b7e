//! The rounds, and what they come to.

use std::fmt::Write as _;

use anyhow::Result;
use retrial_testkit::postgres_server::Server;
use serde::{Deserialize, Serialize};

use crate::Args;
use crate::cases::{CASES, Case};
use crate::measure::Phase;

/// One case in one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    /// The case's name.
    pub(crate) case: String,
    /// The round, from 0.
    pub(crate) round: usize,
    /// Submission.
    pub(crate) submit: Phase,
    /// What comes after it.
    pub(crate) work: Phase,
}

impl Round {
    pub(crate) fn line(&self) -> String {
        let Phase { per_second, transactions, wal_bytes, server_us, client_us } = self.work;
        format!(
            "{:2} {:18} {per_second:8.0}/s {transactions:7.3} transactions {wal_bytes:6.0} B of WAL \
             {server_us:6.0} us server {client_us:6.0} us client",
            self.round, self.case
        )
    }
}

/// All rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// What they ran on.
    pub(crate) machine: String,
    /// Jobs in each round.
    pub(crate) jobs: u64,
    /// Jobs at once.
    pub(crate) at_once: usize,
    /// The rounds, in the order of time.
    pub(crate) rounds: Vec<Round>,
}

/// What the rounds of a case come to.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) case: &'static str,
    pub(crate) about: &'static str,
    /// Of a peer: Retrial's rate divided by its. Of a case of Retrial's own: its rate divided by that
    /// of the case `retrial`, which has none.
    pub(crate) ratio: Option<Spread>,
    pub(crate) rate: Spread,
    /// The same of submissions.
    pub(crate) submit_ratio: Option<Spread>,
    pub(crate) submit: Spread,
    pub(crate) transactions: f64,
    pub(crate) wal: f64,
    pub(crate) cpu: f64,
}

/// Of several rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut all: Vec<f64> = values.into_iter().collect();
        all.sort_by(f64::total_cmp);
        let (least, most) = (*all.first()?, *all.last()?);
        let middle = all.len() / 2;
        let median = match all.len() % 2 {
            0 => (all[middle - 1] + all[middle]) / 2.0,
            _ => all[middle],
        };
        Some(Self { median, least, most })
    }
}

impl Report {
    pub(crate) async fn new(args: &Args, server: &Server) -> Result<Self> {
        let client = server.client("postgres").await;
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info.lines().find(|line| line.starts_with("model name"));
        let model = model.and_then(|line| line.split(": ").nth(1)).unwrap_or("unknown processor");
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let machine = format!("{cpus} x {model}; PostgreSQL {version}, which waits for the disk");
        Ok(Self { machine, jobs: args.jobs, at_once: args.at_once, rounds: Vec::new() })
    }

    /// The cases that were measured, in the order of their list.
    pub(crate) fn summaries(&self) -> Vec<Summary> {
        CASES.iter().filter_map(|case| self.summary(case)).collect()
    }

    fn of<'r>(&'r self, case: &'r str) -> impl Iterator<Item = &'r Round> {
        self.rounds.iter().filter(move |round| round.case == case)
    }

    fn summary(&self, case: &'static Case) -> Option<Summary> {
        let (works, submits) = (|r: &Round| r.work.per_second, |r: &Round| r.submit.per_second);
        let both = |of: &dyn Fn(&Phase) -> f64| {
            let whole = |r: &Round| of(&r.submit) + of(&r.work);
            Spread::of(self.of(case.name).map(whole)).map_or(0.0, |spread| spread.median)
        };
        let ratio = |rate: fn(&Round) -> f64| {
            let others = self.of(case.name).filter(|_| case.name != "retrial");
            Spread::of(others.filter_map(|round| {
                let beside = self.of(case.beside()).find(|other| other.round == round.round)?;
                let (this, other) = (rate(round), rate(beside));
                Some(if case.is_own() { this / other } else { other / this })
            }))
        };
        Some(Summary {
            case: case.name,
            about: case.about,
            ratio: ratio(works),
            rate: Spread::of(self.of(case.name).map(works))?,
            submit_ratio: ratio(submits),
            submit: Spread::of(self.of(case.name).map(submits))?,
            transactions: both(&|phase| phase.transactions),
            wal: both(&|phase| phase.wal_bytes),
            cpu: both(&|phase| phase.server_us + phase.client_us),
        })
    }

    /// The summaries as a Markdown table.
    pub(crate) fn table(&self) -> String {
        let mut text =
            format!("{}; {} jobs, {} at once\n\n", self.machine, self.jobs, self.at_once);
        text += "| case | jobs a second | ratio | submitted a second | ratio \
                 | transactions a job | WAL a job | processor time a job |\n";
        text += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for summary in self.summaries() {
            let Summary { case, ratio, rate, submit_ratio, submit, .. } = summary;
            let Summary { transactions, wal, cpu, .. } = summary;
            let whole = |s: &Spread| format!("{:.0} ({:.0} to {:.0})", s.median, s.least, s.most);
            let parts = |s: &Spread| format!("{:.2} ({:.2} to {:.2})", s.median, s.least, s.most);
            let parts = |ratio: Option<Spread>| ratio.as_ref().map(parts).unwrap_or_default();
            let (rate, ratio) = (whole(&rate), parts(ratio));
            let (submit, submit_ratio) = (format!("{:.0}", submit.median), parts(submit_ratio));
            let _ = writeln!(
                text,
                "| {case} | {rate} | {ratio} | {submit} | {submit_ratio} \
                 | {transactions:.2} | {wal:.0} B | {cpu:.0} us |"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_one_round_and_own_cases_are_beside_the_plain_one() {
        let round = |case: &str, round, per_second| {
            let work = Phase {
                per_second,
                transactions: 0.5,
                wal_bytes: 1_000.0,
                server_us: 90.0,
                client_us: 10.0,
            };
            Round { case: case.to_owned(), round, submit: work, work }
        };
        let rounds = vec![
            round("retrial", 0, 100.0),
            round("floor", 0, 200.0),
            round("retrial-retry", 0, 40.0),
            round("apalis-retry", 0, 10.0),
            round("floor", 1, 100.0),
            round("retrial", 1, 300.0),
        ];
        let machine = "a machine".to_owned();
        let report = Report { machine, jobs: 10, at_once: 2, rounds };
        insta::assert_snapshot!(report.table(), @"
        a machine; 10 jobs, 2 at once

        | case | jobs a second | ratio | submitted a second | ratio | transactions a job | WAL a job | processor time a job |
        | --- | --- | --- | --- | --- | --- | --- | --- |
        | retrial | 200 (100 to 300) |  | 200 |  | 1.00 | 2000 B | 200 us |
        | floor | 150 (100 to 200) | 1.75 (0.50 to 3.00) | 150 | 1.75 (0.50 to 3.00) | 1.00 | 2000 B | 200 us |
        | retrial-retry | 40 (40 to 40) | 0.40 (0.40 to 0.40) | 40 | 0.40 (0.40 to 0.40) | 1.00 | 2000 B | 200 us |
        | apalis-retry | 10 (10 to 10) | 4.00 (4.00 to 4.00) | 10 | 4.00 (4.00 to 4.00) | 1.00 | 2000 B | 200 us |
        ");
    }
}
