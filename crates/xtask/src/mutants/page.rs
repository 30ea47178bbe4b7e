//! Writes docs/mutants.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::campaign::Results;
use super::patch::Patch;
use super::record::{Found, Outcome, named};
use retrial_sim::fault::FaultKind;

/// The page's text. It begins with `score`: what finds bugs that the authors did not choose.
#[must_use]
pub fn page(score: &str, results: &Results<'_>) -> String {
    let mut text = format!(
        "# Mutants\n\n{score} [blind-mutants.md](blind-mutants.md) tells of them. The bugs on this \
         page are known, and what finds them was mended until it did.\n\n"
    );
    head(&mut text, results);
    rooms(&mut text, results);
    survivors(&mut text, results);
    blind_spots(&mut text, results);
    kinds(&mut text, results);
    text
}

fn head(text: &mut String, results: &Results<'_>) {
    let Results { mutants, seeds, code, .. } = results;
    let all = mutants.len();
    let by_tests = mutants.iter().filter(|(_, o)| matches!(o, Outcome::Test { .. })).count();
    let mut firsts: Vec<u64> = found(results).map(|(_, found)| found.seed + 1).collect();
    firsts.sort_unstable();
    let half = firsts.get(firsts.len().saturating_sub(1) / 2).copied().unwrap_or(0);
    let within = |most: u64| firsts.iter().filter(|n| **n <= most).count();
    let killed = results.killed();
    let survivors = all - killed;
    let tenths = (killed * 1_000 + all / 2).checked_div(all).unwrap_or(0);
    let _ = write!(
        text,
        "Realistic bugs, each a small patch in `sim/mutants` with what it breaks and where such a bug was seen. \
Seeds 0 to {last} run with each of them until an oracle objects. If none does, the suites of tests in \
`crates/xtask/src/mutants/suites.rs` run. This command, in the repository's root, writes this page:

```console
$ cargo xtask mutants --seeds {seeds}
```

It can be interrupted and then continues where it stopped. `--shard K/N` runs a part. Once the results \
of all parts are in one folder (`target/mutants/results`), the page is written. Most are built together, \
each changed body of a function behind a switch that a variable of the environment turns on; the others \
are built alone. A run is void if a seed fails without a mutant, the harmless control is killed, or the \
glaring one survives. The results are of the code with the digest \
`{code}`; for any other code the command runs every mutant again.

| | |
| --- | --- |
| mutants | {all} |
| killed | {killed} ({}.{} %) |
| by a seed | {by_seeds} |
| by a test, after all seeds held | {by_tests} |
| survivors | {survivors} |
| half of those found by a seed, within | {half} seeds |
| killed within 1, 10, 100 seeds | {}, {}, {} |
",
        tenths / 10,
        tenths % 10,
        within(1),
        within(10),
        within(100),
        by_seeds = firsts.len(),
        last = seeds.saturating_sub(1),
    );
    let _ = write!(text, "\n| oracle | mutants that it was the first to find |\n| --- | --- |\n");
    let mut oracles: BTreeMap<&str, usize> = BTreeMap::new();
    found(results).for_each(|(_, found)| *oracles.entry(&found.oracle).or_default() += 1);
    for (oracle, count) in oracles {
        let _ = writeln!(text, "| {oracle} | {count} |");
    }
}

fn found<'a>(results: &'a Results<'_>) -> impl Iterator<Item = (&'a Patch, &'a Found)> {
    results.mutants.iter().filter_map(|(patch, outcome)| match outcome {
        Outcome::Seed(found) => Some((*patch, found)),
        _ => None,
    })
}

fn rooms(text: &mut String, results: &Results<'_>) {
    let _ = write!(
        text,
        "\n## By room\n\n\"Seeds\" counts those that were run, the failing one included. So many of \
         them have another history than without the mutant: \"differ\". In how many seeds its place \
         comes to something else and the history stays the same is not counted: for that both bodies would \
         have to run, and most have effects.\n"
    );
    let rooms: BTreeSet<&str> = results.mutants.iter().map(|(p, _)| p.room.as_str()).collect();
    for room in rooms {
        let mine: Vec<_> = results.mutants.iter().filter(|(p, _)| p.room == room).collect();
        let killed = mine.iter().filter(|(_, outcome)| outcome.is_killed()).count();
        let _ = write!(
            text,
            "\n### {room}: {killed} of {}\n\n| mutant | breaks | seen | killed by | seeds | differ |\n\
             | --- | --- | --- | --- | --- | --- |\n",
            mine.len()
        );
        for (patch, outcome) in mine {
            let (address, what) = patch.address();
            let (by, seeds) = killer(outcome);
            let _ = writeln!(
                text,
                "| `{}` | {} | [{}]({address}) {} | {by} | {seeds} | {} |",
                patch.name,
                cell(&patch.breaks),
                short(address),
                cell(what),
                results.changed(patch),
            );
        }
    }
}

/// What no oracle objected to although it happened.
fn blind_spots(text: &mut String, results: &Results<'_>) {
    let all = results.mutants.iter();
    let mut unseen: Vec<_> = all.map(|(patch, o)| (results.unseen(patch, o), patch)).collect();
    unseen.retain(|(differ, _)| *differ > 0);
    unseen.sort_by_key(|(differ, patch)| (std::cmp::Reverse(*differ), &patch.name));
    let _ = write!(
        text,
        "\n## Blind spots\n\nMutants that change the history of a seed and to which no oracle objects. \
         All others that no seed finds change no history: nothing that is drawn leads to their place.\n\n\
         | mutant | breaks | histories that differ, of {} | why no oracle objects |\n\
         | --- | --- | --- | --- |\n",
        results.seeds
    );
    for (differ, patch) in unseen {
        let why = patch.unseen.as_deref().unwrap_or("not explained");
        let _ = writeln!(
            text,
            "| `{}` | {} | {differ} | {} |",
            patch.name,
            cell(&patch.breaks),
            cell(why)
        );
    }
}

fn killer(outcome: &Outcome) -> (String, u64) {
    match outcome {
        Outcome::Seed(Found { seed, oracle, reason, .. }) => {
            (format!("{oracle} `{}`", reason.replace(' ', "_")), seed + 1)
        }
        Outcome::Test { seeds, test } => (by_test(test), *seeds),
        Outcome::Survived { seeds } => ("**survives**".to_owned(), *seeds),
    }
}

fn by_test(failed: &str) -> String {
    match (named(failed), failed.split_once(": ")) {
        (None, Some((suite, said))) => format!("suite `{suite}`: {}", cell(said)),
        _ => format!("test `{}`", cell(failed)),
    }
}

/// An address without what all addresses have: `tokio-rs/tokio#12`.
fn short(address: &str) -> String {
    let Some(rest) = address.strip_prefix("https://github.com/") else {
        return address.trim_start_matches("https://").to_owned();
    };
    let rest = rest.split(['#', '?']).next().unwrap_or(rest);
    for between in ["/issues/", "/pull/", "/discussions/"] {
        if let Some((repository, number)) = rest.split_once(between) {
            return format!("{repository}#{number}");
        }
    }
    rest.to_owned()
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn survivors(text: &mut String, results: &Results<'_>) {
    let _ = write!(text, "\n## Survivors\n\n");
    let survivors = results.mutants.iter().filter(|(_, outcome)| !outcome.is_killed());
    let lines: Vec<String> = survivors
        .map(|(patch, _)| {
            let why = patch.survives.as_deref().unwrap_or("not explained");
            format!("- `{}`: {} {why}\n", patch.name, patch.breaks)
        })
        .collect();
    text.push_str(&if lines.is_empty() { "None.\n".to_owned() } else { lines.concat() });
}

fn kinds(text: &mut String, results: &Results<'_>) {
    let _ = write!(
        text,
        "\n## Which faults it takes\n\nThe first failing world of each mutant runs again once for \
         each kind of fault that it drew, without that kind. A kind is needed if no promise is broken \
         without it. A world that needs none fails without faults, or has two ways to fail.\n\n\
         | kind | drawn in | needed by |\n| --- | --- | --- |\n"
    );
    let replayed: Vec<_> = found(results).filter(|(_, found)| found.ablation.replays).collect();
    for kind in FaultKind::ALL {
        let count = |kinds: fn(&Found) -> &BTreeSet<FaultKind>| {
            replayed.iter().filter(|(_, found)| kinds(found).contains(&kind)).count()
        };
        let (drawn, needed) = (count(|f| &f.ablation.drawn), count(|f| &f.ablation.needed));
        let _ = writeln!(text, "| {kind} | {drawn} | {needed} |");
    }
    let none = replayed.iter().filter(|(_, found)| found.ablation.needed.is_empty()).count();
    let _ = write!(
        text,
        "| none alone | {} | {none} |\n\n| mutant | seed | needs | drawn beside it |\n\
         | --- | --- | --- | --- |\n",
        replayed.len()
    );
    for (patch, Found { seed, ablation, .. }) in found(results) {
        let rest: BTreeSet<_> = ablation.drawn.difference(&ablation.needed).copied().collect();
        let needed = if ablation.replays { list(&ablation.needed) } else { CHANGED.to_owned() };
        let _ = writeln!(text, "| `{}` | {seed} | {needed} | {} |", patch.name, list(&rest));
    }
}

/// Shown as the needs of a mutant that changes the draws of its seed.
const CHANGED: &str = "not known: it changes what is drawn";

fn list(kinds: &BTreeSet<FaultKind>) -> String {
    let names: Vec<String> = kinds.iter().map(FaultKind::to_string).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::by_test;

    #[test]
    fn what_is_no_test_is_not_named_as_one() {
        assert_eq!(by_test("run: properties::w8"), "test `run: properties::w8`");
        assert_eq!(by_test("run: its time was up"), "suite `run`: its time was up");
    }
}
