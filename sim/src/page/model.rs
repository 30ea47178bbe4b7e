//! The content of a page, as data. Places are indexes into [`Page`]'s lists. Times are true
//! simulated time in nanoseconds since the world began.

use std::fmt::Display;

use serde::Serialize;

use crate::blame::Likelihood;
use crate::fault::FaultKind;
use crate::trace::Kind;

/// One world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Page {
    /// The seed and its verdict.
    pub title: String,
    /// Whether every promise held.
    pub holds: bool,
    /// The totals of the world.
    pub facts: Vec<Detail>,
    /// Where the timeline ends.
    pub until: u64,
    /// The runs.
    pub runs: Vec<Run>,
    /// The lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// The entries that concern all lanes.
    pub lines: Vec<Line>,
    /// The bars, by their start.
    pub bars: Vec<Bar>,
    /// The spans of faults.
    pub spans: Vec<Span>,
    /// The marks of instants, by their time.
    pub marks: Vec<Mark>,
    /// The broken promises.
    pub findings: Vec<Finding>,
    /// How likely the failure became, where that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blame: Option<Curve>,
    /// The kinds of faults that were drawn.
    pub strikes: Vec<Strikes>,
    /// The scenario's JSON.
    pub scenario: String,
}

/// A name and its value, for a reader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Detail {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl Detail {
    /// `name: value`.
    #[must_use]
    pub fn new(name: &str, value: impl Display) -> Self {
        Self { name: name.to_owned(), value: value.to_string() }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Its workflow's name.
    pub workflow: String,
}

/// A lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub kind: LaneKind,
}

/// The owner of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneKind {
    /// The users: they submit, cancel and heal.
    People,
    /// A node with an engine.
    Node,
    /// The store's own node.
    Store,
    /// The endpoints' node.
    Host,
    /// One endpoint.
    Endpoint,
    /// Anything else that the history names.
    Other,
}

/// An instant that concerns all lanes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// When.
    pub at: u64,
    /// Its name.
    pub name: String,
}

/// Something that took its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Bar {
    /// The place of its lane.
    pub lane: usize,
    /// When it began.
    pub from: u64,
    /// When it ended; `None` if unknown.
    pub until: Option<u64>,
    /// Its kind.
    pub kind: BarKind,
    /// How it ended.
    pub end: BarEnd,
    /// A few words.
    pub name: String,
    /// The place of its run, where that is known.
    pub run: Option<usize>,
    /// The numbers of its first and its last event, as far as it has them.
    pub numbers: Vec<u64>,
    /// More.
    pub details: Vec<Detail>,
}

/// The kind of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarKind {
    /// An attempt, on the node that ran it.
    Attempt,
    /// The delay before a retry, as it was scheduled.
    Delay,
    /// A task was due and waited to be claimed.
    Due,
    /// A request, at its endpoint.
    Arrival,
}

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BarEnd {
    /// Well.
    Well,
    /// Badly.
    Badly,
    /// It was called off, or its caller went away.
    CalledOff,
    /// Nothing is known of its end.
    Open,
}

/// Something that went wrong for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The place of its lane.
    pub lane: usize,
    /// From here.
    pub from: u64,
    /// Until here; none where it lasts to the end.
    pub until: Option<u64>,
    /// Its kind.
    pub kind: SpanKind,
    /// In words.
    pub name: String,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpanKind {
    /// The node was dead.
    Dead,
    /// The node stood still.
    Still,
    /// A fault was on.
    Window,
}

/// Something that happened in an instant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// The place of its lane.
    pub lane: usize,
    /// When.
    pub at: u64,
    /// Its kind.
    pub kind: MarkKind,
    /// Its name.
    pub name: String,
    /// The place of its run, for an event of one.
    pub run: Option<usize>,
    /// The event's number.
    pub number: Option<u64>,
    /// More.
    pub details: Vec<Detail>,
}

/// The kind of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Something reached the system from outside.
    Input,
    /// An event of a run.
    Event,
    /// Bytes crossed the network, or a connection changed.
    Message,
    /// A disk call.
    Disk,
    /// A fault struck.
    Fault,
    /// A node's wall clock jumped.
    Clock,
    /// A note.
    Note,
}

impl From<Kind> for MarkKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Input => Self::Input,
            Kind::Event => Self::Event,
            Kind::Message => Self::Message,
            Kind::Disk => Self::Disk,
            Kind::Fault => Self::Fault,
            Kind::Note => Self::Note,
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The oracle that found it.
    pub oracle: String,
    /// The promise, in a sentence.
    pub promise: String,
    /// The short stable code of what was found.
    pub reason: String,
    /// The finding.
    pub text: String,
    /// The events that prove it.
    pub proof: Vec<EventAt>,
}

/// One event of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EventAt {
    /// The place of the run.
    pub run: usize,
    /// The event's number.
    pub number: u64,
}

/// How often a kind of fault was drawn and struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Strikes {
    /// The kind.
    pub kind: FaultKind,
    /// How often it was drawn.
    pub drawn: u64,
    /// How often it struck.
    pub struck: u64,
}

/// How often worlds failed that were alike up to an entry of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// By the number of entries.
    pub points: Vec<Likelihood>,
    /// The entry after which the failure is certain; none if it is from the start on.
    pub entry: Option<Entry>,
}

/// An entry of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its number, from 1.
    pub number: u64,
    /// When.
    pub at: u64,
    /// Its lane and its text.
    pub name: String,
}
