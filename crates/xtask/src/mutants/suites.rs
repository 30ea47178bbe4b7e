//! The tests that a mutant meets when every seed held.

use std::fmt;

use super::patch::SQL;

/// A program of tests, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its target's name in Cargo's words.
    pub name: &'static str,
    /// Which of its tests: none for those that need nothing installed. Others take long, and only
    /// mutants of their rooms meet them.
    pub only: &'static [&'static str],
    /// The rooms with mutants that this suite tests first.
    pub rooms: &'static [&'static str],
}

const fn suite(name: &'static str, rooms: &'static [&'static str]) -> Suite {
    Suite { name, only: &[], rooms }
}

/// The core beside its models, the policies' tables, the suites of the seams, which reach what no
/// simulated world does, and the libraries' own tests. The last needs the programs of a PostgreSQL
/// server.
pub const SUITES: [Suite; 15] = [
    suite("run", &["run", "workflow"]),
    suite("policy", &["explain", "failure", "guard", "policy", "schedule", "time"]),
    suite("dialect", &["dialect"]),
    suite("store", &["store"]),
    suite("action", &["action"]),
    suite("observe", &["observe"]),
    suite("engine", &["engine", "runtime"]),
    suite("lab", &["lab"]),
    suite("server", &["server"]),
    suite("cli", &[]),
    suite("retrial_core", &[]),
    suite("retrial", &[]),
    suite("retrial_lab", &[]),
    suite("retrial_service", &[]),
    Suite { name: "store", only: &["--ignored", "postgres"], rooms: &[SQL] },
];

/// As it is named where one of its tests fails.
impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        self.only.iter().try_for_each(|argument| write!(f, " {argument}"))
    }
}

/// In the order in which a mutant of `room` meets them: the room's own, then the others. Each of the
/// two is built together.
#[must_use]
pub(super) fn in_order(room: &str) -> [Vec<Suite>; 2] {
    let is_own = |suite: &Suite| suite.rooms.contains(&room);
    let met = SUITES.iter().copied().filter(|suite| suite.only.is_empty() || is_own(suite));
    let (own, others) = met.partition(is_own);
    [own, others]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_meets_every_suite_once_its_own_rooms_first() {
        for (room, left_out) in [("run", 1), ("schedule", 1), ("shown", 1), (SQL, 0)] {
            let [own, others] = in_order(room);
            assert_eq!(own.len() + others.len() + left_out, SUITES.len());
        }
        let own = |room| in_order(room)[0].iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(own("schedule"), ["policy"]);
        assert_eq!(own("run"), ["run"]);
        assert_eq!(own("store"), ["store"]);
        assert_eq!(own("store_sql"), ["store --ignored postgres"]);
        assert!(own("shown").is_empty());
    }
}
