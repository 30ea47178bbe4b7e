//! Bad input of every kind gets an error that names file, line and field.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{
    Diagnostic, Environment, Format, parse_actions, parse_policy, parse_workflow,
};
use retrial_core::policy::Dialect;

/// Two steps that make sense, before and after which a test puts what does not.
const STEPS: &str =
    "[[steps]]\nid = \"a\"\naction = \"x\"\n[[steps]]\nid = \"b\"\naction = \"x\"\n";

fn shown(errors: &[Diagnostic]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

pub(super) fn refused(text: &str) -> String {
    let parsed = parse_workflow("w.toml", text, Format::Toml, &Environment::default());
    parsed.err().map(|errors| errors.to_string()).unwrap_or_default()
}

/// What is wrong with a workflow of two steps and `rest`.
pub(super) fn with(rest: &str) -> String {
    refused(&format!("workflow = \"w\"\n{STEPS}{rest}"))
}

fn listed(texts: &[&str], refuse: impl Fn(&str) -> String) -> String {
    texts.iter().map(|t| format!("{t}\n  {}", refuse(t))).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_top_of_the_file() {
    let all = [
        "",
        "workflow = \"w\"",
        "workflow = \"w\"\nsteps = []",
        "workflow = \"w\"\nsteps = 5",
        "workflow = \"w\"\nsteps = [5]",
        "workflow = 5\n[[steps]]\nid = \"a\"\naction = \"x\"",
        "workflow = \"../w\"\n[[steps]]\nid = \"a\"\naction = \"x\"",
        "workflow = \"w\"\nworkflow = \"v\"",
        "workflow = \"w",
        "workflow \"w\"",
        "workflow = \"w\"\n[[step]]\nid = \"a\"",
    ];
    insta::assert_snapshot!(listed(&all, refused), @r#"

      w.toml:1:1: workflow: `workflow` is missing (give the workflow a name)
    w.toml:1:1: steps: `steps` is missing (add at least one step)
    workflow = "w"
      w.toml:1:1: steps: `steps` is missing (add at least one step)
    workflow = "w"
    steps = []
      w.toml:2:9: steps: workflow `w` has no steps (add at least one)
    workflow = "w"
    steps = 5
      w.toml:2:9: steps: expected a list, found the number 5
    workflow = "w"
    steps = [5]
      w.toml:2:10: steps.0: expected a table, found the number 5
    workflow = 5
    [[steps]]
    id = "a"
    action = "x"
      w.toml:1:12: workflow: expected a text, found the number 5
    workflow = "../w"
    [[steps]]
    id = "a"
    action = "x"
      w.toml:1:12: workflow: "../w" is not a name (use up to 100 letters, digits, spaces, `_`, `-` and `.`, no dot first)
    workflow = "w"
    workflow = "v"
      w.toml:2:1: workflow: the key is given twice (keep one of them)
    workflow = "w
      w.toml:1:14: invalid basic string, expected `"` (the text is read as TOML)
    workflow "w"
      w.toml:1:10: key with no value, expected `=` (the text is read as TOML)
    workflow = "w"
    [[step]]
    id = "a"
      w.toml:2:3: step: unknown key `step` (did you mean `steps`?)
    "#);
}

#[test]
fn steps() {
    let all = [
        "[[steps]]\nid = \"a\"\naction = \"x\"",
        "[[steps]]\nid = \"c.d\"\naction = \"x\"",
        "[[steps]]\nid = \"\"\naction = \"x\"",
        "[[steps]]\naction = \"x\"",
        "[[steps]]\nid = \"c\"",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nretries = 3",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nafter = [\"aa\"]",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nafter = [\"c\"]",
        "[[steps]]\nid = \"c\"\naction = \"x\"\ngoal = 1",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = [1]",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = inf }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = { m = \"${steps.zz.result}\" } }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = \"${steps.a.result}\" }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = \"${nothing.x}\" }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = \"${input.x\" }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nargs = { n = \"${item.x}\" }",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nfor_each = \"input.x\"",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nfor_each = \"${input.x} ${input.y}\"",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nfor_each = 3",
        "[[steps]]\nid = \"c\"\naction = \"x\"\nafter = \"d\"\n[[steps]]\nid = \"d\"\naction = \"x\"\nafter = \"c\"",
    ];
    insta::assert_snapshot!(listed(&all, with), @r#"
    [[steps]]
    id = "a"
    action = "x"
      w.toml:9:6: steps.2.id: step id `a` is used twice (give each step its own id)
    [[steps]]
    id = "c.d"
    action = "x"
      w.toml:9:6: steps.2.id: "c.d" is not an id (use up to 100 letters, digits, `_` and `-`)
    [[steps]]
    id = ""
    action = "x"
      w.toml:9:6: steps.2.id: the text is empty (write a name)
    [[steps]]
    action = "x"
      w.toml:8:1: steps.2.id: `id` is missing (give the step a name of its own)
    [[steps]]
    id = "c"
      w.toml:8:1: steps.2.action: `action` is missing (name what the step invokes)
    [[steps]]
    id = "c"
    action = "x"
    retries = 3
      w.toml:11:1: steps.2.retries: unknown key `retries` (use id, action, args, after, join, for_each, success, fail_fast, goal, requires, ensures, compensates, heartbeat_timeout, retry, work_config, execution, retry_config, preset)
    [[steps]]
    id = "c"
    action = "x"
    after = ["aa"]
      w.toml:11:10: steps.2.after.0: there is no step `aa` (did you mean `a`?)
    [[steps]]
    id = "c"
    action = "x"
    after = ["c"]
      w.toml:11:9: steps.2.after: steps c -> c form a cycle: none of them could ever start (remove one of its edges)
    [[steps]]
    id = "c"
    action = "x"
    goal = 1
      w.toml:11:8: steps.2.goal: expected true or false, found the number 1
    [[steps]]
    id = "c"
    action = "x"
    args = [1]
      w.toml:11:8: steps.2.args: expected a table, found a list
    [[steps]]
    id = "c"
    action = "x"
    args = { n = inf }
      w.toml:11:14: steps.2.args.n: `inf` can't be written in JSON (use a finite number that fits 64 bits, or a text)
    [[steps]]
    id = "c"
    action = "x"
    args = { n = { m = "${steps.zz.result}" } }
      w.toml:11:20: steps.2.args.n.m: step `c`: `steps.zz.result` names an unknown step (use a, b, c)
    [[steps]]
    id = "c"
    action = "x"
    args = { n = "${steps.a.result}" }
      w.toml:11:14: steps.2.args.n: step `c`: `steps.a.result` reads a step that may not have ended before it (add that step to `after` or add a transition from it)
    [[steps]]
    id = "c"
    action = "x"
    args = { n = "${nothing.x}" }
      w.toml:11:14: steps.2.args.n: `nothing.x` has an unknown root (use input, steps.ID, item, index, _last_error or _errors)
    [[steps]]
    id = "c"
    action = "x"
    args = { n = "${input.x" }
      w.toml:11:14: steps.2.args.n: `${input.x` has a `${` without a `}`
    [[steps]]
    id = "c"
    action = "x"
    args = { n = "${item.x}" }
      w.toml:11:14: steps.2.args.n: `item.x` exists only in the arguments of a fanned-out step (add `for_each` to the step)
    [[steps]]
    id = "c"
    action = "x"
    for_each = "input.x"
      w.toml:11:12: steps.2.for_each: expected a reference to a list, or a list (write ${input.NAME} or ${steps.ID.result.NAME})
    [[steps]]
    id = "c"
    action = "x"
    for_each = "${input.x} ${input.y}"
      w.toml:11:12: steps.2.for_each: expected a reference to a list, or a list (write ${input.NAME} or ${steps.ID.result.NAME})
    [[steps]]
    id = "c"
    action = "x"
    for_each = 3
      w.toml:11:12: steps.2.for_each: expected a reference to a list, or a list (write ${input.NAME} or ${steps.ID.result.NAME})
    [[steps]]
    id = "c"
    action = "x"
    after = "d"
    [[steps]]
    id = "d"
    action = "x"
    after = "c"
      w.toml:11:9: steps.2.after: steps c -> d -> c form a cycle: none of them could ever start (remove one of its edges)
    "#);
}

#[test]
fn policies_of_steps() {
    let step = |policy: &str| with(&format!("[[steps]]\nid = \"c\"\naction = \"x\"\n{policy}"));
    let all = [
        "retry = \"[retry: 3\"",
        "retry = '''[retry: 3]\n[retry: -1]'''",
        "retry = \"\\u005Bretry: -1]\"",
        "retry = \"retry: 3\"",
        "retry = 3",
        "retry = \"[retry: 1]\"\nwork_config = {}",
        "work_config = { max_retries = -2 }",
        "work_config = { max_retries = -1 }",
        "work_config = { backoff = -1 }",
        "work_config = { backoff = 99999999999999999 }",
        "work_config = { backoff = 999999999999999999999999999 }",
        "work_config = { backoff = nan }",
        "work_config = { backoff_type = \"Fixed\" }",
        "work_config = { max_retry = 3 }",
        "work_config = 3",
        "execution = { retry_policy = { backoff = \"none\" } }",
        "retry_config = { max_attempts = 0 }",
        "retry_config = { max_attempts = 0xFFFFFFFFFFFFFFFFFFFF }",
    ];
    insta::assert_snapshot!(listed(&all, step), @r#"
    retry = "[retry: 3"
      w.toml:11:19: steps.2.retry: expected `,` or `]`, found the end of the text
    retry = '''[retry: 3]
    [retry: -1]'''
      w.toml:12:9: steps.2.retry: `retry` must be a whole number, found `-1` (use 0 to 4294967294)
    retry = "\u005Bretry: -1]"
      w.toml:11:9: steps.2.retry: `retry` must be a whole number, found `-1` (use 0 to 4294967294)
    retry = "retry: 3"
      w.toml:11:10: steps.2.retry: expected `[`, found `r` (write a policy such as [retry: 3, backoff: 60])
    retry = 3
      w.toml:11:9: steps.2.retry: expected a text, found the number 3
    retry = "[retry: 1]"
    work_config = {}
      w.toml:12:1: steps.2.work_config: `work_config` is given beside `retry` (keep one of them)
    work_config = { max_retries = -2 }
      w.toml:11:31: steps.2.work_config.max_retries: `-2` is not a number of retries (use 0 for none, a number for at most that many, or -1 for unlimited)
    work_config = { max_retries = -1 }
      w.toml:11:31: steps.2.work_config.max_retries: unlimited retries need a delay: that of rule 1 is 0 or becomes 0 (set a backoff above zero or limit the attempts)
    work_config = { backoff = -1 }
      w.toml:11:27: steps.2.work_config.backoff: `-1` may not be negative (use zero or more)
    work_config = { backoff = 99999999999999999 }
      w.toml:11:27: steps.2.work_config.backoff: `99999999999999999` is too large (the longest time is about 584 years)
    work_config = { backoff = 999999999999999999999999999 }
      w.toml:11:27: steps.2.work_config.backoff: `999999999999999999999999999` is too large (the longest time is about 584 years)
    work_config = { backoff = nan }
      w.toml:11:27: steps.2.work_config.backoff: `nan` must be finite (use a finite number, or leave the field out for no limit)
    work_config = { backoff_type = "Fixed" }
      w.toml:11:32: steps.2.work_config.backoff_type: `Fixed` is not known here (did you mean `fixed`?)
    work_config = { max_retry = 3 }
      w.toml:11:17: steps.2.work_config.max_retry: unknown key `max_retry` (did you mean `max_retries`?)
    work_config = 3
      w.toml:11:15: steps.2.work_config: expected a table, found the number 3
    execution = { retry_policy = { backoff = "none" } }
      w.toml:11:30: steps.2.execution.retry_policy.max_attempts: `max_attempts` is missing (say how many attempts there may be in all, the first included)
    retry_config = { max_attempts = 0 }
      w.toml:11:33: steps.2.retry_config.max_attempts: `0` is out of range (use 1 to 4294967295)
    retry_config = { max_attempts = 0xFFFFFFFFFFFFFFFFFFFF }
      w.toml:11:33: steps.2.retry_config.max_attempts: `1208925819614629174706175` is too large (whole numbers have at most 64 bits)
    "#);
}

#[test]
fn transitions() {
    let all = [
        "[[transitions]]\nfrom = \"a\"",
        "[[transitions]]\nfrom = \"a\"\nto = \"bb\"",
        "[[transitions]]\nfrom = \"a\"\nto = \"a\"",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\npriority = 1.5",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\non_error = [503]",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = \"state.x\"",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { field = \"state.x\" }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"exist\", field = \"state.x\" }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"exists\", field = \"_last_error\" }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"exists\", field = \"state.steps.zz\" }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"exists\", field = { type = \"fild\", path = \"state.x\" } }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"eq\", field = \"state.input.x\" }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"and\", conditions = [{ type = \"not\" }] }",
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"exists\", field = \"state.input.x\", value = 1 }",
    ];
    insta::assert_snapshot!(listed(&all, with), @r#"
    [[transitions]]
    from = "a"
      w.toml:8:1: transitions.0.to: `to` is missing (name the step it leads to)
    [[transitions]]
    from = "a"
    to = "bb"
      w.toml:10:6: transitions.0.to: there is no step `bb` (did you mean `b`?)
    [[transitions]]
    from = "a"
    to = "a"
      w.toml:8:1: transitions.0: steps a -> a form a cycle: none of them could ever start (remove one of its edges)
    [[transitions]]
    from = "a"
    to = "b"
    priority = 1.5
      w.toml:11:12: transitions.0.priority: `1.5` is not a whole number (use digits alone, such as 3)
    [[transitions]]
    from = "a"
    to = "b"
    on_error = [503]
      w.toml:11:13: transitions.0.on_error.0: expected a text, found the number 503 (write "503")
    [[transitions]]
    from = "a"
    to = "b"
    condition = "state.x"
      w.toml:11:13: transitions.0.condition: expected a table, found the text "state.x"
    [[transitions]]
    from = "a"
    to = "b"
    condition = { field = "state.x" }
      w.toml:11:13: transitions.0.condition.type: `type` is missing (say type = exists, not, eq, in, and, or)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "exist", field = "state.x" }
      w.toml:11:22: transitions.0.condition.type: `exist` is not known here (did you mean `exists`?)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "exists", field = "_last_error" }
      w.toml:11:40: transitions.0.condition.field: `_last_error` does not start with `state.` (a condition reads the run's state)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "exists", field = "state.steps.zz" }
      w.toml:11:40: transitions.0.condition.field: there is no step `zz` (there are `a`, `b`)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "exists", field = { type = "fild", path = "state.x" } }
      w.toml:11:49: transitions.0.condition.field.type: `fild` is not known here (did you mean `field`?)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "eq", field = "state.input.x" }
      w.toml:11:13: transitions.0.condition.value: `value` is missing (write what to find)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "and", conditions = [{ type = "not" }] }
      w.toml:11:43: transitions.0.condition.conditions.0.condition: `condition` is missing (write the condition that must not hold)
    [[transitions]]
    from = "a"
    to = "b"
    condition = { type = "exists", field = "state.input.x", value = 1 }
      w.toml:11:57: transitions.0.condition.value: unknown key `value` (use type, field)
    "#);
}

#[test]
fn actions() {
    let all = [
        "[actions.x]\nhttp = \"http://host/\"",
        "[actions.x]\nhttp = \"post http://host/\"",
        "[actions.x]\nhttp = \"POST /path\"",
        "[actions.x]\nhttp = \"POST ftp://host/\"",
        "[actions.x]\nhttp = \"POST http:///path\"",
        "[actions.x]\nhttp = \"POST http://host:99999/\"",
        "[actions.x]\nhttp = \"POST http://user:pass@host/\"",
        "[actions.x]\nhttp = \"POST http://host/${input.x}\"",
        "[actions.x]\nhttp = \"POST http://[::1/\"",
        "[actions.x]\nurl = \"POST http://host/\"",
        "[actions.x]\nkind = \"toolcall\"",
        "[actions.x]\nheaders = { a = \"b\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { \"a b\" = \"c\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { X-A = \"b\", x-a = \"c\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { Receipt-Token = \"b\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { TE = \"trailers\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { a = \"env:\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { a = \"secret\\n\" }",
        "[actions.x]\nhttp = \"POST http://h/\"\nheaders = { a = 12345 }",
        "[actions.x]\ninner_attempts = 0",
        "[actions]\nx = 5",
        "[defaults]\nretry = \"[retry: 1]\"\nexecution = {}",
        "[defaults.tool]\nretry = \"[retry: 1]\"",
        "[defaults.tool_call]\nwork_config = { max_retries = \"x\" }",
    ];
    let refuse = |text: &str| shown(&parse_actions("a.toml", text, Format::Toml).err().unwrap());
    insta::assert_snapshot!(listed(&all, refuse), @r#"
    [actions.x]
    http = "http://host/"
      a.toml:2:8: actions.x.http: expected a method and a URL (write a method and a URL, such as POST http://host/path)
    [actions.x]
    http = "post http://host/"
      a.toml:2:8: actions.x.http: `post` is not a method that an action can use (did you mean `POST`?)
    [actions.x]
    http = "POST /path"
      a.toml:2:8: actions.x.http: the URL does not begin with http:// or https:// (write a method and a URL, such as POST http://host/path)
    [actions.x]
    http = "POST ftp://host/"
      a.toml:2:8: actions.x.http: the URL does not begin with http:// or https:// (write a method and a URL, such as POST http://host/path)
    [actions.x]
    http = "POST http:///path"
      a.toml:2:8: actions.x.http: the URL has no valid host (write a method and a URL, such as POST http://host/path)
    [actions.x]
    http = "POST http://host:99999/"
      a.toml:2:8: actions.x.http: the URL's port is not from 1 to 65535 (write a method and a URL, such as POST http://host/path)
    [actions.x]
    http = "POST http://user:pass@host/"
      a.toml:2:8: actions.x.http: the URL holds credentials (put them in a header from env:NAME)
    [actions.x]
    http = "POST http://host/${input.x}"
      a.toml:2:8: actions.x.http: a URL reads only the step's arguments, not `${input.x}` (add x = "${input.x}" to the step's args, and write ${args.x})
    [actions.x]
    http = "POST http://[::1/"
      a.toml:2:8: actions.x.http: the IPv6 address has no `]` (write a method and a URL, such as POST http://host/path)
    [actions.x]
    url = "POST http://host/"
      a.toml:2:1: actions.x.url: unknown key `url` (use http, headers, body, answer, kind, idempotent, inner_attempts, breaker, concurrency, rate, retry_budget, error_budget, heartbeat_timeout, retry, work_config, execution, retry_config, preset)
    [actions.x]
    kind = "toolcall"
      a.toml:2:8: actions.x.kind: `toolcall` is not known here (did you mean `tool_call`?)
    [actions.x]
    headers = { a = "b" }
      a.toml:2:11: actions.x.headers: headers without `http` (add http = "POST URL")
    [actions.x]
    http = "POST http://h/"
    headers = { "a b" = "c" }
      a.toml:3:13: actions.x.headers.a b: "a b" is not the name of a header
    [actions.x]
    http = "POST http://h/"
    headers = { X-A = "b", x-a = "c" }
      a.toml:3:24: actions.x.headers.x-a: `x-a` is given twice (header names ignore case; keep one)
    [actions.x]
    http = "POST http://h/"
    headers = { Receipt-Token = "b" }
      a.toml:3:13: actions.x.headers.Receipt-Token: only the HTTP client may set `receipt-token` (leave it out)
    [actions.x]
    http = "POST http://h/"
    headers = { TE = "trailers" }
      a.toml:3:13: actions.x.headers.TE: only the HTTP client may set `te` (leave it out)
    [actions.x]
    http = "POST http://h/"
    headers = { a = "env:" }
      a.toml:3:17: actions.x.headers.a: `env:` is not followed by the name of a variable (write env:NAME)
    [actions.x]
    http = "POST http://h/"
    headers = { a = "secret\n" }
      a.toml:3:17: actions.x.headers.a: the header's value has a character that can't be sent (use printable ASCII)
    [actions.x]
    http = "POST http://h/"
    headers = { a = 12345 }
      a.toml:3:17: actions.x.headers.a: expected a text, found a number
    [actions.x]
    inner_attempts = 0
      a.toml:2:18: actions.x.inner_attempts: `0` is out of range (use 1 to 4294967295)
    [actions]
    x = 5
      a.toml:2:5: actions.x: expected a table, found the number 5
    [defaults]
    retry = "[retry: 1]"
    execution = {}
      a.toml:3:1: defaults.execution: `execution` is given beside `retry` (keep one of them)
    [defaults.tool]
    retry = "[retry: 1]"
      a.toml:1:11: defaults.tool: unknown key `tool` (did you mean `tool_call`?)
    [defaults.tool_call]
    work_config = { max_retries = "x" }
      a.toml:2:31: defaults.tool_call.work_config.max_retries: expected a whole number, found the text "x"
    "#);
}

#[test]
fn json() {
    let all = [
        "",
        "{",
        "{\"workflow\": }",
        "{\"workflow\": \"a\", \"workflow\": \"b\"}",
        "{\"input\": {\"a\": 1, \"a\": 2}}",
        "{\"workflow\": \"a\",}",
        "{\"workflow\": \"a\" \"steps\": []}",
        "{workflow: \"a\"}",
        "{\"workflow\": \"a\n\"}",
        "{\"workflow\": \"\\q\"}",
        "{\"workflow\": \"\\ud800\"}",
        "{\"workflow\": 01}",
        "{\"workflow\": -}",
        "{\"workflow\": nul}",
        "{} x",
        "[]",
        "{\"workflow\": \"a\",\n \"steps\": [{\"id\": \"é\", \"action\": \"x\", \"gaol\": true}]}",
    ];
    let refuse = |text: &str| {
        let parsed = parse_workflow("w.json", text, Format::Json, &Environment::default());
        shown(&parsed.err().unwrap())
    };
    insta::assert_snapshot!(listed(&all, refuse), @r#"

      w.json:1:1: expected a JSON value, found the end of the text
    {
      w.json:1:2: expected a key in double quotes, found the end of the text (JSON has its keys and texts in double quotes)
    {"workflow": }
      w.json:1:14: expected a JSON value, found `}`
    {"workflow": "a", "workflow": "b"}
      w.json:1:19: workflow: the key is given twice (keep one of them)
    {"input": {"a": 1, "a": 2}}
      w.json:1:20: input.a: the key is given twice (keep one of them)
    {"workflow": "a",}
      w.json:1:18: expected a key in double quotes, found `}` (JSON has its keys and texts in double quotes)
    {"workflow": "a" "steps": []}
      w.json:1:18: expected `,` or `}`, found `"`
    {workflow: "a"}
      w.json:1:2: expected a key in double quotes, found `w` (JSON has its keys and texts in double quotes)
    {"workflow": "a
    "}
      w.json:1:14: the text has no end (close it with " on the same line)
    {"workflow": "\q"}
      w.json:1:16: unknown escape (use \", \\, \/, \b, \f, \n, \r, \t or \uXXXX)
    {"workflow": "\ud800"}
      w.json:1:17: half of a surrogate pair (write the character itself)
    {"workflow": 01}
      w.json:1:14: `01` is not a JSON number (write digits, such as 1, -2 or 0.5)
    {"workflow": -}
      w.json:1:14: `-` is not a JSON number (write digits, such as 1, -2 or 0.5)
    {"workflow": nul}
      w.json:1:14: expected a JSON value, found `n`
    {} x
      w.json:1:4: expected the end of the text, found `x`
    []
      w.json:1:1: expected a table, found a list
    {"workflow": "a",
     "steps": [{"id": "é", "action": "x", "gaol": true}]}
      w.json:2:39: steps.0.gaol: unknown key `gaol` (did you mean `goal`?)
    "#);
}

#[test]
fn a_policy_in_no_known_dialect() {
    let refuse =
        |text: &str| shown(&parse_policy("p", text, None, &Environment::default()).err().unwrap());
    let all = ["", "{}", "colour = 3", "work_config = {}\nexecution = {}", "[retry: x]", "hello"];
    insta::assert_snapshot!(listed(&all, refuse), @r#"
      p:1:1: the text is in no known dialect (write work_config, execution or retry_config fields, IR brackets such as [retry: 3], or any of them with attempt_timeout, total_timeout, timeout_retries, max_retry_after, counting, total_attempts, at_deadline, last_attempt_reserve, retry_unknown_outcome, retry_budget)
    {}
      p:1:1: the text is in no known dialect (write work_config, execution or retry_config fields, IR brackets such as [retry: 3], or any of them with attempt_timeout, total_timeout, timeout_retries, max_retry_after, counting, total_attempts, at_deadline, last_attempt_reserve, retry_unknown_outcome, retry_budget)
    colour = 3
      p:1:1: the text is in no known dialect (write work_config, execution or retry_config fields, IR brackets such as [retry: 3], or any of them with attempt_timeout, total_timeout, timeout_retries, max_retry_after, counting, total_attempts, at_deadline, last_attempt_reserve, retry_unknown_outcome, retry_budget)
    work_config = {}
    execution = {}
      p:2:1: execution: `execution` is given beside `work_config` (keep one of them)
    [retry: x]
      p:1:9: `retry` must be a whole number, found `x` (use 0 to 4294967294)
    hello
      p:1:6: key with no value, expected `=` (the text is read as TOML)
    "#);
    let wrong =
        parse_policy("p", "work_config = {}", Some(Dialect::Execution), &Environment::default());
    insta::assert_snapshot!(shown(&wrong.err().unwrap()), @r#"p:1:1: the text is work_config, not execution (give the dialect that it is written in, or none)"#);
}

/// All errors are reported at once, in text order.
#[test]
fn several_errors_come_together() {
    let text = "[[steps]]\nid = \"a\"\naction = 5\n[[steps]]\nid = \"b\"\n[actions.x]\nhttp = 3";
    assert_eq!(refused(text).lines().count(), 4);
}

/// The terminal's report shows the line and points at the column.
#[cfg(feature = "report")]
#[test]
fn reports_point_at_the_column() {
    let text = "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"x\"\nretry = \"[rety: 3]\"\n";
    let parsed = parse_workflow("w.toml", text, Format::Toml, &Environment::default());
    let mut report = String::new();
    miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode_nocolor())
        .render_report(&mut report, &parsed.err().unwrap()[0])
        .unwrap();
    insta::assert_snapshot!(report, @r#"
     × w.toml:5:11: steps.0.retry: unknown key `rety` (did you mean `retry`?)
      ╭─[w.toml:5:11]
    4 │ action = "x"
    5 │ retry = "[rety: 3]"
      ·           ──┬─
      ·             ╰── steps.0.retry
      ╰────
    "#);
}
