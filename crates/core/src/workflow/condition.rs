use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::seen::Root;
use super::seen::Values;
use super::template::{Path, TemplateError};

/// A condition over `state.*`, in Capability 5's JSON form. A field is written as a path text
/// or as `{"type": "field", "path": "state._last_error"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "type", deny_unknown_fields)]
pub enum Condition {
    /// The field is there and is not null.
    Exists {
        /// Where to look.
        field: Field,
    },
    /// The inner condition does not hold.
    Not {
        /// The inner one.
        condition: Box<Condition>,
    },
    /// The field equals the value.
    Eq {
        /// Where to look.
        field: Field,
        /// What to find.
        value: Value,
    },
    /// The field equals one of the values.
    In {
        /// Where to look.
        field: Field,
        /// What to find one of.
        values: Vec<Value>,
    },
    /// All hold; none is true.
    And {
        /// The parts.
        conditions: Vec<Condition>,
    },
    /// At least one holds; none is false.
    Or {
        /// The parts.
        conditions: Vec<Condition>,
    },
}

/// A field of the run's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "FieldText", into = "String")]
pub struct Field(Path);

#[derive(Deserialize)]
#[serde(untagged)]
enum FieldText {
    Short(String),
    Long {
        #[serde(rename = "type")]
        kind: String,
        path: String,
    },
}

impl TryFrom<FieldText> for Field {
    type Error = String;

    fn try_from(text: FieldText) -> Result<Self, String> {
        let path = match text {
            FieldText::Short(path) => path,
            FieldText::Long { kind, path } if kind == "field" => path,
            FieldText::Long { kind, .. } => {
                return Err(format!("unknown field type `{kind}`; use `field`"));
            }
        };
        Field::parse(&path).map_err(|e| e.to_string())
    }
}

impl Field {
    /// Parses `state._last_error.code` and so on.
    ///
    /// # Errors
    /// When the text is not a path below `state`.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Path::parse_state(text).map(Self)
    }

    /// The path below `state`.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl From<Field> for String {
    fn from(field: Field) -> Self {
        format!("state.{}", field.0)
    }
}

impl Condition {
    /// Whether the condition holds over `values`. A missing field equals no value.
    pub(crate) fn holds(&self, values: &impl Values) -> bool {
        match self {
            Self::Exists { field } => field.0.find(values).is_some_and(|v| !v.is_null()),
            Self::Not { condition } => !condition.holds(values),
            Self::Eq { field, value } => field.0.find(values).is_some_and(|v| v.is(value)),
            Self::In { field, values: among } => {
                field.0.find(values).is_some_and(|v| among.iter().any(|one| v.is(one)))
            }
            Self::And { conditions } => conditions.iter().all(|c| c.holds(values)),
            Self::Or { conditions } => conditions.iter().any(|c| c.holds(values)),
        }
    }

    /// Whether it reads `_last_error` or `_errors`: only such a transition can route a failure.
    #[must_use]
    pub fn asks_for_error(&self) -> bool {
        self.paths().iter().any(|p| matches!(p.root(), Root::LastError | Root::Errors))
    }

    /// Every path that it reads.
    #[must_use]
    pub(crate) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Exists { field } | Self::Eq { field, .. } | Self::In { field, .. } => {
                vec![&field.0]
            }
            Self::Not { condition } => condition.paths(),
            Self::And { conditions } | Self::Or { conditions } => {
                conditions.iter().flat_map(Self::paths).collect()
            }
        }
    }
}
