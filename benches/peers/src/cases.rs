//! What is measured: whose program, and in which circumstances.

/// The circumstances of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Each job succeeds at once.
    Plain,
    /// Each job fails once.
    Fail,
    /// A transaction elsewhere holds a snapshot.
    Snapshot,
    /// Many runs wait for an hour.
    Pending,
    /// Two nodes work.
    TwoNodes,
    /// Plain SQL in batches, without a program.
    Floor,
}

/// One way of working the jobs off.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// Its name here.
    pub(crate) name: &'static str,
    /// Its program's folder in `programs/`.
    pub(crate) program: &'static str,
    /// The circumstances.
    pub(crate) kind: Kind,
    /// What it is and keeps.
    pub(crate) about: &'static str,
}

const fn case(name: &'static str, program: &'static str, kind: Kind, about: &'static str) -> Case {
    Case { name, program, kind, about }
}

impl Case {
    /// The case of Retrial's that it is set beside.
    pub(crate) fn beside(&self) -> &'static str {
        match self.kind {
            Kind::Fail if !self.is_own() => "retrial-retry",
            _ => "retrial",
        }
    }

    /// Whether it is Retrial's.
    pub(crate) fn is_own(&self) -> bool {
        self.program == "retrial"
    }
}

/// All cases.
pub(crate) const CASES: &[Case] = &[
    case("retrial", "retrial", Kind::Plain, "run of one step: events, record, queue row, result"),
    case("dbos", "dbos", Kind::Plain, "dbos 0.5.0, 8 queues: status, output of the step"),
    case("awa", "awa", Kind::Plain, "awa 0.6.9: claims and completions in batches"),
    case("apalis", "apalis", Kind::Plain, "apalis-postgres 1.0.0: status and result on the row"),
    case("graphile-rs", "graphile", Kind::Plain, "graphile_worker 0.14.1: the row is deleted"),
    case("graphile-node", "node", Kind::Plain, "graphile-worker 0.17.3: the row is deleted"),
    case("floor", "", Kind::Floor, "SQL that writes Retrial's kind of rows, 100 a transaction"),
    case("retrial-retry", "retrial", Kind::Fail, "each run fails once"),
    case("dbos-retry", "dbos", Kind::Fail, "each step fails once"),
    case("apalis-retry", "apalis", Kind::Fail, "each task fails once"),
    case("retrial-pending", "retrial", Kind::Pending, "beside runs that wait for an hour"),
    case("retrial-snapshot", "retrial", Kind::Snapshot, "while a transaction holds a snapshot"),
    case("retrial-two-nodes", "retrial", Kind::TwoNodes, "two nodes on one database"),
];

/// The case of this name.
pub(crate) fn named(name: &str) -> Result<&'static Case, String> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<&str> = CASES.iter().map(|case| case.name).collect();
        format!("there is no such case: use {}", names.join(", "))
    })
}
