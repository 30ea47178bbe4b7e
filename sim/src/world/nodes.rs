//! The nodes of a world: endpoints, engines, and the store where it has its own node.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use retrial::runtime::Runtime as _;
use retrial::store::DynStore;
use retrial::time::Nanos;

use super::action_network::{ActionNetwork, HTTP};
use super::node_watch::NodeWatch;
use super::order::OrderQueue;
use super::plan;
use super::program::{self, EngineSetup, Observations};
use super::recording_store::{Lost, RecordingStore};
use super::release::{NotOpened, Release, Releases, ThisRelease};
use crate::clock::true_now;
use crate::disk::SimDisk;
use crate::endpoint::Endpoint;
use crate::evidence::Steps;
use crate::incarnation::Incarnation;
use crate::net::Net;
use crate::node::{NodeParts, SimNode};
use crate::records::Records;
use crate::remote::{self, RemoteStore, StoreFaults};
use crate::runtime::SimRuntime;
use crate::scenario::{
    ENDPOINT_HOST, ENDPOINTS, MissingFunction, Place, STORE, Scenario, Topology,
};
use crate::trace::Kind;
use crate::user::{UserCode, World};

/// The store's port.
const STORE_PORT: u16 = 7_000;

/// Everything in a world that runs.
pub(super) struct Nodes {
    pub(super) net: Net,
    pub(super) endpoint: Endpoint,
    pub(super) store_faults: StoreFaults,
    /// The nodes, with their disks; endpoints first.
    pub(super) all: Vec<SimNode>,
    /// Where the engines take orders.
    pub(super) order_queues: Vec<OrderQueue>,
    own: Option<Arc<UserCode>>,
    releases: Releases,
}

/// The place of a node, and its store.
struct NodePlace {
    place: Place,
    /// Which of the scenario's clocks is its own.
    clock: usize,
    address: IpAddr,
    disk: Option<SimDisk>,
}

fn ip(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

impl Nodes {
    /// Builds and boots everything.
    pub(super) fn start(
        scenario: &Scenario,
        own: Option<(Arc<UserCode>, World)>,
        releases: Releases,
        observed: &Observations,
        records: &Records,
    ) -> Self {
        let (trace, strikes) = (records.trace.clone(), records.strikes.clone());
        let net = Net::new(scenario.seed, plan::network(scenario), trace.clone(), strikes.clone());
        let script = crate::endpoint::EndpointScript::of(scenario);
        let mut endpoint = Endpoint::new(ENDPOINTS, script, trace.clone(), strikes.clone());
        if let Some((own, world)) = &own {
            endpoint = endpoint.with_services(own.services(world), records.watchdog.clone());
        }
        let store_faults = StoreFaults::new(plan::store(scenario), trace, strikes);
        let (brought, world) = own.unzip();
        let (all, order_queues) = (Vec::new(), Vec::new());
        let mut nodes =
            Self { net, endpoint, store_faults, all, order_queues, own: brought, releases };
        nodes.start_endpoints(records);
        match scenario.topology {
            Topology::Embedded => nodes.start_embedded(scenario, observed, records),
            Topology::Shared { nodes: count } => {
                nodes.start_store(scenario, observed, records);
                (0..count.get()).for_each(|n| nodes.start_engine(scenario, n, observed, records));
            }
        }
        let engines = &nodes.all[nodes.all.len() - nodes.order_queues.len()..];
        nodes.endpoint.asked_by(engines);
        if let Some(world) = world {
            world.built(&nodes.net, engines);
        }
        nodes
    }

    fn start_endpoints(&mut self, records: &Records) {
        let (net, endpoint) = (self.net.clone(), self.endpoint.clone());
        net.add_node(ENDPOINTS, ip(100));
        net.add_alias(ENDPOINT_HOST, ENDPOINTS);
        let services = endpoint.services();
        services.iter().for_each(|host| net.add_alias(&ActionNetwork::name_of(host), ENDPOINTS));
        let parts = NodeParts {
            name: ENDPOINTS.to_owned(),
            ip: Some(ip(100)),
            plan: crate::runtime::RuntimePlan::default(),
            disk: None,
        };
        let node = SimNode::start(parts, records, move |_, incarnation| {
            let (net, endpoint) = (net.clone(), endpoint.clone());
            async move {
                if let Ok(listener) = net.listen(incarnation, HTTP).await {
                    // It ends only with the node.
                    let _ = endpoint.serve(listener).await;
                }
            }
        });
        self.all.push(node);
    }

    fn start_embedded(&mut self, scenario: &Scenario, observed: &Observations, records: &Records) {
        let place = Place::Node(0);
        let disk = SimDisk::new(&place.node(), plan::disk(scenario, place), records);
        let setup = self.setup(scenario, true, observed, records);
        let opened = disk.clone();
        let boot = move |runtime: SimRuntime, incarnation: Incarnation| {
            let (disk, setup) = (opened.clone(), setup.clone());
            async move {
                setup.net.node_restarted(incarnation.node());
                let records = setup.records.clone();
                let (seen, lost) = (setup.observed.seen.clone(), setup.observed.lost.clone());
                let of = incarnation.clone();
                let release = setup.releases.of(&of);
                let store =
                    open(release, runtime.clone(), disk, of.clone(), records, lost.clone()).await;
                let store = RecordingStore::new(store, seen.clone(), lost, of);
                let store = NodeWatch::new(store, seen, incarnation.clone());
                program::run(runtime, incarnation, DynStore::new(store), setup).await;
            }
        };
        let site = NodePlace { place, clock: 0, address: ip(1), disk: Some(disk) };
        self.add(scenario, site, records, boot);
    }

    /// The parts of the next engine's node.
    fn setup(
        &mut self,
        scenario: &Scenario,
        sole_owner: bool,
        observed: &Observations,
        records: &Records,
    ) -> EngineSetup {
        let order_queue = OrderQueue::default();
        let lacks = |l: &&MissingFunction| l.node as usize == self.order_queues.len();
        let missing_functions =
            scenario.missing_functions.iter().filter(lacks).map(|l| l.function.clone()).collect();
        self.order_queues.push(order_queue.clone());
        EngineSetup {
            lease: scenario.lease,
            places: scenario.places,
            attempt_timeout: scenario.attempt_timeout,
            quarantine_after: scenario.quarantine_after,
            lane_idle: scenario.lane_idle,
            sole_owner,
            secret: scenario.secrets.first().cloned(),
            missing_functions,
            net: self.net.clone(),
            observed: observed.clone(),
            records: records.clone(),
            order_queue,
            own: self.own.clone(),
            releases: self.releases.clone(),
        }
    }

    fn start_store(&mut self, scenario: &Scenario, observed: &Observations, records: &Records) {
        let place = Place::Store;
        let disk = SimDisk::new(STORE, plan::disk(scenario, place), records);
        let world =
            (self.net.clone(), self.store_faults.clone(), records.clone(), observed.clone());
        let opened = disk.clone();
        let boot = move |runtime: SimRuntime, incarnation: Incarnation| {
            let (net, faults, records, observed) = world.clone();
            let disk = opened.clone();
            async move {
                net.node_restarted(STORE);
                let (of, lost) = (incarnation.clone(), observed.lost);
                let this = Arc::new(ThisRelease);
                let store = open(this, runtime, disk, of.clone(), records, lost.clone()).await;
                let store = RecordingStore::new(store, observed.seen, lost, of);
                if let Ok(listener) = net.listen(incarnation, STORE_PORT).await {
                    // It ends only with the node.
                    let _ = remote::serve(Arc::new(store), listener, faults).await;
                }
            }
        };
        let clock = scenario.topology.clocks() as usize - 1;
        let site = NodePlace { place, clock, address: ip(50), disk: Some(disk) };
        self.add(scenario, site, records, boot);
    }

    fn start_engine(
        &mut self,
        scenario: &Scenario,
        number: u32,
        observed: &Observations,
        records: &Records,
    ) {
        let setup = self.setup(scenario, false, observed, records);
        let boot = move |runtime: SimRuntime, incarnation: Incarnation| {
            let setup = setup.clone();
            async move {
                setup.net.node_restarted(incarnation.node());
                let connector = setup.net.connector(incarnation.clone());
                let store = RemoteStore::new(runtime.clone(), connector, STORE, STORE_PORT);
                let seen = setup.observed.seen.clone();
                let store = NodeWatch::new(store, seen, incarnation.clone());
                program::run(runtime, incarnation, DynStore::new(store), setup).await;
            }
        };
        let address = ip(1 + u8::try_from(number).unwrap_or(0));
        let place = Place::Node(number);
        let site = NodePlace { place, clock: number as usize, address, disk: None };
        self.add(scenario, site, records, boot);
    }

    fn add<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        scenario: &Scenario,
        site: NodePlace,
        records: &Records,
        boot: impl Fn(SimRuntime, Incarnation) -> F + Send + Sync + 'static,
    ) {
        let NodePlace { place, clock, address, disk } = site;
        let name = place.node();
        self.net.add_node(&name, address);
        let plan = plan::runtime(scenario, clock);
        let parts = NodeParts { name, ip: Some(address), plan, disk };
        let node = SimNode::start(parts, records, boot);
        plan::lives(scenario, place, &node);
        self.all.push(node);
    }

    /// How far each engine's and store's node has come.
    pub(super) fn steps(&self) -> BTreeMap<String, Steps> {
        let nodes = self.all.iter().filter(|node| node.name() != ENDPOINTS);
        let steps = |node: &SimNode| Steps {
            polls: node.polls(),
            calls: node.disk().map_or(0, SimDisk::ops),
        };
        nodes.map(|node| (node.name().to_owned(), steps(node))).collect()
    }

    /// Has the store's node, or the only one, start once more.
    pub(super) async fn reopen_store(&self) {
        let with_disk = self.all.iter().find(|node| node.disk().is_some());
        if let Some(node) = with_disk {
            node.leave_and_return(Nanos::from_millis(50)).await;
        }
    }

    /// Ends every planned fault that has not struck.
    pub(super) fn heal(&self) {
        self.net.heal();
        self.endpoint.heal();
        self.store_faults.heal();
        self.all.iter().for_each(SimNode::heal);
    }
}

/// Opens the store on the node's disk, and tries again when the disk fails, as an operator restarts
/// a node.
async fn open(
    release: Arc<dyn Release>,
    runtime: SimRuntime,
    disk: SimDisk,
    incarnation: Incarnation,
    records: Records,
    lost: Lost,
) -> DynStore {
    loop {
        match release.open(runtime.clone(), disk.clone(), incarnation.clone()).await {
            Ok(store) => return store,
            Err(NotOpened { why, is_lost }) => {
                let text = format!("the store does not open: {why}");
                records.trace.record(true_now(), incarnation.node(), Kind::Note, &text, &[]);
                if is_lost {
                    lost.say();
                }
            }
        }
        runtime.sleep_until(runtime.now().after(Nanos::from_millis(200))).await;
    }
}
