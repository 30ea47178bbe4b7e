//! Dead letters: listed, redriven, put aside.

use serde_json::json;

use crate::inspector::kit::{Inspected, one, tries};

const ROWS: &str = ".letters tbody tr";

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c18_a_letter_is_redriven_and_says_so() {
    let page = Inspected::new();
    page.work_off(&one("bad", "broken", &tries(1)), &json!({ "says": "card declined" }));
    page.open("#/letters");
    page.finds(ROWS, 1);
    page.says(&format!("{ROWS} .c-message"), "card declined");
    page.browser.run(
        "const field = document.getElementById('within'); field.value = '1'; \
         field.dispatchEvent(new Event('change', { bubbles: true }))",
    );
    assert_eq!(page.value("location.hash"), "#/letters?within=1");
    page.says(&format!("{ROWS} .phase"), "waiting");
    page.says("#waiting", "1");
    page.browser.click("[data-do=redrive]");
    page.says("#told", "Redriven as run");
    // The redriven run fails as its first did, and leaves a letter of its own.
    let second = page.value("document.querySelector('#told a').hash.slice(7)");
    let second = second.as_str().unwrap();
    page.ended(second);
    page.browser.click("[data-do=all]");
    page.finds(ROWS, 2);
    let mut said = page.texts(&format!("{ROWS} .phase"));
    said.sort();
    assert_eq!(said, ["redriven", "waiting"]);
    assert_eq!(
        page.value(&format!(
            "document.querySelectorAll('.c-do a[href=\"#/runs/{second}\"]').length"
        )),
        1
    );
    page.browser.click(".c-do a");
    page.says(".facts", second);
    page.says(".facts", "Redrives");
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c18_a_letter_is_shown_and_put_aside() {
    let page = Inspected::new();
    let input = json!({ "says": "card declined" });
    let run = page.work_off(&one("bad", "broken", &tries(1)), &input);
    page.open("#/letters?code=418");
    page.says(".empty", "No dead letter is like that.");
    page.open("#/letters?code=400&workflow=bad&action=broken");
    page.finds(ROWS, 1);
    page.browser.click(".letters .row");
    page.says(".callout", "card declined");
    page.says("pre", "***");
    page.browser.click("[data-do=reveal]");
    page.says("pre", "card declined");
    page.finds("[data-do=reveal]", 0);
    page.browser.run("scrollTo(0, 0)");
    page.says(".facts", &run);
    page.browser.click("[data-do=discard]");
    page.browser.write("#reason", "nobody <b>needs</b> it");
    page.browser.click("#confirm-yes");
    page.says(".run-head .phase", "discarded");
    page.says(".because", "nobody <b>needs</b> it");
    page.browser.press(&["\u{E00C}"]);
    page.says(".empty", "No dead letter waits.");
    page.is_sound();
}

/// All that the filters select, and nothing else, after its number was shown.
#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn x20_what_a_filter_shows_is_redriven_or_discarded_together() {
    let page = Inspected::new();
    for name in ["bad", "bad", "worse"] {
        page.work_off(&one(name, "broken", &tries(1)), &json!({ "says": "declined" }));
    }
    page.open("#/letters?workflow=bad");
    page.finds(ROWS, 2);
    page.browser.click("[data-do=redrive-all]");
    page.says("#confirm-title", "Redrive 2 letters?");
    page.browser.click("#confirm-no");
    page.finds("dialog", 0);
    page.browser.click("[data-do=redrive-all]");
    page.says("#confirm-title", "Redrive 2 letters?");
    page.browser.click("#confirm-yes");
    page.says("#told", "2 letters redriven.");
    // The redriven runs fail as the first did.
    page.open("#/letters");
    page.finds(ROWS, 3);
    page.browser.click("[data-do=discard-all]");
    page.says("#confirm-title", "Discard 3 letters?");
    page.browser.write("#reason", "known");
    page.browser.click("#confirm-yes");
    page.says("#told", "3 letters discarded.");
    page.says(".empty", "No dead letter waits.");
    page.browser.click("[data-do=all]");
    page.finds(ROWS, 5);
    page.finds(".because", 3);
    page.finds("[data-do=discard-all]", 0);
    page.is_sound();
}
