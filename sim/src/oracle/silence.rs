//! Promise 8: silence. No planted secret appears in any output, nor in a stored error, which is
//! masked before it is stored. Inputs and results are stored as they are (spec decision 20), so the
//! rest of the durable events is not judged here.

use std::fmt::Write as _;

use retrial::failure::ErrorContext;
use retrial::run::{Event, Outcome};

use super::history::entries;
use super::{Promise, Report};
use crate::evidence::{Evidence, RunEvidence};

/// A secret was put out.
pub const SECRET_SHOWN: &str = "secret_shown";
/// A stored error contains a secret.
pub const SECRET_STORED: &str = "secret_stored";

/// Judges promise 8.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Silence);
    for (n, secret) in evidence.secrets.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
        let forms = forms(secret);
        let shows = |text: &str| forms.iter().any(|f| text.contains(f.as_str()));
        for output in &evidence.outputs {
            report.check(!shows(&output.text), None, SECRET_SHOWN, || {
                let line = output.text.lines().position(shows).unwrap_or(0) + 1;
                format!("secret {n} is in `{}`, line {line}", output.source)
            });
        }
        for run in &evidence.runs {
            for (number, text) in errors(run) {
                report.check(!shows(&text), run.id, SECRET_STORED, || {
                    format!("secret {n} is in the error of event #{number}")
                });
            }
        }
    }
    report
}

/// The ways in which an output may spell a secret: as it is, in JSON, and percent-encoded.
pub(crate) fn forms(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let mut encoded = String::new();
    for byte in secret.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    let mut forms = vec![secret.to_owned(), json[1..json.len() - 1].to_owned(), encoded];
    forms.dedup();
    forms
}

/// Every stored error's text, with its event's number.
fn errors(run: &RunEvidence) -> Vec<(u64, String)> {
    let context =
        |e: &ErrorContext| format!("{} {}", e.message, e.stack_trace.as_deref().unwrap_or(""));
    let text = |event: &Event| match event {
        Event::AttemptFailed { failure, .. } => {
            Some(format!("{failure} {}", failure.stack_trace().unwrap_or("")))
        }
        Event::AttemptStarted { retry: Some(retry), .. } => Some(retry.original_error.clone()),
        Event::TaskFailed { error, .. } | Event::StepFailed { error, .. } => Some(context(error)),
        Event::CancelRequested { reason } => Some(reason.clone()),
        Event::RollbackStarted { outcome } | Event::RunEnded { outcome } => match outcome {
            Outcome::Completed => None,
            Outcome::Failed { error } => Some(context(error)),
            Outcome::Cancelled { reason } => Some(reason.clone()),
        },
        _ => None,
    };
    entries(run).filter_map(|e| Some((e.number, text(e.event)?))).collect()
}
