//! The lab file: TOML to a [`Scenario`].
//!
//! Decides what each key means, what an absent one means, and what is refused, with file, line, field
//! and what to write. Must never know events. To add a key, add it to the list of its table and read
//! it there.

mod class;
mod service;
mod trigger;
mod value;

use std::collections::BTreeMap;
use std::path::Path;

use retrial_core::dialect::tree::{Entry, Format, Node};
use retrial_core::dialect::{
    Diagnostic, Diagnostics, Environment, Place, Policies, Source, parse_policy,
};
use retrial_core::policy::Policy;
use retrial_core::time::Nanos;

pub use value::{Files, SECOND, read_text};

use crate::model::{
    Arrivals, Class, Distribution, Edge, GiveUpAction, Judge, LONGEST, MOST_DEPTH, MOST_PARTS,
    MOST_SEEDS, Order, Queue, Scenario, Series, Service, Trigger, TriggerKind,
};
use value::length;

const KEYS: [&str; 8] =
    ["length", "warmup", "seed", "seeds", "judge", "services", "clients", "triggers"];
const JUDGE: [&str; 3] = ["success", "latency", "window"];

/// What the parts of a file are called, to find one by the other.
#[derive(Debug)]
struct Names {
    services: BTreeMap<String, usize>,
    classes: BTreeMap<String, usize>,
    edges: BTreeMap<String, usize>,
}

impl Names {
    fn find(map: &BTreeMap<String, usize>, node: &Node) -> Result<usize, Diagnostic> {
        let choices: Vec<(&str, usize)> =
            map.iter().map(|(name, at)| (name.as_str(), *at)).collect();
        node.choice(&choices)
    }
}

/// Reads a lab file, called `file` in messages. `files` opens what it names.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn scenario(file: &str, text: &str, files: &Files) -> Result<Scenario, Diagnostics> {
    let top = Node::parse(file, text, Format::Toml)?;
    read(&top, files)
}

fn read(top: &Node, files: &Files) -> Result<Scenario, Diagnostics> {
    let fields = top.fields(&KEYS)?;
    let needs = |key, help| fields.require(key, help).map_err(Diagnostics::from);
    let run_length = fields.get("length").map_or(Ok(Nanos::from_secs(600)), |n| length(n, LONGEST));
    let run_length = run_length?;
    let warmup = fields.get("warmup").map_or(Ok(Nanos::ZERO), |n| length(n, run_length));
    let services = needs("services", "write a table [services.api] with workers and time")?;
    let classes = needs("clients", "write a table [clients.web] with to and arrivals")?;
    let services = parts(services)?;
    let classes = parts(classes)?;
    let mut names = Names {
        services: (0..).zip(services).map(|(at, e)| (e.key.clone(), at)).collect(),
        classes: (0..).zip(classes).map(|(at, e)| (e.key.clone(), at)).collect(),
        edges: BTreeMap::new(),
    };
    let mut edges = Vec::new();
    let mut read_classes = Vec::new();
    for entry in classes {
        let (class, edge) = class::read(entry, &names.services, files)?;
        names.edges.insert(edge.name.clone(), edges.len());
        read_classes.push(class);
        edges.push(edge);
    }
    let mut read_services = Vec::new();
    for entry in services {
        let (mut service, calls) = service::read(entry, &names.services, files)?;
        for edge in calls {
            service.calls.push(edges.len());
            names.edges.insert(edge.name.clone(), edges.len());
            edges.push(edge);
        }
        read_services.push(service);
    }
    check_depth(services, &read_services, &edges)?;
    let triggers = fields.get("triggers").map_or(Ok(Vec::new()), |node| {
        trigger::read(node, &names, &read_classes, run_length, files)
    });
    let triggers = triggers?;
    let judge = judge(fields.get("judge"), run_length, &triggers)?;
    let seeds = fields.get("seeds").map_or(Ok(10), |n| n.count(1, MOST_SEEDS))?;
    let seed = fields.get("seed").map_or(Ok(1), |n| n.count(0, u32::MAX))?;
    Ok(Scenario {
        length: run_length,
        warmup: warmup?,
        seed: seed.into(),
        seeds,
        services: read_services,
        classes: read_classes,
        edges,
        triggers,
        judge,
    })
}

/// The named tables below a key: at least one.
fn parts(node: &Node) -> Result<&[Entry], Diagnostic> {
    let entries = node.entries()?;
    match entries.len() {
        0 => Err(node.place.error("there is none").help_with("name one, such as [services.api]")),
        n if n > MOST_PARTS => Err(node
            .place
            .error(format!("{n} of these are too many"))
            .help_with(format!("use at most {MOST_PARTS}"))),
        _ => Ok(entries),
    }
}

/// Services call each other in no circle, and not too deep.
fn check_depth(entries: &[Entry], services: &[Service], edges: &[Edge]) -> Result<(), Diagnostic> {
    let mut depths = vec![1; services.len()];
    // A chain of n services has its depth after n rounds; a circle goes deeper in each.
    for _ in 0..=MOST_DEPTH {
        for at in 0..services.len() {
            let below = services[at].calls.iter().map(|edge| depths[edges[*edge].to]);
            depths[at] = 1 + below.max().unwrap_or(0);
        }
    }
    if let Some((_, entry)) = depths.iter().zip(entries).find(|(depth, _)| **depth > MOST_DEPTH) {
        let error = entry.place.error("this service's calls lead back to it, or go too deep");
        let help =
            format!("let services call each other in one direction, {MOST_DEPTH} deep at most");
        return Err(error.help_with(help));
    }
    Ok(())
}

/// Unless set, the judged window is the last fifth of what comes after the triggers.
fn judge(
    node: Option<&Node>,
    run_length: Nanos,
    triggers: &[Trigger],
) -> Result<Judge, Diagnostic> {
    let end = triggers.iter().map(|t| t.at.saturating_add(t.length)).max().unwrap_or_default();
    let after = run_length.saturating_sub(end);
    let window = Nanos::new((after.get() / 5).max(1));
    let mut judge = Judge { success: 0.95, latency: None, window };
    let Some(node) = node else { return Ok(judge) };
    let fields = node.fields(&JUDGE)?;
    if let Some(node) = fields.get("success") {
        judge.success = f64::from(node.share()?.millionths()) / 1e6;
    }
    judge.latency = fields.get("latency").map(|n| n.timeout(SECOND)).transpose()?;
    if let Some(node) = fields.get("window") {
        judge.window = node.timeout(SECOND)?;
        if judge.window > after {
            let error = node.place.error("the window is longer than what follows the triggers");
            return Err(error.help_with(format!("use at most {after}, or a longer run")));
        }
    }
    Ok(judge)
}

/// The policy of a text or of a file: a workflow file needs the name of one of its steps.
///
/// # Errors
/// Everything that is wrong with it.
pub fn policy(file: &str, text: &str, step: Option<&str>) -> Result<Policy, Diagnostics> {
    Ok(step_policy(file, text, step, None)?.0)
}

/// The policy and the guards that a text or a workflow file's step gives.
fn step_policy(
    file: &str,
    text: &str,
    step: Option<&str>,
    place: Option<&Place>,
) -> Result<(Policy, retrial_core::guard::GuardRules), Diagnostics> {
    let whole = || Place::whole(&Source::new(file, text));
    let refuse = |message: String, help: String| {
        let place = place.cloned().unwrap_or_else(whole);
        Diagnostics::from(place.error(message).help_with(help))
    };
    match parse_policy(file, text, None, &Environment::default())? {
        Policies::One(policy) => Ok((policy, Default::default())),
        Policies::Steps { steps, .. } => {
            let names: Vec<&str> = steps.iter().filter_map(|s| s.step.as_deref()).collect();
            let all = format!("there are {}", names.join(", "));
            let found = match step {
                None if steps.len() == 1 => steps.first(),
                None => {
                    return Err(refuse(
                        "the workflow has several steps".into(),
                        format!("name one with step; {all}"),
                    ));
                }
                Some(step) => steps.iter().find(|s| s.step.as_deref() == Some(step)),
            };
            let Some(found) = found else {
                return Err(refuse(
                    format!("there is no step `{}`", step.unwrap_or_default()),
                    all,
                ));
            };
            let guards = found.action.as_ref().map(|a| a.guard.clone()).unwrap_or_default();
            Ok((found.policy.clone(), guards))
        }
    }
}

/// The scenario that a policy is tried on where there is no file: 70 calls a second, at random, to a
/// service that can do 100, which is down for `outage`.
#[must_use]
pub fn usual(policy: &Policy, outage: Nanos) -> Scenario {
    let at = Nanos::from_secs(60);
    let after = outage.saturating_mul(4).max(Nanos::from_secs(240));
    let edge = Edge {
        name: "clients -> service".into(),
        to: 0,
        policy: policy.clone(),
        idempotent: true,
        guards: retrial_core::guard::GuardRules {
            retry_budget: policy.budget().copied(),
            ..Default::default()
        },
        per_client: false,
        fail_held: false,
        tokens: None,
        latency: Distribution::Constant(Nanos::from_millis(1)),
        loss: 0.0,
    };
    let service = Service {
        name: "service".into(),
        workers: 10,
        time: Distribution::Exponential(Nanos::from_millis(100)),
        queue: Queue { order: Order::Fifo, capacity: 1_000, drops: false, timeout: None },
        work_for_gone: true,
        slower: None,
        errors: Series::constant(0.0),
        error_time: None,
        status: 503,
        error_retry_after: None,
        capacity: Series::constant(1.0),
        rate_limit: None,
        row: None,
        cold: None,
        calls: Vec::new(),
        holds_worker: false,
    };
    let class = Class {
        name: "clients".into(),
        count: 100,
        arrivals: Arrivals::Open { rate: Series::constant(70.0), poisson: true },
        concurrency: None,
        give_up: GiveUpAction::Drop,
        deadline: None,
    };
    let crash = Trigger { kind: TriggerKind::Crash(0), at, length: outage };
    let triggers = if outage.is_zero() { Vec::new() } else { vec![crash] };
    Scenario {
        length: at.saturating_add(outage).saturating_add(after).min(LONGEST),
        warmup: Nanos::ZERO,
        seed: 1,
        seeds: 10,
        services: vec![service],
        classes: vec![class],
        edges: vec![edge],
        triggers,
        judge: Judge { success: 0.95, latency: None, window: Nanos::new(after.get() / 5) },
    }
}

/// Puts an outage of this length in the place of the triggers: the services that clients call are
/// down from a quarter of the run on.
pub fn with_outage(scenario: &mut Scenario, outage: Nanos) {
    let at = Nanos::new(scenario.length.get() / 4);
    let length = outage.min(Nanos::new(scenario.length.get() / 2));
    let mut called: Vec<usize> =
        scenario.edges.iter().take(scenario.classes.len()).map(|e| e.to).collect();
    called.sort_unstable();
    called.dedup();
    let crash = |service| Trigger { kind: TriggerKind::Crash(service), at, length };
    scenario.triggers = called.into_iter().map(crash).collect();
    let after = scenario.length.saturating_sub(at.saturating_add(length));
    scenario.judge.window = scenario.judge.window.min(Nanos::new((after.get() / 5).max(1)));
}

/// Whether a text is a lab file rather than a policy.
#[must_use]
pub fn is_lab_file(text: &str) -> bool {
    let top = Node::parse("", text, Format::Toml);
    top.is_ok_and(|top| top.has("services") && top.has("clients"))
}

/// The folder that a file's names are relative to.
#[must_use]
pub fn folder(file: &str) -> Files {
    Files::in_folder(Path::new(file).parent().unwrap_or(Path::new(".")))
}
