//! The answers of an endpoint, as plain data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::runtime::mix;
use crate::scenario::{Reply, Scenario};

/// The answers of one endpoint, by path. A path without a route is answered with 404.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EndpointScript {
    /// The routes, by path with its leading slash.
    #[serde(default)]
    pub routes: BTreeMap<String, Route>,
    /// Whether healing makes it answer well. Set it to false to study what never recovers.
    #[serde(default = "yes")]
    pub heals: bool,
}

fn yes() -> bool {
    true
}

/// No routes; heals.
impl Default for EndpointScript {
    fn default() -> Self {
        Self { routes: BTreeMap::new(), heals: true }
    }
}

impl EndpointScript {
    /// The answers of a scenario's endpoints.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let route = |e: &crate::scenario::EndpointPlan| Route {
            scripts: e.scripts.clone(),
            then: e.then.clone(),
            cost: e.cost,
        };
        let routes = scenario.endpoints.iter().map(|e| (e.path.clone(), route(e)));
        Self { routes: routes.collect(), heals: scenario.endpoints_heal }
    }

    /// The route of a path, or of the nearest path above it that has one.
    #[must_use]
    pub fn route(&self, path: &str) -> Option<&Route> {
        upwards(path).find_map(|path| self.routes.get(path))
    }
}

/// A path, and each one above it.
pub(crate) fn upwards(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0))
}

/// The answers to one path. The k-th distinct receipt token that arrives follows
/// `scripts[k % len]`: its n-th arrival gets the n-th reply. Requests without a token share one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The first replies, by script.
    #[serde(default)]
    pub scripts: Vec<Vec<Reply>>,
    /// The reply to everything after them.
    #[serde(default = "success")]
    pub then: Reply,
    /// The cost that an answer to a first arrival names, in millionths; one to the n-th after it names n
    /// more.
    #[serde(default)]
    pub cost: Option<u64>,
}

fn success() -> Reply {
    Reply::SuccessTrue
}

/// Success, always.
impl Default for Route {
    fn default() -> Self {
        Self { scripts: Vec::new(), then: success(), cost: None }
    }
}

impl Route {
    /// The answers of one script to every token.
    #[must_use]
    pub fn one(replies: Vec<Reply>, then: Reply) -> Self {
        Self { scripts: vec![replies], then, cost: None }
    }

    /// The reply to the `arrival`-th request of the `token`-th token, both from 0.
    #[must_use]
    pub fn reply(&self, token: usize, arrival: u64) -> &Reply {
        let script = self.scripts.get(token % self.scripts.len().max(1));
        let listed = script.zip(usize::try_from(arrival).ok()).and_then(|(s, n)| s.get(n));
        listed.unwrap_or(&self.then)
    }

    /// The same, or what is drawn of `fork`: the world's chance after its fork, if it has come to it.
    #[must_use]
    pub fn chosen(&self, fork: Option<u64>, token: usize, arrival: u64) -> Reply {
        match fork {
            None => self.reply(token, arrival).clone(),
            Some(chance) => self.redrawn(mix(mix(chance, token as u64), arrival)),
        }
    }

    /// The reply to a request after the world's fork: as good as once healed, or else any of the
    /// scripts', or a failure that all of them may give.
    fn redrawn(&self, chance: u64) -> Reply {
        let failure = Reply::Status { code: 503, retry_after: None, body: "redrawn".to_owned() };
        let mut others: Vec<_> = self.scripts.iter().flatten().chain([&failure]).cloned().collect();
        match chance % 2 {
            0 => self.healed(),
            _ => {
                let nth = usize::try_from((chance >> 1) % others.len() as u64).unwrap_or(0);
                others.swap_remove(nth)
            }
        }
    }

    /// The reply once healed: the last one where that is a success, else a plain success.
    #[must_use]
    pub fn healed(&self) -> Reply {
        if self.then.is_success() { self.then.clone() } else { success() }
    }
}
