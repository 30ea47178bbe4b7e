//! One mutant: a patch on the real code, with what it breaks and where such a bug was seen.

use std::collections::BTreeSet;

/// The room of the laboratory.
const LABORATORY: &str = "lab";

/// The room of the store on PostgreSQL.
pub(super) const SQL: &str = "store_sql";

/// The rooms that no simulated world enters.
const NOT_SIMULATED: [&str; 4] = ["explain", LABORATORY, "server", SQL];

/// A mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its file's name without the ending: `policy_one_more`.
    pub name: String,
    /// The room of the changed code.
    pub room: String,
    /// The broken row or promise, in one line.
    pub breaks: String,
    /// Where such a bug was seen: an address, and what happened there.
    pub seen: String,
    /// Why nothing can find it, where it is known to survive.
    pub survives: Option<String>,
    /// Why no oracle objects, where it is known to change histories that all hold.
    pub unseen: Option<String>,
    /// The file it changes.
    pub file: String,
    /// The places in that file that it changes.
    pub places: BTreeSet<Line>,
    /// The text for `git apply`.
    pub diff: String,
}

/// A place in a file before it is changed, by lines from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// This line is replaced or left out.
    Changed(u64),
    /// Something is put in after this line.
    After(u64),
}

/// Why a text is no mutant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A line before the first empty one is no head.
    #[error("`{0}` is no head: use `Breaks:`, `Seen:`, `Survives:`, `Unseen:`, then an empty line")]
    UnknownHead(String),
    /// A head is missing, twice there or empty.
    #[error("it needs one line `{0}:`, with something after it")]
    Head(&'static str),
    /// `Seen:` names no address.
    #[error("`Seen:` begins with no https:// address")]
    NoAddress,
    /// The text after the heads is not the diff of one file.
    #[error("after the heads comes what `git diff` prints of one file: {0}")]
    NoDiff(&'static str),
    /// The file's name and the code it changes do not agree.
    #[error("it changes {file}; its name must begin with `{room}_`")]
    OtherRoom {
        /// The file it changes.
        file: String,
        /// That file's room.
        room: String,
    },
}

impl Patch {
    /// The mutant in the text of `NAME.patch`.
    ///
    /// # Errors
    /// When the text is no such patch.
    pub fn parse(name: &str, text: &str) -> Result<Self, PatchError> {
        let patch = Self::control(name, text)?;
        if !name.starts_with(&format!("{}_", patch.room)) {
            return Err(PatchError::OtherRoom { file: patch.file, room: patch.room });
        }
        if patch.seen.is_empty() {
            return Err(PatchError::Head("Seen"));
        }
        if !patch.seen.starts_with("https://") {
            return Err(PatchError::NoAddress);
        }
        Ok(patch)
    }

    /// Whether a simulated world runs its code.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        !NOT_SIMULATED.contains(&self.room.as_str())
    }

    /// The same for a control: its name says nothing about its room, and it needs no source.
    ///
    /// # Errors
    /// When the text is no such patch.
    pub fn control(name: &str, text: &str) -> Result<Self, PatchError> {
        let (heads, diff) = text.split_once("\n\n").ok_or(PatchError::NoDiff("no empty line"))?;
        let known = ["Breaks", "Seen", "Survives", "Unseen"];
        let unknown = heads
            .lines()
            .find(|line| !line.split_once(": ").is_some_and(|(head, _)| known.contains(&head)));
        if let Some(line) = unknown {
            return Err(PatchError::UnknownHead(line.to_owned()));
        }
        let breaks = head(heads, "Breaks")?.ok_or(PatchError::Head("Breaks"))?;
        let seen = head(heads, "Seen")?.unwrap_or_default();
        let (survives, unseen) = (head(heads, "Survives")?, head(heads, "Unseen")?);
        let file = file(diff)?;
        let room = room(&file).ok_or(PatchError::NoDiff("it changes a file of no room"))?;
        let places = places(diff)?;
        Ok(Self {
            name: name.to_owned(),
            room,
            breaks,
            seen,
            survives,
            unseen,
            file,
            places,
            diff: diff.into(),
        })
    }

    /// The address in `seen`, and what happened there.
    #[must_use]
    pub fn address(&self) -> (&str, &str) {
        let (address, what) = self.seen.split_once(char::is_whitespace).unwrap_or((&self.seen, ""));
        (address.trim_end_matches(','), what.trim())
    }
}

fn head(heads: &str, name: &'static str) -> Result<Option<String>, PatchError> {
    let mut values = heads.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    match (values.next().map(str::trim), values.next()) {
        (Some(value), None) if !value.is_empty() => Ok(Some(value.to_owned())),
        (None, _) => Ok(None),
        _ => Err(PatchError::Head(name)),
    }
}

/// The one file that a diff changes.
fn file(diff: &str) -> Result<String, PatchError> {
    if !diff.starts_with("diff --git ") {
        return Err(PatchError::NoDiff("it does not begin with `diff --git`"));
    }
    // A context line begins with a space, so these are heads of the diff.
    let named = |mark: &str| -> Vec<&str> {
        diff.lines().filter_map(|line| line.strip_prefix(mark)).collect()
    };
    let (before, after) = (named("--- a/"), named("+++ b/"));
    match (&before[..], &after[..]) {
        ([before], [after]) if before == after => Ok((*after).to_owned()),
        _ => Err(PatchError::NoDiff("it changes not exactly one file")),
    }
}

/// The room of a file, such as `src/store/memory.rs` or `crates/core/src/time.rs`. All of the
/// laboratory is one.
fn room(file: &str) -> Option<String> {
    if file.starts_with("crates/lab/src/") {
        return Some(LABORATORY.to_owned());
    }
    if file.starts_with("src/store/postgres/") {
        return Some(SQL.to_owned());
    }
    let roots = ["crates/core/src/", "crates/service/src/", "src/"];
    let inner = roots.iter().find_map(|root| file.strip_prefix(root))?;
    let room = inner.split('/').next()?;
    Some(room.trim_end_matches(".rs").to_owned())
}

/// The changes of the hunks, by lines of the file before.
fn places(diff: &str) -> Result<BTreeSet<Line>, PatchError> {
    let mut places = BTreeSet::new();
    let mut next: Option<u64> = None;
    // Whether what is put in takes the place of lines that were just left out.
    let mut replaces = false;
    for text in diff.lines() {
        if let Some(hunk) = text.strip_prefix("@@ -") {
            let digits = hunk.split([',', ' ']).next().unwrap_or_default();
            next = Some(digits.parse().map_err(|_| PatchError::NoDiff("a hunk has no line"))?);
            replaces = false;
            continue;
        }
        let Some(line) = next.as_mut() else { continue };
        match text.as_bytes().first() {
            Some(b'-') => {
                places.insert(Line::Changed(*line));
                replaces = true;
                *line += 1;
            }
            Some(b'+') if replaces => {}
            Some(b'+') => drop(places.insert(Line::After(line.saturating_sub(1)))),
            Some(b'\\') => {}
            _ => {
                replaces = false;
                *line += 1;
            }
        }
    }
    if places.is_empty() { Err(PatchError::NoDiff("it changes nothing")) } else { Ok(places) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    const TEXT: &str = "Breaks: W8: one attempt too many.\nSeen: https://x.test/1 it went on.\n\n\
        diff --git a/src/policy/limit.rs b/src/policy/limit.rs\nindex 1..2 100644\n\
        --- a/src/policy/limit.rs\n+++ b/src/policy/limit.rs\n@@ -10,4 +10,5 @@ fn f() {\n \
        a\n-b\n+c\n d\n+e\n f\n";

    #[test]
    fn a_patch_says_what_it_changes() {
        let patch = Patch::parse("policy_more", TEXT).unwrap();
        assert_eq!(patch.room, "policy");
        assert_eq!(patch.file, "src/policy/limit.rs");
        assert_eq!(patch.places, BTreeSet::from([Line::Changed(11), Line::After(12)]));
        assert_eq!(patch.address(), ("https://x.test/1", "it went on."));
        assert!(patch.diff.starts_with("diff --git") && patch.survives.is_none());
    }

    #[test]
    fn a_text_that_is_no_mutant_says_why() {
        let wrong = |name: &str, from: &str, to: &str| {
            Patch::parse(name, &TEXT.replacen(from, to, 1)).unwrap_err()
        };
        let more = "policy_more";
        assert_eq!(
            wrong(more, "Breaks: W8", "W8"),
            PatchError::UnknownHead("W8: one attempt too many.".into())
        );
        assert_eq!(wrong(more, "Breaks:", "Seen:"), PatchError::Head("Breaks"));
        assert_eq!(wrong(more, "Seen:", "Breaks:"), PatchError::Head("Breaks"));
        assert_eq!(wrong(more, "https://", "http://"), PatchError::NoAddress);
        assert!(matches!(wrong(more, "diff --git", "git"), PatchError::NoDiff(_)));
        assert!(matches!(wrong(more, "\n\n", "\n"), PatchError::NoDiff(_)));
        assert!(matches!(wrong(more, "+++ b/src", "+++ b/sim"), PatchError::NoDiff(_)));
        assert!(matches!(wrong(more, "-b\n+c\n d\n+e\n", " b\n"), PatchError::NoDiff(_)));
        assert!(matches!(wrong("run_more", "a", "a"), PatchError::OtherRoom { .. }));
    }
}
