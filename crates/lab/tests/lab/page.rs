//! What a browser makes of the pages.

use retrial_lab::judge::judge;
use retrial_lab::map;
use retrial_lab::page;
use retrial_lab::summary::Summary;
use retrial_testkit::browser::Browser;

use super::kit::scenario;

const TEXT: &str = "length = \"1m\"\nseeds = 1\n[clients.\"<b>web</b>\"]\nto = \"api\"\narrivals = { poisson = 80 }\n\
    retry = \"[retry: 3] [timeout: 1s]\"\nretry_budget = 0.1\n[services.api]\nworkers = 10\ntime = { exponential = \"100ms\" }\n\
    [[triggers]]\nkind = \"pause\"\non = \"api\"\nat = \"20s\"\nlength = \"10s\"\n";

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn pages_show_their_charts_on_a_phone_and_ask_nothing() {
    let scenario = scenario(TEXT);
    let summary = Summary::of(&scenario, &judge(&scenario, 1, 1));
    let sides = [("first", &scenario, &summary), ("<i>second", &scenario, &summary)];
    let drawn = map::map(&scenario, &[0.5, 1.5], &[0.0, 1.0], 1, 1);
    let folder = tempfile::tempdir().unwrap();
    let browser = Browser::start();
    for (name, html) in [("run", page::report(&sides, Some(&[]))), ("map", page::map(&drawn))] {
        let file = folder.path().join(format!("{name}.html"));
        std::fs::write(&file, html).unwrap();
        for wide in [360, 1_400] {
            browser.size(wide, 900);
            browser.open(&file);
            browser.wait("document.querySelector('svg') !== null");
            let over = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
            assert_eq!(browser.run(over), 0, "{name} at {wide}");
        }
        assert_eq!(browser.run("return performance.getEntriesByType('resource').length"), 0);
        assert_eq!(
            browser.run("return document.querySelectorAll('b, i').length"),
            0,
            "markup in a name"
        );
        assert_eq!(browser.console(), [""; 0]);
        let marks = if name == "run" { ".trigger" } else { ".cell" };
        let many = browser.run(&format!("return document.querySelectorAll('svg {marks}').length"));
        assert!(many.as_u64().unwrap() >= 4, "{name}: {many}");
        let dark = "return [...document.styleSheets[0].cssRules].some((r) => r.conditionText === '(prefers-color-scheme: dark)')";
        assert_eq!(browser.run(dark), true);
    }
}
