//! Many mutants in one build (mutant schemata, Untch, Offutt and Harrold 1993): each changed body
//! stands in its function behind a switch, and a variable of the environment says which one is on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use super::bodies::{Changed, changed};

/// The variable that holds the number of the mutant that is planted.
pub(super) const PLANTED: &str = "RETRIAL_PLANTED";

/// The crates that can have mutants: the folder of their sources. Each has a `lib.rs`.
const CRATES: [&str; 4] = ["crates/core/src/", "crates/lab/src/", "crates/service/src/", "src/"];

/// What each of them gets.
const SWITCH: &str = r#"
/// Whether the mutant with this number is planted.
#[doc(hidden)]
pub fn planted(number: u32) -> bool {
    static PLANTED: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    let set = || std::env::var("RETRIAL_PLANTED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    *PLANTED.get_or_init(set) == number
}
"#;

/// A source with switches.
#[derive(Clone, Debug, Default)]
pub(super) struct Switches {
    /// The files that differ from the source's.
    files: BTreeMap<String, Switched>,
    /// The mutants that have a switch, and its number, from 1.
    numbers: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Default)]
struct Switched {
    text: String,
    /// The lines of each mutant's bodies.
    lines: Vec<(Range<usize>, u32)>,
}

impl Switches {
    /// Puts behind switches what can stand there. `source` gives a file as it is; of each mutant it
    /// takes the name, the file, and that file's text with the mutant.
    pub(super) fn new<'a>(
        source: impl Fn(&str) -> Option<&'a str>,
        mutants: impl IntoIterator<Item = (&'a str, &'a str, String)>,
    ) -> Self {
        let mut switches = Self::default();
        let mut by_file: BTreeMap<&str, Vec<(u32, Changed)>> = BTreeMap::new();
        for (name, file, after) in mutants {
            let Some(bodies) = source(file).and_then(|before| changed(before, &after)) else {
                continue;
            };
            let number = switches.numbers.len() as u32 + 1;
            switches.numbers.insert(name.to_owned(), number);
            by_file.entry(file).or_default().extend(bodies.into_iter().map(|body| (number, body)));
        }
        for (file, bodies) in by_file {
            switches
                .files
                .insert(file.to_owned(), switched(source(file).unwrap_or_default(), bodies));
        }
        for root in CRATES.map(|folder| format!("{folder}lib.rs")) {
            let Some(text) = source(&root) else { continue };
            let whole = || Switched { text: text.to_owned(), lines: Vec::new() };
            switches.files.entry(root).or_insert_with(whole).text.push_str(SWITCH);
        }
        switches
    }

    /// Whether there is no switch.
    pub(super) fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// A line for each mutant that has a switch: its number and its name.
    pub(super) fn listed(&self) -> String {
        let mut listed: Vec<_> = self.numbers.iter().map(|(name, number)| (number, name)).collect();
        listed.sort_unstable();
        listed.iter().map(|(number, name)| format!("{number} {name}\n")).collect()
    }

    /// The number of this mutant's switch, if it has one.
    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The file with its switches, if it has some.
    pub(super) fn file(&self, file: &str) -> Option<&str> {
        self.files.get(file).map(|switched| switched.text.as_str())
    }

    /// The mutants at which the compiler's messages point.
    pub(super) fn blamed(&self, messages: &str) -> Vec<&str> {
        let places = messages.lines().filter_map(|line| {
            let (file, rest) = line.trim_start().strip_prefix("--> ")?.split_once(".rs:")?;
            let line: usize = rest.split(':').next()?.parse().ok()?;
            Some((self.files.get(&format!("{file}.rs"))?, line))
        });
        let mut blamed: Vec<u32> = places
            .filter_map(|(file, line)| file.lines.iter().find(|(lines, _)| lines.contains(&line)))
            .map(|(_, number)| *number)
            .collect();
        blamed.sort_unstable();
        blamed.dedup();
        let named = |number| self.numbers.iter().find(|(_, of)| **of == number);
        blamed.into_iter().filter_map(named).map(|(name, _)| name.as_str()).collect()
    }
}

/// The file with all of these bodies, each behind its number.
fn switched(before: &str, mut bodies: Vec<(u32, Changed)>) -> Switched {
    bodies.sort_by_key(|(number, changed)| (changed.range.start, *number));
    let mut switched = Switched::default();
    let mut from = 0;
    for same in bodies.chunk_by(|(_, one), (_, other)| one.range == other.range) {
        let Some((_, Changed { range, .. })) = same.first() else { continue };
        switched.text.push_str(&before[from..range.start]);
        switched.text.push('{');
        for (number, Changed { body, .. }) in same {
            let first = lines(&switched.text);
            let _ = write!(switched.text, " if crate::planted({number}) {body} else");
            switched.lines.push((first..lines(&switched.text) + 1, *number));
        }
        switched.text.push(' ');
        switched.text.push_str(&before[range.clone()]);
        switched.text.push_str(" }");
        from = range.end;
    }
    switched.text.push_str(&before[from..]);
    switched
}

/// The number of the line at the end of `text`, from 1.
fn lines(text: &str) -> usize {
    text.matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    const FILE: &str = "fn a() -> u32 {\n    1\n}\nfn b() -> u32 {\n    2\n}\n";

    fn switches() -> Switches {
        let source = |file: &str| match file {
            "src/a.rs" => Some(FILE),
            "src/lib.rs" => Some("mod a;\n"),
            _ => None,
        };
        let mutants =
            [("one", "1", "7"), ("two", "1", "8"), ("three", "2\n", "9\n"), ("four", "a()", "c()")];
        let text = |from, to| FILE.replacen(from, to, 1);
        Switches::new(source, mutants.map(|(name, from, to)| (name, "src/a.rs", text(from, to))))
    }

    #[test]
    fn each_body_stands_behind_its_number() {
        let switches = switches();
        let numbers = ["one", "two", "three", "four"].map(|name| switches.number(name));
        assert_eq!(numbers, [Some(1), Some(2), Some(3), None]);
        assert_eq!(switches.listed(), "1 one\n2 two\n3 three\n");
        assert_eq!(
            switches.file("src/a.rs").unwrap(),
            "fn a() -> u32 { if crate::planted(1) {\n    7\n} else if crate::planted(2) {\n    8\n} \
             else {\n    1\n} }\nfn b() -> u32 { if crate::planted(3) {\n    9\n} else {\n    2\n} }\n"
        );
        let root = switches.file("src/lib.rs").unwrap();
        assert!(
            root.starts_with("mod a;\n") && root.contains("pub fn planted(number: u32) -> bool")
        );
        assert!(root.contains(PLANTED) && switches.file("src/c.rs").is_none());
        assert!(syn::parse_file(switches.file("src/a.rs").unwrap()).is_ok());
    }

    #[test]
    fn an_error_is_that_of_the_mutant_in_whose_body_it_is() {
        let blamed = |line: u32| {
            let said = format!("error[E0308]: mismatched types\n  --> src/a.rs:{line}:5\n   |\n");
            switches().blamed(&said).join(" ")
        };
        assert_eq!([2, 4, 8].map(blamed), ["one", "two", "three"]);
        assert_eq!(blamed(6), "");
    }
}
