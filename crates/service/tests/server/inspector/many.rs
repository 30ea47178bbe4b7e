//! A store with many runs.

use bytes::Bytes;
use retrial::run::{Digest, RunId};
use retrial::store::{Create, RunPhase, Store};
use serde_json::json;

use crate::inspector::kit::{Inspected, nothing, one};

const MANY: u64 = 100_000;

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_hundred_thousand_runs_are_a_page_and_a_search() {
    let page = Inspected::new();
    page.block_on(async {
        for n in 0..MANY {
            let create = Create {
                run: RunId::from_random(n.wrapping_mul(0x9E37_79B9_7F4A_7C15), n),
                key: None,
                digest: Digest::of(b""),
                id: Default::default(),
                workflow: if n == 4_711 { "needle".into() } else { format!("flow {}", n % 40) },
                events: vec![Bytes::new()],
                queue: vec![],
                phase: if n % 10 == 0 { RunPhase::Failed } else { RunPhase::Completed },
                redrives: None,
                fields: Default::default(),
            };
            page.store.create(create).await.unwrap();
        }
    });
    let newest = page.work_off(&one("newest", "echo", ""), &nothing());
    page.open("");
    page.finds(".runs tbody tr", 50);
    page.says(".runs .row", "newest");
    page.says("[data-phase='']", "100,001");
    page.says("[data-phase=failed] .n", "10,000");
    let elements = page.value("document.querySelectorAll('*').length").as_u64().unwrap();
    assert!(elements < 2_000, "{elements} elements");
    page.browser.write("#search", "needle");
    page.finds(".runs tbody tr", 1);
    assert_eq!(page.texts(".runs .row"), ["needle"]);
    page.browser.run("document.getElementById('search').value = ''");
    page.browser.write("#search", &newest);
    page.says(".runs .row", "newest");
    page.finds(".runs tbody tr", 1);
    page.open("#/runs?phase=failed");
    page.finds(".runs tbody tr", 50);
    for _ in 0..3 {
        let first = json!(page.texts(".runs .id")[0]);
        page.browser.press(&["n"]);
        page.browser.wait(&format!("document.querySelector('.runs .id').textContent !== {first}"));
        page.finds(".runs tbody tr", 50);
    }
    page.is_sound();
}
