//! docs/testing-your-own.md, followed to the letter: the crate in it is written to a folder of its
//! own, built and run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/testing-your-own.md")).unwrap()
}

/// The text of the fenced block after the line `title`.
fn block<'p>(page: &'p str, title: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n{title}\n\n```")).unwrap_or_else(|| {
        panic!("the page has no block under `{title}`");
    });
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0
}

/// The files of the page, by path: each stands under a line that names it.
fn files(page: &str) -> Vec<(&str, &str)> {
    let named = page.lines().filter_map(|line| line.strip_prefix('`')?.strip_suffix("`:"));
    named.map(|path| (path, block(page, &format!("`{path}`:")))).collect()
}

/// The crate of the page.
struct Shop {
    folder: tempfile::TempDir,
}

impl Shop {
    fn written(page: &str) -> Self {
        let shop = Self { folder: tempfile::tempdir().unwrap() };
        let ours = fs::read_to_string(root().join("Cargo.toml")).unwrap();
        let (_, profile) = ours.split_once("\n[profile.dev.package]\n").unwrap();
        let (profile, _) = profile.split_once("\n\n").unwrap();
        // This project's own packages are built anew, and run for a moment only.
        let others = |line: &&str| !line.starts_with("retrial");
        let profile: Vec<&str> = profile.lines().filter(others).collect();
        let profile = profile.join("\n");
        for (path, text) in files(page) {
            let text = text.replace("../retrial", root().to_str().unwrap());
            // Built as here, the dependencies are there already.
            let page_profile = "[profile.dev.package.\"*\"]\nopt-level = 1\n";
            assert!(path != "Cargo.toml" || text.contains(page_profile), "{text}");
            let profile = format!("[profile.dev.package]\n{profile}\n");
            shop.write(path, &text.replace(page_profile, &profile));
        }
        // The same versions as here, which are on this machine.
        let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        shop.write("Cargo.lock", &lock);
        shop
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn edit(&self, path: &str, change: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.folder.path().join(path)).unwrap();
        self.write(path, &change(text));
    }

    /// Runs a command of the page; whether it succeeded, and all that it said.
    fn run(&self, command: &str) -> (bool, String) {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder.path());
        let of_builds = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER"];
        for name in of_builds.into_iter().chain(["RETRIAL_SEED", "RETRIAL_SEEDS"]) {
            shell.env_remove(name);
        }
        // What this project's tests were built with is there already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        // Debug information would take more room than all the rest.
        shell.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_PROFILE_DEV_LTO", "off");
        shell.env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
        let Output { status, stdout, stderr } = shell.output().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (status.success(), said.concat())
    }
}

/// `text` with everything that differs from seed to seed taken out: numbers and ids.
fn shape(text: &str) -> String {
    let is_of_an_id = |c: char| c.is_ascii_hexdigit() || c == '-';
    let words = text.split_whitespace().map(|word| {
        let digits = word.bytes().any(|b| b.is_ascii_digit());
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if digits && bare.chars().all(|c| is_of_an_id(c) || c == '.') { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "builds a crate of its own, with all its dependencies: scripts/test.sh runs it"]
fn the_guide_is_followed_to_the_letter() {
    let page = page();
    let shop = Shop::written(&page);

    let (held, said) = shop.run("cargo test --test payment");
    assert!(!held, "{said}");
    let shapes: Vec<String> = said.lines().map(shape).collect();
    let shown = page.split("```text\ncheck `payment`: seed").nth(1).unwrap();
    let shown = format!("check `payment`: seed{}", shown.split("```").next().unwrap());
    let is_firm = |line: &&str| {
        let firm = ["check `", "  invariant", " charged \"", "attempt_failed", "task_succeeded"];
        firm.iter().any(|part| line.contains(part))
    };
    for line in shown.lines().filter(is_firm) {
        assert!(shapes.contains(&shape(line)), "not printed: {line}\n{said}");
    }
    assert!(said.contains("shrunk to 1 fault and 1 run of "), "{said}");

    let again = said.lines().find(|line| line.trim().starts_with("RETRIAL_CAPSULE=")).unwrap();
    assert!(again.contains("cargo test -p shop -- --exact nobody_is_charged_twice --nocapture"));
    let (held, seen) = shop.run(again);
    assert!(!held && seen.contains("as it was written down: the same fingerprint"), "{seen}");
    let whole = said.lines().find(|line| line.trim().starts_with("RETRIAL_SEED=")).unwrap();
    let (held, seen) = shop.run(whole);
    assert!(!held && seen.contains("is charged twice"), "{seen}");

    let right = block(&page, "The function in `src/lib.rs`, right:");
    shop.edit("src/lib.rs", |text| {
        let (kept, _) = text.split_once("pub async fn charge").unwrap();
        format!("{kept}{right}")
    });
    let (held, said) = shop.run("cargo test -- --nocapture");
    assert!(held, "{said}");
    assert!(said.contains("check `payment` held: 100 seeds, "), "{said}");
    assert!(said.contains("check `maintenance` held: 30 seeds, "), "{said}");
}

/// Every method that the page names is there, and every setting is on the page.
#[test]
fn the_guide_names_every_setting() {
    let code = fs::read_to_string(root().join("sim/src/check/mod.rs")).unwrap();
    let (_, methods) = code.split_once("impl Check {").unwrap();
    let (methods, _) = methods.split_once("\n}\n").unwrap();
    let names =
        methods.split("\n    pub fn ").skip(1).map(|rest| rest.split(['(', '<']).next().unwrap());
    let page = page();
    let (_, settings) = page.split_once("## 9. Settings").unwrap();
    for name in names.filter(|name| !["new", "run", "outcome"].contains(name)) {
        let there = [format!("`{name}`"), format!("`{name}(")];
        assert!(there.iter().any(|text| settings.contains(text)), "{name} is not on the page");
    }
}
