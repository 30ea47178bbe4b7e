//! A world that fails although the engine is right: what an endpoint says is called a secret, and
//! the engine, which can't know, keeps it in an error.

use std::collections::BTreeMap;

use retrial::time::{Mono, Nanos};
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::page::Page;
use retrial_sim::unstable::scenario::{
    EndpointPlan, Fault, Format, Interventions, Jump, NodeClock, Place, Reply, Scenario,
    Submission, Topology, When, WorkflowText,
};
use retrial_sim::unstable::world::{ScenarioRun, run_with_evidence};

/// What no page may show.
pub(crate) const SECRET: &str = "hush4711";
/// Markup that would say so if it ran.
pub(crate) const HOSTILE: &str = "</script><script>window.planted = 1</script>\
     <img src=x onerror='window.planted = 1'>{{script}}<!--";

const WORKFLOW: &str = r#"workflow = "pay"

[actions.charge]
http = "POST http://api.test/charge"

[[steps]]
id = "charge"
action = "charge"
retry = "[retry: 5, backoff: 500ms] [timeout: 5s]"
"#;

pub(crate) fn at(millis: u64) -> Mono {
    Mono::from_nanos(Nanos::from_millis(millis).get())
}

fn busy(body: &str) -> Reply {
    Reply::Status { code: 503, retry_after: None, body: body.to_owned() }
}

/// The node pauses, dies and can't reach its endpoint for a while, and its clock jumps.
pub(crate) fn scenario() -> Scenario {
    let fault = |kind, peer, when, millis| {
        let (target, lasts) = (Place::Node(0), Nanos::from_millis(millis));
        Fault { kind, target, peer, when, lasts }
    };
    let refused = When::During { from: at(2_600), until: at(3_000) };
    Scenario {
        seed: 1,
        priorities: None,
        topology: Topology::Embedded,
        lease: Nanos::from_secs(30),
        clocks: vec![NodeClock {
            jumps: vec![Jump { at: at(700), by_ns: -5_000_000_000 }],
            ..NodeClock::default()
        }],
        workflows: vec![WorkflowText {
            format: Format::Toml,
            text: WORKFLOW.to_owned(),
            actions: None,
            builder: BTreeMap::new(),
        }],
        endpoints: vec![EndpointPlan {
            path: "/charge".to_owned(),
            scripts: vec![vec![busy(HOSTILE), busy(SECRET)]],
            then: Reply::Echo,
            cost: None,
        }],
        submissions: vec![Submission {
            at: at(500),
            node: 0,
            workflow: 0,
            input: serde_json::Map::new(),
            key: None,
        }],
        cancels: vec![],
        deactivations: vec![],
        interventions: Interventions::default(),
        places: None,
        attempt_timeout: None,
        quarantine_after: None,
        lane_idle: None,
        sync_takes: None,
        missing_functions: vec![],
        faults: vec![
            fault(FaultKind::Crash, None, When::At(at(1_300)), 400),
            fault(FaultKind::Refuse, Some(Place::Endpoints), refused, 0),
            fault(FaultKind::Pause, None, When::At(at(4_000)), 500),
        ],
        heal_at: at(6_000),
        endpoints_heal: true,
        own: Default::default(),
        fork: None,
        secrets: vec![SECRET.to_owned()],
    }
}

pub(crate) fn lived() -> ScenarioRun {
    run_with_evidence(scenario(), true)
}

pub(crate) fn page() -> Page {
    Page::of(&scenario(), &lived())
}
