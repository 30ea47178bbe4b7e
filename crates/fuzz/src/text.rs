//! Texts that people write: policies, workflow definitions, and short ones such as URLs.

use retrial::dialect::{
    Declarations, Diagnostic, Environment, Format, Policies, parse_actions, parse_duration,
    parse_ir_program, parse_policy, parse_workflow, write,
};
use retrial::net::{Hosts, Url};
use retrial::policy::{Dialect, Policy};
use retrial::run::{Digest, RunId};
use retrial::store::PostgresOptions;
use retrial::workflow::{Template, Workflow};
use retrial_service::server::{AccessToken, Tokens};
use serde_json::Value;

const DIALECTS: [Option<Dialect>; 6] = [
    None,
    Some(Dialect::Ir),
    Some(Dialect::WorkConfig),
    Some(Dialect::Execution),
    Some(Dialect::RetryConfig),
    Some(Dialect::Preset),
];

/// An error stands at a place in its text, and names what is wrong.
fn check_errors(errors: &[Diagnostic]) {
    assert!(!errors.is_empty(), "refused without a reason");
    for error in errors {
        let text = error.source_text();
        assert!(text.get(error.span()).is_some(), "{:?} is no place in {text:?}", error.span());
        assert!(error.line() > 0 && error.column() > 0);
        assert!(!error.message().is_empty());
        // Hundreds of errors, each with the whole text, would be a way to fill a log.
        assert!(error.to_string().len() < 2 * text.len() + 2_000, "{error}");
    }
}

/// What a policy's own dialect writes of it is read as the same policy.
fn check_policy(policy: &Policy) {
    let Some(text) = write::own(policy) else { return };
    let read = parse_policy("p", &text, Some(policy.dialect()), &Environment::default());
    assert_eq!(read, Ok(Policies::One(policy.clone())), "{text}");
}

pub(crate) fn policy(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for dialect in DIALECTS {
        match parse_policy("p", text, dialect, &Environment::default()) {
            Ok(Policies::One(policy)) => check_policy(&policy),
            Ok(Policies::Steps { steps, .. }) => steps.iter().for_each(|s| check_policy(&s.policy)),
            Err(errors) => check_errors(&errors),
        }
    }
}

/// A workflow as the engine stores it is read as the same workflow.
fn check_workflow(workflow: &Workflow) {
    let stored = serde_json::to_vec(workflow).unwrap();
    assert_eq!(serde_json::from_slice::<Workflow>(&stored).unwrap(), *workflow);
}

pub(crate) fn definition(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let environment = Environment::default();
    for format in [Format::Toml, Format::Json] {
        match parse_workflow("w", text, format, &environment) {
            Ok(document) => check_workflow(&document.workflow),
            Err(errors) => check_errors(&errors),
        }
        if let Err(errors) = parse_actions("a", text, format) {
            check_errors(&errors);
        }
    }
    match parse_ir_program("f.ir", text, &Declarations::default(), &environment) {
        Ok(document) => check_workflow(&document.workflow),
        Err(errors) => check_errors(&errors),
    }
}

pub(crate) fn words(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(why) = parse_duration(text) {
        assert!(!why.is_empty());
    }
    if let Err(error) = Environment::read(|_| Some(text.to_owned())) {
        check_errors(&[error]);
    }
    if let Ok(url) = text.parse::<Url>() {
        assert!(url.target().starts_with('/'));
        let scheme = if url.authority().tls { "https" } else { "http" };
        let bare = format!("{scheme}://{}{}", url.authority().host_header(), url.target());
        let again: Url = bare.parse().unwrap_or_else(|e| panic!("{bare}: {e}"));
        assert_eq!((again.authority(), again.target()), (url.authority(), url.target()));
    }
    if let Ok(id) = text.parse::<RunId>() {
        assert_eq!(id.to_string().parse::<RunId>().ok(), Some(id));
    }
    if let Ok(digest) = Digest::try_from(text.to_owned()) {
        assert_eq!(Digest::try_from(digest.to_string()).ok(), Some(digest));
    }
    if let Ok(template) = Template::try_from(Value::from(text)) {
        let stored = serde_json::to_value(&template).unwrap();
        assert_eq!(Template::try_from(stored).ok(), Some(template));
    }
    let _ = Hosts::new(text.split(','));
    let _ = AccessToken::new(text);
    let _ = Tokens::read(text);
    let _ = PostgresOptions::from_url(text);
}
