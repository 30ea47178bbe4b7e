//! The grammar of `[retry: 3, backoff: 60]`, `[A -> retry: 3]`, `[(A, B) -> ...]`, `[timeout: 2m]`.

use std::collections::BTreeSet;
use std::ops::Range;

use winnow::stream::{Location, Stream};

use super::call::{self, Call};
use super::setting::Setting;
use crate::dialect::brief;
use crate::dialect::scan::{Fault, Input, Scan, eat, expected, must, next_span, one, quoted, run};
use crate::dialect::tree::{NO_STATUSES, did_you_mean, makes_sense};
use crate::policy::{Backoff, Limit, Matcher, PolicyParts, Rule};
use crate::time::Nanos;

/// What the brackets behind one call say.
#[derive(Debug, Default)]
pub(in crate::dialect) struct Brackets {
    rules: Vec<Rule>,
    call: Call,
}

/// The most rules of a policy: each is compared with every other.
pub(in crate::dialect) const MOST_RULES: usize = 100;

/// What a rule says.
const RULE_KEYS: [&str; 2] = ["retry", "backoff"];

impl Brackets {
    pub(in crate::dialect) fn into_parts(self, parts: &mut PolicyParts) {
        parts.rules = self.rules;
        parts.rules.shrink_to_fit();
        self.call.into_parts(parts);
    }
}

/// Brackets and nothing else, over several lines if need be.
pub(super) fn alone(input: &mut Input<'_>) -> Scan<Brackets> {
    let mut brackets = Brackets::default();
    gap(input);
    if input.peek_token() != Some('[') {
        return Err(
            expected(input, "`[`").help_with("write a policy such as [retry: 3, backoff: 60]")
        );
    }
    while input.peek_token().is_some() {
        bracket(input, &mut brackets)?;
        gap(input);
    }
    brackets.call.check()?;
    Ok(brackets)
}

/// The brackets behind a call; `None` when there are none.
pub(super) fn behind_call(input: &mut Input<'_>) -> Scan<Option<Brackets>> {
    let mut found: Option<Brackets> = None;
    loop {
        blank(input);
        if input.peek_token() != Some('[') {
            break;
        }
        bracket(input, found.get_or_insert_with(Brackets::default))?;
    }
    found.as_ref().map_or(Ok(()), |brackets| brackets.call.check())?;
    Ok(found)
}

/// Takes spaces and tabs.
pub(super) fn blank(input: &mut Input<'_>) {
    run(input, |c| matches!(c, ' ' | '\t'));
}

/// Takes spaces, line ends and comments.
fn gap(input: &mut Input<'_>) {
    loop {
        run(input, char::is_whitespace);
        if input.peek_token() != Some('#') {
            return;
        }
        run(input, |c| c != '\n');
    }
}

fn bracket(input: &mut Input<'_>, brackets: &mut Brackets) -> Scan<()> {
    must(input, "[")?;
    let matcher = matcher(input)?;
    let settings = settings(input)?;
    match settings.iter().find(|s| call::KEYS.contains(&s.key)) {
        None if brackets.rules.len() >= MOST_RULES => {
            let message = format!("a policy has at most {MOST_RULES} rules");
            return Err(
                Fault::new(next_span(input), message).help_with("merge rules that are alike")
            );
        }
        None => brackets.rules.push(rule(matcher.map(|(names, _)| names), &settings)?),
        Some(call) => call_settings(brackets, call, matcher.map(|(_, span)| span), &settings)?,
    }
    Ok(())
}

/// The names before `->`, if there are any.
fn matcher(input: &mut Input<'_>) -> Scan<Option<(BTreeSet<String>, Range<usize>)>> {
    blank(input);
    let (before, start) = (input.checkpoint(), input.current_token_start());
    let is_list = eat(input, "(");
    let names = if is_list { name_list(input)? } else { name(input)?.into_iter().collect() };
    let span = start..input.current_token_start();
    blank(input);
    if eat(input, "->") {
        return match names.is_empty() {
            true => Err(Fault::new(start..start + 2, "nothing stands before `->`")
                .help_with("name an error, or leave `->` out to match all")),
            false => Ok(Some((names, span))),
        };
    }
    if is_list {
        return Err(expected(input, "`->`"));
    }
    input.reset(&before);
    Ok(None)
}

fn name_list(input: &mut Input<'_>) -> Scan<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    loop {
        blank(input);
        match name(input)? {
            Some(name) => names.insert(name),
            None => return Err(expected(input, "the name of an error")),
        };
        blank(input);
        if eat(input, ")") {
            return Ok(names);
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `)`"));
        }
        blank(input);
        if eat(input, ")") {
            return Ok(names);
        }
    }
}

/// A type or code: bare, or in quotes where it has other characters.
fn name(input: &mut Input<'_>) -> Scan<Option<String>> {
    if let Some(quote @ ('"' | '\'')) = input.peek_token() {
        one(input);
        let start = input.current_token_start();
        let name = quoted(input, quote)?;
        if !makes_sense(&name) {
            let span = start..input.current_token_start();
            return Err(Fault::new(span, NO_STATUSES.0).help_with(NO_STATUSES.1));
        }
        return Ok(Some(name));
    }
    let (word, span) = run(input, |c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let name = format!("{word}{}", rest_of_range(input, word));
    if !makes_sense(&name) {
        return Err(Fault::new(span, NO_STATUSES.0).help_with(NO_STATUSES.1));
    }
    Ok((!name.is_empty()).then_some(name))
}

/// `-599` behind `500`: a dash before a digit, so no arrow.
fn rest_of_range(input: &mut Input<'_>, word: &str) -> String {
    let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let before = input.checkpoint();
    if is_number && eat(input, "-") {
        let (digits, _) = run(input, |c| c.is_ascii_digit());
        if !digits.is_empty() {
            return format!("-{digits}");
        }
        input.reset(&before);
    }
    String::new()
}

fn settings<'t>(input: &mut Input<'t>) -> Scan<Vec<Setting<'t>>> {
    let mut settings: Vec<Setting<'t>> = Vec::new();
    loop {
        let setting = setting(input)?;
        if settings.iter().any(|s| s.key == setting.key) {
            let message = format!("`{}` is given twice", setting.key);
            return Err(Fault::new(setting.key_span, message).help_with("keep one of them"));
        }
        settings.push(setting);
        blank(input);
        if eat(input, "]") {
            return Ok(settings);
        }
        if !eat(input, ",") {
            return Err(expected(input, "`,` or `]`"));
        }
    }
}

fn setting<'t>(input: &mut Input<'t>) -> Scan<Setting<'t>> {
    blank(input);
    let (key, key_span) = run(input, |c| c.is_alphanumeric() || c == '_');
    if key.is_empty() {
        return Err(expected(input, "`retry`, `backoff` or `timeout`"));
    }
    if !RULE_KEYS.contains(&key) && !call::KEYS.contains(&key) {
        let help = did_you_mean(key, RULE_KEYS.into_iter().chain(call::KEYS));
        return Err(Fault::new(key_span, format!("unknown key `{}`", brief(key))).help_with(help));
    }
    blank(input);
    must(input, ":")?;
    blank(input);
    let (value, value_span) =
        run(input, |c| c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '+'));
    if value.is_empty() {
        return Err(Fault::new(next_span(input), format!("`{key}` has no value")).help_with(
            format!(
                "write {key}: and a {}",
                if key.contains("retr") { "number" } else { "time such as 30s" }
            ),
        ));
    }
    Ok(Setting { key, key_span, value, value_span })
}

/// A rule. Without `retry` there are none, without `backoff` the delay is 0;
/// growth is exponential.
fn rule(names: Option<BTreeSet<String>>, settings: &[Setting<'_>]) -> Scan<Rule> {
    let find = |key: &str| settings.iter().find(|s| s.key == key);
    let base = find("backoff").map_or(Ok(Nanos::ZERO), Setting::duration)?;
    Ok(Rule {
        matcher: Matcher::named(names.unwrap_or_default()),
        limit: find("retry")
            .map_or(Ok(Limit::ONE), |s| s.count(0, u32::MAX - 1).map(Limit::retries))?,
        backoff: Backoff::exponential(base),
    })
}

fn call_settings(
    brackets: &mut Brackets,
    call: &Setting<'_>,
    matcher: Option<Range<usize>>,
    settings: &[Setting<'_>],
) -> Scan<()> {
    let value = brief(call.value);
    let alone = format!("write it in a bracket of its own: [{}: {value}]", call.key);
    if let Some(span) = matcher {
        let message = format!("`{}` applies to every failure and takes no `->`", call.key);
        return Err(Fault::new(span, message).help_with(alone));
    }
    if settings.iter().any(|s| RULE_KEYS.contains(&s.key)) {
        let message = format!("`{}` stands beside a rule", call.key);
        return Err(Fault::new(call.key_span.clone(), message).help_with(alone));
    }
    settings.iter().try_for_each(|s| brackets.call.set(s))
}
