//! In what order the tasks of a node are polled.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::draw::Draw;
use crate::runtime::Priorities;

/// Of a hundred seeds, in how many the tasks of a node have priorities that last, and in how many
/// another for each poll.
const ORDERED: u64 = 30;
const ANEW: u64 = 20;

/// Which of a node's tasks that are ready is polled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskOrder {
    /// Any, each as likely as the next.
    Any,
    /// The one of the highest priority. A few times it becomes the last.
    Lasting,
    /// The one of the highest priority, which a task gets anew for each poll.
    Anew,
}

impl TaskOrder {
    /// Worlds differ in how often they poll, so each power of two is as likely.
    pub(super) fn draw(self, draw: &mut Draw) -> Option<Priorities> {
        if self == Self::Any {
            return None;
        }
        let chance = draw.bits();
        let anew = self == Self::Anew;
        let changes = if anew { 0 } else { draw.small(0, 4) };
        let mut poll = |_| {
            let most = 1 << draw.small(3, 14);
            1 + draw.below(most)
        };
        let polls: BTreeSet<u64> = (0..changes).map(&mut poll).collect();
        Some(Priorities { chance, changes: polls.into_iter().collect(), anew })
    }
}

impl fmt::Display for TaskOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Lasting => "lasting",
            Self::Anew => "anew",
        })
    }
}

impl FromStr for TaskOrder {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = [Self::Any, Self::Lasting, Self::Anew].into_iter();
        named
            .into_iter()
            .find(|order| order.to_string() == text)
            .ok_or("use `any`, `lasting`, or `anew`")
    }
}

/// Those of `seed`.
pub(super) fn priorities(seed: u64) -> Option<Priorities> {
    let mut draw = Draw::new(seed, "priorities");
    let order = match draw.below(100) {
        of_100 if of_100 < ORDERED => TaskOrder::Lasting,
        of_100 if of_100 < ORDERED + ANEW => TaskOrder::Anew,
        _ => TaskOrder::Any,
    };
    order.draw(&mut draw)
}
