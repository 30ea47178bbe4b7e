//! HTTP endpoints in a workflow file: where the arguments go, and what is refused.

use retrial_core::dialect::tree::Format;
use retrial_core::dialect::{Environment, parse_actions, parse_workflow};
use retrial_core::workflow::{AnswerForm, BodyForm, Endpoint, HeaderText, Target};
use serde_json::{Value, json};

/// The endpoint of an action with these lines.
fn endpoint(lines: &str) -> Result<Endpoint, String> {
    let text = format!("[actions.x]\n{lines}");
    let declared = parse_actions("a.toml", &text, Format::Toml).map_err(|e| e[0].to_string())?;
    match declared.actions["x"].target.clone() {
        Target::Http(endpoint) => Ok(endpoint),
        Target::Registered => Err("registered".to_owned()),
    }
}

/// What a request with these arguments carries: URL and body, or why there is none.
fn sent(lines: &str, args: &Value) -> Result<(String, Option<String>), String> {
    let filled = endpoint(lines).unwrap().fill(args).map_err(|e| e.to_string())?;
    Ok((filled.url, filled.body))
}

#[test]
fn x19_arguments_go_where_the_method_lets_them() {
    let args = json!({"a": "x y", "n": 7, "yes": true, "none": null, "tags": ["b", 2]});
    let query = "a=x%20y&n=7&none=&tags=b&tags=2&yes=true";
    for method in ["GET", "HEAD", "DELETE"] {
        for (url, whole) in [
            ("http://h/p", format!("http://h/p?{query}")),
            ("http://h/p?k=v", format!("http://h/p?k=v&{query}")),
            ("http://h/p?", format!("http://h/p?{query}")),
            ("http://h", format!("http://h?{query}")),
        ] {
            let got = sent(&format!("http = '{method} {url}'"), &args);
            assert_eq!(got, Ok((whole, None)), "{method} {url}");
        }
    }
    let json_body = Some(args.to_string());
    for method in ["POST", "PUT", "PATCH", "OPTIONS"] {
        let got = sent(&format!("http = '{method} http://h/p'"), &args);
        assert_eq!(got, Ok(("http://h/p".into(), json_body.clone())), "{method}");
    }
    let got = sent("http = 'DELETE http://h/p'\nbody = 'json'", &args);
    assert_eq!(got, Ok(("http://h/p".into(), json_body)));
    let got = sent("http = 'POST http://h/p'\nbody = 'form'", &args);
    assert_eq!(got, Ok(("http://h/p".into(), Some(query.into()))));
    let got = sent("http = 'GET http://h/p'", &json!({}));
    assert_eq!(got, Ok(("http://h/p".into(), None)));
}

/// Nothing that a value holds can end its place, add a parameter or lead to another host.
#[test]
fn x19_templates_are_escaped_by_place() {
    let hostile = "a/../b?c=d&e#f@evil:80 \u{fc}\"\\\r\n;%2e";
    let escaped = "a%2F..%2Fb%3Fc%3Dd%26e%23f%40evil%3A80%20%C3%BC%22%5C%0D%0A%3B%252e";
    let lines = "http = 'GET http://h:8080/o/${args.id}/x-${args.n}?q=${args.id}&k=1'";
    let got = sent(lines, &json!({"id": hostile, "n": 1.5, "rest": "r"}));
    let whole = format!("http://h:8080/o/{escaped}/x-1.5?q={escaped}&k=1&rest=r");
    assert_eq!(got, Ok((whole, None)));
    // An argument that the URL holds is sent once; a part of one leaves it where it is.
    let lines = "http = 'PUT http://h/${args.o.id}/${args.list.1}/${ args.b }'";
    let args = json!({"o": {"id": "i"}, "list": [1, 2], "b": false, "z": [{}]});
    let lines_of_b = lines.replace("${ args.b }", "${args.b}");
    let body = json!({"o": {"id": "i"}, "list": [1, 2], "z": [{}]});
    assert_eq!(sent(&lines_of_b, &args), Ok(("http://h/i/2/false".into(), Some(body.to_string()))));
    assert_eq!(sent(lines, &args), sent(&lines_of_b, &args));
}

#[test]
fn x19_what_has_no_form_is_an_error_that_names_the_argument() {
    let path = "http = 'DELETE http://h/o/${args.id}'";
    let query = "http = 'GET http://h/'";
    let form = "http = 'POST http://h/'\nbody = 'form'";
    for (lines, args, named) in [
        (path, json!({}), "`id` is missing"),
        (path, json!({"id": null}), "`id` is empty"),
        (path, json!({"id": ""}), "`id` is empty"),
        (path, json!({"id": ".."}), "`id` is dots alone"),
        (path, json!({"id": "."}), "`id` is dots alone"),
        (path, json!({"id": [1]}), "`id` is a list or a table"),
        (path, json!({"id": {}}), "`id` is a list or a table"),
        (query, json!({"a": 1, "deep": {"x": 1}}), "`deep` holds a table"),
        (query, json!({"deep": [[1]]}), "`deep` holds a table or a list in a list"),
        (query, json!([1]), "`args` is no table"),
        (form, json!({"deep": [{}]}), "`deep` holds a table"),
        (query, json!({"s": "1", "long": "x".repeat(9_000)}), "`long` makes the URL longer"),
        (query, json!({"long": "\u{fc}".repeat(1_500)}), "`long` makes the URL longer"),
    ] {
        let got = sent(lines, &args).unwrap_err();
        assert!(got.contains(named) && got.contains("; "), "{lines} {args}: {got}");
    }
    // `..` in a query leads nowhere.
    let got = sent("http = 'GET http://h/?up=${args.up}'", &json!({"up": ".."}));
    assert_eq!(got, Ok(("http://h/?up=..".into(), None)));
    // Nor does a second argument, and either may be empty.
    let two = "http = 'GET http://h/?a=${args.a}&b=${args.b}'";
    for (args, query) in
        [(json!({"a": "", "b": "x"}), "a=&b=x"), (json!({"a": "x", "b": ""}), "a=x&b=")]
    {
        assert_eq!(sent(two, &args), Ok((format!("http://h/?{query}"), None)));
    }
    let got = sent(two, &json!({"a": 1, "b": ".."}));
    assert_eq!(got, Ok(("http://h/?a=1&b=..".into(), None)));
}

/// The first mistake in each of these actions.
#[test]
fn x19_endpoints_that_mean_nothing_are_refused() {
    let all = [
        "http = 'FETCH http://h/'",
        "http = 'get http://h/'",
        "http = 'CONNECT http://h/'",
        "http = 'GET http://${args.host}/'",
        "http = 'GET http://h:${args.port}/'",
        "http = 'GET http://h${args.x}'",
        "http = 'GET ${args.scheme}://h/'",
        "http = 'GET http://h/${args.x'",
        "http = 'GET http://h/${env.KEY}'",
        "http = 'GET http://h/${steps.a.result.id}'",
        "http = 'GET http://h/${args}'",
        "http = 'GET http://h/{id}'",
        "http = 'GET http://h/?x=${args.}'",
        "http = 'GET http://h/'\nbody = 'json'",
        "http = 'POST http://h/'\nbody = 'xml'",
        "http = 'HEAD http://h/'\nanswer = 'text'",
        "http = 'GET http://h/'\nanswer = 'html'",
        "answer = 'text'",
        "body = 'form'",
        "http = 'GET http://h/'\nheaders = { a = 'Bearer ${env.TOKEN}' }",
        "http = 'GET http://h/'\nheaders = { a = '${input.x}' }",
        "http = 'GET http://h/'\nheaders = { a = 'Bearer {{token}}' }",
        "http = 'GET http://h/'\nheaders = { a = 'Bearer $API_TOKEN' }",
        "http = 'GET http://h/'\nheaders = { a = 'Bearer env:' }",
        "http = 'GET http://h/'\nheaders = { content-length = '1' }",
    ];
    let said = all.map(|lines| format!("{lines}\n  {}", endpoint(lines).unwrap_err()));
    insta::assert_snapshot!(said.join("\n"), @r#"
    http = 'FETCH http://h/'
      a.toml:2:8: actions.x.http: `FETCH` is not a method that an action can use (use GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS)
    http = 'get http://h/'
      a.toml:2:8: actions.x.http: `get` is not a method that an action can use (did you mean `GET`?)
    http = 'CONNECT http://h/'
      a.toml:2:8: actions.x.http: `CONNECT` is not a method that an action can use (use GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS)
    http = 'GET http://${args.host}/'
      a.toml:2:8: actions.x.http: a template can't stand in the URL's scheme, host or port (write them out, and use ${args.NAME} in the path and the query)
    http = 'GET http://h:${args.port}/'
      a.toml:2:8: actions.x.http: a template can't stand in the URL's scheme, host or port (write them out, and use ${args.NAME} in the path and the query)
    http = 'GET http://h${args.x}'
      a.toml:2:8: actions.x.http: a template can't stand in the URL's scheme, host or port (write them out, and use ${args.NAME} in the path and the query)
    http = 'GET ${args.scheme}://h/'
      a.toml:2:8: actions.x.http: the URL does not begin with http:// or https:// (write a method and a URL, such as POST http://host/path)
    http = 'GET http://h/${args.x'
      a.toml:2:8: actions.x.http: `${args.x` has a `${` without a `}` (close it)
    http = 'GET http://h/${env.KEY}'
      a.toml:2:8: actions.x.http: `${env.KEY}` would store a secret in the URL (send it in a header, as env:NAME)
    http = 'GET http://h/${steps.a.result.id}'
      a.toml:2:8: actions.x.http: a URL reads only the step's arguments, not `${steps.a.result.id}` (add id = "${steps.a.result.id}" to the step's args, and write ${args.id})
    http = 'GET http://h/${args}'
      a.toml:2:8: actions.x.http: `${args}` names no argument (write ${args.NAME})
    http = 'GET http://h/{id}'
      a.toml:2:8: actions.x.http: `{` can't stand in a URL (write ${args.NAME} for an argument of the step)
    http = 'GET http://h/?x=${args.}'
      a.toml:2:8: actions.x.http: `${args.}` names no argument (write ${args.NAME})
    http = 'GET http://h/'
    body = 'json'
      a.toml:3:8: actions.x.body: a GET request has no body: its arguments go into the query (leave it out, or use POST)
    http = 'POST http://h/'
    body = 'xml'
      a.toml:3:8: actions.x.body: `xml` is not known here (use json, form)
    http = 'HEAD http://h/'
    answer = 'text'
      a.toml:3:10: actions.x.answer: the answer to a HEAD request has no body (use answer = "status", or GET)
    http = 'GET http://h/'
    answer = 'html'
      a.toml:3:10: actions.x.answer: `html` is not known here (use json, text, status)
    answer = 'text'
      a.toml:2:10: actions.x.answer: answer without `http` (add http = "POST URL")
    body = 'form'
      a.toml:2:8: actions.x.body: body without `http` (add http = "POST URL")
    http = 'GET http://h/'
    headers = { a = 'Bearer ${env.TOKEN}' }
      a.toml:3:17: actions.x.headers.a: a header can't hold a template (write env:NAME for a variable of the environment, such as "Bearer env:TOKEN"; other values are fixed)
    http = 'GET http://h/'
    headers = { a = '${input.x}' }
      a.toml:3:17: actions.x.headers.a: a header can't hold a template (write env:NAME for a variable of the environment, such as "Bearer env:TOKEN"; other values are fixed)
    http = 'GET http://h/'
    headers = { a = 'Bearer {{token}}' }
      a.toml:3:17: actions.x.headers.a: a header can't hold a template (write env:NAME for a variable of the environment, such as "Bearer env:TOKEN"; other values are fixed)
    http = 'GET http://h/'
    headers = { a = 'Bearer $API_TOKEN' }
      a.toml:3:17: actions.x.headers.a: a header can't hold a template (write env:NAME for a variable of the environment, such as "Bearer env:TOKEN"; other values are fixed)
    http = 'GET http://h/'
    headers = { a = 'Bearer env:' }
      a.toml:3:17: actions.x.headers.a: `env:` is not followed by the name of a variable (write env:NAME)
    http = 'GET http://h/'
    headers = { content-length = '1' }
      a.toml:3:13: actions.x.headers.content-length: only the HTTP client may set `content-length` (leave it out)
    "#);
}

/// A variable of the environment may stand inside a header's text, at the beginning of a word.
#[test]
fn x19_a_variable_stands_in_a_headers_text() {
    let literal = |text: &str| HeaderText::Literal(text.to_owned());
    let env = |name: &str| HeaderText::Env(name.to_owned());
    let joined = HeaderText::Joined;
    for (text, expected) in [
        ("env:A_1", env("A_1")),
        ("Bearer env:TOKEN", joined(vec![literal("Bearer "), env("TOKEN")])),
        (
            "k=env:A; v=\"env:B\"",
            joined(vec![literal("k="), env("A"), literal("; v=\""), env("B"), literal("\"")]),
        ),
        ("urn:env:prod", literal("urn:env:prod")),
        ("x-env:A", literal("x-env:A")),
        ("costs $5 or {\"a\": 1}", literal("costs $5 or {\"a\": 1}")),
        ("", literal("")),
    ] {
        let got = endpoint(&format!("http = 'GET http://h/'\nheaders = {{ a = '{text}' }}"));
        assert_eq!(got.unwrap().headers["a"], expected, "{text}");
    }
    let both = joined(vec![literal("a "), env("A"), literal(" "), env("B")]);
    assert_eq!(both.variables(), ["A", "B"]);
}

#[test]
fn x19_forms_are_read_and_kept() {
    let lines = "http = 'POST http://h/'\nbody = 'form'\nanswer = 'status'\n\
                 headers = { Content-Type = 'application/x-www-form-urlencoded; charset=utf-8' }";
    let read = endpoint(lines).unwrap();
    assert_eq!((read.body, read.answer), (Some(BodyForm::Form), Some(AnswerForm::Status)));
    assert!(read.headers.contains_key("content-type"));
    let kept = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Endpoint>(&kept).unwrap(), read);
    // A definition that was stored before these keys existed.
    let old: Endpoint = serde_json::from_str(r#"{"method":"POST","url":"http://h/"}"#).unwrap();
    assert_eq!(old, Endpoint::new("POST", "http://h/"));
}

/// Arguments hold no templates of other tools, which would be sent as they are, and no secrets.
#[test]
fn x19_what_looks_like_a_reference_and_is_none_is_refused() {
    let check = |arg: &str| {
        let text =
            format!("workflow = 'w'\n[[steps]]\nid = 'a'\naction = 'x'\nargs = {{ n = '{arg}' }}");
        let read = parse_workflow("w.toml", &text, Format::Toml, &Environment::default());
        read.map(drop).map_err(|e| e[0].to_string())
    };
    for (arg, said) in [
        (
            "${env.KEY}",
            "`env.KEY` would store a variable of the environment (send it in a header, as env:NAME)",
        ),
        ("of {{ input.x }}", "`{{input.x}}` is not a reference here (write ${input.x})"),
        (
            "{{steps.b.result}}",
            "`{{steps.b.result}}` is not a reference here (write ${steps.b.result})",
        ),
    ] {
        let whole = format!("w.toml:5:14: steps.0.args.n: {said}");
        assert_eq!(check(arg), Err(whole), "{arg}");
    }
    for fine in ["{{name}}", "{{ name", "}} {{", "{\"a\": {}}", "$5"] {
        assert_eq!(check(fine), Ok(()), "{fine}");
    }
}

/// Arguments that a request can't carry are refused with their place, as far as a file says them.
#[test]
fn x19_a_step_is_refused_for_arguments_that_its_request_cannot_carry() {
    let check = |http: &str, args: &str| {
        let text = format!(
            "workflow = 'w'\n[actions.x]\nhttp = '{http}'\n[[steps]]\nid = 'a'\naction = 'x'\nargs = {args}"
        );
        let read = parse_workflow("w.toml", &text, Format::Toml, &Environment::default());
        read.map(drop).map_err(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    };
    let path = "GET http://h/${args.id}/${args.o.id}";
    for (http, args) in [
        (path, "{ id = '${input.id}', o = '${input.o}' }"),
        (path, "{ id = 'n-${input.id}', o = { id = 1 } }"),
        ("GET http://h/", "{ a = '${input}', b = ['${input.x}'] }"),
        ("POST http://h/", "{ a = { b = [[]] } }"),
    ] {
        // A part of a table stands in the URL; the table itself has no place in a query.
        let expected = if args.contains("{ id = 1 }") { Err(()) } else { Ok(()) };
        assert_eq!(check(http, args).map_err(drop), expected, "{http} {args}");
    }
    let all = [
        (path, "{ id = 1 }"),
        (path, "{ id = '', o = '${input.o}' }"),
        (path, "{ id = [1], o = '${input.o}' }"),
        ("GET http://h/", "{ ok = 1, filter = { a = 1 } }"),
        ("DELETE http://h/", "{ ids = [[1]] }"),
    ];
    let said = all.map(|(http, args)| check(http, args).unwrap_err());
    insta::assert_snapshot!(said.join("\n"), @r"
    w.toml:6:10: steps.0.action: the argument `o.id` is missing, and the URL needs it (add it to the step's args)
    w.toml:7:15: steps.0.args.id: the argument `id` is empty, and a part of a URL's path can't be (pass a value)
    w.toml:7:15: steps.0.args.id: the argument `id` is a list or a table, which a part of a URL can't hold (pass a text, a number or a boolean of it)
    w.toml:7:27: steps.0.args.filter: the argument `filter` holds a table or a list in a list, which a query has no form for (pass its parts as arguments of their own, or send them in the body of a POST)
    w.toml:7:16: steps.0.args.ids: the argument `ids` holds a table or a list in a list, which a query has no form for (pass its parts as arguments of their own, or send them in the body of a POST)
    ");
}
