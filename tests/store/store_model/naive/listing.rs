//! Lists of runs, newest first, tallies and workflow definitions.

use std::cmp::Reverse;

use retrial::store::{
    AskRuns, Defined, Definition, Listed, RunCursor, RunHead, StoredDefinition, Tally,
};

use super::Naive;

impl Naive {
    pub(super) fn list(&self, ask: &AskRuns) -> Listed {
        let mut heads = self.heads(None, usize::MAX).runs;
        let at = |head: &RunHead| RunCursor { created: head.created, run: head.run };
        heads.sort_by_key(|head| Reverse((head.created, head.run)));
        heads.retain(|head| ask.before.is_none_or(|before| at(head) < before));
        let filter = &ask.filter;
        heads.retain(|head| filter.phase.is_none_or(|phase| head.phase == phase));
        heads.retain(|head| filter.workflow.as_ref().is_none_or(|w| head.workflow == *w));
        heads.retain(|head| !filter.letters || head.letters > 0);
        heads.retain(|head| filter.key.is_none() || head.key == filter.key);
        heads.retain(|head| filter.code.is_none() || head.code == filter.code);
        let has = |head: &RunHead, (name, value)| head.fields.get(name) == Some(value);
        heads.retain(|head| filter.fields.iter().all(|field| has(head, field)));
        heads.retain(|head| filter.since.is_none_or(|since| head.created >= since));
        heads.retain(|head| filter.until.is_none_or(|until| head.created < until));
        heads.retain(|head| {
            let lower = |text: &str| text.to_ascii_lowercase();
            filter.text.as_ref().map(|text| lower(text)).is_none_or(|text| {
                let bare = |id: &str| id.replace('-', "");
                bare(&head.run.to_string()).starts_with(&bare(&text))
                    || lower(&head.workflow).contains(&text)
            })
        });
        let limit = ask.limit.max(1);
        let more = heads.len() > limit;
        heads.truncate(limit);
        let next = heads.last().map(at).filter(|_| more);
        Listed { at: self.now, runs: heads, next, damaged: vec![] }
    }

    pub(super) fn tally(&self) -> Tally {
        let mut tally = Tally { at: self.now, ..Tally::default() };
        for head in self.heads(None, usize::MAX).runs {
            *tally.phases.entry(head.phase).or_default() += 1;
            tally.letters += head.letters;
        }
        tally
    }

    pub(super) fn define(&mut self, definition: &Definition) -> Defined {
        let newest = self.definition(&definition.name);
        if let Some(same) = newest.as_ref().filter(|newest| newest.definition == *definition) {
            return Defined { revision: same.revision, at: same.at };
        }
        let (revision, at) = (newest.map_or(1, |newest| newest.revision + 1), self.now);
        self.definitions.push(StoredDefinition { definition: definition.clone(), revision, at });
        Defined { revision, at }
    }

    pub(super) fn definition(&self, name: &str) -> Option<StoredDefinition> {
        self.definitions.iter().rfind(|stored| stored.definition.name == name).cloned()
    }

    pub(super) fn definitions(&self, after: Option<&str>, limit: usize) -> Vec<StoredDefinition> {
        let mut names: Vec<&str> =
            self.definitions.iter().map(|stored| stored.definition.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| after.is_none_or(|after| *name > after));
        names.into_iter().take(limit).filter_map(|name| self.definition(name)).collect()
    }
}
