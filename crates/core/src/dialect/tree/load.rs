//! How much a text may hold, so that what is read of it takes no more than some memory.

/// The most values, keys and other parts of one text, a table counting as [`TABLE`] more. A value of
/// two characters takes over a hundred bytes of memory while it is read.
const MOST: usize = 120_000;

/// What a table counts besides what is in it: the maps that it becomes keep room for more keys.
pub(in crate::dialect) const TABLE: usize = 12;

/// What is wrong with a text that holds more, and what to do.
pub(in crate::dialect) const TOO_MUCH: (&str, &str) = (
    "the text holds too many values",
    "keep large data out of the definition: give it to the run as input",
);

/// What a text may still hold.
#[derive(Debug)]
pub(in crate::dialect) struct Load(usize);

impl Load {
    pub(in crate::dialect) fn new() -> Self {
        Self(MOST)
    }

    /// Takes `count` of it; `None` where there is not so much left.
    pub(in crate::dialect) fn take(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.checked_sub(count)?;
        Some(())
    }
}
