//! Where messages of PostgreSQL's protocol begin and end, and which SQL they are about.

use std::collections::BTreeMap;

/// Messages of a client up to the next answer that it needs.
pub(super) struct Statement {
    pub(super) bytes: Vec<u8>,
    /// Its SQL, or what else it is.
    pub(super) text: String,
}

impl Statement {
    /// Whether it only sets a connection up or ends it: no request of a store depends on when.
    pub(super) fn is_about_the_connection(&self) -> bool {
        let of_them = [STARTUP, END, PREPARE, CLOSE, "SET ", "LISTEN "];
        of_them.iter().any(|begin| self.text.starts_with(begin))
    }
}

const STARTUP: &str = "(startup)";
const END: &str = "(end)";
const PREPARE: &str = "(prepare)";
const CLOSE: &str = "(close)";

/// Follows one client's bytes, however they are cut into pieces.
#[derive(Default)]
pub(super) struct FromClient {
    come: Vec<u8>,
    has_begun: bool,
    /// Messages of a statement that is not whole yet.
    whole: Vec<u8>,
    text: String,
    prepared: BTreeMap<Vec<u8>, String>,
}

impl FromClient {
    /// Takes the next bytes in; the statements that are whole now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Statement> {
        self.come.extend(bytes);
        let mut statements = Vec::new();
        while let Some(message) = self.message() {
            let ends = self.read(&message);
            self.whole.extend(message);
            if ends {
                let (bytes, text) =
                    (std::mem::take(&mut self.whole), std::mem::take(&mut self.text));
                statements.push(Statement { bytes, text });
            }
        }
        statements
    }

    /// The next whole message. The first of a connection has no type.
    fn message(&mut self) -> Option<Vec<u8>> {
        let typed = usize::from(self.has_begun);
        let length = typed + length_at(&self.come, typed)?;
        if self.come.len() < length {
            return None;
        }
        let rest = self.come.split_off(length);
        Some(std::mem::replace(&mut self.come, rest))
    }

    /// Learns what the message is about; whether the client waits for an answer after it.
    fn read(&mut self, message: &[u8]) -> bool {
        if !std::mem::replace(&mut self.has_begun, true) {
            STARTUP.clone_into(&mut self.text);
            return true;
        }
        let mut words = message[5..].split(|byte| *byte == 0);
        let mut word = || words.next().unwrap_or_default();
        match message[0] {
            b'Q' => self.text = String::from_utf8_lossy(word()).into_owned(),
            b'X' => END.clone_into(&mut self.text),
            b'P' => {
                let (name, text) = (word().to_vec(), String::from_utf8_lossy(word()).into_owned());
                self.text = format!("{PREPARE} {text}");
                self.prepared.insert(name, text);
            }
            b'B' => {
                let (_portal, name) = (word(), word());
                self.text = self.prepared.get(name).cloned().unwrap_or_default();
            }
            b'C' => CLOSE.clone_into(&mut self.text),
            _ => {}
        }
        matches!(message[0], b'Q' | b'X' | b'S')
    }
}

/// Follows one server's bytes.
#[derive(Default)]
pub(super) struct FromServer {
    come: Vec<u8>,
    /// The process that serves the connection, once it is known.
    pub(super) process: Option<i32>,
    /// Whether a statement of the transaction has failed: nothing that follows in it has any effect.
    pub(super) has_failed: bool,
}

impl FromServer {
    /// Takes the next bytes in; how many statements they end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> u64 {
        self.come.extend(bytes);
        let mut ended = 0;
        while let Some(length) = length_at(&self.come, 1).filter(|l| self.come.len() > *l) {
            match self.come[0] {
                b'Z' => {
                    ended += 1;
                    self.has_failed = self.come.get(5) == Some(&b'E');
                }
                b'K' => self.process = number_at(&self.come, 5).map(u32::cast_signed),
                _ => {}
            }
            self.come.drain(..=length);
        }
        ended
    }
}

fn length_at(bytes: &[u8], from: usize) -> Option<usize> {
    number_at(bytes, from)?.try_into().ok()
}

fn number_at(bytes: &[u8], from: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(from..from + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    #[test]
    fn statements_are_told_apart_however_they_come() {
        let startup = [&8_u32.to_be_bytes()[..], &[0, 3, 0, 0]].concat();
        let bytes = [
            startup,
            message(b'Q', b"BEGIN\0"),
            message(b'P', b"s1\0SELECT 1\0\0\0"),
            message(b'D', b"Ss1\0"),
            message(b'S', b""),
            message(b'B', b"\0s1\0\0\0\0\0\0\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
            message(b'X', b""),
        ]
        .concat();
        for size in 1..bytes.len() {
            let mut from_client = FromClient::default();
            let found: Vec<_> = bytes.chunks(size).flat_map(|b| from_client.take(b)).collect();
            let texts: Vec<_> = found.iter().map(|statement| &*statement.text).collect();
            assert_eq!(texts, [STARTUP, "BEGIN", "(prepare) SELECT 1", "SELECT 1", END]);
            let whole: Vec<u8> = found.iter().flat_map(|s| s.bytes.clone()).collect();
            assert_eq!(whole, bytes, "in pieces of {size}");
        }
    }

    #[test]
    fn answers_are_counted_however_they_come() {
        let key = message(b'K', &[0, 0, 1, 2, 9, 9, 9, 9]);
        let bytes = [key, message(b'Z', b"I"), message(b'D', b"Z"), message(b'Z', b"E")].concat();
        for size in 1..=bytes.len() {
            let mut from_server = FromServer::default();
            let ended: u64 = bytes.chunks(size).map(|b| from_server.take(b)).sum();
            let FromServer { process, has_failed, .. } = from_server;
            assert_eq!((ended, process, has_failed), (2, Some(258), true), "in pieces of {size}");
        }
    }
}
