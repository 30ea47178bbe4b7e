//! Replies of endpoints: failures of the kinds that are switched on, then success.

use serde_json::json;

use super::sketch::StepDraft;
use super::{Draw, Swarm};
use crate::fault::FaultKind;
use crate::scenario::{EndpointPlan, Reply, RetryAfter};

/// The endpoint of one step.
pub(super) fn plan(draw: &mut Draw, swarm: &Swarm, step: &StepDraft) -> EndpointPlan {
    let scripts = if step.items.is_some() { draw.pick([1, 2, 3]) } else { 1 };
    let may_hang = step.policy.limits_time() || swarm.attempt_timeout.is_some();
    let mut plan = plan_for(draw, swarm, step.path.clone(), scripts, may_hang);
    if step.is_slow {
        let slow =
            Reply::Delay { ms: draw.between(1_200, 1_900), then: Box::new(good(draw, swarm)) };
        plan.scripts.iter_mut().for_each(|script| script.insert(0, slow.clone()));
    }
    // Once healed, each answer is what the step ensures.
    if step.words.contains_key("ensures") {
        plan.then = Reply::SuccessTrue;
        let broken = Reply::Ok(json!({"value": draw.below(9)}));
        plan.scripts.iter_mut().for_each(|script| script.insert(0, broken.clone()));
    }
    // Echoes of echoes would outgrow what is stored as a result.
    if step.after.is_empty() && !step.is_shared && draw.chance(20) {
        plan.then = Reply::Echo;
    }
    plan
}

/// The endpoint at `path`, with so many scripts.
pub(super) fn plan_for(
    draw: &mut Draw,
    swarm: &Swarm,
    path: String,
    scripts: u32,
    may_hang: bool,
) -> EndpointPlan {
    let scripts = (0..scripts).map(|_| script(draw, swarm, may_hang)).collect();
    EndpointPlan { path, scripts, then: good(draw, swarm), cost: None }
}

fn script(draw: &mut Draw, swarm: &Swarm, may_hang: bool) -> Vec<Reply> {
    if draw.chance(20) {
        return spell(draw, swarm);
    }
    let length = draw.pick([0, 0, 1, 1, 2, 3, 6]);
    (0..length).map(|_: u32| reply(draw, swarm, may_hang)).collect()
}

/// The same failure again and again, which most policies retry: it takes several retries to tell
/// delays that grow in one way from those that grow in another, and to use up a budget.
fn spell(draw: &mut Draw, swarm: &Swarm) -> Vec<Reply> {
    let kinds: [(FaultKind, Make); 3] = [
        (FaultKind::ServerError, server_error),
        (FaultKind::RateLimit, rate_limit),
        (FaultKind::Reset, |_, _| Reply::ResetAfterHandling),
    ];
    let on: Vec<Make> =
        kinds.into_iter().filter(|(kind, _)| swarm.on(*kind)).map(|(_, make)| make).collect();
    let reply = match on.as_slice() {
        [] => exception(draw, swarm),
        on => on[draw.index(on.len())](draw, swarm),
    };
    vec![reply; draw.between(3, 6) as usize]
}

/// Has the answers of some endpoints name a cost.
pub(super) fn costs(draw: &mut Draw, endpoints: &mut [EndpointPlan]) {
    for plan in endpoints {
        if draw.chance(25) {
            plan.cost = Some(draw.pick([0, 1, 250_000, u64::MAX - 1]));
        }
    }
}

/// Has the first requests of some endpoints end the process that makes them.
pub(super) fn poison(draw: &mut Draw, endpoints: &mut [EndpointPlan]) {
    for plan in endpoints {
        if draw.chance(25) {
            let times = draw.pick([1, 1, 2, 3, 4, 6]);
            if let Some(script) = plan.scripts.first_mut() {
                script.splice(0..0, vec![Reply::Poison; times]);
            }
        }
    }
}

/// The replies to the first requests of a user's service, by the kinds that are switched on. A
/// success means that the service itself answers.
pub(super) fn trouble(draw: &mut Draw, swarm: &Swarm) -> Vec<Reply> {
    let kinds: [(FaultKind, Make); 5] = [
        (FaultKind::ServerError, server_error),
        (FaultKind::RateLimit, rate_limit),
        (FaultKind::Malformed, |draw, _| draw.pick([Reply::Malformed, Reply::Truncated])),
        (FaultKind::Reset, |_, _| Reply::ResetAfterHandling),
        (FaultKind::EndpointHang, hang),
    ];
    let mut choices: Vec<Make> = vec![|_, _| Reply::SuccessTrue; 2];
    for (kind, make) in kinds {
        if swarm.on(kind) {
            choices.extend([make, make]);
        }
    }
    let length = draw.pick([0, 1, 1, 2, 3, 6]);
    let one = |draw: &mut Draw| {
        let at = draw.index(choices.len());
        let made = choices[at](draw, swarm);
        if draw.chance(if swarm.slow { 70 } else { 15 }) {
            return Reply::Delay { ms: draw.between(1, 1_500), then: Box::new(made) };
        }
        made
    };
    (0..length).map(|_: u32| one(draw)).collect()
}

/// Makes one kind of reply.
type Make = fn(&mut Draw, &Swarm) -> Reply;

fn reply(draw: &mut Draw, swarm: &Swarm, may_hang: bool) -> Reply {
    let mut choices: Vec<Make> = vec![good, good];
    let kinds: [(FaultKind, Make); 7] = [
        (FaultKind::ServerError, server_error),
        (FaultKind::ClientError, client_error),
        (FaultKind::RateLimit, rate_limit),
        (FaultKind::Malformed, |draw, _| draw.pick([Reply::Malformed, Reply::Truncated])),
        (FaultKind::Reset, |_, _| Reply::ResetAfterHandling),
        (FaultKind::LateSuccess, late),
        (FaultKind::SlowStream, |draw, _| Reply::SlowStream {
            every_ms: draw.between(1, 50),
            total_ms: draw.pick([100, 1_000, 5_000]),
        }),
    ];
    for (kind, make) in kinds {
        if swarm.on(kind) {
            choices.extend([make, make, make]);
        }
    }
    if swarm.on(FaultKind::EndpointHang) && may_hang {
        choices.extend([hang as Make; 3]);
    }
    // Failures that actions report themselves. They are no fault of the world, so no kind switches
    // them.
    choices.push(exception);
    choices.push(work_failed);
    let at = draw.index(choices.len());
    let made = choices[at](draw, swarm);
    let slow = draw.chance(if swarm.slow { 70 } else { 15 });
    if slow && !matches!(made, Reply::Delay { .. }) {
        return Reply::Delay { ms: draw.between(1, 1_500), then: Box::new(made) };
    }
    made
}

fn hang(_: &mut Draw, _: &Swarm) -> Reply {
    Reply::Hang
}

/// Success, when the caller may have given up.
fn late(draw: &mut Draw, swarm: &Swarm) -> Reply {
    Reply::Delay { ms: draw.between(2_000, 8_000), then: Box::new(good(draw, swarm)) }
}

fn good(draw: &mut Draw, swarm: &Swarm) -> Reply {
    let value = draw.below(1_000);
    match draw.below(5) {
        0 => Reply::SuccessTrue,
        1 => Reply::Ok(json!({"ok": true, "value": value})),
        2 => Reply::Ok(json!([value, "two"])),
        // Success; other parts of the body do not matter.
        3 => Reply::Ok(json!({"success": true, "type": "ValueError", "message": "ignored"})),
        _ => Reply::Ok(json!({"value": value, "token": swarm.secrets.get(2)})),
    }
}

/// What upstreams leak secrets in; `§` is the secret.
const LEAKS: [&str; 27] = [
    "upstream refused: Authorization: Bearer §",
    "could not reach https://admin:§@db.test/main",
    "login failed for password=§ on db.test",
    "{\"error\": \"denied\", \"api_key\": \"§\"}",
    "Authorization: Digest username=\"bob\", realm=\"r\", response=\"§\"",
    "Proxy-Authorization: Basic § was refused",
    "sent (Bearer §), got 401",
    "Set-Cookie: session=§; Path=/; HttpOnly",
    "redis://:§@cache:6379/0 refused",
    "https://§@github.test/o/r.git is gone",
    "GET /v1?page=2&token=§ gave nothing",
    "password:\n  §\nuser: bob",
    "Authorization:\r\n\tBearer §",
    "\"{\\\"token\\\":\\\"a\\\\\\\"b§\\\"}\"",
    "Config { token: Some(\"§ x\"), retries: 3 }",
    "user[password]=§&user[name]=x",
    "dbPassword='§' is wrong",
    "--api-token § --host=h",
    "pass\u{1b}[0mword=§",
    "tok\u{200b}en: §",
    "-----BEGIN RSA PRIVATE KEY-----\n§\n-----END RSA PRIVATE KEY-----",
    "<password>§</password>",
    // Only the second of two must not be forgotten.
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n§\n",
    "token=0a1b2c3d4e5f is not token=§",
    "https://bob:first@a.test/ moved to https://bob:§@b.test/",
    "Authorization: Bearer 0a1b2c3d, then Authorization: Bearer §",
    "Authorization: § is not known here",
];

/// A message that an upstream might leak a secret in.
fn message(draw: &mut Draw, swarm: &Swarm) -> String {
    let secret = swarm.secrets.get(2).map_or("", String::as_str);
    match draw.chance(60) {
        true => draw.pick(LEAKS).replace('§', secret),
        false => "the machine is out of paper".to_owned(),
    }
}

fn server_error(draw: &mut Draw, swarm: &Swarm) -> Reply {
    let code = draw.pick([500, 502, 503, 503, 504]);
    let asks = code == 503 && draw.chance(40);
    let retry_after = asks.then(|| retry_after(draw));
    Reply::Status { code, retry_after, body: message(draw, swarm) }
}

fn client_error(draw: &mut Draw, swarm: &Swarm) -> Reply {
    let code = draw.pick([400, 401, 404, 408, 422]);
    Reply::Status { code, retry_after: None, body: message(draw, swarm) }
}

fn rate_limit(draw: &mut Draw, swarm: &Swarm) -> Reply {
    let retry_after = draw.chance(80).then(|| retry_after(draw));
    Reply::Status { code: 429, retry_after, body: message(draw, swarm) }
}

/// Seconds, a date, nonsense.
fn retry_after(draw: &mut Draw) -> RetryAfter {
    match draw.below(12) {
        0..=5 => RetryAfter::Seconds(draw.between(0, 3)),
        6 => RetryAfter::Seconds(draw.pick([7_200, u64::MAX])),
        7..=8 => RetryAfter::Date { secs: i64::from(draw.small(1, 4)), own_date: draw.chance(80) },
        9 => RetryAfter::Date { secs: -60, own_date: true },
        10 => RetryAfter::Text("-5".to_owned()),
        _ => RetryAfter::Text("when the moon is full".to_owned()),
    }
}

fn exception(draw: &mut Draw, swarm: &Swarm) -> Reply {
    let (kind, mro): (&str, &[&str]) = draw.pick([
        ("ValueError", &["ValueError", "Exception"] as &[&str]),
        ("ReadTimeout", &["ReadTimeout", "TimeoutError", "OSError"]),
        ("ConnectionResetError", &["ConnectionResetError", "ConnectionError"]),
        ("LLM_OVERLOADED", &[]),
    ]);
    let mro = mro.iter().map(|t| (*t).to_owned()).collect();
    Reply::Exception { kind: kind.to_owned(), message: message(draw, swarm), mro }
}

fn work_failed(draw: &mut Draw, swarm: &Swarm) -> Reply {
    if draw.chance(50) {
        return Reply::SuccessFalse;
    }
    Reply::Ok(json!({"success": false, "message": message(draw, swarm)}))
}
