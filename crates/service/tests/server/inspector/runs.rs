//! The list of runs: live, searched, filtered, in pages.

use crate::inspector::kit::{Inspected, nothing, one, tries};

const ROWS: &str = ".runs tbody tr";
const NAMES: &str = ".runs .row";

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn the_list_follows_what_happens() {
    let page = Inspected::new();
    page.open("");
    page.says(".empty", "No runs yet.");
    page.browser.run("window.still_here = true");
    let run = page.submit(&one("gatehouse", "gated", ""), &nothing());
    page.says(ROWS, "gatehouse");
    page.says(&format!("{ROWS} .phase"), "running");
    page.says("[data-phase=running] .n", "1");
    // The focus stays where it is while the row changes.
    page.browser.run("document.querySelector('.runs .row').focus()");
    page.pass();
    page.ended(&run);
    page.says(&format!("{ROWS} .phase"), "completed");
    page.says("[data-phase=completed] .n", "1");
    page.says("[data-phase=running] .n", "0");
    assert_eq!(page.value("document.activeElement.className"), "row");
    page.submit(&one("second", "echo", ""), &nothing());
    page.finds(ROWS, 2);
    assert_eq!(page.texts(NAMES), ["second", "gatehouse"], "newest first");
    page.says("#live", "Live");
    assert_eq!(page.value("window.still_here"), true, "the page was not loaded again");
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn search_finds_by_id_and_by_workflow() {
    let page = Inspected::new();
    let runs = ["pay_order", "ship_order", "nightly"];
    let runs = runs.map(|name| page.work_off(&one(name, "echo", ""), &nothing()));
    page.open("");
    page.finds(ROWS, 3);
    page.browser.write("#search", "ORDER");
    page.finds(ROWS, 2);
    assert_eq!(page.texts(NAMES), ["ship_order", "pay_order"]);
    page.browser.run("document.getElementById('search').value = ''");
    page.browser.write("#search", &runs[2][..18]);
    page.finds(ROWS, 1);
    assert_eq!(page.texts(NAMES), ["nightly"]);
    assert_eq!(page.value("document.activeElement.id"), "search", "one goes on typing");
    let declared =
        one("nightly", "echo", "").replace("[[steps]]", "search = [\"says\"]\n[[steps]]");
    page.work_off(&declared, &nothing());
    page.browser.run("document.getElementById('search').value = ''");
    page.browser.write("#search", "says=no");
    page.finds(ROWS, 1);
    assert_eq!(page.texts(NAMES), ["nightly"]);
    page.browser.write("#search", "zzz");
    page.says(".empty", "No run is like that.");
    // A search is an address.
    page.open(&format!("#/runs?q={}", &runs[0]));
    page.finds(ROWS, 1);
    assert_eq!(page.value("document.getElementById('search').value"), runs[0].as_str());
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn filters_hold_what_was_asked() {
    let page = Inspected::new();
    page.work_off(&one("good", "echo", ""), &nothing());
    page.work_off(&one("bad", "broken", &tries(1)), &nothing());
    page.open("");
    page.finds(ROWS, 2);
    page.browser.click("[data-phase=failed]");
    page.finds(ROWS, 1);
    assert_eq!(page.texts(NAMES), ["bad"]);
    assert_eq!(page.texts(".filter[aria-pressed=true]"), ["failed1"]);
    page.browser.click("[data-phase=cancelled]");
    page.says(".empty", "No run is like that.");
    page.browser.click("[data-do=letters]");
    page.finds(ROWS, 1);
    page.says("#waiting", "1");
    page.browser.run("history.back()");
    page.says(".empty", "No run is like that.");
    // An error code leads to the runs that have it, until it is taken away.
    page.open("");
    page.finds(ROWS, 2);
    let code = page.texts(".c-error .code").remove(0);
    page.browser.click(".c-error .code");
    page.finds(ROWS, 1);
    assert_eq!(page.texts(NAMES), ["bad"]);
    page.says("[data-filter=code]", &format!("Error {code} ×"));
    page.browser.click("[data-filter=code]");
    page.finds(ROWS, 2);
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn pages_go_on_where_they_stopped() {
    let page = Inspected::new();
    for n in 0..120 {
        page.submit(&one(&format!("flow {n:03}"), "echo", ""), &nothing());
    }
    page.open("");
    page.finds(ROWS, 50);
    assert_eq!(page.texts(NAMES)[0], "flow 119");
    page.browser.click("[data-do=older]");
    page.says(NAMES, "flow 069");
    // What is new does not move an older page.
    page.work_off(&one("newest", "echo", ""), &nothing());
    page.browser.press(&["n"]);
    page.says(NAMES, "flow 019");
    page.finds(ROWS, 20);
    assert_eq!(page.value("document.querySelector('[data-do=older]').disabled"), true);
    page.browser.press(&["p"]);
    page.says(NAMES, "flow 069");
    page.browser.press(&["p"]);
    page.says(NAMES, "newest");
    page.finds(ROWS, 50);
    page.is_sound();
}
