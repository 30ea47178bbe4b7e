//! The mutants of this repository: each makes sense, each applies, and the page is about them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use xtask::mutants::{Patch, Scratch, Set, WorkspaceError};
use xtask::{Processes, Tree};

const ROOMS: [&str; 13] = [
    "action", "dialect", "engine", "explain", "failure", "guard", "lab", "observe", "policy",
    "run", "runtime", "server", "store",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

fn set() -> Set {
    Set::read(&root().join("sim/mutants")).unwrap()
}

#[test]
fn there_are_enough_in_every_room() {
    let set = set();
    assert!(set.mutants.len() >= 100, "only {}", set.mutants.len());
    let rooms = set.rooms();
    for room in ROOMS {
        assert!(rooms.get(room).is_some_and(|n| *n >= 5), "{room}: {:?}", rooms.get(room));
    }
    let seen: BTreeSet<&str> = set.mutants.iter().map(|patch| patch.address().0).collect();
    assert!(seen.len() * 2 >= set.mutants.len(), "a thread stands for two at most");
}

/// What docs/mutants.md says of each: its name, and whether it survives.
fn listed(page: &str) -> Vec<(&str, bool)> {
    let (by_room, _) = page.split_once("\n## Survivors\n").unwrap();
    let rows = by_room.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| Some((row.split_once('`')?.0, row.contains("**survives**")))).collect()
}

/// Which mutants there are, and which of them survive, is as the page has it; so many are killed as
/// must be.
#[test]
fn the_page_is_about_these_mutants() {
    let (page, set) = (std::fs::read_to_string(root().join("docs/mutants.md")).unwrap(), set());
    let mut listed = listed(&page);
    // By room on the page.
    listed.sort_unstable();
    let wanted: Vec<(&str, bool)> =
        set.mutants.iter().map(|patch| (patch.name.as_str(), patch.survives.is_some())).collect();
    assert!(listed == wanted, "run `cargo xtask mutants`: the page is not about these mutants");
    let (all, killed) = (listed.len(), listed.iter().filter(|(_, survives)| !survives).count());
    assert!(killed * 100 >= all * 95, "{killed} of {all}");
    for counted in [format!("| mutants | {all} |"), format!("| killed | {killed} (")] {
        assert!(page.contains(&counted), "{counted}");
    }
}

/// The score on bugs that the authors did not choose is the first line.
#[test]
fn the_page_begins_with_the_score() {
    let page = |name| std::fs::read_to_string(root().join("docs").join(name)).unwrap();
    let (mutants, blind) = (page("mutants.md"), page("blind-mutants.md"));
    let score = blind.split("\n\n").nth(1).unwrap();
    assert!(score.starts_with("Of 120 bugs"), "{score}");
    assert!(mutants.starts_with(&format!("# Mutants\n\n{score} ")));
}

/// Where the test programs of the packages lie.
const PROGRAMS: [&str; 5] =
    ["tests", "crates/core/tests", "crates/lab/tests", "crates/service/tests", "sim/tests"];

/// Where the libraries lie, which have tests beside what they test.
const LIBRARIES: [(&str, &str); 4] = [
    ("retrial", "src"),
    ("retrial_core", "crates/core/src"),
    ("retrial_lab", "crates/lab/src"),
    ("retrial_service", "crates/service/src"),
];

/// Whether there is a test `PROGRAM: module::name`: a file of the module, or the program's `main.rs`,
/// with a function of that name.
fn exists(test: &str) -> bool {
    let Some((program, path)) = test.split_once(": ") else { return false };
    let (module, name) = path.rsplit_once("::").unwrap_or(("main", path));
    let function = format!("fn {name}(");
    let of_program = |folder: &&str| root().join(folder).join(program);
    let library = LIBRARIES.iter().find(|(library, _)| *library == program);
    let (folders, module) = match library {
        Some((_, folder)) => (vec![root().join(folder)], module.trim_end_matches("::tests")),
        None => (PROGRAMS.iter().map(of_program).collect(), module),
    };
    folders.iter().any(|folder| {
        let file = folder.join(module.replace("::", "/"));
        let texts = [file.with_extension("rs"), file.join("mod.rs")].map(std::fs::read_to_string);
        texts.iter().flatten().any(|text| text.contains(&function))
    })
}

#[test]
fn each_test_that_the_page_names_exists() {
    let page = std::fs::read_to_string(root().join("docs/mutants.md")).unwrap();
    let named: Vec<&str> =
        page.split("| test `").skip(1).filter_map(|rest| Some(rest.split_once('`')?.0)).collect();
    assert!(named.len() > 20, "the page names only {named:?}");
    let missing: Vec<&&str> = named.iter().filter(|test| !exists(test)).collect();
    assert!(missing.is_empty(), "docs/mutants.md names tests that do not exist: {missing:#?}");
    assert!(!exists("policy: backoff::decision_4_overflow_wraps"));
    assert!(exists("retrial_service: server::recent::tests::a_window_forgets_what_is_older"));
    assert!(!exists("retrial_service: server::recent::tests::a_window_forgets_nothing"));
    assert!(!exists("policy_backoff: decision_4_overflow_saturates"));
}

fn scratch(folder: &Path, root: &Path) -> Scratch {
    let tree = Tree::around(root).unwrap();
    Scratch::new(tree, folder, 1, Processes::default()).unwrap()
}

#[test]
fn each_applies_to_the_source_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let workspace = scratch(folder.path(), root());
    let wrong = set();
    let wrong = wrong.all().filter_map(|patch| {
        workspace.check(patch).err().map(|error| format!("{}: {error}", patch.name))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The changes that must not be made between two releases (`scripts/two-releases.sh`): each applies, and
/// is in the table of docs/simulation.md.
#[test]
fn each_incompatible_change_applies_and_is_in_the_table() {
    let (folder, root) = (tempfile::tempdir().unwrap(), root());
    let workspace = scratch(folder.path(), root);
    let page = std::fs::read_to_string(root.join("docs/simulation.md")).unwrap();
    let mut changes = 0;
    for file in std::fs::read_dir(root.join("crates/releases/planted")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let patch = Patch::control(name, &std::fs::read_to_string(&path).unwrap()).unwrap();
        workspace.check(&patch).unwrap();
        assert!(page.contains(&format!("(`{name}`) | ")), "{name} is not in docs/simulation.md");
        changes += 1;
    }
    let listed = page.lines().filter(|line| line.starts_with("| ") && line.contains("(`")).count();
    assert!(changes > 9 && listed == changes, "{changes}, and {listed} in the table");
}

/// A repository with one file.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("src/run")).unwrap();
    std::fs::write(folder.path().join("src/run/x.rs"), "one\ntwo\nthree\n").unwrap();
    let git = Command::new("git").current_dir(folder.path()).args(["init", "-q"]).output();
    assert!(git.unwrap().status.success());
    folder
}

fn patch(line: &str) -> Patch {
    let text = format!(
        "Breaks: it.\nSeen: https://x.test/1\n\ndiff --git a/src/run/x.rs b/src/run/x.rs\n\
         --- a/src/run/x.rs\n+++ b/src/run/x.rs\n@@ -1,3 +1,3 @@\n one\n-{line}\n+2\n three\n"
    );
    Patch::parse("run_x", &text).unwrap()
}

#[test]
fn a_patch_that_no_longer_applies_is_found() {
    let (folder, repository) = (tempfile::tempdir().unwrap(), repository());
    let workspace = scratch(folder.path(), repository.path());
    workspace.check(&patch("two")).unwrap();
    let said = workspace.check(&patch("zwei")).unwrap_err();
    assert!(matches!(said, WorkspaceError::DoesNotApply(_)), "{said}");
    assert!(said.to_string().contains("src/run/x.rs"), "{said}");
}

/// The copy lies in the repository's own folder, as it does unless told otherwise.
#[test]
fn the_copy_follows_the_source_and_leaves_alone_what_is_as_it_should_be() {
    use xtask::mutants::Workspace as _;
    let repository = repository();
    let read = |path: &str| std::fs::read_to_string(repository.path().join(path)).unwrap();
    let write = |path: &str, text: &str| {
        std::fs::write(repository.path().join(path), text).unwrap();
    };
    write(".gitignore", "/scratch\n");
    write("other", "as it is");
    let folder = repository.path().join("scratch");
    scratch(&folder, repository.path()).plant(&patch("two")).unwrap();
    assert_eq!(read("scratch/tree/src/run/x.rs"), "one\n2\nthree\n");
    assert_eq!(read("src/run/x.rs"), "one\ntwo\nthree\n", "the source is not touched");

    let written =
        |path: &str| std::fs::metadata(repository.path().join(path)).unwrap().modified().unwrap();
    let before = written("scratch/tree/other");
    write("src/run/x.rs", "one\nzwei\nthree\n");
    write("scratch/tree/src/left_over.rs", "");
    scratch(&folder, repository.path()).plant(&patch("zwei")).unwrap();
    assert_eq!(read("scratch/tree/src/run/x.rs"), "one\n2\nthree\n");
    assert!(!folder.join("tree/src/left_over.rs").exists());
    assert_eq!(written("scratch/tree/other"), before);
    std::fs::remove_file(repository.path().join("other")).unwrap();
    scratch(&folder, repository.path()).plant(&patch("zwei")).unwrap();
    assert!(!folder.join("tree/other").exists());
}
