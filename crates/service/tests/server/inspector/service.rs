//! What the service has of actions and of uploaded workflows.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use retrial::guard::{Breaker, Ended, GuardInput, GuardRules};
use retrial::policy::{Budget, Share};
use retrial::run::{Digest, RunId, TaskId, Token, Version};
use retrial::store::{Commit, CommitId, Committed, Create, Guarding, Holder, RunPhase, Store};
use retrial::time::Nanos;
use serde_json::json;

use crate::inspector::kit::{Inspected, nothing, one, tries};

/// Two attempts of `flaky` fail under a breaker that opens then, and a retry budget that holds one
/// token at first, of which each first attempt adds a quarter.
async fn guard(page: &Inspected) {
    let run = RunId::from_random(1, 1);
    let create = Create {
        run,
        key: None,
        digest: Digest::of(b""),
        id: Default::default(),
        workflow: "guarded".into(),
        events: vec![Bytes::from_static(b"{}")],
        queue: vec![],
        phase: RunPhase::Completed,
        redrives: None,
        fields: Default::default(),
    };
    page.store.create(create).await.unwrap();
    let breaker = Breaker::new(NonZeroU32::new(2), None, Nanos::from_secs(9_000), NonZeroU32::MIN);
    let budget = Budget { initial: 1, ..Budget::of_first_attempts(Share::QUARTER) };
    let rules = GuardRules {
        breaker: Some(breaker.unwrap()),
        retry_budget: Some(budget),
        ..GuardRules::default()
    };
    let inputs = (0..2).flat_map(|n| {
        let attempt = Holder { run, task: TaskId::FIRST, token: Token::from_random(n, n) };
        [
            GuardInput::Admit { attempt, first: true, tokens: 0 },
            GuardInput::Ended { attempt, how: Ended::Badly, refill: 0 },
        ]
    });
    let guarding =
        Guarding { action: "flaky".into(), rules: Arc::new(rules), inputs: inputs.collect() };
    let commit = Commit {
        id: CommitId { writer: 1, counter: 1 },
        run,
        expect: Version(1),
        fences: vec![],
        events: vec![],
        queue: vec![],
        results: vec![],
        letters: vec![],
        phase: RunPhase::Completed,
        snapshot: None,
        guards: vec![guarding],
        raised: vec![],
        creates: vec![],
    };
    let committed = page.store.commit(commit).await.unwrap();
    assert!(matches!(committed, Committed::Applied { .. }), "{committed:?}");
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c16_actions_show_their_rates_and_guards() {
    let page = Inspected::new();
    page.work_off(&one("w", "flaky", &tries(4)), &nothing());
    page.work_off(&one("w", "broken", &tries(1)), &nothing());
    page.open("#/actions");
    page.finds(".card", 2);
    let broken = &page.texts(".card")[0];
    assert!(broken.starts_with("broken"), "{broken}");
    for said in [
        "Retry rate, last hour0 %0 of 1 attempt",
        "Error rate, last hour100 %1 of 1 attempt",
        "400 1",
        "Last day1",
    ] {
        assert!(broken.contains(said), "{said}: {broken}");
    }
    let flaky = &page.texts(".card")[1];
    for said in [
        "Retry rate, last hour67 %2 of 3 attempts",
        "Error rate, last hour67 %2 of 3 attempts",
        "503 2",
    ] {
        assert!(flaky.contains(said), "{said}: {flaky}");
    }
    // The page follows what happens.
    page.block_on(guard(&page));
    page.says(".guards .phase", "open");
    page.says(".guards", "until in 2 h");
    page.says(".guards", "1.50 tokens");
    page.is_sound();
}

const PAY: &str = "workflow = \"pay\"\n[[steps]]\nid = \"only\"\naction = \"echo\"\n";

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn workflows_are_checked_uploaded_and_started() {
    let page = Inspected::new();
    page.open("#/workflows");
    page.says(".empty", "No workflow is uploaded.");
    page.browser.click(".form summary");
    page.browser.write("#upload-name", "pay");
    page.browser.write("#upload-text", "workflow = \"pay\"\n[[steps]]\nid = 7\n");
    page.browser.click("[data-do=check]");
    page.browser.wait("document.querySelector('.form .callout') !== null");
    let said = page.texts(".form .callout").concat();
    assert!(said.contains("2:1 steps.0.action"), "{said}");
    let text = json!(PAY);
    page.browser.run(&format!("document.getElementById('upload-text').value = {text}"));
    page.browser.click("[data-do=check]");
    page.says("#told", "It makes sense");
    page.browser.click("[data-do=upload]");
    page.says("pre", "[[steps]]");
    page.browser.write("#input", "{\"order\": 7");
    page.browser.click("[data-do=start]");
    page.says(".callout", "The input is no JSON");
    page.browser.write("#input", "}");
    page.browser.click("[data-do=start]");
    page.says("#told", "Started run");
    page.browser.click("#told a");
    page.says(".run-head .title", "pay");
    page.open("#/workflows");
    page.says(".list .row", "pay");
    page.is_sound();
}
