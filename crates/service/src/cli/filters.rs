//! Which runs a command is about, and how many there are.

use retrial::dialect::parse_duration;
use retrial::runtime::{Runtime, TokioRuntime};
use retrial::time::{Nanos, Timestamp};

use super::query::Query;

/// Selects runs.
#[derive(Debug, clap::Args)]
pub(super) struct RunFilters {
    /// Only runs of this workflow
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,

    /// Only the run that was submitted with this key
    #[arg(long)]
    key: Option<String>,

    /// Only runs with this error code in their newest dead letter
    #[arg(long)]
    code: Option<String>,

    /// Only runs whose input has this value in a field that their workflow declares as searchable; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = field)]
    field: Vec<String>,

    /// Only runs created at this time or later: a length of time ago, such as 2h, or a time such as 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = when)]
    since: Option<When>,

    /// Only runs created before this time, written as for --since
    #[arg(long, value_name = "TIME", value_parser = when)]
    until: Option<When>,
}

/// A time, or how long ago.
#[derive(Clone, Copy, Debug)]
pub(super) enum When {
    Ago(Nanos),
    At(Timestamp),
}

impl RunFilters {
    /// What to look at where no run was found.
    pub(super) fn hint(&self) -> &'static str {
        match self.field.is_empty() {
            true => "",
            false => {
                " Fields are found that the workflow declared when the run was submitted: search = [\"NAME\"]."
            }
        }
    }

    pub(super) fn query(&self, phase: Option<String>) -> Query {
        let fields = self.field.iter().cloned().map(Some);
        let query = fields.fold(Query::new(), |query, field| query.text("field", field));
        query
            .text("phase", phase)
            .text("workflow", self.workflow.clone())
            .text("key", self.key.clone())
            .text("code", self.code.clone())
            .text("since", self.since.map(When::text))
            .text("until", self.until.map(When::text))
    }
}

impl When {
    pub(super) fn text(self) -> String {
        match self {
            Self::Ago(length) => TokioRuntime::current().wall().before(length).to_string(),
            Self::At(time) => time.to_string(),
        }
    }
}

pub(super) fn when(text: &str) -> Result<When, String> {
    let at = || text.parse().map(When::At).ok();
    let ago = || parse_duration(text).map(When::Ago).ok();
    let wrong = || "write a length such as 2h, or a time such as 2026-01-31T12:00:00Z".to_owned();
    at().or_else(ago).ok_or_else(wrong)
}

fn field(text: &str) -> Result<String, String> {
    let is_whole = text.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    is_whole.then(|| text.to_owned()).ok_or_else(|| "write NAME=VALUE".to_owned())
}

/// So many match the filters.
pub(super) fn so_many(n: usize, one: &str, more: &str) -> String {
    match n {
        1 => format!("1 {one} matches the filters.\n"),
        n => format!("{n} {more} match the filters.\n"),
    }
}
