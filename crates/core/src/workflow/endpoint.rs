use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::url_template::{self, ArgumentError, UrlTemplate, encode};

/// The longest URL once its templates and its query are filled in, in bytes: 8 KiB.
pub(crate) const MAX_URL: usize = 8 * 1024;

/// An HTTP endpoint, as text that a parser has accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `POST`, `GET`, and so on.
    pub method: String,
    /// An absolute `http` or `https` URL. Its path and its query may hold `${args.NAME}`.
    pub url: String,
    /// Extra request headers by lower-case name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, HeaderText>,
    /// How the arguments are written in the body; by the method if `None`: not in a body for `GET`,
    /// `HEAD` and `DELETE`, else as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyForm>,
    /// How an answer is read; by its `Content-Type` if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<AnswerForm>,
}

/// How the arguments are written in a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BodyForm {
    /// A JSON object.
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
}

/// What a successful answer gives as the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerForm {
    /// The body's JSON, whatever its `Content-Type`.
    Json,
    /// The body as a text, whatever its `Content-Type`.
    Text,
    /// The status as a number; the body is ignored.
    Status,
}

/// The value of a request header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderText {
    /// As written.
    Literal(String),
    /// Read from this environment variable when the request is sent; never stored.
    Env(String),
    /// One after another, such as `Bearer ` and a variable.
    Joined(Vec<HeaderText>),
}

/// What a request carries of its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// The URL with its templates and its query filled in.
    pub url: String,
    /// The body; `None` if the request has none.
    pub body: Option<String>,
}

impl Endpoint {
    /// An endpoint without extra headers.
    #[must_use]
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        let (method, url) = (method.into(), url.into());
        Self { method, url, headers: BTreeMap::new(), body: None, answer: None }
    }

    /// The URL and the body of a request with these arguments. An argument that the URL names goes
    /// there; the others go into the query or into the body.
    ///
    /// # Errors
    /// For an argument that has no form where it must go.
    pub fn fill(&self, args: &Value) -> Result<Filled, ArgumentError> {
        let template = UrlTemplate::of_accepted(&self.url);
        let mut url = template.fill(args)?;
        let body = match self.body_form() {
            Some(BodyForm::Json) => Some(json(args, &template)),
            Some(BodyForm::Form) => Some(pairs(args, &template, FORM)?),
            None => {
                let query = pairs(args, &template, QUERY)?;
                let joined = url.contains('?');
                if !query.is_empty() && !url.ends_with(['?', '&']) {
                    url.push(if joined { '&' } else { '?' });
                }
                url.push_str(&query);
                None
            }
        };
        if url.len() > MAX_URL {
            return Err(ArgumentError::new(longest(args), TOO_LONG));
        }
        Ok(Filled { url, body })
    }

    /// Whether arguments with these references in their texts can be sent, as far as they are known
    /// before a run.
    pub(crate) fn check(&self, args: &Value) -> Result<(), ArgumentError> {
        // Whole arguments may come from elsewhere.
        if !args.is_object() {
            return Ok(());
        }
        let template = UrlTemplate::of_accepted(&self.url);
        template.check(args)?;
        match self.body_form() {
            Some(BodyForm::Json) => Ok(()),
            Some(BodyForm::Form) => pairs(args, &template, FORM).map(drop),
            None => pairs(args, &template, QUERY).map(drop),
        }
    }

    /// How the arguments are written in the body; `None` if there is none.
    #[must_use]
    pub fn body_form(&self) -> Option<BodyForm> {
        match (self.method.as_str(), self.body) {
            ("GET" | "HEAD", _) | ("DELETE", None) => None,
            (_, form) => Some(form.unwrap_or(BodyForm::Json)),
        }
    }
}

const TOO_LONG: &str =
    "makes the URL longer than 8 KiB; send large values in a body, or a reference to them";
const QUERY: &str = "holds a table or a list in a list, which a query has no form for; pass its parts as arguments of their own, or send them in the body of a POST";
const FORM: &str = "holds a table or a list in a list, which a form has no field for; pass its parts as arguments of their own, or leave out body = \"form\" to send JSON";

/// The arguments that the URL does not name, as a JSON object. What is no object is sent whole.
fn json(args: &Value, template: &UrlTemplate) -> String {
    match args {
        Value::Null => "{}".to_owned(),
        Value::Object(all) if template.names_any() => {
            let rest = all.iter().filter(|(name, _)| !template.names(name));
            let rest: Map<_, _> = rest.map(|(name, v)| (name.clone(), v.clone())).collect();
            Value::Object(rest).to_string()
        }
        args => args.to_string(),
    }
}

/// `name=value` for each argument that the URL does not name, and for each item of a list.
fn pairs(
    args: &Value,
    template: &UrlTemplate,
    no_form: &'static str,
) -> Result<String, ArgumentError> {
    let all = match args {
        Value::Object(all) => all,
        Value::Null => return Ok(String::new()),
        _ => {
            return Err(ArgumentError::new(
                "args",
                "is no table of names and values; pass a table, or use POST",
            ));
        }
    };
    let mut written = String::new();
    for (name, value) in all.iter().filter(|(name, _)| !template.names(name)) {
        let one = std::slice::from_ref(value);
        for item in value.as_array().map_or(one, Vec::as_slice) {
            let text =
                url_template::plain(item).ok_or_else(|| ArgumentError::new(name, no_form))?;
            if !written.is_empty() {
                written.push('&');
            }
            encode(name, &mut written);
            written.push('=');
            encode(&text, &mut written);
        }
    }
    Ok(written)
}

/// The name of the argument that takes most room.
fn longest(args: &Value) -> &str {
    let all = args.as_object().into_iter().flatten();
    all.max_by_key(|(_, value)| value.to_string().len()).map_or("args", |(name, _)| name)
}

impl HeaderText {
    /// The texts and variables, one after another.
    pub fn parts(&self) -> Vec<&Self> {
        match self {
            Self::Joined(parts) => parts.iter().flat_map(Self::parts).collect(),
            one => vec![one],
        }
    }

    /// The variables of the environment that it reads.
    pub fn variables(&self) -> Vec<&str> {
        self.parts()
            .into_iter()
            .filter_map(|part| match part {
                Self::Env(name) => Some(name.as_str()),
                Self::Literal(_) | Self::Joined(_) => None,
            })
            .collect()
    }
}
