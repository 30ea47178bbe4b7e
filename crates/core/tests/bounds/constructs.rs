//! Everything that a text can repeat, one row each.

use retrial_core::dialect::Format;

/// How a text is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Workflow(Format),
    Program,
    Policy,
    /// Any text, which is masked.
    Masked,
}

use Kind::{Masked, Policy, Program};
const TOML: Kind = Kind::Workflow(Format::Toml);
const JSON: Kind = Kind::Workflow(Format::Json);

/// A name, how it is read, and the text that repeats it so many times.
pub(crate) type Construct = (&'static str, Kind, fn(usize) -> String);

pub(crate) const ALL: &[Construct] = &[
    ("issue: items under a long key", JSON, |n| {
        format!(r#"{{"input":{{"{}":[{}]}}}}"#, "k".repeat(n), repeat(n, ",", |_| "1".into()))
    }),
    ("numbers in TOML", TOML, |n| {
        flow(&format!("input = {{ a = [{}] }}", list(n, |_| "1".into())))
    }),
    ("numbers in JSON", JSON, |n| json(&format!("[{}]", repeat(n, ",", |_| "1".into())))),
    ("texts", JSON, |n| json(&format!("[{}]", repeat(n, ",", |_| "\"\"".into())))),
    ("empty tables", JSON, |n| json(&format!("[{}]", repeat(n, ",", |_| "{}".into())))),
    ("small tables in JSON", JSON, |n| {
        json(&format!("[{}]", repeat(n, ",", |_| "{\"a\":1}".into())))
    }),
    ("small tables in TOML", TOML, |n| {
        flow(&format!("input = {{ a = [{}] }}", list(n, |_| "{a=1}".into())))
    }),
    ("nested lists", JSON, |n| json(&format!("{}1{}", "[".repeat(n), "]".repeat(n)))),
    ("nested lists in TOML", TOML, |n| {
        flow(&format!("input = {{ a = {}1{} }}", "[".repeat(n), "]".repeat(n)))
    }),
    ("deep lists side by side", JSON, |n| {
        json(&format!(
            "[{}]",
            repeat(n / 60, ",", |_| format!("{}{}", "[".repeat(60), "]".repeat(60)))
        ))
    }),
    ("keys in JSON", JSON, |n| json(&format!("{{{}}}", repeat(n, ",", |i| format!("\"{i}\":1"))))),
    ("keys in TOML", TOML, |n| {
        format!("{}\n[input]\n{}", flow(""), lines(n, |i| format!("k{i} = 1")))
    }),
    ("the same key", JSON, |n| json(&format!("{{{}}}", repeat(n, ",", |_| "\"k\":1".into())))),
    ("dotted keys", TOML, |n| format!("input.{}a = 1", "a.".repeat(n))),
    ("dotted keys side by side", TOML, |n| {
        lines(n / 50, |i| format!("input.k{i}.{}a = 1", "a.".repeat(50)))
    }),
    ("heads of tables", TOML, |n| lines(n, |i| format!("[input.k{i}]"))),
    ("heads of lists", TOML, |n| lines(n, |_| "[[input.k]]".into())),
    ("unknown keys", TOML, |n| lines(n, |i| format!("k{i} = 1"))),
    ("empty lines", TOML, |n| "\n".repeat(n)),
    ("comments", TOML, |n| lines(n, |_| "#".into())),
    ("lines of a text", TOML, |n| flow(&format!("input = {{ a = '''{}''' }}", "x\n".repeat(n)))),
    ("characters of a text", TOML, |n| flow(&format!("input = {{ a = '{}' }}", "x".repeat(n)))),
    ("escapes of a text", JSON, |n| json(&format!("\"{}\"", "\\u0041".repeat(n)))),
    ("digits", TOML, |n| flow(&format!("input = {{ a = {} }}", "1".repeat(n)))),
    ("digits of a time", TOML, |n| {
        step(&format!("execution = {{ total_timeout = {}.5 }}", "0".repeat(n)))
    }),
    ("steps", TOML, |n| {
        format!(
            "workflow = 'w'\n{}",
            steps(n, |i| match i {
                0 => String::new(),
                i => format!("after = 's{}'", i - 1),
            })
        )
    }),
    ("steps with a policy", TOML, |n| {
        format!(
            "workflow = 'w'\n{}",
            steps(n, |_| { "retry = '[retry: 1000, backoff: 1] [total_timeout: 500000]'".into() })
        )
    }),
    ("steps that are wrong", TOML, |n| {
        format!("workflow = 'w'\n{}", steps(n, |_| "afte = 1".into()))
    }),
    ("steps with the same id", TOML, |n| {
        format!("workflow = 'w'\n{}", lines(n, |_| "[[steps]]\nid = 's'\naction = 'a'".into()))
    }),
    ("steps with long ids", TOML, |n| {
        format!(
            "workflow = 'w'\n{}",
            lines(n / 25, |i| {
                format!("[[steps]]\nid = 's{i}{}'\naction = 'a'\nafter = 'nope'", "x".repeat(200))
            })
        )
    }),
    ("a long unknown step", TOML, |n| step(&format!("after = '{}'", "x".repeat(n)))),
    ("unknown steps of long names", TOML, |n| {
        let list = list(n / 100, |i| format!("{{ from = 'x{i}{}', to = 's' }}", "x".repeat(90)));
        format!("{}\ntransitions = [{list}]", flow(""))
            .replace("steps = [", "steps = [{ id = 'x', action = 'a' }, ")
    }),
    ("dependencies", TOML, |n| graph(n, 900)),
    ("dependencies of few", TOML, |n| step_after(n)),
    ("transitions", TOML, |n| {
        let edge = |i: usize| format!("{{ from = 's{}', to = 's{}' }}", i % 99, 1 + i % 99);
        format!(
            "workflow = 'w'\ntransitions = [{}]\n{}",
            list(n, edge),
            steps(100, |_| String::new())
        )
    }),
    ("transitions to unknown steps", TOML, |n| {
        let edge = |i: usize| format!("{{ from = 'fetc_{i}', to = 's1' }}");
        format!(
            "workflow = 'w'\ntransitions = [{}]\n{}",
            list(n, edge),
            steps(100, |_| String::new()).replace("id = 's", "id = 'fetch_s")
        )
    }),
    ("a circle", TOML, |n| {
        let last = n.min(1_000) - 1;
        let edge = |i: usize| format!("{{ from = 's{i}', to = 's{}' }}", i + 1);
        format!(
            "workflow = 'w'\ntransitions = [{}, {{ from = 's{last}', to = 's0' }}]\n{}",
            list(last, edge),
            steps(last + 1, |_| String::new())
        )
    }),
    ("references", TOML, |n| step(&format!("args = {{ a = '{}' }}", "${input.x}".repeat(n)))),
    ("texts with a reference", TOML, |n| {
        step(&format!("args = {{ a = [{}] }}", list(n, |_| "'${input.x}'".into())))
    }),
    ("references to steps", TOML, |n| {
        let text = repeat(n, "", |i| format!("${{steps.s{}.result}}", i % 100));
        let after = list(100, |i| format!("'s{i}'"));
        format!(
            "workflow = 'w'\n{}[[steps]]\nid = 'z'\naction = 'a'\nafter = [{after}]\nargs = {{ a = '{text}' }}\n",
            steps(100, |_| String::new())
        )
    }),
    ("parts of a reference", TOML, |n| {
        step(&format!("args = {{ a = '${{input{}}}' }}", ".x".repeat(n)))
    }),
    ("open references", TOML, |n| step(&format!("args = {{ a = '{}' }}", "${".repeat(n)))),
    ("unknown references", TOML, |n| {
        step(&format!("args = {{ a = '{}' }}", "${steps.nope.result}".repeat(n)))
    }),
    ("items to fan out over", TOML, |n| step(&format!("for_each = [{}]", list(n, |_| "1".into())))),
    ("values of a condition", TOML, |n| {
        step(&format!(
            "requires = {{ type = 'in', field = 'state.input.x', values = [{}] }}",
            list(n, |_| "1".into())
        ))
    }),
    ("parts of a condition", TOML, |n| {
        let one = |_| "{type='exists',field='state.input.x'}".to_owned();
        step(&format!("requires = {{ type = 'and', conditions = [{}] }}", list(n, one)))
    }),
    ("errors of a transition", TOML, |n| {
        format!(
            "{}\ntransitions = [{{ from = 's', to = 't', on_error = [{}] }}]",
            flow("").replace("steps = [", "steps = [{ id = 't', action = 'a' }, "),
            list(n, |i| format!("'E{i}'"))
        )
    }),
    ("actions", TOML, |n| {
        format!(
            "{}\n{}",
            flow(""),
            lines(n, |i| format!("[actions.a{i}]\nhttp = 'POST http://h.test/'"))
        )
    }),
    ("actions that are wrong", TOML, |n| {
        format!("{}\n{}", flow(""), lines(n, |i| format!("[actions.a{i}]\nhttp = 'POST h'")))
    }),
    ("headers", TOML, |n| {
        action(&format!("headers = {{ {} }}", list(n, |i| format!("h{i} = 'v'"))))
    }),
    ("a long URL", TOML, |n| action("").replace("h.test/", &format!("h.test/{}", "a/".repeat(n)))),
    ("webhooks", TOML, |n| {
        let own = "[actions.hook]\nhttp = 'POST http://h.test/'\n";
        format!(
            "{}\n{own}{}",
            flow(""),
            lines(n, |i| format!("[actions.a{i}.error_budget]\ntarget = 0.9\nwebhook = 'hook'"))
        )
    }),
    ("a webhook of long headers", TOML, |n| {
        let own = format!(
            "[actions.hook]\nhttp = 'POST http://h.test/'\nheaders = {{ a = '{}' }}\n",
            "x".repeat(n)
        );
        format!(
            "{}\n{own}{}",
            flow(""),
            lines(n / 60, |i| format!(
                "[actions.a{i}.error_budget]\ntarget = 0.9\nwebhook = 'hook'"
            ))
        )
    }),
    ("unknown webhooks", TOML, |n| {
        format!(
            "{}\n{}",
            flow(""),
            lines(n, |i| format!("[actions.a{i}.error_budget]\ntarget = 0.9\nwebhook = 'hook'"))
        )
    }),
    ("a default of many names", TOML, |n| {
        let names = list(n, |i| format!("'E{i}'"));
        format!(
            "workflow = 'w'\ndefaults = {{ work_config = {{ max_retries = 1, retryable_errors = [{names}] }} }}\n{}",
            steps((n / 40).min(1_000), |_| String::new())
        )
    }),
    ("an action of long headers in many steps", TOML, |n| {
        let own = format!(
            "[actions.a]\nhttp = 'POST http://h.test/'\nheaders = {{ a = '{}' }}\n",
            "x".repeat(n)
        );
        format!("workflow = 'w'\n{own}{}", steps((n / 30).min(1_000), |_| String::new()))
    }),
    ("compensations", TOML, |n| {
        let half = (n / 2).clamp(1, 500);
        let undo =
            |i: usize| format!("[[steps]]\nid = 'u{i}'\naction = 'a'\ncompensates = 's{i}'\n");
        format!("workflow = 'w'\n{}{}", steps(half, |_| String::new()), repeat(half, "", undo))
    }),
    ("statements", Program, |n| lines(n, |i| format!("r{i} = @a()"))),
    ("statements without a name", Program, |n| lines(n, |_| "@a()".into())),
    ("statements of many spellings", Program, |n| {
        lines(n, |i| {
            let spelt = (0..10).map(|bit| if i >> bit & 1 == 0 { "a." } else { "a_" });
            format!("@{}b()", spelt.collect::<String>())
        })
    }),
    ("statements that are wrong", Program, |n| lines(n, |_| "@".into())),
    ("statements that use the one before", Program, |n| {
        lines(n, |i| match i {
            0 => "r0 = @a()".into(),
            i => format!("r{i} = @a(x=r{})", i - 1),
        })
    }),
    ("statements that use an unknown result", Program, |n| {
        lines(n, |i| format!("r{i} = @a(x=s{i})"))
    }),
    ("uses of results", Program, |n| {
        let first = lines(100, |i| format!("r{i} = @a()"));
        format!("{first}@b(x=[{}])", repeat(n, ",", |i| format!("r{}", i % 100)))
    }),
    ("arguments", Program, |n| format!("@a({})", repeat(n, ",", |i| format!("k{i}=1")))),
    ("items of an argument", Program, |n| format!("@a(k=[{}])", repeat(n, ",", |_| "1".into()))),
    ("keys of an argument", Program, |n| {
        format!("@a(k={{{}}})", repeat(n, ",", |i| format!("k{i}:1")))
    }),
    ("tables of an argument", Program, |n| {
        format!("@a(k=[{}])", repeat(n, ",", |_| "{a:1}".into()))
    }),
    ("nested arguments", Program, |n| format!("@a(k={}1{})", "[".repeat(n), "]".repeat(n))),
    ("comments of a program", Program, |n| lines(n, |_| "# x".into())),
    ("rules of a statement", Program, |n| {
        format!("@a() {}", repeat(n, "", |i| format!("[E{i} -> retry: 2]")))
    }),
    ("rules of statements", Program, |n| {
        lines(n / 100, |_| format!("@a() {}", repeat(100, "", |i| format!("[E{i}->retry:2]"))))
    }),
    ("names of a rule", Program, |n| {
        format!("@a() [({}) -> retry: 2]", repeat(n, ",", |i| format!("E{i}")))
    }),
    ("rules", Policy, |n| repeat(n, " ", |i| format!("[E{i} -> retry: 2]"))),
    ("a long key of a rule", Policy, |n| format!("[{}: 1]", "retr".repeat(n))),
    ("names of work_config", Policy, |n| {
        format!(r#"{{"max_retries": 1, "retryable_errors": [{}]}}"#, names(n))
    }),
    ("delays of work_config", Policy, |n| {
        format!(r#"{{"max_retries": 1, "delays": [{}]}}"#, repeat(n, ",", |_| "1".into()))
    }),
    ("names of retry_config", Policy, |n| {
        format!(
            r#"{{"max_attempts": 3, "retry_on_exceptions": [{0}], "exclude_exceptions": [{0}]}}"#,
            names(n)
        )
    }),
    ("names of execution", Policy, |n| {
        format!(r#"{{"retry_policy": {{"max_attempts": 3, "retryable_errors": [{}]}}}}"#, names(n))
    }),
    ("a long preset", Policy, |n| format!("preset = '{}'", "x".repeat(n))),
    ("names of secrets", Masked, |n| "password ".repeat(n / 4)),
    ("secrets", Masked, |n| "password=x ".repeat(n / 4)),
    ("open quotes", Masked, |n| "token='a".repeat(n / 4)),
    ("open brackets", Masked, |n| "token=(".repeat(n / 4)),
    ("closed brackets", Masked, |n| "token=)".repeat(n / 4)),
    ("backslashes", Masked, |n| format!("{}\"token", "\\".repeat(n))),
    ("schemes", Masked, |n| "Bearer is Basic x ".repeat(n / 4)),
    ("addresses", Masked, |n| "http://a:b@c ".repeat(n / 4)),
    ("one long address", Masked, |n| "http://a@".repeat(n / 4)),
    ("keys of services", Masked, |n| "token AKIAABCDEFGHIJKLMNOP ".repeat(n / 4)),
    ("long keys apart", Masked, |n| format!("a1B2c3D4e5F6g7H8{}", " ".repeat(100)).repeat(n / 100)),
    ("escapes", Masked, |n| "\u{1b}[1m\\u001b".repeat(n / 4)),
    ("private keys", Masked, |n| "-----BEGIN CERT".repeat(n / 4)),
];

fn repeat(n: usize, separator: &str, one: impl Fn(usize) -> String) -> String {
    (0..n).map(one).collect::<Vec<_>>().join(separator)
}

fn list(n: usize, one: impl Fn(usize) -> String) -> String {
    repeat(n, ",", one)
}

fn lines(n: usize, one: impl Fn(usize) -> String) -> String {
    repeat(n, "\n", one) + "\n"
}

fn names(n: usize) -> String {
    list(n, |i| format!("\"E{i}\""))
}

/// A workflow of one step, with `more` at the top.
fn flow(more: &str) -> String {
    format!("workflow = 'w'\n{more}\nsteps = [{{ id = 's', action = 'a' }}]\n")
}

fn json(input: &str) -> String {
    format!(r#"{{"workflow":"w","steps":[{{"id":"s","action":"a"}}],"input":{{"a":{input}}}}}"#)
}

fn step(more: &str) -> String {
    format!("workflow = 'w'\n[[steps]]\nid = 's'\naction = 'a'\n{more}\n")
}

fn action(more: &str) -> String {
    format!("{}\n[actions.a]\nhttp = 'POST http://h.test/'\n{more}\n", flow(""))
}

/// Steps `s0` to the last, each with `more`.
fn steps(n: usize, more: impl Fn(usize) -> String) -> String {
    repeat(n, "", |i| format!("[[steps]]\nid = 's{i}'\naction = 'a'\n{}\n", more(i)))
}

/// Steps that each wait for many before them: `n` edges among at most `most` steps.
fn graph(n: usize, most: usize) -> String {
    let count = (2.0 * n as f64).sqrt().ceil().min(most as f64) as usize;
    let after = |i: usize| format!("after = [{}]", list(i, |of| format!("'s{of}'")));
    format!("workflow = 'w'\n{}", steps(count, after))
}

fn step_after(n: usize) -> String {
    step(&format!("after = [{}]", list(n, |_| "'t'".into())))
        + "[[steps]]\nid = 't'\naction = 'a'\n"
}
