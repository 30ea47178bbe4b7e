use retrial::run::Event;
use retrial_sim::unstable::evidence::Output;
use retrial_sim::unstable::oracle::silence::{SECRET_SHOWN, SECRET_STORED, judge};

use crate::kit::{Script, found, healthy, recovered};

const SECRET: &str = "s3cr3t/\"x\"";

fn world(source: &str, text: &str) -> Script {
    let mut script = recovered();
    script.world.secrets.push(SECRET.to_owned());
    let output = Output { source: source.to_owned(), text: text.to_owned() };
    script.world.outputs.push(output);
    script
}

#[test]
fn masked_outputs_pass() {
    healthy(&judge(&world("printer", "login failed for password=[masked]").world));
}

#[test]
fn c14_a_secret_in_any_spelling_is_found() {
    let plain = format!("one\ntwo {SECRET}");
    let json = serde_json::json!({ "message": SECRET }).to_string();
    for text in [plain.as_str(), json.as_str(), "https://a:s3cr3t%2F%22x%22@db/"] {
        let report = judge(&world("json", text).world);
        found(&report, SECRET_SHOWN);
        assert!(!report.findings[0].text.contains("s3cr3t"), "the finding shows it again");
    }
    let report = judge(&world("printer", &plain).world);
    assert!(report.findings[0].text.contains("line 2"), "{:?}", report.findings);
}

#[test]
fn c14_a_secret_in_a_stored_error_is_found() {
    let script = world("printer", "").alter(|r| {
        if let Event::AttemptFailed { failure, .. } = &mut r.event {
            let raw = serde_json::json!({
                "code": "503", "message": format!("token {SECRET}"), "lineage": [], "class": "retryable"
            });
            *failure = serde_json::from_value(raw).unwrap();
        }
    });
    found(&judge(&script.world), SECRET_STORED);
}

#[test]
fn decision_20_inputs_are_stored_as_they_are() {
    let script = world("printer", "").alter(|r| {
        if let Event::RunCreated { input, .. } = &mut r.event {
            input.insert("password".to_owned(), SECRET.into());
        }
    });
    healthy(&judge(&script.world));
}
