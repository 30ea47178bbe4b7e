//! Which names stand before a secret.

/// A name that holds one of these, in lower case and without punctuation, names a secret.
const PARTS: [&str; 27] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "apikey",
    "accesskey",
    "privatekey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "sharedkey",
    "subscriptionkey",
    "functionskey",
    "sshkey",
    "authkey",
    "authorization",
    "credential",
    "cookie",
    "signature",
    "bearer",
    "sessionid",
    "sessid",
    "csrf",
];

/// Names that are secret only when one of their words is exactly this.
const WORDS: [&str; 13] = [
    "pass", "auth", "sig", "sid", "pin", "otp", "cvv", "cvc", "ssn", "pat", "jwt", "session",
    "hmac",
];

/// A name with one of these endings describes a secret and holds none: `max_tokens`, `InvalidTokenError`.
const ABOUT: [&str; 21] = [
    "error",
    "exception",
    "warning",
    "count",
    "limit",
    "length",
    "policy",
    "ttl",
    "tokenizer",
    "tokenized",
    "maxtokens",
    "mintokens",
    "newtokens",
    "totaltokens",
    "prompttokens",
    "completiontokens",
    "inputtokens",
    "outputtokens",
    "cachedtokens",
    "reasoningtokens",
    "usedtokens",
];

/// Names whose value is the whole rest of its line: HTTP headers with blanks in their values.
const WHOLE_LINE: [&str; 2] = ["authorization", "cookie"];

/// Whether what stands under `name` is a secret.
pub(super) fn is_secret(name: &str) -> bool {
    let squeezed = squeezed(name);
    if ABOUT.iter().any(|a| squeezed.ends_with(a)) {
        return false;
    }
    PARTS.iter().any(|p| squeezed.contains(p)) || words(name).any(|w| WORDS.contains(&w.as_str()))
}

/// Whether the value under `name` runs to the end of its line.
pub(super) fn runs_to_line_end(name: &str) -> bool {
    let squeezed = squeezed(name);
    WHOLE_LINE.iter().any(|w| squeezed.contains(w))
}

/// Whether `word` names a scheme of HTTP authentication that credentials follow.
pub(super) fn is_scheme(word: &str) -> bool {
    ["bearer", "basic", "digest", "negotiate", "ntlm", "token", "apikey"]
        .iter()
        .any(|s| word.eq_ignore_ascii_case(s))
}

fn squeezed(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The words of `snake_case`, `kebab-case`, `dotted.case` and `camelCase`, in lower case.
fn words(name: &str) -> impl Iterator<Item = String> + '_ {
    name.split(|c: char| !c.is_alphanumeric()).flat_map(camel_words)
}

fn camel_words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c.is_uppercase() && after_lower {
            words.push(String::new());
        }
        after_lower = c.is_lowercase();
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        for name in [
            "password",
            "DB_PASSWORD",
            "dbPassword",
            "PGPASSWORD",
            "client_secret",
            "clientSecret",
            "x-api-key",
            "apikey",
            "API_KEY",
            "AWSAccessKeyId",
            "aws_secret_access_key",
            "token",
            "refresh_token",
            "X-Auth-Token",
            "authorization",
            "Proxy-Authorization",
            "Set-Cookie",
            "userAuth",
            "auth",
            "sig",
            "X-Amz-Signature",
            "sessionid",
            "PHPSESSID",
            "csrf_token",
            "AccountKey",
            "SharedAccessKey",
            "pass",
            "db.pass",
            "pin",
            "pwd",
            "jwt",
            "credentials",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn names_of_other_things() {
        for name in [
            "author",
            "key",
            "idempotency_key",
            "max_tokens",
            "prompt_tokens",
            "tokenizer",
            "InvalidTokenError",
            "password_policy",
            "spin",
            "pinned",
            "path",
            "passed",
            "compass",
            "design",
            "inside",
            "code",
            "message",
            "status",
            "signal",
            "keyboard",
            "monkey",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
