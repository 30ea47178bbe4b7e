//! The query of a request.

/// Parameters of a query, as they are added.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(String);

impl Query {
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// Adds a text, where there is one.
    pub(super) fn text(mut self, name: &str, value: Option<String>) -> Self {
        if let Some(value) = value {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            value.bytes().for_each(|byte| self.push(byte));
        }
        self
    }

    pub(super) fn number(self, name: &str, value: usize) -> Self {
        self.text(name, Some(value.to_string()))
    }

    /// Adds what holds, where it does.
    pub(super) fn flag(self, name: &str, holds: bool) -> Self {
        self.text(name, holds.then(|| "true".to_owned()))
    }

    /// The path with its query.
    pub(super) fn of(&self, path: &str) -> String {
        format!("{path}{}", self.0)
    }

    fn push(&mut self, byte: u8) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                self.0.push(byte.into());
            }
            _ => self.0.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_so_that_they_stay_one_value() {
        let query = Query::new().text("q", Some("a b&c=d%/é".into())).text("no", None);
        let query = query.number("limit", 5).flag("letters", true).flag("waiting", false);
        assert_eq!(query.of("/v1"), "/v1?q=a%20b%26c%3Dd%25%2F%C3%A9&limit=5&letters=true");
        assert_eq!(Query::new().of("/v1"), "/v1");
    }
}
