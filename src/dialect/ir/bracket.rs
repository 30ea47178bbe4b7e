//! `[retry: 3, backoff: 60]`, `[A -> retry: 3]`, `[(A, B) -> ...]`, `[timeout: 2m]`.

use std::collections::BTreeSet;
use std::ops::Range;

use winnow::stream::{Location, Stream};

use crate::dialect::number::{self, SECOND};
use crate::dialect::scan::{Fault, Input, Scan, eat, expected, must, next_span, one, quoted, run};
use crate::dialect::tree::did_you_mean;
use crate::policy::{Backoff, Budget, Limit, Matcher, Parts, Rule, Share};
use crate::time::Nanos;

/// What the brackets behind one call say.
#[derive(Debug, Default)]
pub(super) struct Brackets {
    rules: Vec<Rule>,
    attempt_timeout: Option<Nanos>,
    total_timeout: Option<Nanos>,
    timeout_retries: Option<u32>,
    max_retry_after: Option<Nanos>,
    budget: Option<Budget>,
}

/// What a rule says.
const RULE_KEYS: [&str; 2] = ["retry", "backoff"];
/// What the call as a whole says, in a bracket without a matcher (W5). All but `timeout` are ours.
const CALL_KEYS: [&str; 5] =
    ["timeout", "total_timeout", "timeout_retries", "max_retry_after", "retry_budget"];

/// `key: value` with the places of both.
struct Setting<'t> {
    key: &'t str,
    key_span: Range<usize>,
    value: &'t str,
    value_span: Range<usize>,
}

impl Brackets {
    pub(super) fn into_parts(self, parts: &mut Parts) {
        parts.rules = self.rules;
        parts.attempt_timeout = self.attempt_timeout;
        parts.total_timeout = self.total_timeout;
        parts.timeout_retries = self.timeout_retries;
        parts.max_retry_after = self.max_retry_after.unwrap_or(parts.max_retry_after);
        parts.budget = self.budget;
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
    Ok(brackets)
}

/// The brackets behind a call; `None` when there are none.
pub(super) fn behind_call(input: &mut Input<'_>) -> Scan<Option<Brackets>> {
    let mut found = None;
    loop {
        blank(input);
        if input.peek_token() != Some('[') {
            return Ok(found);
        }
        bracket(input, found.get_or_insert_with(Brackets::default))?;
    }
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
    match settings.iter().find(|s| CALL_KEYS.contains(&s.key)) {
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
        return quoted(input, quote).map(Some);
    }
    let (word, _) = run(input, |c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    Ok((!word.is_empty()).then(|| word.to_owned()))
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
    if !RULE_KEYS.contains(&key) && !CALL_KEYS.contains(&key) {
        let help = did_you_mean(key, RULE_KEYS.into_iter().chain(CALL_KEYS));
        return Err(Fault::new(key_span, format!("unknown key `{key}`")).help_with(help));
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

/// A rule. Without `retry` there are none, without `backoff` the delay is 0 (spec decision 1);
/// growth is exponential (W1, R1).
fn rule(names: Option<BTreeSet<String>>, settings: &[Setting<'_>]) -> Scan<Rule> {
    let find = |key: &str| settings.iter().find(|s| s.key == key);
    let base = find("backoff").map_or(Ok(Nanos::ZERO), Setting::duration)?;
    Ok(Rule {
        matcher: Matcher::named(names.unwrap_or_default()),
        limit: find("retry")
            .map_or(Ok(Limit::ONE), |s| s.count(u32::MAX - 1).map(Limit::retries))?,
        backoff: Backoff::exponential(base),
    })
}

fn call_settings(
    brackets: &mut Brackets,
    call: &Setting<'_>,
    matcher: Option<Range<usize>>,
    settings: &[Setting<'_>],
) -> Scan<()> {
    let alone = format!("write it in a bracket of its own: [{}: {}]", call.key, call.value);
    if let Some(span) = matcher {
        let message = format!("`{}` is for every failure and takes no `->`", call.key);
        return Err(Fault::new(span, message).help_with(alone));
    }
    if settings.iter().any(|s| RULE_KEYS.contains(&s.key)) {
        let message = format!("`{}` stands beside a rule", call.key);
        return Err(Fault::new(call.key_span.clone(), message).help_with(alone));
    }
    settings.iter().try_for_each(|s| s.set(brackets))
}

impl Setting<'_> {
    fn set(&self, brackets: &mut Brackets) -> Scan<()> {
        match self.key {
            "timeout" => self.once(&mut brackets.attempt_timeout, self.timeout()?),
            "total_timeout" => self.once(&mut brackets.total_timeout, self.timeout()?),
            "max_retry_after" => self.once(&mut brackets.max_retry_after, self.duration()?),
            "retry_budget" => self.once(&mut brackets.budget, self.budget()?),
            _ => self.once(&mut brackets.timeout_retries, self.count(u32::MAX)?),
        }
    }

    fn once<T>(&self, slot: &mut Option<T>, value: T) -> Scan<()> {
        match slot.replace(value) {
            None => Ok(()),
            Some(_) => {
                let message = format!("`{}` is given twice", self.key);
                Err(Fault::new(self.key_span.clone(), message).help_with("keep one of them"))
            }
        }
    }

    /// A bare number is seconds (W6).
    fn duration(&self) -> Scan<Nanos> {
        number::duration(self.value, Some(SECOND)).map_err(|fault| {
            let message = format!("`{}`: `{}` {fault}", self.key, self.value);
            Fault::new(self.value_span.clone(), message).help_with(fault.help())
        })
    }

    fn timeout(&self) -> Scan<Nanos> {
        match self.duration()? {
            Nanos::ZERO => Err(Fault::new(
                self.value_span.clone(),
                format!("`{}` of zero lets no attempt run", self.key),
            )
            .help_with("leave it out for no timeout")),
            limit => Ok(limit),
        }
    }

    /// A share of first attempts, such as 0.1; a table says more.
    fn budget(&self) -> Scan<Budget> {
        let refuse = |what: &str, help: &str| {
            let message = format!("`{}`: `{}` {what}", self.key, self.value);
            Fault::new(self.value_span.clone(), message).help_with(help)
        };
        let millionths = number::scaled(self.value, 1_000_000)
            .map_err(|fault| refuse(&fault.to_string(), "use a share from 0 to 1, such as 0.1"))?;
        let share = Share::from_millionths(u32::try_from(millionths).unwrap_or(u32::MAX));
        let share = share.map_err(|_| refuse("is above 1", "use a share from 0 to 1"))?;
        Ok(Budget::of_first_attempts(share))
    }

    fn count(&self, most: u32) -> Scan<u32> {
        self.value.parse().ok().filter(|n| *n <= most).ok_or_else(|| {
            let message = format!("`{}` must be a whole number, found `{}`", self.key, self.value);
            Fault::new(self.value_span.clone(), message).help_with(format!("use 0 to {most}"))
        })
    }
}
