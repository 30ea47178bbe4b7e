//! The table of routes, from which the router and the OpenAPI document are built.

use axum::routing::{MethodRouter, get, post, put};

use super::service::SharedState;
use super::tokens::Role;
use super::{
    actions, commands, events, health, letters, listing, openapi, prune, runs, submit, values,
    workflows,
};
use retrial::engine::World;

/// The description of a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Route {
    pub(super) method: &'static str,
    /// With `{name}` for each parameter.
    pub(super) path: &'static str,
    /// The OpenAPI operation's id.
    pub(super) id: &'static str,
    /// Who may use it; `None` for everybody, also without a token.
    pub(super) role: Option<Role>,
    pub(super) summary: &'static str,
    /// The query parameters and headers that it reads.
    pub(super) takes: &'static [Parameter],
    /// The schema of its JSON body, if it takes one.
    pub(super) body: Option<&'static str>,
    /// Its answers, beside those that every route may give.
    pub(super) answers: &'static [(u16, Answer)],
}

/// A parameter: place, name, type and description.
pub(super) type Parameter = (&'static str, &'static str, &'static str, &'static str);

/// The content of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// JSON by the schema of that name.
    Json(&'static str),
    /// Server-sent events.
    Stream,
    /// Server-sent events, or JSON by the schema of that name if the client accepts JSON.
    StreamOr(&'static str),
    /// Text of this media type.
    Text(&'static str),
    /// A problem.
    Problem,
}

use Answer::{Json, Problem, Stream, StreamOr, Text};

/// Whether `path` is of the inspector's files, which everybody may load.
pub(super) fn is_asset(path: &str) -> bool {
    path == "/" || path.starts_with("/assets/")
}

const fn route(
    role: Option<Role>,
    method: &'static str,
    path: &'static str,
    id: &'static str,
) -> Route {
    Route { method, path, id, role, summary: "", takes: &[], body: None, answers: &[] }
}

/// Answers that show nothing about runs.
const OPEN: Option<Role> = None;
const READ: Option<Role> = Some(Role::Read);
const SUBMIT: Option<Role> = Some(Role::Submit);
const REVEAL: Option<Role> = Some(Role::Reveal);
const OPERATE: Option<Role> = Some(Role::Operate);
const ADMIN: Option<Role> = Some(Role::Admin);

impl Route {
    const fn says(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    const fn takes(self, takes: &'static [Parameter]) -> Self {
        Self { takes, ..self }
    }

    const fn body(self, schema: &'static str) -> Self {
        Self { body: Some(schema), ..self }
    }

    const fn answers(self, answers: &'static [(u16, Answer)]) -> Self {
        Self { answers, ..self }
    }
}

const LIMIT: Parameter = ("query", "limit", "integer", "The most entries of the page");

const RUN_FILTERS: [Parameter; 11] = [
    ("query", "phase", "string", "Only runs in this phase"),
    ("query", "workflow", "string", "Only runs of this workflow"),
    ("query", "q", "string", "A prefix of the run's id, or part of its workflow's name"),
    ("query", "letters", "boolean", "Only runs with waiting dead letters"),
    ("query", "key", "string", "Only the run that was submitted with this key"),
    ("query", "code", "string", "Only runs with this error code in their newest dead letter"),
    (
        "query",
        "field",
        "array",
        "Only runs with this value of a searchable field, written NAME=VALUE; several are given one by one",
    ),
    (
        "query",
        "since",
        "string",
        "Only runs created at this time or later, such as 2026-01-31T12:00:00Z",
    ),
    ("query", "until", "string", "Only runs created before this time"),
    ("query", "before", "string", "The `next` value of the previous page"),
    LIMIT,
];

const LETTER_FILTERS: [Parameter; 8] = [
    ("query", "workflow", "string", "Only letters of this workflow"),
    ("query", "action", "string", "Only letters of this action"),
    ("query", "code", "string", "Only letters with this error code"),
    ("query", "waiting", "boolean", "Only waiting letters"),
    (
        "query",
        "since",
        "string",
        "Only letters of tasks that failed at this time or later, such as 2026-01-31T12:00:00Z",
    ),
    ("query", "until", "string", "Only letters of tasks that failed before this time"),
    ("query", "after", "string", "The `next` value of the previous page"),
    LIMIT,
];

const EVENT_PLACE: [Parameter; 3] = [
    ("query", "from", "integer", "The first event's number"),
    ("header", "Last-Event-ID", "integer", "The number of the last event that the client has"),
    LIMIT,
];

/// The answers of a command on a run.
const COMMAND: [(u16, Answer); 6] = [
    (200, Json("Stands")),
    (404, Problem),
    (409, Problem),
    (413, Problem),
    (415, Problem),
    (422, Problem),
];

/// Every route with its handler.
pub(super) fn table<W: World>() -> Vec<(Route, MethodRouter<SharedState<W>>)> {
    let mut all = of_runs::<W>();
    all.extend(of_letters::<W>());
    all.extend(of_workflows::<W>());
    all.extend(of_the_service::<W>());
    all
}

fn of_runs<W: World>() -> Vec<(Route, MethodRouter<SharedState<W>>)> {
    let command = |path, id| route(OPERATE, "POST", path, id).answers(&COMMAND);
    vec![
        (
            route(SUBMIT, "POST", "/v1/runs", "submitRun")
                .says("Submit a run of an uploaded workflow or of a definition")
                .takes(&[(
                    "header",
                    "Idempotency-Key",
                    "string",
                    "The submission key: the same key returns the first run",
                )])
                .body("Submission")
                .answers(&[
                    (200, Json("Submitted")),
                    (201, Json("Submitted")),
                    (404, Problem),
                    (409, Problem),
                    (413, Problem),
                    (415, Problem),
                    (422, Problem),
                    (429, Problem),
                ]),
            post(submit::submit::<W>),
        ),
        (
            route(READ, "GET", "/v1/runs", "listRuns")
                .says("List runs, newest first")
                .takes(&RUN_FILTERS)
                .answers(&[(200, Json("Runs"))]),
            get(listing::list::<W>),
        ),
        (
            route(READ, "GET", "/v1/runs/watch", "watchRuns")
                .says("Watch a page of runs: it is sent again whenever it changes")
                .takes(&RUN_FILTERS)
                .answers(&[(200, Stream), (429, Problem)]),
            get(listing::watch::<W>),
        ),
        (
            route(READ, "GET", "/v1/runs/{run}", "showRun")
                .says("Show one run: steps, tasks, attempts and the reason for each retry")
                .answers(&[(200, Json("Run")), (404, Problem)]),
            get(runs::show::<W>),
        ),
        (
            route(REVEAL, "GET", "/v1/runs/{run}/values", "revealRun")
                .says("Reveal a run's input and its tasks' results, as they are stored")
                .takes(&[
                    ("query", "after", "string", "The `next` value of the previous page"),
                    LIMIT,
                ])
                .answers(&[(200, Json("Values")), (404, Problem)]),
            get(values::of_run::<W>),
        ),
        (
            route(READ, "GET", "/v1/runs/{run}/events", "runEvents")
                .says("Read a run's durable events, without gaps or repeats")
                .takes(&EVENT_PLACE)
                .answers(&[(200, StreamOr("Events")), (404, Problem), (429, Problem)]),
            get(events::events::<W>),
        ),
        (
            command("/v1/runs/{run}/cancel", "cancelRun").says("Cancel a run").body("Cancel"),
            post(commands::cancel::<W>),
        ),
        (
            command("/v1/runs/{run}/pause", "pauseRun")
                .says("Pause a run's retries")
                .body("Because"),
            post(commands::pause::<W>),
        ),
        (
            command("/v1/runs/{run}/resume", "resumeRun").says("Resume a run's retries"),
            post(commands::resume::<W>),
        ),
        (
            command("/v1/runs/{run}/fail", "failStep")
                .says("Fail the waiting tasks of a step now")
                .body("Fail"),
            post(commands::fail::<W>),
        ),
        (
            command("/v1/runs/{run}/release", "releaseRun")
                .says("Release tasks from quarantine")
                .body("Release"),
            post(commands::release::<W>),
        ),
        (
            command("/v1/runs/{run}/deactivate", "deactivateRun")
                .says("Deactivate a run: no node recovers or claims it"),
            post(commands::deactivate::<W>),
        ),
        (
            command("/v1/runs/{run}/activate", "activateRun").says("Activate a deactivated run"),
            post(commands::activate::<W>),
        ),
        (
            command("/v1/runs/{run}/archive", "archiveRun")
                .says("Archive a run that has ended or is deactivated"),
            post(commands::archive::<W>),
        ),
    ]
}

fn of_letters<W: World>() -> Vec<(Route, MethodRouter<SharedState<W>>)> {
    vec![
        (
            route(READ, "GET", "/v1/letters", "listLetters")
                .says("List dead letters, by id")
                .takes(&LETTER_FILTERS)
                .answers(&[(200, Json("Letters"))]),
            get(letters::list::<W>),
        ),
        (
            route(READ, "GET", "/v1/letters/{run}/{step}/{item}", "showLetter")
                .says("Show one dead letter, with its payload masked")
                .answers(&[(200, Json("Letter")), (404, Problem)]),
            get(letters::show::<W>),
        ),
        (
            route(REVEAL, "GET", "/v1/letters/{run}/{step}/{item}/payload", "revealLetter")
                .says("Reveal the arguments with which a task failed, as they are stored")
                .answers(&[(200, Json("Payload")), (404, Problem)]),
            get(values::of_letter::<W>),
        ),
        (
            route(OPERATE, "POST", "/v1/letters/{run}/{step}/{item}/redrive", "redriveLetter")
                .says("Redrive a dead letter: run its task again, once")
                .answers(&[
                    (201, Json("Redriven")),
                    (404, Problem),
                    (409, Problem),
                    (422, Problem),
                    (429, Problem),
                ]),
            post(letters::redrive::<W>),
        ),
        (
            route(OPERATE, "POST", "/v1/letters/{run}/{step}/{item}/discard", "discardLetter")
                .says("Discard a dead letter")
                .body("Because")
                .answers(&[
                    (200, Json("Discarded")),
                    (404, Problem),
                    (409, Problem),
                    (413, Problem),
                    (415, Problem),
                ]),
            post(letters::discard::<W>),
        ),
    ]
}

fn of_workflows<W: World>() -> Vec<(Route, MethodRouter<SharedState<W>>)> {
    vec![
        (
            route(READ, "GET", "/v1/workflows", "listWorkflows")
                .says("List uploaded workflows, by name")
                .takes(&[
                    ("query", "after", "string", "The `next` value of the previous page"),
                    LIMIT,
                ])
                .answers(&[(200, Json("Workflows"))]),
            get(workflows::list::<W>),
        ),
        (
            route(READ, "POST", "/v1/workflows/validate", "validateWorkflow")
                .says("Validate a definition and lint its policies")
                .body("Definition")
                .answers(&[(200, Json("Validated")), (413, Problem), (415, Problem)]),
            post(workflows::validate::<W>),
        ),
        (
            route(READ, "GET", "/v1/workflows/{name}", "showWorkflow")
                .says("Show an uploaded workflow, with secrets masked")
                .answers(&[(200, Json("Workflow")), (404, Problem)]),
            get(workflows::show::<W>),
        ),
        (
            route(OPERATE, "PUT", "/v1/workflows/{name}", "putWorkflow")
                .says("Upload a workflow: TOML, JSON, or IR as plain text")
                .answers(&[
                    (200, Json("Defined")),
                    (409, Problem),
                    (413, Problem),
                    (415, Problem),
                    (422, Problem),
                ]),
            put(workflows::put::<W>),
        ),
    ]
}

fn of_the_service<W: World>() -> Vec<(Route, MethodRouter<SharedState<W>>)> {
    vec![
        (
            route(ADMIN, "POST", "/v1/prune", "pruneRuns")
                .says("Remove runs that ended long ago, with all that is stored of them")
                .body("Prune")
                .answers(&[(200, Json("Pruned")), (413, Problem), (415, Problem)]),
            post(prune::prune::<W>),
        ),
        (
            route(READ, "GET", "/v1/actions", "listActions")
                .says("Show what this node did for each action, and the state of its guards")
                .answers(&[(200, Json("Actions"))]),
            get(actions::list::<W>),
        ),
        (
            route(READ, "GET", "/v1/tally", "tally")
                .says("Count runs by phase")
                .answers(&[(200, Json("Tally"))]),
            get(listing::tally::<W>),
        ),
        (
            route(READ, "GET", "/metrics", "metrics")
                .says("Show metrics in the Prometheus text format")
                .answers(&[(200, Text("text/plain"))]),
            get(health::metrics::<W>),
        ),
        (
            route(OPEN, "GET", "/healthz", "alive")
                .says("Check that the process is alive")
                .answers(&[(200, Json("Status"))]),
            get(health::alive),
        ),
        (
            route(OPEN, "GET", "/readyz", "ready")
                .says("Check that the store answers and the service accepts requests")
                .answers(&[(200, Json("Status"))]),
            get(health::ready::<W>),
        ),
        (
            route(OPEN, "GET", "/openapi.json", "openapi")
                .says("Show this document")
                .answers(&[(200, Json("Document"))]),
            get(openapi::show::<W>),
        ),
    ]
}
