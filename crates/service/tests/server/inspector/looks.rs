//! By keyboard alone, on a phone, in light and in dark.

use serde_json::json;

use crate::inspector::kit::{Inspected, nothing, one, tries};

const ESCAPE: &str = "\u{E00C}";
const ENTER: &str = "\u{E007}";
const TAB: &str = "\u{E004}";

/// Where the focus is.
fn focus(page: &Inspected) -> String {
    let at = page.value("document.activeElement.id || document.activeElement.className.baseVal || document.activeElement.className || document.activeElement.tagName");
    at.as_str().unwrap().to_owned()
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn the_keyboard_alone_reaches_everything() {
    let page = Inspected::new();
    let steps = "workflow = \"two\"\n[[steps]]\nid = \"a\"\naction = \"echo\"\n[[steps]]\nid = \"b\"\naction = \"broken\"\nafter = [\"a\"]\n";
    let bad = page.work_off(steps, &json!({}));
    page.work_off(&one("good", "echo", ""), &nothing());
    page.open("");
    page.finds(".runs .row", 2);
    page.browser.press(&["/"]);
    assert_eq!(focus(&page), "search");
    page.browser.press(&["t", "w", "o"]);
    page.finds(".runs .row", 1);
    page.browser.press(&[ESCAPE]);
    assert_eq!(focus(&page), "row");
    page.browser.press(&[ENTER]);
    page.says(".facts", &bad);
    page.finds(".graph .step", 2);
    // Tab goes through what can be done, in the order in which it stands there.
    let mut order = Vec::new();
    while order.last().is_none_or(|at: &String| !at.starts_with("step")) {
        page.browser.press(&[TAB]);
        order.push(focus(&page));
        assert!(order.len() < 20, "{order:?}");
    }
    let seen =
        page.value("getComputedStyle(document.activeElement.querySelector('.box')).strokeWidth");
    assert_eq!(seen, "2.5px", "the focus is seen");
    page.browser.run("document.querySelectorAll('details.task').forEach((d) => (d.open = false))");
    page.browser.press(&[TAB]);
    page.browser.press(&[ENTER]);
    page.finds("details.task[open]", 1);
    assert_eq!(page.value("document.activeElement.tagName"), "SUMMARY");
    assert_ne!(page.value("getComputedStyle(document.activeElement).outlineStyle"), "none");
    page.browser.press(&[ESCAPE]);
    page.finds(".runs .row", 2);
    page.browser.press(&["j", "j", "k"]);
    assert_eq!(page.value("document.activeElement.textContent"), "good");
    page.browser.press(&["?"]);
    page.says("dialog", "Shortcuts");
    page.browser.press(&[ESCAPE]);
    page.finds("dialog", 0);
    for (key, view) in [("l", "letters"), ("a", "actions"), ("w", "workflows"), ("r", "runs")] {
        page.browser.press(&["g", key]);
        page.browser.wait(&format!("location.hash === '#/{view}'"));
        page.finds(&format!("nav [data-view={view}][aria-current=page]"), 1);
    }
    page.is_sound();
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_phone_never_scrolls_sideways() {
    let page = Inspected::new();
    let long = "averylongnamewithoutanyplacetobreak".repeat(4);
    let long = &long[..100];
    let input = json!({ "says": "x".repeat(400) });
    let run = page.work_off(&one(long, "broken", &tries(1)), &input);
    page.browser.size(390, 800);
    let views = ["".to_owned(), "#/letters".into(), "#/actions".into(), "#/workflows".into()];
    let details = [format!("#/runs/{run}"), format!("#/letters/{run}/0/0")];
    for view in views.iter().chain(&details) {
        page.open(view);
        page.browser.wait("document.querySelector('#live').dataset.how !== undefined");
        let wide = page.value("[document.documentElement.scrollWidth, document.body.scrollWidth]");
        assert_eq!(wide, json!([390, 390]), "{view}");
        // Nothing that is read is cut off at the side.
        let out = "[...document.querySelectorAll('.view *')].filter((e) => e.getClientRects().length && !e.closest('.graph, .scroll, .unseen, .lane, pre') && e.getBoundingClientRect().right > 391).map((e) => e.className)";
        assert_eq!(page.value(out), json!([]), "{view}");
    }
    page.is_sound();
}

/// Words in a table that is too wide stay whole, and no name leaves its box in a graph.
#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_phone_breaks_no_words() {
    let page = Inspected::new();
    let long = "reserve_everything_in_the_warehouse";
    let steps = format!(
        "workflow = \"long\"\n[[steps]]\nid = \"{long}\"\naction = \"gated\"\n\
         [[steps]]\nid = \"undo\"\naction = \"echo\"\ncompensates = \"{long}\"\n"
    );
    let run = page.submit(&steps, &json!({}));
    page.browser.size(390, 800);
    page.open(&format!("#/runs/{run}"));
    page.finds(".list.plain th", 8);
    page.finds(".graph .box", 2);
    let broken = "[...document.querySelectorAll('.list.plain :is(th, td)')].filter((e) => e.getBoundingClientRect().height > 40).length";
    assert_eq!(page.value(broken), 0);
    let out = "[...document.querySelectorAll('.graph .step')].filter((g) => [...g.querySelectorAll('text')].some((t) => t.getBBox().width > g.querySelector('.box').getBBox().width - 12)).length";
    assert_eq!(page.value(out), 0);
    page.is_sound();
}

/// The contrast of the colours of each text with what stands behind it, after WCAG 2.
const CONTRAST: &str = "
    const light = (c) => c.map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const lum = (c) => { const [r, g, b] = light(c); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const read = (text) => text.match(/[\\d.]+/g).map(Number);
    const behind = (e) => { for (; e; e = e.parentElement) { const c = read(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
    const low = [];
    for (const e of document.querySelectorAll('body *')) {
      if (!e.getClientRects().length || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
      if (e.closest('.unseen, .skip, :disabled, svg')) continue;
      const [a, b] = [lum(read(getComputedStyle(e).color).slice(0, 3)), lum(behind(e))];
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (ratio < 4.5) low.push(`${e.className} ${e.textContent.slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    return low;";

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn text_is_legible_in_light_and_in_dark() {
    let page = Inspected::new();
    let run = page.work_off(&one("bad", "broken", &tries(2)), &nothing());
    page.work_off(&one("shaky", "flaky", &tries(4)), &nothing());
    page.submit(&one("gatehouse", "gated", ""), &nothing());
    let mut papers = Vec::new();
    for scheme in ["light", "dark"] {
        page.browser.prefer(scheme);
        for view in ["".to_owned(), "#/letters".into(), "#/actions".into(), format!("#/runs/{run}")]
        {
            page.open(&view);
            page.browser.wait("document.querySelector('#live').dataset.how !== undefined");
            page.browser.wait("document.querySelector('.phase, .card') !== null");
            assert_eq!(page.browser.run(CONTRAST), json!([]), "{scheme} {view}");
        }
        papers.push(page.value("getComputedStyle(document.body).backgroundColor"));
    }
    assert_ne!(papers[0], papers[1]);
    page.is_sound();
}
