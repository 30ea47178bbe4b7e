//! Policies in all five dialects, with short delays. None is refused at load.

use retrial::policy::{
    AtDeadline, Backoff, Counting, DelayList, Dialect, Jitter, Limit, Matcher, Multiplier,
    PolicyParts, Rule, Shape, Share,
};
use retrial::time::Nanos;
use serde_json::{Map, Value, json};

use super::{Draw, backoff_functions};

/// A step's policy before it is written down.
pub(super) enum PolicyDraft {
    /// No policy: the built-in one of its action's kind applies.
    Default,
    /// `retry`: IR brackets.
    Ir(String),
    /// `work_config`.
    WorkConfig(Value),
    /// `execution`.
    Execution(Value),
    /// `retry_config`.
    RetryConfig(Value),
    /// `preset`: its name, or a table.
    Preset(Value),
    /// Built in Rust, and so not in the text.
    Builder(PolicyParts),
}

impl PolicyDraft {
    /// Its key and value in a workflow file, if it is written there.
    pub(super) fn field(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Default | Self::Builder(_) => None,
            Self::Ir(text) => Some(("retry", json!(text))),
            Self::WorkConfig(value) => Some(("work_config", value.clone())),
            Self::Execution(value) => Some(("execution", value.clone())),
            Self::RetryConfig(value) => Some(("retry_config", value.clone())),
            Self::Preset(value) => Some(("preset", value.clone())),
        }
    }

    /// Whether it ends an attempt that never ends by itself. `work_config` can't.
    pub(super) fn limits_time(&self) -> bool {
        match self {
            Self::Default | Self::WorkConfig(_) => false,
            Self::Ir(text) => text.contains("timeout:"),
            Self::Execution(value) => value.get("timeout_ms").is_some(),
            Self::RetryConfig(value) => value.get("retry_timeout").is_some(),
            Self::Preset(value) => value.get("attempt_timeout").is_some(),
            Self::Builder(parts) => parts.attempt_timeout.or(parts.total_timeout).is_some(),
        }
    }
}

/// Types and codes that rules name.
const BACKOFFS: [&str; 12] = [
    "NetworkError",
    "ConnectionError",
    "TimeoutError",
    "RateLimitError",
    "ServerError",
    "HTTPError",
    "ValueError",
    "LeaseLostError",
    "TIMEOUT",
    "503",
    "5xx",
    "400-429",
];

/// A policy. With `timed` it limits the time of an attempt wherever its dialect can say so.
pub(super) fn draw(draw: &mut Draw, timed: bool) -> PolicyDraft {
    match draw.below(12) {
        0 => PolicyDraft::Default,
        11 => PolicyDraft::Preset(preset(draw, timed)),
        1..=2 => PolicyDraft::Ir(ir(draw, timed)),
        3..=4 => PolicyDraft::WorkConfig(work_config(draw)),
        5..=6 => PolicyDraft::Execution(execution(draw, timed)),
        7..=8 => PolicyDraft::RetryConfig(retry_config(draw, timed)),
        _ => PolicyDraft::Builder(builder(draw, timed)),
    }
}

/// A policy of a step of an IR program.
pub(super) fn draw_program(draw: &mut Draw, timed: bool) -> PolicyDraft {
    match draw.below(5) {
        0 => PolicyDraft::Default,
        1 => PolicyDraft::Builder(builder(draw, timed)),
        _ => PolicyDraft::Ir(ir(draw, timed)),
    }
}

/// `[retry: 3, backoff: 200ms] [NetworkError -> retry: 5] [timeout: 2s]`.
fn ir(draw: &mut Draw, timed: bool) -> String {
    let mut brackets: Vec<String> =
        (0..draw.pick([1, 1, 2, 3])).map(|_: u32| bracket(draw)).collect();
    if timed || draw.chance(30) {
        let at = draw.index(brackets.len() + 1);
        brackets
            .insert(at, format!("[timeout: {}]", draw.pick(["500ms", "1s", "2", "1.5s", "0.05m"])));
    }
    if brackets.len() > 1 && draw.chance(15) {
        brackets.push("[counting: per_rule]".to_owned());
        if draw.chance(50) {
            brackets.push(format!("[total_attempts: {}]", draw.between(2, 8)));
        }
    }
    brackets.join(" ")
}

fn bracket(draw: &mut Draw) -> String {
    let names = draw.some(BACKOFFS);
    let filter = match names.as_slice() {
        _ if draw.chance(40) => String::new(),
        [one] if !one.starts_with(char::is_numeric) => format!("{one} -> "),
        many => {
            let many: Vec<_> =
                many.iter().filter(|n| !n.starts_with(char::is_numeric)).copied().collect();
            if many.is_empty() { String::new() } else { format!("({}) -> ", many.join(", ")) }
        }
    };
    let backoff = match draw.below(3) {
        0 => String::new(),
        1 => format!(", backoff: {}ms", draw.between(1, 800)),
        _ => format!(", backoff: {}", draw.pick(["1", "0.5s", "2s", "0.05", "0.02m"])),
    };
    format!("[{filter}retry: {}{backoff}]", draw.between(0, 5))
}

/// A5 to A8; -1 is unlimited, then with a cap and a delay.
fn work_config(draw: &mut Draw) -> Value {
    let mut config = Map::new();
    if draw.chance(90) {
        config.insert("max_retries".to_owned(), json!(draw.pick([-1, 0, 1, 2, 3, 4])));
    }
    config.insert("backoff".to_owned(), json!(draw.between(10, 900)));
    config.insert("max_backoff".to_owned(), json!(draw.between(100, 3_000)));
    let kind = draw.pick(["fixed", "linear", "exponential", "linear", "exponential", "list"]);
    config.insert("backoff_type".to_owned(), json!(kind));
    if kind == "list" {
        config.remove("backoff");
        config.insert("delays".to_owned(), json!([draw.between(10, 500), draw.between(10, 900)]));
    } else if kind == "linear" && draw.chance(30) {
        config.insert("backoff_step".to_owned(), json!(draw.between(0, 300)));
    }
    if draw.chance(30) {
        config.insert(
            "retryable_errors".to_owned(),
            json!(draw.pick([vec!["429"], vec!["408", "429"]])),
        );
    }
    Value::Object(config)
}

/// C1 to C4.
fn execution(draw: &mut Draw, timed: bool) -> Value {
    let mut config = Map::new();
    if timed || draw.chance(40) {
        config.insert("timeout_ms".to_owned(), json!(draw.between(300, 2_500)));
    }
    if draw.chance(90) {
        let mut policy = Map::new();
        policy.insert("max_attempts".to_owned(), json!(draw.between(1, 5)));
        let kind = draw.pick(["none", "linear", "exponential", "linear", "polynomial"]);
        policy.insert("backoff".to_owned(), json!(kind));
        policy.insert("initial_delay_ms".to_owned(), json!(draw.between(1, 700)));
        if draw.chance(50) {
            policy.insert("max_delay_ms".to_owned(), json!(draw.between(100, 2_000)));
        }
        if draw.chance(40) {
            let codes =
                draw.some(["503", "429", "500", "TIMEOUT", "NETWORK_ERROR", "LLM_OVERLOADED"]);
            policy.insert("retryable_errors".to_owned(), json!(codes));
        }
        config.insert("retry_policy".to_owned(), Value::Object(policy));
    }
    Value::Object(config)
}

/// H1 to H6; times are seconds.
fn retry_config(draw: &mut Draw, timed: bool) -> Value {
    let mut config = Map::new();
    if draw.chance(80) {
        config.insert("max_attempts".to_owned(), json!(draw.between(1, 5)));
    }
    let kinds = ["constant", "linear", "exponential", "fibonacci", "polynomial", "list"];
    let kind = draw.pick(kinds);
    config.insert("backoff_strategy".to_owned(), json!(kind));
    if kind == "list" {
        config.insert("delays".to_owned(), json!(draw.pick([[0.3, 0.1], [0.0, 1.5]])));
    } else {
        let initial = draw.pick([0.0, 0.05, 0.25, 0.5, 1.0]);
        config.insert("initial_delay".to_owned(), json!(initial));
    }
    if let Some(cap) = draw.pick([Some(0.5), Some(1.0), Some(2.5), None]) {
        config.insert("max_delay".to_owned(), json!(cap));
    }
    if draw.chance(40) {
        config.insert("backoff_multiplier".to_owned(), json!(draw.pick([1.0, 1.5, 2.0, 3.0])));
    }
    if draw.chance(50) {
        config.insert("jitter".to_owned(), json!(draw.chance(60)));
    }
    if draw.chance(25) {
        let names = draw.some(["HTTPError", "ConnectionError", "TimeoutError", "LeaseLostError"]);
        config.insert("retry_on_exceptions".to_owned(), json!(names));
    }
    if draw.chance(25) {
        let names = draw.some(["RateLimitError", "ServerError", "ConnectionResetError"]);
        config.insert("exclude_exceptions".to_owned(), json!(names));
    }
    if timed || draw.chance(25) {
        config.insert("retry_timeout".to_owned(), json!(draw.pick([1.0, 2.5, 6.0])));
        if draw.chance(40) {
            config.insert("at_deadline".to_owned(), json!("truncate"));
            config.insert("last_attempt_reserve".to_owned(), json!(draw.pick([0.2, 0.5, 1.0])));
        }
    }
    if draw.chance(8) {
        config.insert("enabled".to_owned(), json!(false));
    }
    Value::Object(config)
}

/// A preset's name, or a table with the settings that every dialect takes.
fn preset(draw: &mut Draw, timed: bool) -> Value {
    let name = draw.pick(["aws-standard-2.1", "google-sre", "google-sre", "none"]);
    if timed {
        return json!({ "name": name, "attempt_timeout": draw.pick([0.5, 1.0, 2.0]) });
    }
    if draw.chance(30) { json!({ "name": name, "total_timeout": 4 }) } else { json!(name) }
}

/// Everything that only the builder can say.
fn builder(draw: &mut Draw, timed: bool) -> PolicyParts {
    let mut parts = PolicyParts::new(Dialect::Builder);
    if !timed && draw.chance(12) {
        truncating(draw, &mut parts);
        return parts;
    }
    parts.rules = (0..draw.pick([1, 1, 2, 3])).map(|_: u32| rule(draw)).collect();
    if parts.rules.len() > 1 && draw.chance(35) {
        let some = draw.pick([Limit::Unlimited, Limit::retries(2), Limit::retries(6)]);
        parts.counting = Counting::PerRule { total: some };
    }
    parts.attempt_timeout = (timed || draw.chance(30)).then(|| draw.millis(300, 2_500));
    parts.total_timeout = draw.chance(30).then(|| draw.millis(800, 8_000));
    if parts.total_timeout.is_some() && draw.chance(50) {
        parts.at_deadline = AtDeadline::Truncate { reserve: draw.millis(50, 1_000) };
    }
    parts.retry_unknown_outcome = draw.chance(15);
    let timed_out = if parts.attempt_timeout.is_some() { 60 } else { 10 };
    parts.timeout_retries = draw.chance(timed_out).then(|| draw.small(0, 2));
    if draw.chance(25) {
        parts.max_retry_after = draw.millis(500, 3_000);
    }
    parts
}

/// Delays that soon cross the total timeout and are cut short there.
fn truncating(draw: &mut Draw, parts: &mut PolicyParts) {
    let base = draw.millis(300, 900);
    let backoff = Backoff::exponential(base).with_jitter(jitter(draw));
    let limit = Limit::retries(draw.small(3, 6));
    parts.rules.push(Rule { matcher: Matcher::any(), limit, backoff });
    parts.total_timeout = Some(draw.millis(1_500, 5_000));
    parts.at_deadline = AtDeadline::Truncate { reserve: draw.millis(50, 300) };
}

fn rule(draw: &mut Draw) -> Rule {
    let matcher = match draw.below(4) {
        0 => Matcher::named(draw.some(BACKOFFS)),
        1 => {
            let except = draw.some(BACKOFFS).into_iter().map(str::to_owned).collect();
            Matcher { except, ..Matcher::any() }
        }
        2 => Matcher::retryable(),
        _ => Matcher::any(),
    };
    if draw.chance(12) {
        let cap = Some(draw.millis(200, 2_000));
        let backoff = Backoff { shape: shape(draw, 20), jitter: jitter(draw), cap };
        return Rule { matcher, limit: Limit::Unlimited, backoff };
    }
    let cap = draw.chance(50).then(|| draw.millis(100, 2_000));
    let backoff = Backoff { shape: shape(draw, 0), jitter: jitter(draw), cap };
    Rule { matcher, limit: Limit::retries(draw.small(0, 4)), backoff }
}

/// A shape with a base of at least `least` milliseconds.
fn shape(draw: &mut Draw, least: u64) -> Shape {
    let base = draw.millis(least, 800);
    match draw.below(if least == 0 { 8 } else { 7 }) {
        0 => Shape::Fixed { base },
        1 => Shape::Linear { base, step: draw.millis(0, 500) },
        2 => {
            let millionths = draw.pick([1_000_000, 1_500_000, 2_000_000, 3_000_000]);
            let multiplier = Multiplier::from_millionths(millionths).unwrap_or(Multiplier::TWO);
            Shape::Exponential { base, multiplier }
        }
        3 => Shape::Fibonacci { base },
        4 => Shape::Custom { name: draw.pick(backoff_functions::BACKOFFS).to_owned() },
        5 => Shape::Polynomial { base, degree: draw.small(1, 3) },
        6 => list(draw, least, base),
        _ => Shape::None,
    }
}

fn list(draw: &mut Draw, least: u64, base: Nanos) -> Shape {
    let more = (0..draw.pick([0, 1, 3])).map(|_: u32| draw.millis(least, 600));
    let delays: Vec<Nanos> = std::iter::once(base).chain(more).collect();
    DelayList::try_from(delays).map_or(Shape::Fixed { base }, |delays| Shape::List { delays })
}

fn jitter(draw: &mut Draw) -> Jitter {
    let share = Share::from_millionths(draw.small(0, 1_000_000)).unwrap_or(Share::QUARTER);
    draw.pick([
        Jitter::None,
        Jitter::Proportional(share),
        Jitter::Full,
        Jitter::Equal,
        Jitter::Decorrelated,
    ])
}
