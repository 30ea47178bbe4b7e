//! Why no seed takes some branches.

use super::count::Counted;

/// Why none of a file's or a function's branches that no seed takes is taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reason {
    /// How its file begins, below `crates/core/src`.
    pub(super) file: &'static str,
    /// What the function is called, with its type; any where empty.
    pub(super) function: &'static str,
    pub(super) why: &'static str,
}

impl Reason {
    /// That of a branch: of those that fit, the one that says most about where.
    pub(super) fn of(counted: &Counted) -> Option<&'static Self> {
        let fits = |reason: &&Self| {
            counted.file.starts_with(reason.file)
                && (reason.function.is_empty() || counted.branch.function.contains(reason.function))
        };
        REASONS.iter().filter(fits).max_by_key(|reason| (reason.file.len(), reason.function.len()))
    }
}

pub(super) const REASONS: &[Reason] = &[
    reason(
        "dialect/",
        "",
        "refuses, and reads spellings that no seed writes: what a seed draws is accepted",
    ),
    reason(
        "dialect/diagnostic.rs",
        "",
        "tells what is wrong with a file; no seed draws a wrong one",
    ),
    reason(
        "dialect/errors.rs",
        "",
        "collects what is wrong with a file; no seed draws a wrong one",
    ),
    reason("dialect/mask/", "", "masks definitions where the service shows them"),
    reason(
        "dialect/policy.rs",
        "",
        "reads a policy alone, as the command line does; in worlds policies stand in workflows",
    ),
    reason("dialect/report.rs", "", "shows what is wrong with a file; no seed draws a wrong one"),
    reason(
        "dialect/text.rs",
        "",
        "reads a policy alone, as the command line does; in worlds policies stand in workflows",
    ),
    reason("dialect/tree/print.rs", "", "prints masked definitions where the service shows them"),
    reason(
        "dialect/tree/suggest.rs",
        "",
        "guesses what a misspelt name meant; no seed draws a wrong one",
    ),
    reason(
        "dialect/work_config.rs",
        "Environment::read",
        "reads the variables `RETRY_*`, which no world sets",
    ),
    reason(
        "dialect/work_config.rs",
        "variable",
        "reads the variables `RETRY_*`, which no world sets",
    ),
    reason("dialect/write.rs", "", "writes a policy in a dialect for a program of a user"),
    reason(
        "explain/",
        "",
        "says in words what a policy does; the command line and the service ask for it",
    ),
    reason("failure/", "", "for a user's own code"),
    reason("failure/context.rs", "fmt::Display", "shows an error to a reader"),
    reason(
        "failure/kinds.rs",
        "Failure::arguments_too_large",
        "no world has arguments of 256 KiB, which would be sent at each attempt",
    ),
    reason(
        "failure/kinds.rs",
        "Failure::http",
        "endpoints answer with 200 or with a status from 400 to 599",
    ),
    reason(
        "failure/kinds.rs",
        "NetworkFault::type_name",
        "the simulated network has no names to look up and no TLS",
    ),
    reason("failure/sanitise/", "", "spellings of secrets that no endpoint prints"),
    reason("failure/sanitise/mod.rs", "", "masks values where the service shows them"),
    reason("guard/", "", "what asks for the standing of a guard: the service's page of actions"),
    reason("guard/alerts.rs", "TryFrom", "refuses settings; what a seed draws is accepted"),
    reason(
        "guard/breaker.rs",
        "Circuit::hear",
        "nothing starts while a breaker is open, and it does not hear what started before",
    ),
    reason("guard/rules.rs", "", "refuses settings; what a seed draws is accepted"),
    reason(
        "guard/window.rs",
        "",
        "a state of guards that was read from a store has counts; a window has parts",
    ),
    reason("policy/", "", "refuses settings; what a seed draws is accepted"),
    reason(
        "policy/backoff.rs",
        "Backoff::is_always_zero",
        "asked of policies that retry for ever, whose drawn delays are not zero",
    ),
    reason("policy/backoff.rs", "Shape::kind", "names a backoff for a reader"),
    reason("policy/backoff.rs", "fmt::Debug", "shows functions to a programmer"),
    reason(
        "policy/builder.rs",
        "",
        "builds a policy in a program; worlds have the builder's parts as data",
    ),
    reason("policy/limit.rs", "", "shows a limit to a reader"),
    reason("policy/matcher.rs", "", "names a rule's types for a reader"),
    reason("policy/mod.rs", "Dialect::name", "names a dialect for a reader"),
    reason(
        "policy/mod.rs",
        "Policy::builder",
        "builds a policy in a program; worlds have the builder's parts as data",
    ),
    reason("policy/mod.rs", "Policy::most_generous", "asked when a policy is explained"),
    reason("policy/precedence.rs", "", "shows to a reader where a policy came from"),
    reason("policy/preset.rs", "", "shows a preset to a reader"),
    reason("policy/verdict.rs", "", "for one decision without a run"),
    reason("run/", "", "keeps a run from a state that can't be"),
    reason(
        "run/advance.rs",
        "enter",
        "no list has more than 10,000 items: a seed would take minutes",
    ),
    reason(
        "run/codec.rs",
        "",
        "stores keep what they were given; damaged and old records are tested by themselves",
    ),
    reason("run/cost.rs", "", "shows a cost to a reader"),
    reason(
        "run/decide.rs",
        "claimed",
        "no world has arguments of 256 KiB, which would be sent at each attempt",
    ),
    reason(
        "run/definitions.rs",
        "",
        "reads a state from bytes; the engine does so for damaged records alone",
    ),
    reason(
        "run/failing.rs",
        "too_large",
        "no world has arguments of 256 KiB, which would be sent at each attempt",
    ),
    reason("run/ids.rs", "", "shows and reads ids and digests for a reader"),
    reason("run/letter.rs", "LetterId", "reads an id that a user typed"),
    reason(
        "run/queue.rs",
        "",
        "queue rows that a store has lost, and what a reader asks for: a simulated store loses none",
    ),
    reason("run/state.rs", "", "asked by what shows a run"),
    reason("run/stored.rs", "", "events that were stored as JSON by releases before"),
    reason("run/task.rs", "TaskState::spent", "asked by what shows a run"),
    reason("run/timing.rs", "", "the times of a fan-out; asked by what shows a run"),
    reason("run/view.rs", "RunState::left_by", "asked by what shows a run"),
    reason("schedule/", "", "a slot or a queue that can't be"),
    reason(
        "schedule/wheel.rs",
        "",
        "a bucket with many entries: the nodes of a world have few timers",
    ),
    reason("time.rs", "", "shows and reads times for a reader"),
    reason("workflow/", "", "refuses a workflow; what a seed draws is accepted"),
    reason("workflow/builder.rs", "", "builds a workflow in a program; worlds have texts"),
    reason("workflow/condition.rs", "", "a spelling that no drawn condition has"),
    reason(
        "workflow/endpoint.rs",
        "",
        "arguments that have no form, or are too long, which the endpoint would never see",
    ),
    reason(
        "workflow/endpoint.rs",
        "HeaderText",
        "variables of the environment, which no world sets",
    ),
    reason("workflow/graph.rs", "", "refuses a workflow; what a seed draws is accepted"),
    reason("workflow/mod.rs", "Serialize", "stores keep definitions as text; this is for a reader"),
    reason("workflow/need.rs", "", "for a store's own tests"),
    reason("workflow/nesting.rs", "", "what `Write` demands"),
    reason(
        "workflow/room.rs",
        "",
        "what `Write` demands, and characters that no text of a world has",
    ),
    reason("workflow/search.rs", "", "no drawn workflow has fields by which its runs are found"),
    reason("workflow/seen.rs", "", "comparisons and lists that no drawn condition makes"),
    reason("workflow/template.rs", "", "spellings that no drawn argument has"),
    reason(
        "workflow/url_template.rs",
        "",
        "arguments of a URL that are refused, or lists, or variables of the environment",
    ),
    reason("workflow/webhook.rs", "", "asked when a workflow is explained"),
];

const fn reason(file: &'static str, function: &'static str, why: &'static str) -> Reason {
    Reason { file, function, why }
}
