//! What the tests share.

use std::path::Path;

use retrial_lab::measure::Measured;
use retrial_lab::model::Scenario;
use retrial_lab::read::{self, Files};
use retrial_lab::world;

/// The scenario of a text that is valid.
pub(crate) fn scenario(text: &str) -> Scenario {
    read::scenario("lab.toml", text, &Files::in_folder(Path::new("."))).unwrap_or_else(|found| {
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        panic!("{}", found.join("\n"))
    })
}

/// What one seed of a text measures.
pub(crate) fn run(text: &str) -> Measured {
    let scenario = scenario(text);
    world::run(&scenario, scenario.seed)
}
