use super::{SearchFieldsError, TemplateError};

/// Why a workflow is rejected. Places are indices into the text's lists, from 0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkflowError {
    /// Nothing to run.
    #[error("workflow `{name}` has no steps; add at least one")]
    NoSteps {
        /// The workflow's name.
        name: String,
    },
    /// More steps than a run can hold.
    #[error("{count} steps are more than the {most} allowed; split the workflow")]
    TooManySteps {
        /// How many there are.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// The policies of the steps, each stored with its step, are too large together.
    #[error(
        "the policies of all steps take {bytes} bytes together, more than {most}; shorten the policy that many steps share"
    )]
    PoliciesTooLarge {
        /// How much they take, as far as they were counted.
        bytes: usize,
        /// How much is allowed.
        most: usize,
    },
    /// Two steps have the same id.
    #[error("step id `{id}` is used twice; give each step its own id")]
    DuplicateStep {
        /// The second one's place.
        step: usize,
        /// The id.
        id: String,
    },
    /// The default inputs of a builder are no object.
    #[error("the input is no object; give it as json!({{ .. }})")]
    InputNoObject,
    /// The searchable fields of a builder can't be used.
    #[error("`search`: {0}")]
    BadSearch(SearchFieldsError),
    /// A template of a builder can't be read.
    #[error("`{field}` of step `{id}`: {error}")]
    BadTemplate {
        /// The step's id.
        id: String,
        /// `args` or `for_each`.
        field: &'static str,
        /// What is wrong with it.
        error: TemplateError,
    },
    /// A dependency or transition points outside the list.
    #[error("{what} names a step that does not exist")]
    UnknownStep {
        /// What points there.
        what: String,
    },
    /// A template, or the condition of a transition from the step, names a step that is not there.
    #[error("step `{id}`: `{reference}` names an unknown step")]
    UnknownReference {
        /// The place of the step whose template it is.
        step: usize,
        /// That step's id.
        id: String,
        /// The reference as written.
        reference: String,
    },
    /// A template, or the condition of a transition from the step, reads a result of a step that is
    /// not sure to have ended before.
    #[error(
        "step `{id}`: `{reference}` reads a step that may not have ended before it; add that step to `after` or add a transition from it"
    )]
    NotBefore {
        /// The place of the step whose template it is.
        step: usize,
        /// That step's id.
        id: String,
        /// The reference as written.
        reference: String,
    },
    /// A partial success policy on a step that has one task.
    #[error("step `{id}` has one task, so `success` has no effect; add `for_each` or leave it out")]
    LoneSuccess {
        /// The place of the step.
        step: usize,
        /// Its id.
        id: String,
    },
    /// A join that waits for more successes than there are steps before it.
    #[error(
        "step `{id}` waits for {least} of {count} steps; add steps to `after` or require fewer"
    )]
    JoinTooLarge {
        /// The place of the step.
        step: usize,
        /// Its id.
        id: String,
        /// How many must succeed.
        least: usize,
        /// How many are before it.
        count: usize,
    },
    /// A compensation of a compensation, or of itself.
    #[error(
        "step `{id}` compensates `{of}`, which is a compensation itself; name a step of the ordinary flow"
    )]
    CompensatesCompensation {
        /// The place of the step.
        step: usize,
        /// Its id.
        id: String,
        /// What it compensates.
        of: String,
    },
    /// Two compensations of one step.
    #[error(
        "step `{id}` compensates `{of}`, which another step already compensates; merge the two"
    )]
    CompensatedTwice {
        /// The place of the second one.
        step: usize,
        /// Its id.
        id: String,
        /// What both compensate.
        of: String,
    },
    /// A compensation with a place in the ordinary flow.
    #[error(
        "step `{id}` compensates another and runs only in a rollback, so it can't have {what}; remove that"
    )]
    CompensationInFlow {
        /// The place of the step.
        step: usize,
        /// Its id.
        id: String,
        /// What gives it a place there.
        what: &'static str,
    },
    /// Dependencies and transitions form a cycle.
    #[error("steps {} form a cycle: none of them could ever start; remove one of its edges", path.join(" -> "))]
    Cycle {
        /// The place of the first step of the cycle.
        step: usize,
        /// The ids along the cycle, the first one again at the end.
        path: Vec<String>,
    },
}
