//! `[[steps]]`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::action::heartbeat_timeout;
use super::condition::About;
use super::{Declarations, StepPlace, condition, quorum};
use crate::dialect::tree::{Data, Fields, Node, did_you_mean_one_of};
use crate::dialect::{Diagnostic, Environment, Errors, Place, brief, policy};
use crate::policy::Defaults;
use crate::workflow::{MAX_STEPS, Quorum, Root, Step, StepIx, Template, WorkflowError};

pub(in crate::dialect) const KEYS: [&str; 13] = [
    "id",
    "action",
    "args",
    "after",
    "join",
    "for_each",
    "success",
    "fail_fast",
    "goal",
    "requires",
    "ensures",
    "compensates",
    "heartbeat_timeout",
];
/// Those that a graph may be refused for.
const PLACED: [&str; 3] = ["join", "success", "compensates"];

/// The ids of all steps.
#[derive(Debug, Default)]
pub(super) struct Ids<'n> {
    /// In text order; empty for a step that has none.
    all: Vec<&'n str>,
    /// The first place of each.
    at: BTreeMap<&'n str, StepIx>,
}

impl<'n> Ids<'n> {
    /// The ids of all steps; empty where there is none to read.
    pub(super) fn read(fields: &Fields<'n>, errors: &mut Errors) -> Self {
        let steps = fields.require("steps", "add at least one step").and_then(Node::items);
        let Some(steps) = errors.keep(steps) else { return Self::default() };
        if steps.len() > MAX_STEPS {
            let error = WorkflowError::TooManySteps { count: steps.len(), most: MAX_STEPS };
            let place = fields.get("steps").map_or(fields.place(), |n| &n.place);
            errors.push(place.refuse(&error));
            return Self::default();
        }
        // A step that is no table, or has no id, is reported when the steps are read.
        let id = |n: &'n Node| match &n.data {
            Data::Table(entries) => {
                let id = entries.iter().find(|e| e.key == "id");
                id.and_then(|e| e.node.text().ok()).unwrap_or_default()
            }
            _ => "",
        };
        let all: Vec<&str> = steps.iter().map(id).collect();
        let places: Vec<(&str, StepIx)> = all.iter().copied().zip((0..).map(StepIx)).collect();
        // Of steps with the same id the first stays.
        Self { all, at: places.into_iter().rev().collect() }
    }

    /// The place of the step called `id`, or that there is none, said at `place`.
    pub(super) fn find(&self, id: &str, place: &Place) -> Result<StepIx, Diagnostic> {
        self.at.get(id).copied().ok_or_else(|| {
            let help =
                did_you_mean_one_of(id, self.all.iter().copied().filter(|id| !id.is_empty()));
            place.error(format!("there is no step `{}`", brief(id))).help_with(help)
        })
    }

    /// The place of the step that `node` names.
    pub(super) fn place_of(&self, node: &Node) -> Result<StepIx, Diagnostic> {
        self.find(node.name()?, &node.place)
    }
}

/// The steps and where their parts stand.
pub(super) fn read<'n>(
    fields: &Fields<'n>,
    ids: &Ids<'_>,
    declared: &Declarations,
    environment: &Environment,
    errors: &mut Errors,
) -> (Vec<Step>, Vec<StepPlace<'n>>) {
    let nodes = fields.get("steps").and_then(|n| n.items().ok()).unwrap_or_default();
    let fans_out = |n: &Node| n.entries().is_ok_and(|all| all.iter().any(|e| e.key == "for_each"));
    let fanned = (0..)
        .zip(nodes.iter().take(ids.all.len()))
        .filter(|(_, n)| fans_out(n))
        .map(|(at, _)| StepIx(at));
    let defaults = declared.defaults_in(environment);
    let reader = Reader { ids, fanned: fanned.collect(), declared, defaults };
    let (mut steps, mut places) = (Vec::new(), Vec::new());
    for node in nodes.iter().take(ids.all.len()) {
        if errors.is_full() {
            break;
        }
        match reader.step(node) {
            Ok((step, place)) => {
                steps.push(step);
                places.push(place);
            }
            Err(first) => errors.rest(node, first, |rest| reader.step(rest).map(drop)),
        }
    }
    (steps, places)
}

struct Reader<'r> {
    ids: &'r Ids<'r>,
    /// The steps that fan out.
    fanned: BTreeSet<StepIx>,
    declared: &'r Declarations,
    defaults: Defaults,
}

impl Reader<'_> {
    fn step<'n>(&self, node: &'n Node) -> Result<(Step, StepPlace<'n>), Diagnostic> {
        let known: Vec<&str> = KEYS.into_iter().chain(policy::KEYS).collect();
        let fields = node.fields(&known)?;
        let id = fields.require("id", "give the step a name of its own")?;
        let action = fields.require("action", "name what the step invokes")?;
        let declared = self.declared.actions.get(action.name()?);
        let kind = declared.map(|a| a.kind).unwrap_or_default();
        let (policy, origin) = self.defaults.resolve(policy::own(&fields)?, action.name()?, kind);
        let flag = |key: &str| fields.get(key).map_or(Ok(false), Node::boolean);
        let (args, for_each) = (fields.get("args"), fields.get("for_each"));
        let quorum = |key: &str| fields.get(key).map_or(Ok(Quorum::All), quorum::read);
        let compensates = fields.get("compensates").map(|n| self.ids.place_of(n)).transpose()?;
        let item = for_each.is_some() || compensates.is_some_and(|of| self.fanned.contains(&of));
        let scope = Scope { item, result: compensates.is_some() };
        let about = if item { About::Item } else { About::Attempt };
        let (requires, ensures) = (fields.get("requires"), fields.get("ensures"));
        let condition =
            |n: Option<&Node>, about| n.map(|n| condition::read(n, about, self.ids)).transpose();
        let step = Step {
            id: step_id(id)?,
            action: action.name()?.to_owned(),
            args: arguments(args, scope)?,
            after: fields.get("after").map_or(Ok(Vec::new()), |n| self.after(n))?,
            join: quorum("join")?,
            for_each: for_each.map(fan_out).transpose()?,
            success: quorum("success")?,
            fail_fast: flag("fail_fast")?,
            goal: flag("goal")?,
            requires: condition(requires, About::Step)?,
            ensures: condition(ensures, about)?,
            compensates,
            heartbeat_timeout: heartbeat_timeout(&fields, declared.map(|a| &a.target))?,
            policy,
            origin,
        };
        let texts = [args, for_each, requires, ensures].into_iter().flatten().collect();
        let after = fields.get("after").unwrap_or(id).place.clone();
        let keys = PLACED.iter().filter_map(|k| Some((*k, fields.get(k)?.place.clone())));
        let own = fields.at_most_one(&policy::KEYS)?;
        let place = StepPlace {
            id: id.place.clone(),
            after,
            action: action.place.clone(),
            keys: keys.collect(),
            policy: own.map_or(&id.place, |(_, node)| &node.place).clone(),
            texts,
        };
        Ok((step, place))
    }

    /// One id or a list of them.
    fn after(&self, node: &Node) -> Result<Vec<StepIx>, Diagnostic> {
        match &node.data {
            Data::Text(_) => Ok(vec![self.ids.place_of(node)?]),
            _ => node.items()?.iter().map(|n| self.ids.place_of(n)).collect(),
        }
    }
}

/// What a step's arguments can read besides the run's state.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// The fanned-out item and its place.
    item: bool,
    /// The result that a compensation undoes.
    result: bool,
}

/// An id can stand in `${steps.ID.result}`.
fn step_id(node: &Node) -> Result<String, Diagnostic> {
    let id = node.name()?;
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    if id.chars().all(is_plain) && id.chars().count() <= 100 {
        return Ok(id.to_owned());
    }
    Err(node
        .place
        .error(format!("{:?} is not an id", brief(id)))
        .help_with("use up to 100 letters, digits, `_` and `-`")
        .of_value())
}

fn arguments(node: Option<&Node>, scope: Scope) -> Result<Template, Diagnostic> {
    let Some(node) = node else { return Ok(Template::default()) };
    let raw = Value::Object(node.to_json_object()?);
    check_templates(node, scope)?;
    Template::try_from(raw).map_err(|e| node.place.refuse(&e))
}

/// A reference that gives a list, or a list.
fn fan_out(node: &Node) -> Result<Template, Diagnostic> {
    let error = || {
        node.place
            .error("expected a reference to a list, or a list")
            .help_with("write ${input.NAME} or ${steps.ID.result.NAME}")
    };
    check_templates(node, Scope::default())?;
    let template = Template::try_from(node.to_json()?).map_err(|e| node.place.refuse(&e))?;
    match &node.data {
        Data::List(_) => Ok(template),
        Data::Text(text) if text.starts_with("${") && text.find('}') == Some(text.len() - 1) => {
            Ok(template)
        }
        _ => Err(error()),
    }
}

/// Checks each text's references where it stands. `${item}` and `${index}` need a fan-out.
fn check_templates(node: &Node, scope: Scope) -> Result<(), Diagnostic> {
    match &node.data {
        Data::Text(text) => check_text(&node.place, text, scope),
        Data::List(items) => items.iter().try_for_each(|n| check_templates(n, scope)),
        Data::Table(entries) => entries.iter().try_for_each(|e| check_templates(&e.node, scope)),
        _ => Ok(()),
    }
}

/// `{{input.x}}`, as other tools write a reference: it would be sent as it is.
fn foreign_reference(text: &str) -> Option<&str> {
    let parts = text.split("{{").skip(1).filter_map(|after| after.split("}}").next());
    parts
        .map(str::trim)
        .find(|path| Template::try_from(Value::from(format!("${{{path}}}"))).is_ok())
}

fn check_text(place: &Place, text: &str, scope: Scope) -> Result<(), Diagnostic> {
    if let Some(path) = foreign_reference(text) {
        let error = format!("`{{{{{}}}}}` is not a reference here", brief(path));
        return Err(place.error(error).help_with(format!("write ${{{}}}", brief(path))));
    }
    let template = Template::try_from(Value::String(text.to_owned()));
    let template = template.map_err(|e| place.refuse(&e))?;
    let is_item = |root: &Root| matches!(root, Root::Item | Root::Index);
    let paths = template.paths();
    if let Some(path) = paths.iter().find(|p| !scope.item && is_item(p.root())) {
        let (where_, help) = match scope.result {
            false => ("in the arguments of a fanned-out step", "add `for_each` to the step"),
            true => ("where the step that is undone fans out", "use ${result}"),
        };
        let only = format!("`{}` exists only {where_}", brief(&path.to_string()));
        return Err(place.error(only).help_with(help));
    }
    match paths.iter().find(|p| !scope.result && *p.root() == Root::Result) {
        Some(path) => Err(place
            .error(format!(
                "`{}` exists only in `ensures` and in a compensation",
                brief(&path.to_string())
            ))
            .help_with("use ${steps.ID.result}")),
        None => Ok(()),
    }
}
