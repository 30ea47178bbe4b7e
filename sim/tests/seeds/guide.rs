//! docs/testing-your-own.md, followed: the crate in it is written to a folder of its own, built and
//! run.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use retrial_testkit::root;

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

/// Stands in for cargo in the page's commands. Cargo would build this project and its dependencies
/// once more, which takes longer than any other test; here the crate is built against the libraries
/// that this test was built with. Cargo itself reads the manifest, see [`Shop::manifest_is_right`].
const CARGO: &str = r#"#!/bin/sh
set -eu
[ "$1" = test ] && shift
only='*'
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  case $1 in
    --test) only=$2 && shift ;;
    -p) [ "$2" = shop ] && shift ;;
    *) echo "what is $1?" >&2 && exit 1 ;;
  esac
  shift
done
[ $# -eq 0 ] || shift
edition=$(sed -n 's/^edition = "\(.*\)"$/\1/p' Cargo.toml)
flags=$(sed -n 's/^rustflags = \[\(.*\)\]$/\1/p' .cargo/config.toml | tr -d '",')
build() {
  rustc --edition="$edition" $flags -L dependency="$DEPS" --extern "retrial=$RETRIAL" \
    --extern "serde_json=$JSON" --out-dir built "$@"
}
build --crate-type lib --crate-name shop src/lib.rs
export CARGO_PKG_NAME=shop CARGO_MANIFEST_DIR="$PWD"
for test in tests/$only.rs; do
  build --test --extern shop=built/libshop.rlib --extern "retrial_sim=$SIM" "$test"
  name=${test##*/}
  "built/${name%.rs}" "$@"
done
"#;

/// The crate of the page.
struct Shop {
    folder: tempfile::TempDir,
    /// This project's simulation, and `retrial` and `serde_json` as it was built with them.
    sim: PathBuf,
    built_with: [PathBuf; 2],
}

impl Shop {
    fn written(page: &str) -> Self {
        let (sim, built_with) = libraries(["retrial", "serde_json"]);
        let shop = Self { folder: tempfile::tempdir().unwrap(), sim, built_with };
        for (path, text) in files(page) {
            let text = text.replace("../retrial", root().to_str().unwrap());
            shop.write(path, &text);
        }
        // The same versions as here, which are on this machine.
        let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        shop.write("Cargo.lock", &lock);
        shop.write("bin/cargo", CARGO);
        let cargo = shop.folder.path().join("bin/cargo");
        fs::set_permissions(cargo, fs::Permissions::from_mode(0o755)).unwrap();
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

    /// Cargo finds what the manifest names; it has HTTP actions, and not the command line's packages.
    fn manifest_is_right(&self, page: &str) {
        let mut tree = Command::new(env!("CARGO"));
        tree.args(["tree", "--offline", "--edges", "normal,dev,features", "--prefix", "none"]);
        let Output { status, stdout, stderr } =
            tree.current_dir(self.folder.path()).output().unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        let tree = String::from_utf8(stdout).unwrap();
        assert!(tree.lines().any(|line| line.starts_with("retrial feature \"http\"")), "{tree}");
        assert!(!tree.contains("clap"), "{tree}");
        // Without the flag the simulated world does not build.
        let flags = |text: &str| {
            let mut lines = text.lines();
            lines.find(|line| line.starts_with("rustflags = ")).map(str::to_owned)
        };
        let config = ".cargo/config.toml";
        let ours = fs::read_to_string(root().join(config)).unwrap();
        let pages = fs::read_to_string(self.folder.path().join(config)).unwrap();
        assert_eq!(flags(&pages), flags(&ours));
        // The libraries here have what other crates must not count on.
        let unstable = |(_, text): &(&str, &str)| text.contains("unstable");
        assert!(!files(page).iter().any(unstable), "the crate uses what may change at any time");
    }

    /// Runs a command of the page; whether it succeeded, and all that it said.
    fn run(&self, command: &str) -> (bool, String) {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(self.folder.path());
        for name in ["RETRIAL_SEED", "RETRIAL_SEEDS"] {
            shell.env_remove(name);
        }
        let [retrial, json] = &self.built_with;
        shell.env("SIM", &self.sim).env("RETRIAL", retrial).env("JSON", json);
        shell.env("DEPS", self.sim.parent().unwrap());
        let path = std::env::var_os("PATH").unwrap();
        let folders =
            [self.folder.path().join("bin"), Path::new(env!("CARGO")).parent().unwrap().into()];
        let folders = folders.into_iter().chain(std::env::split_paths(&path));
        shell.env("PATH", std::env::join_paths(folders).unwrap());
        let Output { status, stdout, stderr } = shell.output().unwrap();
        let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (status.success(), said.concat())
    }
}

/// The library of this project's simulation that is newest and older than this program, and those of
/// `names` that it was built with.
fn libraries<const N: usize>(names: [&str; N]) -> (PathBuf, [PathBuf; N]) {
    let program = std::env::current_exe().unwrap();
    let built = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let all = fs::read_dir(program.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let all: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|e| e == "rlib")).collect();
    let named = |name: &str| {
        let start = format!("lib{name}-");
        all.iter()
            .filter(move |path| path.file_name().unwrap().to_str().unwrap().starts_with(&start))
    };
    let before = named("retrial_sim").filter(|path| built(path) <= built(&program));
    let sim = before.max_by_key(|path| built(path)).expect("the simulation is built");
    // A library names those that it was built with, with the digest that is in the name of the file.
    let within = fs::read(sim.with_extension("rmeta")).unwrap();
    let is_within = |path: &&PathBuf| {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        let digest = &stem.as_bytes()[stem.rfind('-').unwrap()..];
        within.windows(digest.len()).any(|part| part == digest)
    };
    (sim.clone(), names.map(|name| named(name).find(is_within).expect(name).clone()))
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
#[ignore = "builds a crate of its own and runs it many times: scripts/test.sh runs it"]
fn the_guide_is_followed() {
    let page = page();
    let shop = Shop::written(&page);
    shop.manifest_is_right(&page);

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
