//! Breeds scenarios: keeps those whose worlds show something new, and makes others of them.
//!
//! Decides which scenarios are kept and which one is tried next. Must never run a world or know why one
//! fails: the caller runs them and says what they show. What counts as new is decided in `shown`, how a
//! scenario is changed in `breed`; to add to either, add an arm there. It is how fuzzers go that are guided
//! by coverage; what few worlds show is preferred as by Böhme, Pham and Roychoudhury, "Coverage-based
//! Greybox Fuzzing as Markov Chain" (2016).

mod breed;
mod shown;

use std::collections::{BTreeMap, BTreeSet};

pub use breed::child;
pub use shown::shown;

use crate::scenario::Scenario;
use crate::source::Source;
use crate::workload::Draw;

/// The seeds that scenarios are drawn from: at most 12 digits can still be typed.
const SEEDS: u64 = 1_000_000_000_000;

/// A scenario that was the first to show something.
#[derive(Clone, Debug)]
struct Kept {
    scenario: Scenario,
    shown: BTreeSet<u64>,
}

/// What was seen so far, and what is tried next.
#[derive(Clone, Debug)]
pub struct Explorer<'s> {
    source: &'s Source,
    draw: Draw,
    /// Of a hundred scenarios so many are bred, and the others drawn.
    bred: u64,
    corpus: Vec<Kept>,
    /// How many worlds showed each thing.
    seen: BTreeMap<u64, u64>,
}

impl<'s> Explorer<'s> {
    /// Nothing seen yet. All that it tries follows from `chance`, and from what it is told. Of a hundred
    /// scenarios it breeds `bred`; with 0 it draws all from `source`.
    #[must_use]
    pub fn new(source: &'s Source, chance: u64, bred: u64) -> Self {
        let (corpus, seen) = (Vec::new(), BTreeMap::new());
        Self { source, draw: Draw::new(chance, "explore"), bred, corpus, seen }
    }

    /// The scenario to try next.
    pub fn try_next(&mut self) -> Scenario {
        let drawn = self.source.scenario(self.draw.below(SEEDS));
        if self.corpus.is_empty() || !self.draw.chance(self.bred) {
            return drawn;
        }
        let mother = self.pick();
        let other = self.draw.index(self.corpus.len());
        let father = if self.draw.chance(50) { &self.corpus[other].scenario } else { &drawn };
        breed::child(&mut self.draw, &self.corpus[mother].scenario, father)
    }

    /// Of two that are kept, the one that shows what fewer worlds have shown.
    fn pick(&mut self) -> usize {
        let two = [0; 2].map(|_| self.draw.index(self.corpus.len()));
        let rarest = |kept: &Kept| kept.shown.iter().map(|thing| self.seen[thing]).min();
        let [rare, other] = two.map(|place| (rarest(&self.corpus[place]), place));
        rare.min(other).1
    }

    /// Takes note of what the world of `scenario` showed. Whether it is kept, since it was the first to
    /// show some of it.
    pub fn saw(&mut self, scenario: Scenario, shown: BTreeSet<u64>) -> bool {
        let mut is_new = false;
        for thing in &shown {
            let times = self.seen.entry(*thing).or_default();
            is_new |= *times == 0;
            *times += 1;
        }
        if is_new {
            self.corpus.push(Kept { scenario, shown });
        }
        is_new
    }

    /// How many different things were shown.
    #[must_use]
    pub fn things(&self) -> usize {
        self.seen.len()
    }

    /// How many scenarios were kept.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.corpus.len()
    }

    /// Few of the kept scenarios that show together what all of them show: for each thing, the rarest
    /// first, that one of those with it which shows most.
    #[must_use]
    pub fn cover(&self) -> Vec<&Scenario> {
        let mut with: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (place, kept) in self.corpus.iter().enumerate() {
            kept.shown.iter().for_each(|thing| with.entry(*thing).or_default().push(place));
        }
        let mut things: Vec<_> = with.into_iter().collect();
        things.sort_by_key(|(_, places)| places.len());
        let (mut covered, mut chosen) = (BTreeSet::<u64>::new(), BTreeSet::new());
        for (thing, places) in things {
            let most = places.into_iter().max_by_key(|place| self.corpus[*place].shown.len());
            if let Some(place) = most.filter(|_| !covered.contains(&thing)) {
                chosen.insert(place);
                covered.extend(&self.corpus[place].shown);
            }
        }
        chosen.into_iter().map(|place| &self.corpus[place].scenario).collect()
    }
}
