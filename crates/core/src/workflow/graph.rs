//! Which graphs are valid.

use std::collections::{BTreeMap, BTreeSet};

use super::saga;
use super::{
    Condition, Path, Root, Step, StepIx, Template, Workflow, WorkflowError, WorkflowParts, Written,
};

/// The most steps of one workflow.
pub(crate) const MAX_STEPS: usize = 1_000;

/// The most bytes that the policies of all steps may take.
const MAX_POLICIES: usize = 2 * 1024 * 1024;

impl TryFrom<WorkflowParts> for Workflow {
    type Error = WorkflowError;

    fn try_from(parts: WorkflowParts) -> Result<Self, WorkflowError> {
        check_size(&parts)?;
        check_policies(&parts)?;
        check_ids(&parts)?;
        check_edges(&parts)?;
        check_quorums(&parts)?;
        saga::check(&parts)?;
        let order = check_cycles(&parts)?;
        check_references(&parts, &order)?;
        Ok(Self(parts, Written::default()))
    }
}

fn check_size(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    match parts.steps.len() {
        0 => Err(WorkflowError::NoSteps { name: parts.name.clone() }),
        count if count > MAX_STEPS => Err(WorkflowError::TooManySteps { count, most: MAX_STEPS }),
        _ => Ok(()),
    }
}

/// Steps share a default, but each is stored with its own.
fn check_policies(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    let mut bytes = 0_usize;
    for step in &parts.steps {
        let size = || serde_json::to_vec(&step.policy).map_or(0, |text| text.len());
        bytes = bytes.saturating_add(*sizes.entry(step.policy.address()).or_insert_with(size));
        if bytes > MAX_POLICIES {
            return Err(WorkflowError::PoliciesTooLarge { bytes, most: MAX_POLICIES });
        }
    }
    Ok(())
}

fn check_ids(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    let mut seen = BTreeSet::new();
    for (step, s) in parts.steps.iter().enumerate() {
        if !seen.insert(&s.id) {
            return Err(WorkflowError::DuplicateStep { step, id: s.id.clone() });
        }
    }
    Ok(())
}

fn check_edges(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    let exists = |at: StepIx| at.index() < parts.steps.len();
    for s in &parts.steps {
        if !s.after.iter().copied().all(exists) {
            return Err(WorkflowError::UnknownStep { what: format!("`after` of step `{}`", s.id) });
        }
    }
    for (n, t) in parts.transitions.iter().enumerate() {
        if !exists(t.from) || !exists(t.to) {
            return Err(WorkflowError::UnknownStep { what: format!("transition {}", n + 1) });
        }
    }
    Ok(())
}

fn check_quorums(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    for (step, s) in parts.steps.iter().enumerate() {
        let id = || s.id.clone();
        if !s.success.is_all() && s.for_each.is_none() {
            return Err(WorkflowError::LoneSuccess { step, id: id() });
        }
        let (least, count) = (s.join.of(s.after.len()), s.after.len());
        if least > count {
            return Err(WorkflowError::JoinTooLarge { step, id: id(), least, count });
        }
    }
    Ok(())
}

/// A set of places.
#[derive(Clone)]
struct PlaceSet([u64; MAX_STEPS.div_ceil(64)]);

impl PlaceSet {
    const NONE: Self = Self([0; MAX_STEPS.div_ceil(64)]);

    fn insert(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    fn contains(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    fn extend(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }
}

/// For each place those one edge before it: its dependencies and the sources of its transitions.
fn sources(parts: &WorkflowParts) -> Vec<Vec<usize>> {
    let after = |s: &Step| s.after.iter().map(|at| at.index()).collect();
    let mut sources: Vec<Vec<usize>> = parts.steps.iter().map(after).collect();
    for t in &parts.transitions {
        sources[t.to.index()].push(t.from.index());
    }
    for list in &mut sources {
        list.sort_unstable();
        list.dedup();
    }
    sources
}

/// All places before each place, or the cycle that makes this impossible.
fn check_cycles(parts: &WorkflowParts) -> Result<Vec<PlaceSet>, WorkflowError> {
    let sources = sources(parts);
    let mut waits: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut targets = vec![Vec::new(); sources.len()];
    for (at, list) in sources.iter().enumerate() {
        list.iter().for_each(|source| targets[*source].push(at));
    }
    let mut ancestors = vec![PlaceSet::NONE; sources.len()];
    // A place is settled when all its sources are. Those of a cycle never are.
    let mut settled: Vec<usize> = (0..sources.len()).filter(|at| waits[*at] == 0).collect();
    let mut done = 0;
    while let Some(source) = settled.get(done).copied() {
        done += 1;
        let before = ancestors[source].clone();
        for at in &targets[source] {
            ancestors[*at].extend(&before);
            ancestors[*at].insert(source);
            waits[*at] -= 1;
            if waits[*at] == 0 {
                settled.push(*at);
            }
        }
    }
    match waits.iter().position(|count| *count > 0) {
        Some(stuck) => Err(cycle_through(parts, &sources, &waits, stuck)),
        None => Ok(ancestors),
    }
}

fn cycle_through(
    parts: &WorkflowParts,
    sources: &[Vec<usize>],
    waits: &[usize],
    stuck: usize,
) -> WorkflowError {
    let mut walk = vec![stuck];
    // Every unsettled place has an unsettled source, so the walk must meet itself.
    let (start, mut path) = loop {
        let here = walk[walk.len() - 1];
        let next = sources[here].iter().copied().find(|s| waits[*s] > 0).unwrap_or(here);
        if let Some(met) = walk.iter().position(|w| *w == next) {
            break (next, walk.split_off(met));
        }
        walk.push(next);
    };
    path.push(start);
    path.reverse();
    let path = path.into_iter().map(|at| parts.steps[at].id.clone()).collect();
    WorkflowError::Cycle { step: start, path }
}

/// A template reads steps that have ended before its own; a condition is judged when its source has
/// ended, so it reads that and what came before. Anything else would depend on timing.
fn check_references(parts: &WorkflowParts, ancestors: &[PlaceSet]) -> Result<(), WorkflowError> {
    let ids = parts.steps.iter().enumerate().map(|(at, s)| (s.id.as_str(), at));
    let ids = Ids { parts, at: ids.collect() };
    for (step, s) in parts.steps.iter().enumerate() {
        let templates: [Option<&Template>; 2] = [Some(&s.args), s.for_each.as_ref()];
        let templates = templates.into_iter().flatten().flat_map(Template::paths);
        let conditions = [&s.requires, &s.ensures].into_iter().flatten();
        for path in templates.chain(conditions.flat_map(Condition::paths)) {
            // A rollback reads what was there when the step that is undone had succeeded.
            let of = s.compensates.map(StepIx::index);
            let before = &ancestors[of.unwrap_or(step)];
            ids.check_path(step, path, |at| before.contains(at) || of == Some(at))?;
        }
    }
    for t in &parts.transitions {
        let from = t.from.index();
        for path in t.condition.iter().flat_map(Condition::paths) {
            ids.check_path(from, path, |at| at == from || ancestors[from].contains(at))?;
        }
    }
    Ok(())
}

struct Ids<'p> {
    parts: &'p WorkflowParts,
    at: BTreeMap<&'p str, usize>,
}

impl Ids<'_> {
    fn check_path(
        &self,
        step: usize,
        path: &Path,
        has_ended: impl Fn(usize) -> bool,
    ) -> Result<(), WorkflowError> {
        let Root::Step(name) = path.root() else { return Ok(()) };
        let said = || (self.parts.steps[step].id.clone(), path.to_string());
        match self.at.get(name.as_str()) {
            None => {
                let (id, reference) = said();
                Err(WorkflowError::UnknownReference { step, id, reference })
            }
            Some(at) if !has_ended(*at) => {
                let (id, reference) = said();
                Err(WorkflowError::NotBefore { step, id, reference })
            }
            Some(_) => Ok(()),
        }
    }
}
