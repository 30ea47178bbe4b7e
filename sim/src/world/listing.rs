//! Users that go through lists page by page, once all has ended.

use std::collections::BTreeSet;

use madsim::time::sleep;
use retrial::store::{
    AskLetters, AskRuns, LetterFilter, LetterHead, RunFilter, RunHead, Store as _, StoreError,
};
use retrial::time::Nanos;

use super::users::Users;
use crate::evidence::Listing;
use crate::runtime::mix;

/// How long a user goes on who gets no answer.
const LONGEST: Nanos = Nanos::from_secs(600);
/// How many lists of runs are asked for besides that of all.
const LISTS: u64 = 3;

impl Users {
    /// Goes through some lists, in pages of one to four rows, or says why it can't.
    pub(super) async fn list_all(&self, chance: u64) -> Result<Listing, String> {
        tokio::select! {
            biased;
            listing = self.try_list(chance) => listing.map_err(|error| error.to_string()),
            () = sleep(LONGEST.into()) => Err(format!("no answer within {LONGEST}")),
        }
    }

    async fn try_list(&self, chance: u64) -> Result<Listing, StoreError> {
        let limit = 1 + (mix(chance, 0) % 4) as usize;
        let pick = |n: u64, of: usize| (mix(chance, n) % (of as u64).max(1)) as usize;
        let (heads, runs, letters) = (Vec::new(), Vec::new(), Vec::new());
        let tally = self.tally().await?;
        let mut listing = Listing { limit, heads, runs, letters, tally, damaged: 0 };
        self.read_heads(&mut listing).await?;
        let filters = run_filters(&listing.heads);
        let picked = (1..=LISTS).filter_map(|n| filters.get(pick(n, filters.len())).cloned());
        for filter in [RunFilter::default()].into_iter().chain(picked) {
            let runs = self.runs_of(&mut listing, filter.clone()).await?;
            listing.runs.push((filter, runs));
        }
        let all = self.letters_of(&mut listing, LetterFilter::default()).await?;
        let filters = letter_filters(&all);
        listing.letters.push((LetterFilter::default(), all));
        if let Some(filter) = filters.get(pick(LISTS + 1, filters.len())).cloned() {
            let letters = self.letters_of(&mut listing, filter.clone()).await?;
            listing.letters.push((filter, letters));
        }
        Ok(listing)
    }

    async fn read_heads(&self, listing: &mut Listing) -> Result<(), StoreError> {
        loop {
            let after = listing.heads.last().map(|head| head.run);
            let page = self.heads(after, listing.limit).await?;
            listing.damaged += page.damaged.len();
            if page.runs.is_empty() {
                return Ok(());
            }
            listing.heads.extend(page.runs);
        }
    }

    async fn runs_of(
        &self,
        listing: &mut Listing,
        filter: RunFilter,
    ) -> Result<Vec<RunHead>, StoreError> {
        let (mut runs, mut before) = (Vec::new(), None);
        loop {
            let page =
                self.list(AskRuns { before, limit: listing.limit, filter: filter.clone() }).await?;
            listing.damaged += page.damaged.len();
            runs.extend(page.runs);
            match page.next {
                Some(next) => before = Some(next),
                None => return Ok(runs),
            }
        }
    }

    async fn letters_of(
        &self,
        listing: &mut Listing,
        filter: LetterFilter,
    ) -> Result<Vec<LetterHead>, StoreError> {
        let mut letters = Vec::<LetterHead>::new();
        loop {
            let after = letters.last().map(|head| head.id);
            let ask = AskLetters { after, limit: listing.limit, filter: filter.clone() };
            let page = self.letters(ask).await?;
            listing.damaged += page.damaged.len();
            if page.letters.is_empty() {
                return Ok(letters);
            }
            letters.extend(page.letters);
        }
    }
}

/// Each filter that could part these runs.
fn run_filters(heads: &[RunHead]) -> Vec<RunFilter> {
    let filter = RunFilter::default;
    let workflows: BTreeSet<&String> = heads.iter().map(|head| &head.workflow).collect();
    let codes: BTreeSet<&String> = heads.iter().filter_map(|head| head.code.as_ref()).collect();
    let phases: BTreeSet<_> = heads.iter().map(|head| head.phase).collect();
    let mut filters = vec![RunFilter { letters: true, ..filter() }];
    for workflow in workflows {
        let part = workflow.chars().skip(1).collect::<String>().to_uppercase();
        filters.push(RunFilter { workflow: Some(workflow.clone()), ..filter() });
        filters.push(RunFilter { text: Some(part), ..filter() });
    }
    filters.extend(codes.iter().map(|&code| RunFilter { code: Some(code.clone()), ..filter() }));
    filters.extend(phases.into_iter().map(|phase| RunFilter { phase: Some(phase), ..filter() }));
    for head in heads {
        let id = head.run.to_string();
        let prefix = id.get(..10).unwrap_or(&id).to_owned();
        filters.push(RunFilter { text: Some(prefix), ..filter() });
        filters.push(RunFilter { since: Some(head.created), ..filter() });
        filters.push(RunFilter { until: Some(head.created), ..filter() });
        if let Some(key) = &head.key {
            filters.push(RunFilter { key: Some(key.clone()), ..filter() });
        }
        for (name, value) in &head.fields {
            let fields = [(name.clone(), value.clone())].into();
            filters.push(RunFilter { fields, ..filter() });
        }
    }
    filters
}

/// Each filter that could part these letters.
fn letter_filters(letters: &[LetterHead]) -> Vec<LetterFilter> {
    let filter = LetterFilter::default;
    let mut filters = vec![LetterFilter { waiting: true, ..filter() }];
    for head in letters {
        filters.push(LetterFilter { workflow: Some(head.workflow.clone()), ..filter() });
        filters.push(LetterFilter { action: Some(head.action.clone()), ..filter() });
        filters.push(LetterFilter { code: Some(head.code.clone()), ..filter() });
        filters.push(LetterFilter { since: Some(head.at), ..filter() });
        filters.push(LetterFilter { until: Some(head.at), ..filter() });
    }
    filters
}
