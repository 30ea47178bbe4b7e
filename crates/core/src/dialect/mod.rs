//! Text to policies and workflows: five dialects, the workflow file, the environment.
//!
//! Decides what each text means, what each absent key means, and where a text is invalid. Must never
//! know runs, stores, clocks or the process's environment: variables come through a lookup.
//! To add a dialect, add a module with its `KEYS` and `read`, a variant to
//! [`Dialect`](crate::policy::Dialect), and its arms in `policy`.

mod budget;
mod diagnostic;
mod errors;
mod execution;
mod file;
mod growth;
mod ir;
mod mask;
mod number;
mod policy;
mod preset;
#[cfg(feature = "report")]
pub mod report;
mod retry_config;
mod scan;
mod settings;
mod text;
pub mod tree;
mod work_config;
pub mod write;

pub(crate) use diagnostic::brief;
pub use diagnostic::{Diagnostic, Diagnostics, Place, Source};
pub(crate) use errors::Errors;
pub(crate) use execution::DEFAULT_RETRYABLE;
pub use file::{Declarations, Document, EndpointPlace, Registered, parse_actions, parse_workflow};
pub use ir::parse_ir_program;
pub use mask::{masked_program, masked_workflow};
pub(crate) use settings::jitter_words;
pub use text::{Named, Policies, parse_policy};
pub use tree::Format;
pub use work_config::Environment;

unstable! {
    use file::{GUARD_KEYS, read_guards};
    use number::{millionths};
    use text::{looks_like_ir};
    use policy::{KEYS as POLICY_KEYS, own as own_policy};
}

use crate::policy::{Policy, PolicyParts};

/// The policy of `parts`, or why it is rejected, reported at `place`.
fn policy_from(parts: PolicyParts, place: &Place) -> Result<Policy, Diagnostic> {
    Policy::try_from(parts).map_err(|e| place.refuse(&e))
}

/// A length of time with its unit, such as `30s`, `12h` or `30d`.
///
/// # Errors
/// The text, what is wrong with it, and what to write instead.
pub fn parse_duration(text: &str) -> Result<crate::time::Nanos, String> {
    number::duration(text, None).map_err(|fault| format!("`{text}` {fault}; {}", fault.help()))
}
