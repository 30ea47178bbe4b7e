//! No page shows a secret of its scenario (promise 8). Scenarios hold their secrets in plain text:
//! in inputs, in replies, in the list itself.

use retrial::observe::json::MASK;

use super::model::Run;
use crate::oracle::spellings;

/// Masks secrets.
#[derive(Debug)]
pub(super) struct Mask(Vec<String>);

impl Mask {
    pub(super) fn new(secrets: &[String]) -> Self {
        let mut forms: Vec<String> =
            secrets.iter().filter(|s| !s.is_empty()).flat_map(|s| spellings(s)).collect();
        // Where one holds another, the longer one goes first.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self(forms)
    }

    /// `text` without secrets.
    pub(super) fn text(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, form| text.replace(form.as_str(), MASK))
    }

    pub(super) fn run(&self, run: &Run) -> Run {
        Run { id: run.id.clone(), workflow: self.text(&run.workflow) }
    }
}
