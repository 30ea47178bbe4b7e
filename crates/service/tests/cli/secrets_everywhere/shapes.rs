//! The shapes of secrets that endpoints put into what they say.

/// A text that an endpoint says, and the part of it that must never be seen again.
pub(crate) struct Shape {
    pub(crate) text: String,
    pub(crate) needle: String,
}

/// Every shape, each with a secret of its own.
pub(crate) fn all() -> Vec<Shape> {
    let texts = [
        "Authorization: Bearer §",
        "authorization=Basic §",
        "Proxy-Authorization: Digest username=\"bob\", response=\"§\"",
        "got 401 for Bearer § from upstream",
        "curl -H 'X-Api-Key: §' https://h/",
        "Cookie: theme=dark; sid=§",
        "Set-Cookie: session=§; Path=/; HttpOnly",
        "https://bob:§@db.internal/path refused",
        "postgres://u:§@db:5432/app",
        "GET https://h/v1?access_token=§&page=2",
        "redirect=https%3A%2F%2Fh%2F%3Fpassword%3D§",
        "password=§",
        "DB_PASSWORD: §",
        "Server=db;User Id=sa;Password=§;Encrypt=yes",
        "aws_secret_access_key = §",
        "AccountKey=§;EndpointSuffix=core",
        "{\"user\": {\"name\": \"bob\", \"apiKey\": \"§\"}}",
        "{\"client_secret\": {\"value\": [\"x\", \"§\"]}}",
        "inner said \"{\\\"token\\\":\\\"§\\\"}\"",
        "%22password%22%3A%22§%22",
        "&quot;password&quot;:&quot;§&quot;",
        "Config { token: Some(\"§\"), retries: 3 }",
        "--api-token § --host=h",
        "<password>§</password>",
        "passwd:\n  §",
        "token:\r\n\t§",
        "pass\u{1b}[0mword=§",
        "tok\u{200b}en: §",
    ];
    let known = [
        "AKIA§",
        "ASIA§",
        "ghp_§",
        "gho_§",
        "github_pat_§",
        "glpat-§",
        "xoxb-1-§",
        "xapp-1-§",
        "sk-§",
        "sk_live_§",
        "whsec_§",
        "AIza§",
        "ya29.§",
        "npm_§",
        "hf_§",
        "SG.§",
    ];
    let mut shapes: Vec<Shape> = (0..)
        .zip(texts)
        .map(|(n, text)| {
            let needle = secret(n);
            Shape { text: text.replace('§', &needle), needle }
        })
        .collect();
    shapes.extend((100..).zip(known).map(|(n, text)| {
        let needle = secret(n) + "Ab3dEf6hIj9kLm2nOp5q";
        Shape { text: format!("rejected {}, sorry", text.replace('§', &needle)), needle }
    }));
    shapes.extend(more());
    shapes
}

/// Shapes whose secret is not one word.
fn more() -> Vec<Shape> {
    let shape = |text: String, needle: &str| Shape { text, needle: needle.to_owned() };
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiI1ZWNyZXQiLCJhZG1pbiI6dHJ1ZX0.TJVA95OrM7E2cBab30RM";
    let pem = "MIIEpAIBAAKCAQEA5ecretKeyLine1abcdefghijklmnop\nqrstuvwxyz5ecretKeyLine2ABCDEFGH";
    let key = format!("-----BEGIN RSA PRIVATE KEY-----\n{pem}\n-----END RSA PRIVATE KEY-----");
    let basic = "Ym9iOmJhczY0NWVjcmV0UGFzc3dvcmQ=";
    let nested = r#"{"config":"{\"db\":{\"password\":\"nested5ecretPass\"}}"}"#;
    let wrapped = "dG9rZW49d3JhcHBlZDVlY3JldA\nbGluZTI1ZWNyZXRhYmNkZWZnaGk";
    vec![
        shape(format!("bad token {jwt}"), "eyJzdWIiOiI1ZWNyZXQiLCJhZG1pbiI6dHJ1ZX0"),
        shape(format!("can't sign with {key}"), "5ecretKeyLine1"),
        shape(format!("can't sign with {key}"), "5ecretKeyLine2"),
        shape(format!("key: {}", key.replace('\n', "\\n")), "5ecretKeyLine2"),
        shape(format!("sent Authorization: Basic {basic}"), basic),
        shape(nested.to_owned(), "nested5ecretPass"),
        shape(format!("upstream said {}", nested.replace('"', "\\\"")), "nested5ecretPass"),
        shape(format!("secret: {wrapped}"), "dG9rZW49d3JhcHBlZDVlY3JldA"),
        shape("hooks at https://hooks.slack.com/services/T05ECRET1/B05ECRET2/Xy5ecretZ9abcdefghijKLMN".to_owned(), "Xy5ecretZ9abcdefghijKLMN"),
    ]
}

/// A secret that no rule knows by itself.
pub(crate) fn secret(n: u32) -> String {
    format!("h5ecret{n:03}Xy9Qz")
}
