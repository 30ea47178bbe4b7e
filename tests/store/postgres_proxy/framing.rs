//! Where messages begin.

/// Follows what one side of a connection sends, however it is cut into pieces.
#[derive(Default)]
pub(super) struct Framing {
    /// The first bytes of the message that is being read, as many as tell what it is.
    head: Vec<u8>,
    /// The bytes of it that have come.
    come: usize,
    /// Whether it has a type: all have but a client's first.
    typed: bool,
    /// Whether a server's first byte may still come, which can be the answer to a request for TLS.
    answers_tls: bool,
    /// Bytes of all pieces before.
    before: usize,
    /// Where, counted from the first byte of all, the message began.
    begun: usize,
}

/// A `Query` message with this text ends a transaction.
const COMMIT: &[u8] = b"COMMIT";

/// Where among some bytes something begins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) messages: Vec<usize>,
    /// `COMMIT` messages. One that began in an earlier piece is said to begin at 0.
    pub(super) commits: Vec<usize>,
}

/// What asks for an encrypted stream instead of beginning a session (the code that stands where a
/// version would).
const ASKS_FOR_TLS: [u8; 4] = 80_877_103_u32.to_be_bytes();

impl Framing {
    pub(super) fn of_client() -> Self {
        Self::default()
    }

    pub(super) fn of_server() -> Self {
        Self { typed: true, answers_tls: true, ..Self::default() }
    }

    /// Takes the next bytes in.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Begun {
        let mut begun = Begun::default();
        for (at, byte) in bytes.iter().enumerate() {
            if std::mem::take(&mut self.answers_tls) && b"NS".contains(byte) {
                begun.messages.push(at);
                continue;
            }
            if self.come == 0 {
                self.begun = self.before + at;
                begun.messages.push(at);
            }
            self.come += 1;
            if self.head.len() < self.telling() {
                self.head.push(*byte);
                if self.is_commit() {
                    begun.commits.push(self.begun.saturating_sub(self.before));
                }
            }
            if self.length().is_some_and(|length| self.come >= length) {
                // A refused or granted request for TLS is followed by another first message.
                self.typed |= self.head.get(4..8) != Some(&ASKS_FOR_TLS);
                (self.come, self.head) = (0, Vec::new());
            }
        }
        self.before += bytes.len();
        begun
    }

    /// How many first bytes tell all that is asked of a message.
    fn telling(&self) -> usize {
        if self.typed { 5 + COMMIT.len() } else { 8 }
    }

    /// The whole message's length, once it is known.
    fn length(&self) -> Option<usize> {
        let from = usize::from(self.typed);
        let length = self.head.get(from..from + 4)?.try_into().ok()?;
        Some(from + u32::from_be_bytes(length) as usize)
    }

    fn is_commit(&self) -> bool {
        self.typed
            && self.head.first() == Some(&b'Q')
            && self.head.get(5..).is_some_and(|text| text.eq_ignore_ascii_case(COMMIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap();
        [&[kind][..], &length.to_be_bytes(), body].concat()
    }

    fn first(code: [u8; 4]) -> Vec<u8> {
        [&8_u32.to_be_bytes()[..], &code].concat()
    }

    /// Where the `COMMIT`s are, when the bytes come in pieces of `size`.
    fn found(bytes: &[u8], size: usize) -> Vec<usize> {
        in_pieces(Framing::of_client(), bytes, size).commits
    }

    fn in_pieces(mut framing: Framing, bytes: &[u8], size: usize) -> Begun {
        let mut found = Begun::default();
        for (piece, from) in bytes.chunks(size).zip((0..).step_by(size)) {
            let Begun { messages, commits } = framing.take(piece);
            found.messages.extend(messages.into_iter().map(|at| from + at));
            found.commits.extend(commits.into_iter().map(|at| from + at));
        }
        found
    }

    #[test]
    fn messages_begin_where_the_ones_before_end() {
        let asked = [first(ASKS_FOR_TLS), first([0, 3, 0, 0]), message(b'Q', b"BEGIN\0")];
        let answered = [b"N".to_vec(), message(b'R', &[0; 4]), message(b'Z', b"I"), vec![b'Z']];
        for size in 1..30 {
            let begun = in_pieces(Framing::of_client(), &asked.concat(), size).messages;
            assert_eq!(begun, [0, 8, 16], "in pieces of {size}");
            let begun = in_pieces(Framing::of_server(), &answered.concat(), size).messages;
            assert_eq!(begun, [0, 1, 10, 16], "in pieces of {size}");
        }
    }

    #[test]
    fn a_commit_is_found_where_it_begins() {
        let before = [
            first(ASKS_FOR_TLS),
            first([0, 3, 0, 0]),
            message(b'Q', b"BEGIN\0"),
            message(b'P', b"COMMIT\0 is no query here"),
            message(b'B', &[b'Q'; 300]),
        ]
        .concat();
        let commit = message(b'Q', b"COMMIT\0");
        let bytes = [&before[..], &commit, &message(b'Q', b"ROLLBACK\0"), &commit].concat();
        let second = bytes.len() - commit.len();
        assert_eq!(found(&bytes, bytes.len()), [before.len(), second]);
        // In pieces it is found with its last telling byte.
        for size in 1..40 {
            let found = found(&bytes, size);
            assert_eq!(found.len(), 2, "in pieces of {size}");
            assert!(found[0] >= before.len() && found[0] < before.len() + commit.len());
        }
    }
}
