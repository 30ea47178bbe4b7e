//! What surrounds the steps: input, actions, defaults, the simulation's table.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::action::{self, KINDS};
use super::{EndpointPlace, guard};
use crate::dialect::tree::{Fields, Format, Node, did_you_mean_one_of};
use crate::dialect::{Diagnostic, Diagnostics, Environment, Errors, Place, brief, policy};
use crate::policy::{Defaults, Policy};
use crate::workflow::{Action, MAX_VALUE, SearchFields, Webhook};

/// What a file declares beside its steps.
#[derive(Clone, Debug, Default)]
pub struct Declarations {
    /// Default inputs.
    pub input: Map<String, Value>,
    /// The fields of the input by which runs are found.
    pub search: SearchFields,
    /// The actions by name.
    pub actions: BTreeMap<String, Action>,
    /// The policies for steps without their own.
    pub defaults: Defaults,
    /// The `[simulate]` table as it stands.
    pub simulate: Option<Value>,
    /// By action, the one that receives its alerts.
    pub(super) webhooks: BTreeMap<String, Named>,
    /// By action, where its endpoint stands.
    pub(in crate::dialect) endpoints: BTreeMap<String, EndpointPlace>,
}

/// The name of an action, and where it stands.
#[derive(Clone, Debug)]
pub(in crate::dialect) struct Named {
    pub(in crate::dialect) name: String,
    pub(in crate::dialect) place: Place,
}

const KEYS: [&str; 5] = ["input", "search", "actions", "defaults", "simulate"];

/// Parses a file of actions for an IR program: `[actions.NAME]`, `[input]`, `search`, `[defaults]`
/// and `[simulate]` as in a workflow file.
///
/// # Errors
/// Everything that is wrong with the text.
pub fn parse_actions(file: &str, text: &str, format: Format) -> Result<Declarations, Diagnostics> {
    let top = Node::parse(file, text, format)?;
    let mut errors = Errors::default();
    let fields = errors.fields(&top, &KEYS)?;
    let declared = Declarations::read(&fields, &mut errors);
    errors.or(declared)
}

impl Declarations {
    /// Reads the tables that are there; what is wrong goes to `errors`.
    pub(super) fn read(fields: &Fields<'_>, errors: &mut Errors) -> Self {
        let input = fields.get("input").map(Node::to_json_object).unwrap_or_else(|| Ok(Map::new()));
        let simulate = fields.get("simulate").map(|n| n.to_json_object().map(Value::Object));
        let (actions, by_action) = actions(fields, errors);
        let declared = Self {
            input: errors.keep(input).unwrap_or_default(),
            search: errors.keep(search(fields)).unwrap_or_default(),
            webhooks: webhooks(fields, errors),
            actions,
            endpoints: endpoints(fields),
            defaults: Defaults { by_action, ..defaults(fields, errors) },
            simulate: errors.keep(simulate.transpose()).flatten(),
        };
        errors.keep(declared.bounded());
        declared
    }

    /// Whether the webhooks are small: each is stored whole with every action that names it.
    fn bounded(&self) -> Result<(), Diagnostic> {
        let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
        let mut left = MAX_VALUE;
        for named in self.webhooks.values() {
            let size = || {
                let webhook = self.webhook(named, &self.defaults);
                webhook.and_then(|w| serde_json::to_vec(&w).ok()).map_or(0, |text| text.len())
            };
            let size = *sizes.entry(named.name.as_str()).or_insert_with(size);
            left = left.checked_sub(size).ok_or_else(|| {
                let most = MAX_VALUE / 1024;
                let message = format!("the webhooks take more than {most} KiB");
                named.place.error(message).help_with(format!(
                    "each action keeps its webhook, here of {size} bytes: shorten its headers and policy, or let fewer actions have one"
                ))
            })?;
        }
        Ok(())
    }

    /// A webhook has the policy of a step that sets none.
    fn webhook(&self, named: &Named, defaults: &Defaults) -> Option<Webhook> {
        let action = self.actions.get(&named.name)?;
        let (policy, origin) = defaults.resolve(None, &named.name, action.kind);
        Some(Webhook::new(named.name.as_str(), action.clone(), policy, origin))
    }

    /// The actions, each with the webhook that receives its alerts.
    pub(in crate::dialect) fn actions_in(
        &self,
        environment: &Environment,
    ) -> BTreeMap<String, Action> {
        let defaults = self.defaults_in(environment);
        let webhook = |of: &String| self.webhook(self.webhooks.get(of)?, &defaults);
        let with = |(name, action): (&String, &Action)| {
            (name.clone(), Action { webhook: webhook(name), ..action.clone() })
        };
        self.actions.iter().map(with).collect()
    }

    /// The webhooks that are named.
    pub(in crate::dialect) fn webhooks(&self) -> impl Iterator<Item = &Named> {
        self.webhooks.values()
    }

    /// The defaults, with those of the environment where the file has no global one.
    #[must_use]
    pub(crate) fn defaults_in(&self, environment: &Environment) -> Defaults {
        let mut defaults = self.defaults.clone();
        defaults.global = defaults.global.or_else(|| environment.global().cloned());
        defaults
    }
}

/// The fields by which runs are found; a name that can't be one is shown where it stands.
fn search(fields: &Fields<'_>) -> Result<SearchFields, Diagnostic> {
    let Some(node) = fields.get("search") else { return Ok(SearchFields::default()) };
    let names = node.names()?;
    for item in node.items()? {
        SearchFields::new([item.name()?]).map_err(|wrong| item.place.refuse(&wrong))?;
    }
    SearchFields::new(names).map_err(|wrong| node.place.refuse(&wrong))
}

/// The actions by name, and the policies of those that have one.
fn actions(
    fields: &Fields<'_>,
    errors: &mut Errors,
) -> (BTreeMap<String, Action>, BTreeMap<String, Policy>) {
    let (mut actions, mut policies) = (BTreeMap::new(), BTreeMap::new());
    let entries = fields.get("actions").map_or(Ok([].as_slice()), Node::entries);
    let entries = errors.keep(entries).unwrap_or_default();
    for entry in entries {
        if errors.is_full() {
            break;
        }
        let Some((action, policy)) = errors.read(&entry.node, action::read) else { continue };
        actions.insert(entry.key.clone(), action);
        policies.extend(policy.map(|policy| (entry.key.clone(), policy)));
    }
    (actions, policies)
}

fn endpoints(fields: &Fields<'_>) -> BTreeMap<String, EndpointPlace> {
    let entries = fields.get("actions").and_then(|n| n.entries().ok()).unwrap_or_default();
    entries.iter().filter_map(|e| Some((e.key.clone(), action::endpoint_place(&e.node)?))).collect()
}

/// The webhook of each action: another action, by its name.
fn webhooks(fields: &Fields<'_>, errors: &mut Errors) -> BTreeMap<String, Named> {
    let entries = fields.get("actions").and_then(|n| n.entries().ok()).unwrap_or_default();
    let names: BTreeSet<&str> = entries.iter().map(|e| e.key.as_str()).collect();
    let read = |of: &str, node: &Node| {
        let name = node.name()?;
        if name == of {
            let error = node.place.error("an action can't be the webhook of its own alerts");
            return Err(error.help_with("name another action: this one is failing"));
        }
        if !names.contains(name) {
            let others = entries.iter().map(|e| e.key.as_str()).filter(|k| *k != of);
            let message = format!("there is no action `{}` in [actions]", brief(name));
            let error = node.place.error(message);
            return Err(error.help_with(did_you_mean_one_of(name, others)));
        }
        Ok(Named { name: name.to_owned(), place: node.place.clone() })
    };
    let named = entries.iter().filter_map(|e| Some((&e.key, guard::webhook(&e.node)?)));
    let mut webhooks = BTreeMap::new();
    for (of, node) in named {
        if errors.is_full() {
            break;
        }
        webhooks.extend(errors.keep(read(of, node)).map(|name| (of.clone(), name)));
    }
    webhooks
}

/// `[defaults]`: at most one dialect's key for all, and a table with one for each kind.
fn defaults(fields: &Fields<'_>, errors: &mut Errors) -> Defaults {
    let Some(node) = fields.get("defaults") else { return Defaults::default() };
    let known: Vec<&str> = policy::KEYS.into_iter().chain(KINDS.map(|(name, _)| name)).collect();
    let own = |node: &Node, known: &[&str]| node.fields(known).and_then(|f| policy::own(&f));
    let global = errors.read(node, |node| own(node, &known)).flatten();
    let Ok(fields) = node.any_fields() else { return Defaults::default() };
    let mut defaults = Defaults { global, ..Defaults::default() };
    for (name, kind) in KINDS {
        let Some(node) = fields.get(name) else { continue };
        if let Some(policy) = errors.read(node, |node| own(node, &policy::KEYS)).flatten() {
            defaults.by_kind.insert(kind, policy);
        }
    }
    defaults
}
