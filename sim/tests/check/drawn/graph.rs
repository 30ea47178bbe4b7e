//! A workflow file: actions, steps, and the edges between them.

use std::fmt::Write as _;

use super::Dice;
use super::policies::policy;

const ACTIONS: &[&str] =
    &["ask", "fetch", "look", "drop", "else", "kept", "erratic", "well", "closed"];

pub(super) fn workflow(dice: &mut Dice) -> String {
    let mut text = "workflow = \"w\"\n".to_owned();
    if dice.chance(30) {
        let when = dice.pick(&["on_failure", "on_cancel", "always", "never"]);
        writeln!(text, "rollback = \"{when}\"").unwrap();
    }
    if dice.chance(40) {
        simulate(dice, &mut text);
    }
    text += "[input]\nrows = [7, 8]\nname = \"Bob\"\n";
    if dice.chance(20) {
        text += "[defaults]\nretry = \"[retry: 2, backoff: 1s]\"\n";
        text += "[defaults.llm_call]\npreset = \"aws-standard-2.1\"\n";
    }
    actions(dice, &mut text);
    let count = 1 + dice.below(7);
    for n in 0..count {
        step(dice, &mut text, n);
    }
    let undone = if dice.chance(40) { 1 + dice.below(count) } else { 0 };
    for n in 0..undone {
        compensation(dice, &mut text, n);
    }
    if count > 1 && dice.chance(60) {
        for _ in 0..1 + dice.below(3) {
            transition(dice, &mut text, count);
        }
    }
    text
}

fn simulate(dice: &mut Dice, text: &mut String) {
    text.push_str("[simulate]\n");
    for line in dice.some(25, &["endpoints_heal = false", "nodes = 1", "heal_after_ms = 9000"]) {
        writeln!(text, "{line}").unwrap();
    }
    for name in dice.some(60, &["drop", "else"]) {
        let one = |dice: &mut Dice| {
            dice.pick(&[
                "\"success_true\"",
                "\"success_false\"",
                "\"echo\"",
                "\"malformed\"",
                "\"truncated\"",
                "\"reset_after_handling\"",
                "{ ok = { rows = [1, 2, 3], state = \"ready\" } }",
                "{ exception = { type = \"NETWORK_ERROR\", message = \"m\", mro = [\"CardError\"] } }",
                "{ status = { code = 503, retry_after = { seconds = 2 } } }",
                "{ status = { code = 200, body = \"{}\" } }",
                "{ status = { code = 204 } }",
                "{ status = { code = 201, body = \"no\" } }",
                r#"{ status = { code = 206, body = '{"success": false}' } }"#,
                "{ slow_stream = { every_ms = 20, total_ms = 900 } }",
                "{ delay = { ms = 700, then = \"success_true\" } }",
            ])
        };
        let replies: Vec<_> = (0..dice.below(4)).map(|_| one(dice)).collect();
        writeln!(text, "[simulate.endpoints.{name}]").unwrap();
        writeln!(text, "replies = [{}]\nthen = {}", replies.join(", "), one(dice)).unwrap();
    }
}

fn actions(dice: &mut Dice, text: &mut String) {
    for (name, http) in [
        ("ask", "POST http://shop.test:8080/ask?x=1"),
        ("fetch", "GET http://shop.test/rows"),
        ("look", "HEAD https://shop.test"),
        ("drop", "DELETE http://nowhere.test/a/b"),
        ("else", "PUT http://nowhere.test/c"),
        ("kept", "POST http://store/keep"),
        ("erratic", ""),
        ("closed", ""),
        ("tell", "GET http://shop.test/tell"),
    ] {
        writeln!(text, "[actions.{name}]").unwrap();
        if !http.is_empty() {
            writeln!(text, "http = \"{http}\"").unwrap();
        }
        if name == "tell" {
            continue;
        }
        if http.is_empty() && dice.chance(30) {
            text.push_str("heartbeat_timeout = \"3s\"\n");
        }
        for line in dice.some(
            12,
            &[
                "idempotent = false",
                "inner_attempts = 2",
                "concurrency = 2",
                "rate = { calls = 2, per = \"1s\" }",
                "breaker = { failures = 3, open = \"2s\", probes = 2 }",
                "breaker = { rate = 0.5, min_calls = 4, open = \"1s\" }",
                "retry_budget = { capacity = 30, initial = 5, ratio = 0.5 }",
                "retry_budget = { capacity = 10, cost = 2, scope = \"action\", on_denied = \"wait\" }",
                "retry_budget = { capacity = 10, initial = 2, scope = \"group\" }",
                "error_budget = { target = 0.9, window = \"1h\", min_calls = 3, alerts = [0.5, 1.0], webhook = \"tell\" }",
                "kind = \"llm_call\"",
            ],
        ) {
            let key = line.split(' ').next().unwrap();
            let block = text.rfind("[actions.").unwrap();
            if !text[block..].contains(&format!("\n{key} =")) {
                writeln!(text, "{line}").unwrap();
            }
        }
    }
}

fn step(dice: &mut Dice, text: &mut String, n: u64) {
    writeln!(text, "[[steps]]\nid = \"s{n}\"\naction = \"{}\"", dice.pick(ACTIONS)).unwrap();
    let before: Vec<u64> = (0..n).filter(|_| dice.chance(35)).collect();
    if !before.is_empty() {
        let names: Vec<String> = before.iter().map(|b| format!("\"s{b}\"")).collect();
        writeln!(text, "after = [{}]", names.join(", ")).unwrap();
        if dice.chance(40) {
            let join = match dice.chance(50) {
                true => "\"any\"".to_owned(),
                false => format!("{{ at_least = {} }}", 1 + dice.below(before.len() as u64)),
            };
            writeln!(text, "join = {join}").unwrap();
        }
    }
    let fans_out = dice.chance(35);
    let behind = before.first().copied();
    if fans_out {
        writeln!(text, "for_each = {}", list(dice, behind)).unwrap();
        if dice.chance(50) {
            writeln!(text, "success = {}", dice.pick(&["\"any\"", "{ at_least = 2 }", "\"all\""]))
                .unwrap();
        }
        if dice.chance(40) {
            text.push_str("fail_fast = true\n");
        }
    }
    if dice.chance(15) {
        text.push_str("goal = true\n");
    }
    writeln!(text, "args = {{ {} }}", args(dice, fans_out, behind)).unwrap();
    if dice.chance(10) {
        writeln!(text, "requires = {}", condition(dice, behind, false)).unwrap();
    }
    let ensures = dice.chance(25);
    if ensures {
        writeln!(text, "ensures = {}", condition(dice, behind, true)).unwrap();
    }
    writeln!(text, "{}", policy(dice, !ensures)).unwrap();
}

fn list(dice: &mut Dice, behind: Option<u64>) -> String {
    match (dice.below(6), behind) {
        (0, _) => "[1, \"b\", { c = 3 }]".to_owned(),
        (1, _) => "[]".to_owned(),
        (2, _) => "\"${input.deep.rows}\"".to_owned(),
        (3, _) => "\"${input.none}\"".to_owned(),
        (4, Some(b)) => format!("\"${{steps.s{b}.result.rows}}\""),
        _ => "\"${input.rows}\"".to_owned(),
    }
}

fn args(dice: &mut Dice, fans_out: bool, behind: Option<u64>) -> String {
    let mut parts = vec!["order = 7".to_owned()];
    if fans_out && dice.chance(70) {
        parts.push("item = \"${item}\", at = \"no. ${index}\"".to_owned());
    }
    if let Some(b) = behind.filter(|_| dice.chance(60)) {
        parts.push(format!("before = \"${{steps.s{b}.result}}\""));
    }
    if dice.chance(30) {
        parts.push("who = \"Mr ${input.name}\"".to_owned());
    }
    if dice.chance(25) {
        parts.push("errors = \"${_errors}\", error = \"${_last_error.code}\"".to_owned());
    }
    parts.join(", ")
}

fn condition(dice: &mut Dice, behind: Option<u64>, of_result: bool) -> String {
    let one = |dice: &mut Dice| {
        let field = match (dice.below(7), behind) {
            (0, Some(b)) => format!("steps.s{b}.result.state"),
            (1 | 2, _) if of_result => "result.state".to_owned(),
            (3, _) if of_result => "result".to_owned(),
            (4, _) => "_last_error.code".to_owned(),
            (5, _) => "_errors".to_owned(),
            (6, _) => "input.rows.0".to_owned(),
            _ => "input.name".to_owned(),
        };
        match dice.below(3) {
            0 => format!("{{ type = \"exists\", field = \"state.{field}\" }}"),
            1 => format!("{{ type = \"eq\", field = \"state.{field}\", value = \"ready\" }}"),
            _ => format!(
                "{{ type = \"in\", field = \"state.{field}\", values = [\"Ann\", 1, \"503\"] }}"
            ),
        }
    };
    let first = one(dice);
    match dice.below(6) {
        0 => format!("{{ type = \"not\", condition = {first} }}"),
        1 => format!("{{ type = \"or\", conditions = [{first}, {}] }}", one(dice)),
        2 => format!("{{ type = \"and\", conditions = [{first}, {}] }}", one(dice)),
        _ => first,
    }
}

fn compensation(dice: &mut Dice, text: &mut String, n: u64) {
    let action = dice.pick(ACTIONS);
    writeln!(text, "[[steps]]\nid = \"u{n}\"\naction = \"{action}\"\ncompensates = \"s{n}\"")
        .unwrap();
    writeln!(text, "args = {{ undone = \"${{result}}\", why = \"${{_last_error.code}}\" }}")
        .unwrap();
    writeln!(text, "{}", policy(dice, true)).unwrap();
}

fn transition(dice: &mut Dice, text: &mut String, count: u64) {
    let to = 1 + dice.below(count - 1);
    let from = dice.below(to);
    writeln!(text, "[[transitions]]\nfrom = \"s{from}\"\nto = \"s{to}\"").unwrap();
    if dice.chance(40) {
        writeln!(text, "priority = {}", dice.below(3)).unwrap();
    }
    if dice.chance(60) {
        let names = [
            "true",
            "[\"5xx\", \"TIMEOUT\"]",
            "[\"HTTPError\"]",
            "[\"PRECONDITION_FAILED\", \"BAD_FAN_OUT\"]",
            "[\"CardError\", \"POSTCONDITION_FAILED\", \"BROKEN\"]",
        ];
        writeln!(text, "on_error = {}", dice.pick(&names)).unwrap();
    }
    if dice.chance(50) {
        writeln!(text, "condition = {}", condition(dice, None, false)).unwrap();
    }
}
