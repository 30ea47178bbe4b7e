//! Which graphs are valid.

use std::collections::BTreeSet;

use super::saga;
use super::{Condition, Path, Root, StepIx, Template, Workflow, WorkflowError, WorkflowParts};

/// The most steps of one workflow.
const MAX_STEPS: usize = 1_000;

impl TryFrom<WorkflowParts> for Workflow {
    type Error = WorkflowError;

    fn try_from(parts: WorkflowParts) -> Result<Self, WorkflowError> {
        check_size(&parts)?;
        check_ids(&parts)?;
        check_edges(&parts)?;
        check_quorums(&parts)?;
        saga::check(&parts)?;
        let order = check_cycles(&parts)?;
        check_references(&parts, &order)?;
        Ok(Self(parts))
    }
}

fn check_size(parts: &WorkflowParts) -> Result<(), WorkflowError> {
    match parts.steps.len() {
        0 => Err(WorkflowError::NoSteps { name: parts.name.clone() }),
        count if count > MAX_STEPS => Err(WorkflowError::TooManySteps { count, most: MAX_STEPS }),
        _ => Ok(()),
    }
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

/// The places one edge before `at`: its dependencies and the sources of its transitions.
fn before(parts: &WorkflowParts, at: usize) -> Vec<usize> {
    let mut sources: Vec<usize> = parts.steps[at].after.iter().map(|s| s.index()).collect();
    sources.extend(parts.transitions.iter().filter(|t| t.to.index() == at).map(|t| t.from.index()));
    sources.sort_unstable();
    sources.dedup();
    sources
}

/// All places before each place, or the cycle that makes this impossible.
fn check_cycles(parts: &WorkflowParts) -> Result<Vec<BTreeSet<usize>>, WorkflowError> {
    let count = parts.steps.len();
    let sources: Vec<Vec<usize>> = (0..count).map(|at| before(parts, at)).collect();
    let mut ancestors: Vec<Option<BTreeSet<usize>>> = vec![None; count];
    // Each round settles every place whose sources are settled; a round without progress is a cycle.
    loop {
        let mut progress = false;
        for at in 0..count {
            if ancestors[at].is_some() {
                continue;
            }
            let known: Option<Vec<_>> =
                sources[at].iter().map(|s| ancestors[*s].as_ref()).collect();
            let Some(known) = known else { continue };
            let mut all: BTreeSet<usize> = known.into_iter().flatten().copied().collect();
            all.extend(&sources[at]);
            ancestors[at] = Some(all);
            progress = true;
        }
        if !progress {
            break;
        }
    }
    match ancestors.iter().position(Option::is_none) {
        Some(stuck) => Err(cycle_through(parts, &sources, &ancestors, stuck)),
        None => Ok(ancestors.into_iter().flatten().collect()),
    }
}

fn cycle_through(
    parts: &WorkflowParts,
    sources: &[Vec<usize>],
    settled: &[Option<BTreeSet<usize>>],
    stuck: usize,
) -> WorkflowError {
    let mut walk = vec![stuck];
    // Every unsettled place has an unsettled source, so the walk must meet itself.
    let (start, mut path) = loop {
        let here = walk[walk.len() - 1];
        let next = sources[here].iter().copied().find(|s| settled[*s].is_none()).unwrap_or(here);
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
fn check_references(
    parts: &WorkflowParts,
    ancestors: &[BTreeSet<usize>],
) -> Result<(), WorkflowError> {
    for (step, s) in parts.steps.iter().enumerate() {
        let templates: [Option<&Template>; 2] = [Some(&s.args), s.for_each.as_ref()];
        let templates = templates.into_iter().flatten().flat_map(Template::paths);
        let conditions = [&s.requires, &s.ensures].into_iter().flatten();
        for path in templates.chain(conditions.flat_map(Condition::paths)) {
            // A rollback reads what was there when the step that is undone had succeeded.
            let of = s.compensates.map(StepIx::index);
            let before = &ancestors[of.unwrap_or(step)];
            check_path(parts, step, path, |at| before.contains(&at) || of == Some(at))?;
        }
    }
    for t in &parts.transitions {
        let from = t.from.index();
        for path in t.condition.iter().flat_map(Condition::paths) {
            check_path(parts, from, path, |at| at == from || ancestors[from].contains(&at))?;
        }
    }
    Ok(())
}

fn check_path(
    parts: &WorkflowParts,
    step: usize,
    path: &Path,
    has_ended: impl Fn(usize) -> bool,
) -> Result<(), WorkflowError> {
    let Root::Step(name) = path.root() else { return Ok(()) };
    let (id, reference) = (parts.steps[step].id.clone(), path.to_string());
    match parts.steps.iter().position(|s| s.id == *name) {
        None => Err(WorkflowError::UnknownReference { step, id, reference }),
        Some(at) if !has_ended(at) => Err(WorkflowError::NotBefore { step, id, reference }),
        Some(_) => Ok(()),
    }
}
