use std::io;

/// How deep JSON text is nested, found as its bytes come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nesting {
    depth: usize,
    deepest: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// The deepest level so far.
    #[must_use]
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// Takes the next bytes in.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'[' | b'{' if !self.in_text => {
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b']' | b'}' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Of bytes that are whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> usize {
        let mut nesting = Self::default();
        nesting.take(bytes);
        nesting.deepest
    }
}

/// What is written is counted and not kept.
impl io::Write for Nesting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.take(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
