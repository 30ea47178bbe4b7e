//! `preset = "google-sre"`, or a table with the preset's `name` and settings that change it.

use super::tree::{Data, Node, did_you_mean};
use super::{Diagnostic, Place, brief, settings};
use crate::policy::{Policy, PolicyParts, Preset};

/// Reads a preset's name, or a table that names one.
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    if let Data::Text(name) = &node.data {
        return named(&node.place, name).map(Preset::policy);
    }
    let known: Vec<&str> = ["name"].into_iter().chain(settings::KEYS).collect();
    let fields = node.fields(&known)?;
    let name = fields.require("name", "name one of the presets")?;
    let mut parts = PolicyParts::from(named(&name.place, name.text()?)?.policy());
    settings::read(&fields, &mut parts)?;
    super::policy_from(parts, &node.place)
}

/// The preset called `name`, said at `place`.
pub(super) fn named(place: &Place, name: &str) -> Result<Preset, Diagnostic> {
    Preset::named(name.trim()).ok_or_else(|| {
        let help = did_you_mean(name.trim(), Preset::ALL.map(Preset::name));
        place.error(format!("there is no preset `{}`", brief(name.trim()))).help_with(help)
    })
}
