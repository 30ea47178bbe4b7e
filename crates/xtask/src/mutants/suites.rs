//! The tests that a mutant meets when every seed held.

/// A file of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Its name in Cargo's words.
    pub name: &'static str,
    /// The rooms with mutants that this suite tests first.
    pub rooms: &'static [&'static str],
}

const fn suite(name: &'static str, rooms: &'static [&'static str]) -> Suite {
    Suite { name, rooms }
}

/// The core beside its models, the policies' tables, and the suites of the seams, which reach what
/// no simulated world does.
pub const SUITES: [Suite; 10] = [
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
];

/// In the order in which a mutant of `room` meets them: the room's own, then the others. Each of the
/// two is built together.
#[must_use]
pub(super) fn in_order(room: &str) -> [Vec<&'static str>; 2] {
    let (own, others): (Vec<Suite>, Vec<Suite>) =
        SUITES.iter().copied().partition(|suite| suite.rooms.contains(&room));
    [own, others].map(|suites| suites.iter().map(|suite| suite.name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_meets_every_suite_once_its_own_rooms_first() {
        for room in ["run", "schedule", "shown"] {
            let [own, others] = in_order(room);
            assert_eq!(own.len() + others.len(), SUITES.len());
        }
        assert_eq!(in_order("schedule")[0], ["policy"]);
        assert_eq!(in_order("run")[0], ["run"]);
        assert!(in_order("shown")[0].is_empty());
    }
}
