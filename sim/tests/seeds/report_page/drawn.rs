//! What a browser makes of a page.

use std::fs;

use retrial_sim::unstable::page::{BarKind, Page};
use serde_json::Value;
use tempfile::TempDir;

use super::browser::Browser;
use super::fixture::{HOSTILE, page};

/// A browser that has opened this page, and the folder that the page is in.
fn opened(page: &Page) -> (Browser, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    fs::write(&file, page.html()).unwrap();
    let browser = Browser::start();
    browser.size(1_400, 1_000);
    browser.open(&file);
    browser.wait("document.querySelector('#chart .bar') !== null");
    (browser, folder)
}

/// The length of what the timeline shows, in nanoseconds.
fn span(browser: &Browser) -> f64 {
    let script =
        "const { from, until } = document.getElementById('chart').dataset; return until - from;";
    browser.run(script).as_f64().unwrap()
}

fn number(browser: &Browser, script: &str) -> u64 {
    browser.run(script).as_u64().unwrap_or_else(|| panic!("{script} is no number"))
}

fn text(browser: &Browser, selector: &str) -> String {
    let found = browser.run(&format!("return document.querySelector('{selector}').textContent"));
    found.as_str().unwrap().to_owned()
}

fn key(browser: &Browser, key: &str) {
    let script = format!(
        "const chart = document.getElementById('chart'); chart.focus(); chart.dispatchEvent(\
         new KeyboardEvent('keydown', {{ key: '{key}', bubbles: true }}));"
    );
    browser.run(&script);
}

/// Waits until the timeline's length is `times` what it was.
fn scaled(browser: &Browser, before: f64, times: f64) {
    browser.wait(&format!(
        "(({{ from, until }}) => Math.abs((until - from) / {before} - {times}) < 0.01)\
         (document.getElementById('chart').dataset)"
    ));
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_page_shows_its_lanes_bars_and_faults_and_says_nothing_on_the_console() {
    let page = page();
    let (browser, _folder) = opened(&page);
    let lanes = browser.run(
        "return [...document.querySelectorAll('.lane-name')].map((n) => n.lastChild.textContent)",
    );
    assert_eq!(lanes, serde_json::json!(["users", "node-0", "endpoints", "/charge"]));
    key(&browser, "0");
    for (kind, wanted) in [("attempt", BarKind::Attempt), ("delay", BarKind::Delay)] {
        let there = page.bars.iter().filter(|bar| bar.kind == wanted).count();
        browser
            .wait(&format!("document.querySelectorAll('#chart .bar.{kind}').length === {there}"));
        assert!(there >= 3, "{kind}");
    }
    for kind in ["dead", "still", "window"] {
        assert!(
            number(
                &browser,
                &format!("return document.querySelectorAll('#chart .span.{kind}').length")
            ) > 0
        );
    }
    assert!(text(&browser, "#chart").contains("everything heals"));
    assert_eq!(number(&browser, "return performance.getEntriesByType('resource').length"), 0);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn buttons_keys_wheel_and_hand_zoom_and_pan() {
    let (browser, _folder) = opened(&page());
    let before = span(&browser);
    browser.click("#in");
    scaled(&browser, before, 0.5);
    browser.click("#out");
    scaled(&browser, before, 1.0);
    key(&browser, "+");
    scaled(&browser, before, 0.5);
    key(&browser, "-");
    scaled(&browser, before, 1.0);
    browser.wheel("#chart", -400);
    scaled(&browser, before, 1.0 / std::f64::consts::E);
    let from = "Number(document.getElementById('chart').dataset.from)";
    let start = browser.run(&format!("return {from}")).as_f64().unwrap();
    browser.drag("#chart", -100);
    browser.wait(&format!("{from} > {start}"));
    let dragged = browser.run(&format!("return {from}")).as_f64().unwrap();
    key(&browser, "ArrowLeft");
    browser.wait(&format!("{from} < {dragged}"));
    browser.click("#all");
    browser.wait(&format!("{from} < 0"));
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn search_finds_counts_and_moves() {
    let (browser, _folder) = opened(&page());
    let found = "document.getElementById('count').textContent";
    browser.write("#query", "attempt_failed");
    browser.wait(&format!("{found} === '3 found'"));
    browser.wait("document.querySelectorAll('#chart .mark.event.hit').length === 3");
    let mut seen = Vec::new();
    for place in ["1 of 3 found", "2 of 3 found", "3 of 3 found", "1 of 3 found"] {
        browser.write("#query", "\u{E007}");
        browser.wait(&format!("{found} === '{place}'"));
        seen.push(text(&browser, "#panel h2"));
    }
    assert!(seen.iter().all(|name| name.contains("attempt_failed charge")), "{seen:?}");
    assert!(seen[0] == seen[3] && seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
    // Shift and Enter, as one who types holds them.
    browser.write("#query", "\u{E008}\u{E007}");
    browser.wait(&format!("{found} === '3 of 3 found'"));
    browser.run("document.getElementById('query').select()");
    browser.write("#query", "/charge");
    browser.wait("document.querySelector('.lane-name.hit')?.lastChild.textContent === '/charge'");
    browser.run("document.getElementById('query').select()");
    browser.write("#query", "no such thing");
    browser.wait(&format!("{found} === '0 found'"));
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_finding_leads_to_the_event_that_proves_it() {
    let page = page();
    let (browser, _folder) = opened(&page);
    assert!(
        text(&browser, ".finding")
            .contains("Secrets in errors, URLs, headers and payloads appear in no output.")
    );
    let proof = page.findings.iter().find_map(|finding| finding.proof.first()).unwrap();
    let button = format!("[data-event=\"{}#{}\"]", proof.run, proof.number);
    browser.click(&button);
    browser.wait("document.querySelector('#chart .mark.chosen.proof') !== null");
    assert!(text(&browser, "#panel h2").starts_with(&format!("#{} ", proof.number)));
    assert!(text(&browser, "#panel").contains("It is among what proves a broken promise."));
    // From the event to the next one of its run, by the panel.
    browser.click("#panel .steps button:last-child");
    browser.wait(&format!(
        "document.querySelector('#panel h2').textContent.startsWith('#{} ')",
        proof.number + 1
    ));
    key(&browser, "Escape");
    browser.wait("document.querySelector('#chart .chosen') === null");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn planted_markup_does_not_run() {
    let mut page = page();
    page.title = HOSTILE.to_owned();
    page.lanes[1].name = HOSTILE.to_owned();
    page.runs[0].workflow = HOSTILE.to_owned();
    page.findings[0].text = HOSTILE.to_owned();
    page.marks.iter_mut().for_each(|mark| mark.name = HOSTILE.to_owned());
    page.bars.iter_mut().for_each(|bar| bar.name = HOSTILE.to_owned());
    let (browser, _folder) = opened(&page);
    key(&browser, "ArrowDown");
    browser.wait("document.querySelector('#panel h2') !== null");
    browser.run("document.querySelector('#scenario').open = true");
    assert_eq!(browser.run("return window.planted ?? null"), Value::Null);
    assert_eq!(number(&browser, "return document.querySelectorAll('img').length"), 0);
    assert_eq!(number(&browser, "return document.scripts.length"), 2);
    assert!(text(&browser, "#panel").contains("<img src=x onerror="));
    assert!(text(&browser, "h1").contains("{{script}}<!--"));
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn it_fits_a_phone_and_the_dark() {
    let (browser, _folder) = opened(&page());
    let ground = "return getComputedStyle(document.body).backgroundColor";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.prefer(scheme);
        browser.wait(&format!("matchMedia('(prefers-color-scheme: {scheme})').matches"));
        grounds.push(browser.run(ground));
    }
    assert_ne!(grounds[0], grounds[1]);
    browser.size(375, 700);
    browser.wait("innerWidth === 375");
    browser.click(".proofs button");
    browser.wait("document.querySelector('#panel h2') !== null");
    let page_width = number(&browser, "return document.documentElement.scrollWidth");
    assert!(page_width <= 375, "{page_width}");
    assert!(number(&browser, "return document.getElementById('chart').clientWidth") > 300);
    assert_eq!(browser.console(), [""; 0]);
}

/// Of 20,000 marks and bars no more are drawn than there is room for.
#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_large_world_is_drawn_and_searched() {
    let mut page = page();
    let (mark, bar) = (page.marks[0].clone(), page.bars[0].clone());
    for n in 0..10_000 {
        let at = n * 1_000_000;
        page.marks.push(retrial_sim::unstable::page::Mark {
            at,
            name: format!("mark {n}"),
            ..mark.clone()
        });
        let until = Some(at + 900_000);
        page.bars.push(retrial_sim::unstable::page::Bar { from: at, until, ..bar.clone() });
    }
    page.until = page.until.max(10_000_000_000);
    let (browser, _folder) = opened(&page);
    browser.write("#query", "mark 9999");
    browser.wait("document.getElementById('count').textContent === '1 found'");
    browser.write("#query", "\u{E007}");
    browser.wait("document.querySelector('#panel h2')?.textContent === 'mark 9999'");
    browser.click("#all");
    browser.wait("Number(document.getElementById('chart').dataset.from) < 0");
    key(&browser, "Escape");
    browser.wait("document.querySelector('#chart .chosen') === null");
    for kind in ["mark", "bar"] {
        let script = format!("return document.querySelectorAll('#chart .{kind}').length");
        let drawn = number(&browser, &script);
        assert!((100..2_500).contains(&drawn), "{drawn} of {kind}");
    }
    assert_eq!(browser.console(), [""; 0]);
}
