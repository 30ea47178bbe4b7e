//! Files of the simulation: capsules, and scenarios alone.

use retrial_sim::unstable::capsule::Capsule;
use retrial_sim::unstable::scenario::Scenario;

pub(crate) fn capsule(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Capsule::parse(text) {
        Ok(capsule) => {
            let written = serde_json::to_string(&capsule).unwrap();
            assert_eq!(Capsule::parse(&written), Ok(capsule));
        }
        Err(why) => assert!(!why.is_empty()),
    }
    if let Ok(scenario) = serde_json::from_str::<Scenario>(text) {
        let written = serde_json::to_string(&scenario).unwrap();
        assert_eq!(serde_json::from_str::<Scenario>(&written).unwrap(), scenario);
    }
}
