//! The walk of docs/laboratory.md: each of its commands prints what stands below it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// What the laboratory prints when asked as the page asks it. A map has 6 points in place of 60: the
/// page says nothing of any of them.
fn printed(folder: &Path, command: &str) -> String {
    let words = command.strip_prefix("$ cargo run --release -p retrial-lab -- ").expect(command);
    let words = words.replace("load=0.1..1.2/12,trigger=0..2/5", "load=0.1..1.2/3,trigger=0..2/2");
    let program = env!("CARGO_BIN_EXE_retrial-lab");
    let mut shell = Command::new("sh");
    shell.current_dir(folder).args(["-c", &format!("{program} {words}")]);
    let output = shell.output().unwrap();
    assert!(output.status.code() < Some(2), "{command}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
#[ignore = "a long sweep: scripts/test.sh runs it"]
fn each_command_prints_what_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let examples = folder.path().join("examples/lab");
    std::fs::create_dir_all(&examples).unwrap();
    for file in ["queue.toml", "within.toml"] {
        std::fs::copy(root().join("examples/lab").join(file), examples.join(file)).unwrap();
    }
    let page = std::fs::read_to_string(root().join("docs/laboratory.md")).unwrap();
    let mut all = String::new();
    let blocks: Vec<&str> = page.split("```console\n").skip(1).collect();
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let mut lines = block.split("```").next().unwrap().lines();
        let said = printed(folder.path(), lines.next().unwrap());
        for line in lines {
            assert!(said.lines().any(|printed| printed == line), "not printed: {line}\n{said}");
        }
        all += &said;
    }
    // What the page cites without a command.
    let cited = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(all.contains(cited), "not printed:\n{cited}\n{all}");
    let lab_file = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let example = std::fs::read_to_string(root().join("examples/lab/queue.toml")).unwrap();
    assert!(example.ends_with(lab_file), "examples/lab/queue.toml is not the page's:\n{lab_file}");
    for file in ["report.html", "map.html"] {
        assert!(folder.path().join(file).exists(), "{file}");
    }
}
