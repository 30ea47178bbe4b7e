//! Writes docs/branches.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::count::{Counted, Counts};
use super::reasons::{REASONS, Reason};

/// Taken in fewer seeds than this of ten thousand, a branch is named.
const FEW: u64 = 10;

/// The page's text.
#[must_use]
pub fn page(counts: &Counts) -> String {
    let mut text = format!(
        "# Branches of the core

`retrial-core` decides: it reads policies and workflows, says what follows from each event of a run, \
and says what waits. In a copy of it each branch has a mark: each function, each part of an `if` and of \
a `match`, each loop and each early return. This command runs seeds 0 to {} and the core's own tests on \
the copy, counts, and writes this page:

```console
$ cargo xtask branches --seeds {}
```

What the compiler runs, macros and `&&`, `||` and `?` have no marks. A branch that an oracle takes when \
it asks the core counts as taken.

",
        counts.seeds.saturating_sub(1),
        counts.seeds
    );
    rooms(&mut text, counts);
    rare(&mut text, counts);
    never(&mut text, counts);
    text
}

/// What must be said of the page: branches without a reason, and reasons without a branch.
#[must_use]
pub fn faults(counts: &Counts) -> Vec<String> {
    let bare = never_taken(counts).filter(|counted| Reason::of(counted).is_none());
    let bare = bare.map(|counted| {
        let taken =
            if counted.is_tested { "no seed takes" } else { "neither seeds nor tests take" };
        format!("{taken}, without a reason: {}", words(counted))
    });
    let used = |reason: &Reason| never_taken(counts).any(|c| Reason::of(c) == Some(reason));
    let idle = REASONS.iter().filter(|reason| !used(reason));
    let idle =
        idle.map(|reason| format!("a reason for nothing: {} {}", reason.file, reason.function));
    bare.chain(idle).collect()
}

fn never_taken(counts: &Counts) -> impl Iterator<Item = &Counted> {
    counts.branches.iter().filter(|counted| counted.seeds == 0)
}

fn words(Counted { file, branch, .. }: &Counted) -> String {
    format!("{file}, `{}`: {}", branch.function, branch.part)
}

/// The first folder of a file, or the file.
fn room(file: &str) -> &str {
    let room = file.split('/').next().unwrap_or(file);
    room.trim_end_matches(".rs")
}

fn rooms(text: &mut String, counts: &Counts) {
    let mut rooms: BTreeMap<&str, Vec<&Counted>> = BTreeMap::new();
    for counted in &counts.branches {
        rooms.entry(room(&counted.file)).or_default().push(counted);
    }
    text.push_str(
        "| room | branches | taken by seeds | by one in 100 | by tests alone | by neither |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for (room, all) in rooms {
        let count = |is: &dyn Fn(&Counted) -> bool| all.iter().filter(|c| is(c)).count();
        let _ = writeln!(
            text,
            "| `{room}` | {} | {} | {} | {} | {} |",
            all.len(),
            count(&|c| c.seeds > 0),
            count(&|c| c.seeds * 100 >= counts.seeds),
            count(&|c| c.seeds == 0 && c.is_tested),
            count(&|c| c.seeds == 0 && !c.is_tested),
        );
    }
}

fn rare(text: &mut String, counts: &Counts) {
    let few = |seeds: u64| seeds > 0 && seeds * 10_000 < FEW * counts.seeds;
    let mut rare: Vec<_> = counts.branches.iter().filter(|c| few(c.seeds)).collect();
    rare.sort_by_key(|counted| counted.seeds);
    let _ = write!(
        text,
        "\n## Taken by few\n\nThose that fewer than {FEW} of 10,000 seeds take:\n\n\
         | seeds | file | function | branch |\n| --- | --- | --- | --- |\n"
    );
    for Counted { file, branch, seeds, .. } in rare {
        let _ =
            writeln!(text, "| {seeds} | {file} | `{}` | {} |", branch.function, code(&branch.part));
    }
}

fn never(text: &mut String, counts: &Counts) {
    text.push_str(
        "\n## Taken by no seed\n\nEach has a reason. \"Neither\" counts those that the core's tests do \
         not take either.\n\n| file | function | branches | neither | why |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    let mut told: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for counted in never_taken(counts) {
        let place = REASONS.iter().position(|reason| Reason::of(counted) == Some(reason));
        let (all, neither) = told.entry(place.unwrap_or(usize::MAX)).or_default();
        *all += 1;
        *neither += u64::from(!counted.is_tested);
    }
    for (place, (all, neither)) in told {
        let reason = REASONS.get(place);
        let (file, function, why) =
            reason.map_or(("", "", "no reason"), |r| (r.file, r.function, r.why));
        let _ = writeln!(text, "| {file} | {} | {all} | {neither} | {why} |", code(function));
    }
}

/// As code in a table, if it is anything.
fn code(part: &str) -> String {
    let short: String = part.chars().take(80).collect();
    if short.is_empty() { short } else { format!("`{}`", short.replace('|', "\\|")) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;
    use crate::branches::Branch;

    fn counts(file: &str, seeds: u64) -> Counts {
        let branch = Branch { function: "f".to_owned(), part: "if a || b".to_owned() };
        let counted = Counted { file: file.to_owned(), branch, seeds, is_tested: true };
        Counts { seeds: 20_000, branches: vec![counted] }
    }

    #[test]
    fn what_no_seed_takes_needs_a_reason_and_a_reason_such_a_branch() {
        let bare = |counts: &Counts| faults(counts)[0].clone();
        assert_eq!(
            bare(&counts("new.rs", 0)),
            "no seed takes, without a reason: new.rs, `f`: if a || b"
        );
        assert!(bare(&counts("new.rs", 1)).starts_with("a reason for nothing: "));
        // One of the reasons is needed.
        assert_eq!(faults(&counts("explain/x.rs", 0)).len(), REASONS.len() - 1);
    }

    #[test]
    fn what_few_seeds_take_is_named() {
        let row = "| 19 | run/x.rs | `f` | `if a \\|\\| b` |";
        assert!(page(&counts("run/x.rs", 19)).contains(row));
        assert!(!page(&counts("run/x.rs", 20)).contains("`if a"));
        assert!(page(&counts("run/x.rs", 20)).contains("| `run` | 1 | 1 | 0 | 0 | 0 |"));
    }

    /// The page is made by hand, since it takes minutes.
    #[test]
    fn the_page_has_the_reasons_of_now() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/branches.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (_, never) = page.split_once("## Taken by no seed").unwrap();
        for Reason { file, function, why } in REASONS {
            let place = format!("| {file} | {} | ", code(function));
            let row = never.lines().find(|row| row.starts_with(&place));
            assert!(row.is_some_and(|row| row.ends_with(&format!(" | {why} |"))), "{place}");
        }
        assert_eq!(never.lines().filter(|row| row.starts_with("| ")).count(), REASONS.len() + 2);
    }
}
