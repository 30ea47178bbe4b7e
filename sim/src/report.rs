//! The result of a seed and of a sweep of seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use retrial::time::Nanos;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::fault::FaultKind;
use crate::oracle::event_refs::EventRef;
use crate::oracle::{FEATURES, Promise};

/// How one seed ended. The order is that of the exit codes' precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every promise held.
    Held,
    /// A run does not end because its policy is unlimited and its endpoint may never answer.
    Unbounded,
    /// A run did not end within its bound, or the world made no progress.
    Stuck,
    /// A promise was broken.
    Wrong,
    /// Something panicked.
    Panicked,
}

impl Verdict {
    /// The verdict in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Held => "all promises held",
            Self::Unbounded => "unbounded by policy",
            Self::Stuck => "stuck",
            Self::Wrong => "wrong",
            Self::Panicked => "panicked",
        }
    }

    /// Whether the seed failed.
    #[must_use]
    pub fn is_failure(self) -> bool {
        self >= Self::Stuck
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breach {
    /// The oracle that found it.
    pub oracle: String,
    /// A short stable code.
    pub reason: String,
    /// A sentence with the events that prove it.
    pub text: String,
    /// Those events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<EventRef>,
}

/// The result of one seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// How it ended.
    pub verdict: Verdict,
    /// The broken promises, or where it panicked or stuck.
    pub breaches: Vec<Breach>,
    /// The running hash over everything that happened.
    pub fingerprint: String,
    /// Its first 64 bits at the scenario's fork; none where the history did not come to one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_mark: Option<u64>,
    /// Simulated time.
    pub simulated: Nanos,
    /// Runs that ended.
    pub runs: u64,
    /// Attempts started.
    pub attempts: u64,
    /// Retries by what triggered them.
    pub retries: BTreeMap<String, u64>,
    /// Faults drawn, by kind.
    pub drawn: BTreeMap<FaultKind, u64>,
    /// Faults that struck, by kind.
    pub struck: BTreeMap<FaultKind, u64>,
    /// How often each oracle judged.
    pub judged: BTreeMap<String, u64>,
    /// How often each rare feature was met and judged.
    pub features: BTreeMap<String, u64>,
    /// What its history shows, where that was asked for.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shown: BTreeSet<u64>,
}

impl SeedReport {
    /// A seed that ended before it could be judged.
    #[must_use]
    pub fn broken_off(seed: u64, verdict: Verdict, oracle: &str, text: String) -> Self {
        let breach = Breach {
            oracle: oracle.to_owned(),
            reason: verdict.words().to_owned(),
            text,
            proof: Vec::new(),
        };
        Self {
            seed,
            verdict,
            breaches: vec![breach],
            fingerprint: String::new(),
            fork_mark: None,
            simulated: Nanos::ZERO,
            runs: 0,
            attempts: 0,
            retries: BTreeMap::new(),
            drawn: BTreeMap::new(),
            struck: BTreeMap::new(),
            judged: BTreeMap::new(),
            features: BTreeMap::new(),
            shown: BTreeSet::new(),
        }
    }
}

/// The result of a sweep: the totals of its seeds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Seeds run.
    pub seeds: u64,
    /// Simulated time of all of them.
    pub simulated: Nanos,
    /// Runs that ended.
    pub runs: u64,
    /// Attempts started.
    pub attempts: u64,
    /// Retries by what triggered them.
    pub retries: BTreeMap<String, u64>,
    /// Faults drawn, by kind.
    pub drawn: BTreeMap<FaultKind, u64>,
    /// Faults that struck, by kind.
    pub struck: BTreeMap<FaultKind, u64>,
    /// How often each oracle judged.
    pub judged: BTreeMap<String, u64>,
    /// How often each rare feature was met and judged.
    pub features: BTreeMap<String, u64>,
    /// The findings of each oracle.
    pub found: BTreeMap<String, u64>,
    /// Seeds by verdict.
    pub verdicts: BTreeMap<Verdict, u64>,
    /// The failing seeds, lowest first.
    pub failing: Vec<SeedReport>,
    /// Over every seed's fingerprint, in the order of the seeds.
    pub fingerprint: String,
}

impl SweepReport {
    /// Adds up the reports of a sweep.
    #[must_use]
    pub fn of(mut seeds: Vec<SeedReport>) -> Self {
        seeds.sort_by_key(|s| s.seed);
        let mut sum = Self::default();
        let mut hash = Sha256::new();
        for seed in seeds {
            hash.update(seed.seed.to_be_bytes());
            hash.update(seed.fingerprint.as_bytes());
            sum.add(Self::of_one(seed));
        }
        sum.fingerprint = digits(hash);
        sum
    }

    /// Adds up the parts of a sweep, which are in the order of their seeds. Its fingerprint is over
    /// those of the parts.
    #[must_use]
    pub fn total(parts: Vec<Self>) -> Self {
        let mut sum = Self::default();
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part.fingerprint.as_bytes());
            sum.add(part);
        }
        sum.fingerprint = digits(hash);
        sum
    }

    /// What was met how often, the rarest first: faults that were drawn, features, causes of retries.
    #[must_use]
    pub fn rarest(&self) -> Vec<(u64, String)> {
        let struck = |kind: &FaultKind| self.struck.get(kind).copied().unwrap_or(0);
        let faults = self.drawn.keys().map(|kind| (struck(kind), format!("fault {kind}")));
        let judged = |feature: &str| self.features.get(feature).copied().unwrap_or(0);
        let features = FEATURES.iter().map(|name| (judged(name), (*name).to_owned()));
        let causes = self.retries.iter().map(|(cause, n)| (*n, format!("retry after {cause}")));
        let mut met: Vec<(u64, String)> = faults.chain(features).chain(causes).collect();
        met.sort();
        met
    }

    /// The sums of one seed, without a fingerprint.
    fn of_one(seed: SeedReport) -> Self {
        let failing = seed.verdict.is_failure().then(|| seed.clone());
        let mut found = BTreeMap::new();
        for breach in seed.breaches {
            *found.entry(breach.oracle).or_default() += 1;
        }
        Self {
            seeds: 1,
            simulated: seed.simulated,
            runs: seed.runs,
            attempts: seed.attempts,
            retries: seed.retries,
            drawn: seed.drawn,
            struck: seed.struck,
            judged: seed.judged,
            features: seed.features,
            found,
            verdicts: BTreeMap::from([(seed.verdict, 1)]),
            failing: failing.into_iter().collect(),
            fingerprint: String::new(),
        }
    }

    /// Adds everything but the fingerprint.
    fn add(&mut self, part: Self) {
        self.seeds += part.seeds;
        self.simulated = self.simulated.saturating_add(part.simulated);
        self.runs += part.runs;
        self.attempts += part.attempts;
        merge(&mut self.retries, part.retries);
        merge(&mut self.drawn, part.drawn);
        merge(&mut self.struck, part.struck);
        merge(&mut self.judged, part.judged);
        merge(&mut self.features, part.features);
        merge(&mut self.found, part.found);
        merge(&mut self.verdicts, part.verdicts);
        self.failing.extend(part.failing);
    }

    /// The gaps of the sweep: no fault struck, or an oracle never judged.
    #[must_use]
    pub fn untested(&self) -> Vec<String> {
        let mut gaps = Vec::new();
        if self.struck.values().sum::<u64>() == 0 {
            gaps.push("no fault struck".to_owned());
        }
        let silent = oracles().filter(|o| self.judged.get(o).copied().unwrap_or(0) == 0);
        gaps.extend(silent.map(|o| format!("oracle {o} never judged")));
        gaps
    }

    /// The exit code: panics before wrong before stuck; then nothing tested, where that counts.
    #[must_use]
    pub fn exit_code(&self, gaps_count: bool) -> u8 {
        let any = |v: Verdict| self.verdicts.get(&v).copied().unwrap_or(0) > 0;
        if any(Verdict::Panicked) {
            4
        } else if any(Verdict::Wrong) {
            1
        } else if any(Verdict::Stuck) {
            3
        } else if gaps_count && !self.untested().is_empty() {
            5
        } else {
            0
        }
    }

    /// The summary in words. `again` is the command that reproduces a seed, less the seed. Of the rare
    /// cases that were never judged, those are named that runs `may_meet`, or all.
    #[must_use]
    pub fn words(&self, again: &str, may_meet: Option<&BTreeSet<&str>>) -> String {
        let mut text = String::new();
        let out = &mut text;
        line(out, "seeds", &format!("{} ({})", self.seeds, verdict_words(&self.verdicts)));
        line(out, "simulated time", &self.simulated.to_string());
        line(out, "runs ended", &self.runs.to_string());
        line(out, "attempts", &self.attempts.to_string());
        line(out, "retries by cause", &counts(&self.retries));
        let _ = writeln!(out, "faults struck / drawn");
        for (kind, drawn) in &self.drawn {
            let struck = self.struck.get(kind).copied().unwrap_or(0);
            let note = if struck == 0 { "  never struck" } else { "" };
            let _ = writeln!(out, "  {:<20} {struck:>8} / {drawn}{note}", kind.to_string());
        }
        let _ = writeln!(out, "oracles judged / found");
        for oracle in oracles() {
            let judged = self.judged.get(&oracle).copied().unwrap_or(0);
            let found = self.found.get(&oracle).copied().unwrap_or(0);
            let _ = writeln!(out, "  {oracle:<20} {judged:>8} / {found}");
        }
        self.feature_words(out, may_meet);
        line(out, "fingerprint", &self.fingerprint);
        for seed in &self.failing {
            let _ = writeln!(
                out,
                "\nseed {} {}: {again} {}",
                seed.seed,
                seed.verdict.words(),
                seed.seed
            );
            for breach in seed.breaches.iter().take(5) {
                let _ = writeln!(out, "  {} ({}): {}", breach.oracle, breach.reason, breach.text);
            }
        }
        text
    }
}

impl SweepReport {
    fn feature_words(&self, out: &mut String, may_meet: Option<&BTreeSet<&str>>) {
        let judged = |feature: &str| self.features.get(feature).copied().unwrap_or(0);
        let may = |feature: &str| may_meet.is_none_or(|may_meet| may_meet.contains(feature));
        let mut shown = FEATURES.iter().filter(|name| judged(name) > 0 || may(name)).peekable();
        if shown.peek().is_some() {
            let _ = writeln!(out, "features judged");
        }
        for feature in shown {
            let judged = judged(feature);
            let note = if judged == 0 { "  never judged" } else { "" };
            let _ = writeln!(out, "  {feature:<20} {judged:>8}{note}");
        }
    }

    /// The rare cases among these that no seed judged.
    #[must_use]
    pub fn never_judged<'f>(&self, may_meet: &BTreeSet<&'f str>) -> Vec<&'f str> {
        may_meet.iter().copied().filter(|name| !self.features.contains_key(*name)).collect()
    }
}

/// The names of the oracles that must judge something in a sweep.
fn oracles() -> impl Iterator<Item = String> {
    Promise::ALL.iter().map(Promise::to_string)
}

/// The first half of a digest, as hexadecimal digits.
fn digits(hash: Sha256) -> String {
    hash.finalize()[..16].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<22} {value}");
}

fn counts(map: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> = map.iter().map(|(k, v)| format!("{k} {v}")).collect();
    if each.is_empty() { "none".to_owned() } else { each.join(", ") }
}

fn verdict_words(map: &BTreeMap<Verdict, u64>) -> String {
    let each: Vec<String> = map.iter().map(|(k, v)| format!("{v} {}", k.words())).collect();
    each.join(", ")
}

fn merge<K: Ord>(into: &mut BTreeMap<K, u64>, from: BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(key).or_default() += count;
    }
}
