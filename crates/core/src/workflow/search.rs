//! The fields of a run's input by which the run can be found.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The fields of the input that a workflow declares as searchable: names joined by dots, such as
/// `customer` and `order.id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct SearchFields(BTreeSet<String>);

/// Why fields can't be searchable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchFieldsError {
    /// There are too many.
    #[error("{count} searchable fields are more than the {most} allowed; leave some out")]
    TooMany {
        /// How many there are.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// It names no field.
    #[error("{0:?} names no field of the input; write names joined by dots, such as `order.id`")]
    NoField(String),
}

impl SearchFields {
    /// The most fields of one workflow.
    pub const MOST: usize = 8;
    /// The longest name, in bytes.
    pub const MAX_NAME: usize = 100;
    /// The longest value that is kept, in bytes. A run is not found by a longer one.
    pub const MAX_VALUE: usize = 256;

    /// These fields. A field that is named twice counts once.
    ///
    /// # Errors
    /// When there are more than [`SearchFields::MOST`], or a text is not the name of a field.
    pub fn new<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, SearchFieldsError> {
        let mut fields = BTreeSet::new();
        for name in names {
            let name = name.into();
            if !is_field(&name) {
                return Err(SearchFieldsError::NoField(name));
            }
            fields.insert(name);
        }
        match fields.len() {
            count if count > Self::MOST => {
                Err(SearchFieldsError::TooMany { count, most: Self::MOST })
            }
            _ => Ok(Self(fields)),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each field that the input has, with its value: a text as it is, a number or truth value as
    /// JSON writes it. Other values and longer ones are left out.
    #[must_use]
    pub fn values(&self, input: &Value) -> BTreeMap<String, String> {
        let value = |name: &String| Some((name.clone(), text(find(input, name)?)?));
        self.0.iter().filter_map(value).collect()
    }
}

impl TryFrom<Vec<String>> for SearchFields {
    type Error = SearchFieldsError;

    fn try_from(names: Vec<String>) -> Result<Self, SearchFieldsError> {
        Self::new(names)
    }
}

/// `=` stands between a name and its value where people search.
fn is_field(name: &str) -> bool {
    let is_odd = |c: char| c == '=' || c.is_whitespace() || c.is_control();
    name.len() <= SearchFields::MAX_NAME
        && !name.contains(is_odd)
        && name.split('.').all(|part| !part.is_empty())
}

fn find<'v>(input: &'v Value, name: &str) -> Option<&'v Value> {
    name.split('.').try_fold(input, |value, part| value.get(part))
}

fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    (text.len() <= SearchFields::MAX_VALUE).then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn x20_values_are_those_that_the_input_has() {
        let names = ["customer", "order.id", "paid", "none", "list", "long", "order"];
        let fields = SearchFields::new(names).unwrap_or_default();
        let input = json!({
            "customer": "Ada = \u{0}", "order": { "id": 1.50 }, "paid": false, "list": ["a"],
            "none": null, "long": "x".repeat(SearchFields::MAX_VALUE + 1), "other": "o",
        });
        let found = fields.values(&input).into_iter().collect::<Vec<_>>();
        let expected = [("customer", "Ada = \u{0}"), ("order.id", "1.5"), ("paid", "false")];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn x20_what_names_no_field_is_refused() {
        for name in ["", ".", "a.", ".a", "a..b", "a=b", "a b", "a\n"] {
            let wrong = SearchFieldsError::NoField(name.to_owned());
            assert_eq!(SearchFields::new([name]), Err(wrong));
        }
        let long = "n".repeat(SearchFields::MAX_NAME + 1);
        assert_eq!(SearchFields::new([&long[1..]]).map(|f| f.is_empty()), Ok(false));
        assert_eq!(SearchFields::new([&*long]), Err(SearchFieldsError::NoField(long)));
    }

    #[test]
    fn x20_a_workflow_has_at_most_eight() {
        let names = |n: usize| (0..n).map(|n| format!("f{n}"));
        let most = SearchFields::MOST;
        assert!(SearchFields::new(names(most).chain(names(most))).is_ok());
        let wrong = SearchFieldsError::TooMany { count: most + 1, most };
        assert_eq!(SearchFields::new(names(most + 1)), Err(wrong));
    }
}
