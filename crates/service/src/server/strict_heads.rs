//! Line ends of requests' heads. A proxy that reads a bare line feed otherwise than this service
//! would see other requests than it does.

/// Follows the requests on a connection and spoils each line feed in a head that has no carriage
/// return before it, so that the parser, which would accept it, answers 400 and closes.
#[derive(Debug)]
pub(super) struct StrictHeads {
    state: State,
    /// The line that is being read.
    line: Vec<u8>,
    /// The most bytes of a head.
    most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head {
        /// Whether a line has been read: empty lines may come before the first.
        begun: bool,
        /// The length of the body that follows.
        length: u64,
        chunked: bool,
    },
    /// So many bytes of a body are to come.
    Body(u64),
    /// No other request is read from this connection: the head was spoiled, or the body is chunked,
    /// after which the service closes.
    Last,
}

const START: State = State::Head { begun: false, length: 0, chunked: false };

impl StrictHeads {
    pub(super) fn new(most: usize) -> Self {
        Self { state: START, line: Vec::new(), most }
    }

    /// Follows the next bytes of the connection.
    pub(super) fn follow(&mut self, mut bytes: &mut [u8]) {
        loop {
            match self.state {
                State::Last => return,
                State::Body(left) => {
                    let here = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &mut bytes[here..];
                    let left = left.saturating_sub(here as u64);
                    self.state = if left == 0 { START } else { State::Body(left) };
                }
                State::Head { .. } => {
                    let Some((byte, rest)) = bytes.split_first_mut() else { return };
                    self.head(byte);
                    bytes = rest;
                }
            }
            if bytes.is_empty() {
                return;
            }
        }
    }

    fn head(&mut self, byte: &mut u8) {
        if *byte != b'\n' {
            // A longer head is refused as a whole.
            if self.line.len() < self.most {
                self.line.push(*byte);
            }
            return;
        }
        if self.line.pop() != Some(b'\r') {
            *byte = 0;
            self.state = State::Last;
            return;
        }
        let line = std::mem::take(&mut self.line);
        let State::Head { begun, length, chunked } = self.state else { return };
        self.state = match (line.is_empty(), header(&line)) {
            (true, _) if !begun => return,
            (true, _) if chunked => State::Last,
            (true, _) if length > 0 => State::Body(length),
            (true, _) => START,
            (false, Header::Length(length)) => State::Head { begun: true, length, chunked },
            (false, Header::Chunked) => State::Head { begun: true, length, chunked: true },
            (false, Header::Other) => State::Head { begun: true, length, chunked },
        };
    }
}

enum Header {
    Length(u64),
    Chunked,
    Other,
}

/// What a line says of the body's length. The parser refuses a length that is no number.
fn header(line: &[u8]) -> Header {
    let text = std::str::from_utf8(line).unwrap_or_default();
    let Some((name, value)) = text.split_once(':') else { return Header::Other };
    if name.eq_ignore_ascii_case("content-length") {
        value.trim().parse().map_or(Header::Other, Header::Length)
    } else if name.eq_ignore_ascii_case("transfer-encoding") {
        Header::Chunked
    } else {
        Header::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes out, however the bytes were cut.
    fn check(bytes: &str, expected: &str) {
        for size in 1..=bytes.len() {
            let mut heads = StrictHeads::new(1_000);
            let mut out = bytes.as_bytes().to_vec();
            out.chunks_mut(size).for_each(|chunk| heads.follow(chunk));
            assert_eq!(String::from_utf8(out).unwrap(), expected, "cut every {size}");
        }
    }

    #[test]
    fn a_bare_line_feed_is_spoiled_in_heads_and_nowhere_else() {
        let same = |bytes: &str| check(bytes, bytes);
        same("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n");
        same("\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n\n\na\nGET / HTTP/1.1\r\n\r\n");
        same("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n\n\n\r\n0\r\n\r\n");
        check("GET / HTTP/1.1\nhost: a\n\n", "GET / HTTP/1.1\0host: a\n\n");
        check("GET / HTTP/1.1\r\nhost: a\n\r\n", "GET / HTTP/1.1\r\nhost: a\0\r\n");
        check("\nGET / HTTP/1.1\r\n\r\n", "\0GET / HTTP/1.1\r\n\r\n");
        check("GET / HTTP/1.1\r\n\n", "GET / HTTP/1.1\r\n\0");
        check(
            "POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n\n\nGET / HTTP/1.1\n",
            "POST / HTTP/1.1\r\ncontent-length:2\r\n\r\n\n\nGET / HTTP/1.1\0",
        );
    }
}
