//! What comes from runs never runs, secrets never show, and a token is asked for and kept close.

use retrial::run::{Digest, RunId};
use retrial::store::{Create, Definition, RunPhase, Store};
use serde_json::json;

use crate::inspector::kit::{Inspected, one, tries};

const MARKUP: &str = "<img src=x onerror=window.pwned=1></script><script>window.pwned=2</script>";
const SECRET: &str = "plantedsecret4711";

/// Every view of this run.
fn views(run: &str) -> Vec<String> {
    let letter = format!("#/letters/{run}/0/0");
    let run = format!("#/runs/{run}");
    let all = ["", "#/letters", "#/actions", "#/workflows"].map(str::to_owned);
    all.into_iter().chain([run, letter]).collect()
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn c14_hostile_markup_is_text_and_secrets_never_show() {
    let page = Inspected::new();
    let says = format!("{MARKUP} password={SECRET}");
    let input = json!({ "says": says, "card": SECRET });
    let run = page.work_off(&one("w", "hostile", &tries(1)), &input);
    // Names that no definition can have; a store may hold anything.
    let name = "<img src=x onerror=window.pwned=3>";
    page.block_on(async {
        let create = Create {
            run: RunId::from_random(7, 7),
            key: None,
            digest: Digest::of(b""),
            id: Default::default(),
            workflow: name.into(),
            events: vec![],
            queue: vec![],
            phase: RunPhase::Completed,
            redrives: None,
            fields: Default::default(),
        };
        page.store.create(create).await.unwrap();
        let text = format!("workflow = \"w\" # {MARKUP} password={SECRET}").into();
        let definition = Definition { name: name.into(), format: "toml".into(), text };
        page.store.define(definition).await.unwrap();
    });
    let (mut named, mut told, mut coded) = (0, 0, 0);
    let definition = "#/workflows/%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D3%3E".to_owned();
    for view in views(&run).into_iter().chain([definition]) {
        page.open(&view);
        page.browser.wait("!document.querySelector('.empty')?.textContent.includes('…')");
        page.browser.wait("document.querySelector('#live').dataset.how !== undefined");
        let html = page.value("document.documentElement.outerHTML");
        let text = page.value("document.documentElement.innerText");
        let (html, text) = (html.as_str().unwrap(), text.as_str().unwrap());
        assert!(!html.contains(SECRET), "{view} shows a secret");
        assert_eq!(
            page.value(
                "document.querySelectorAll('img, body script, b > b, .view svg[onload]').length"
            ),
            0,
            "{view}"
        );
        named += usize::from(text.contains(name));
        told += usize::from(text.contains(MARKUP));
        coded += usize::from(text.contains("<b>CODE</b>"));
        page.is_sound();
    }
    // And all were there to be seen.
    assert!(named >= 3 && told >= 2 && coded >= 4, "{named}, {told}, {coded}");
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn the_browser_refuses_markup_and_foreign_addresses() {
    let page = Inspected::new();
    page.open("");
    page.says(".empty", "No runs yet.");
    let refused = |script: &str| {
        let tried =
            format!("(() => {{ try {{ {script}; return false }} catch {{ return true }} }})()");
        assert_eq!(page.value(&tried), true, "{script}");
    };
    refused("document.body.innerHTML = '<b>x</b>'");
    refused("document.createElement('script').src = '/assets/app.js'");
    page.browser.run("const img = document.createElement('img'); img.src = 'http://127.0.0.2:9/'; document.body.append(img)");
    page.browser.run("document.body.setAttribute('style', 'color: red')");
    let log = page.browser.console().join("\n");
    for directive in ["TrustedHTML", "TrustedScriptURL", "img-src", "style-src"] {
        assert!(log.contains(directive), "{directive}: {log}");
    }
}

#[test]
#[ignore = "needs Chromium and ChromeDriver: scripts/test.sh installs them"]
fn a_token_is_asked_for_and_kept_in_the_tab() {
    const TOKEN: &str = "tok-plantedtokenplantedtoken";
    let page = Inspected::wanting(TOKEN);
    let run = page.work_off(&one("kept", "echo", ""), &json!({ "says": "x" }));
    page.open("");
    page.browser.wait("document.querySelector('#token-dialog') !== null");
    assert_eq!(page.texts(".runs .row"), [""; 0]);
    page.browser.write("#token", "wrong\u{E007}");
    page.says("#token-dialog", "That token was refused.");
    page.browser.write("#token", &format!("{TOKEN}\u{E007}"));
    page.says(".runs .row", "kept");
    page.finds("dialog", 0);
    let shown = page.value("document.documentElement.outerHTML + location.href + document.cookie");
    assert!(!shown.as_str().unwrap().contains(TOKEN));
    assert_eq!(page.value("localStorage.length"), 0);
    // Streams bring it too, and another view does not ask again.
    page.browser.click(".runs .row");
    page.says(".facts", &run);
    page.says(".events", "run ended");
    page.finds("dialog", 0);
    // Refusals stand on the console, as browsers put them there, and nothing else.
    let log = page.browser.console();
    assert!(log.iter().all(|line| line.contains("401")), "{log:?}");
}
