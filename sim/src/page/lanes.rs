//! The lanes of a page, found by name.

use super::mask::Mask;
use super::model::{Lane, LaneKind};
use crate::scenario::{ENDPOINTS, Place, STORE, Scenario, Topology};

/// The lane of the users, as the history calls it.
const PEOPLE: &str = "users";

/// The lanes so far.
#[derive(Debug)]
pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    /// Every lane that a scenario is known to have.
    pub(super) fn of(scenario: &Scenario) -> Self {
        let mut lanes = Self(Vec::new());
        lanes.add(PEOPLE, LaneKind::People);
        for node in 0..scenario.topology.nodes() {
            lanes.add(&name(Place::Node(node)), LaneKind::Node);
        }
        if scenario.topology != Topology::Embedded {
            lanes.add(STORE, LaneKind::Store);
        }
        lanes.add(ENDPOINTS, LaneKind::Host);
        for endpoint in &scenario.endpoints {
            lanes.of_path(&endpoint.path);
        }
        lanes
    }

    fn add(&mut self, name: &str, kind: LaneKind) -> usize {
        self.0.push(Lane { name: name.to_owned(), kind });
        self.0.len() - 1
    }

    fn find(&mut self, name: &str, kind: LaneKind) -> usize {
        let found = self.0.iter().position(|lane| lane.name == name);
        found.unwrap_or_else(|| self.add(name, kind))
    }

    /// The lane that a history names.
    pub(super) fn of_name(&mut self, name: &str) -> usize {
        self.find(name, LaneKind::Other)
    }

    /// The lane of the users.
    pub(super) fn of_people(&mut self) -> usize {
        self.find(PEOPLE, LaneKind::People)
    }

    /// The lane of the endpoint with this path, with or without a query.
    pub(super) fn of_path(&mut self, path: &str) -> usize {
        let path = path.split('?').next().unwrap_or(path);
        self.find(path, LaneKind::Endpoint)
    }

    /// The lane of a fault's target.
    pub(super) fn of_place(&mut self, place: Place) -> usize {
        self.of_name(&name(place))
    }

    /// The lanes as they are shown.
    pub(super) fn named(self, mask: &Mask) -> Vec<Lane> {
        let lanes = self.0.into_iter();
        lanes.map(|lane| Lane { name: mask.text(&lane.name), ..lane }).collect()
    }
}

fn name(place: Place) -> String {
    place.node()
}
