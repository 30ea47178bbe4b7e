//! The worlds of a user's check: the workflow, the functions and the services are the user's, the
//! rest is drawn.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use retrial::time::{Mono, Nanos};
use retrial::workflow::Workflow;
use serde_json::{Map, Value};

use super::user_workflow::UserPlan;
use super::{Draw, Swarm, replies};
use crate::fault::FaultKind;
use crate::scenario::{EndpointPlan, Reply, Scenario, Submission, UserPart, UserStrike};

/// The settings of a user's check.
#[derive(Clone, Debug)]
pub(crate) struct CheckPlan {
    /// The check's name.
    pub(crate) name: String,
    /// The workflow, and its `[simulate]` table.
    pub(crate) user: UserPlan,
    /// The hosts of the user's services.
    pub(crate) services: Vec<String>,
    /// How many runs are asked for; as the table says, or drawn, where absent.
    pub(crate) runs: Option<RangeInclusive<u32>>,
    /// Each run's input.
    pub(crate) input: Map<String, Value>,
    /// The longest that an attempt takes once all has healed.
    pub(crate) longest_attempt: Nanos,
    /// The most items of a list that the user's own code gives.
    pub(crate) longest_list: u64,
    /// The user's own kinds of faults.
    pub(crate) faults: Vec<UserKind>,
}

/// A kind of fault of a user's own.
#[derive(Clone, Debug)]
pub(crate) struct UserKind {
    pub(crate) name: String,
    pub(crate) longest: Nanos,
    pub(crate) most: u32,
}

/// Where the workflow of a check comes from.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    /// A file's name and text.
    File(String, String),
    /// Made in Rust.
    Made(Box<Workflow>),
}

impl CheckPlan {
    /// A plan that leaves all to chance.
    ///
    /// # Errors
    /// Everything that is wrong with the workflow.
    pub(crate) fn new(name: &str, text: Text, services: &BTreeSet<String>) -> Result<Self, String> {
        let user = match text {
            Text::File(file, text) => UserPlan::parse_own(&file, &text, services),
            Text::Made(workflow) => UserPlan::of(*workflow, services),
        }
        .map_err(|e| e.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            user,
            services: services.iter().cloned().collect(),
            runs: None,
            input: Map::new(),
            longest_attempt: Nanos::from_secs(60),
            longest_list: UserPart::longest_list(),
            faults: Vec::new(),
        })
    }

    /// The workflow of its runs.
    pub(crate) fn workflow(&self) -> Option<Workflow> {
        self.user.workflow()
    }

    /// The world of `seed`.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        let swarm = self.user.swarm(seed);
        let mut scenario = self.user.scenario(seed);
        if let Some(runs) = &self.runs {
            scenario.submissions = self.submissions(seed, &swarm, runs);
        }
        for asked in &mut scenario.submissions {
            asked.input.clone_from(&self.input);
        }
        let mut answers = Draw::new(seed, "services");
        scenario.endpoints.extend(self.services.iter().map(|host| EndpointPlan {
            path: host.clone(),
            scripts: vec![replies::trouble(&mut answers, &swarm)],
            then: Reply::SuccessTrue,
            cost: None,
        }));
        scenario.own = Some(UserPart {
            check: self.name.clone(),
            longest_attempt: self.longest_attempt,
            longest_list: self.longest_list,
            faults: self
                .faults
                .iter()
                .flat_map(|kind| strikes(seed, swarm.heal_at, kind))
                .collect(),
        });
        scenario
    }

    fn submissions(&self, seed: u64, swarm: &Swarm, runs: &RangeInclusive<u32>) -> Vec<Submission> {
        let mut draw = Draw::new(seed, "own runs");
        let half = Mono::from_nanos(swarm.heal_at.as_nanos() / 2);
        let count = draw.small(*runs.start(), *runs.end());
        let mut asked: Vec<Submission> = (0..count)
            .map(|_| Submission {
                at: draw.instant(half),
                node: draw.small(0, swarm.topology.nodes() - 1),
                workflow: 0,
                input: Map::new(),
                key: None,
            })
            .collect();
        asked.sort_by_key(|asked| asked.at);
        asked
    }

    /// Draws no other of the world's kinds of faults.
    pub(crate) fn limit_faults(&mut self, kinds: BTreeSet<FaultKind>) {
        self.user.limit_faults(kinds);
    }

    /// Runs on so many engines.
    pub(crate) fn on_nodes(&mut self, nodes: u32) {
        self.user.on_nodes(nodes);
    }

    /// Heals everything after so long.
    pub(crate) fn heal_after(&mut self, length: Nanos) {
        self.user.heal_after(length);
    }
}

/// Each kind has a separate stream: one more kind does not change the others.
fn strikes(seed: u64, heal_at: Mono, kind: &UserKind) -> Vec<UserStrike> {
    let mut draw = Draw::new(seed, &format!("own fault {}", kind.name));
    if !draw.chance(50) {
        return Vec::new();
    }
    let one = |draw: &mut Draw| UserStrike {
        name: kind.name.clone(),
        from: draw.instant(heal_at),
        lasts: Nanos::new(draw.between(kind.longest.get() / 100, kind.longest.get())),
        chance: draw.bits(),
    };
    let count = draw.small(1, kind.most.max(1));
    let mut found: Vec<UserStrike> = (0..count).map(|_| one(&mut draw)).collect();
    found.sort_by_key(|strike| strike.from);
    found
}
