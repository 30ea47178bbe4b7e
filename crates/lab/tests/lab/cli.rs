//! The command line: codes, files, and messages.

use std::path::Path;
use std::process::{Command, Output};

const QUEUE: &str = "length = \"2m\"\nseeds = 2\n[clients.web]\nto = \"api\"\narrivals = { poisson = 80 }\n\
    retry = \"[retry: 3] [timeout: 1s]\"\n[services.api]\nworkers = 10\ntime = { exponential = \"100ms\" }\n\
    [[triggers]]\nkind = \"pause\"\non = \"api\"\nat = \"20s\"\nlength = \"10s\"\n";

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retrial-lab"))
        .current_dir(folder)
        .args(words)
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_code_says_whether_it_recovers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queue.toml"), QUEUE).unwrap();
    let run = |words: &[&str]| lab(folder.path(), words);
    let bad = run(&["run", "queue.toml"]);
    assert_eq!(code(&bad), 1);
    let said = text(&bad.stdout);
    assert!(said.starts_with("metastable: "), "{said}");
    assert!(said.contains("Any of these settings alone makes it recover"), "{said}");
    assert!(said.contains("retry_budget = 0.1 (web -> api)"), "{said}");
    let good = run(&["run", "queue.toml", "--policy", "[retry: 0] [timeout: 1s]"]);
    assert_eq!((code(&good), text(&good.stdout).starts_with("recovers: ")), (0, true));
    let usual =
        run(&["run", "--policy", "[retry: 5, backoff: 2s]", "--outage", "30s", "--seeds", "1"]);
    assert_eq!((code(&usual), text(&usual.stdout).starts_with("recovers: ")), (0, true));
}

#[test]
fn bad_input_ends_with_2_and_says_what_to_write() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queue.toml"), QUEUE).unwrap();
    std::fs::write(folder.path().join("bad.toml"), QUEUE.replace("\"api\"\narr", "\"apo\"\narr"))
        .unwrap();
    let check = |words: &[&str], wanted: &[&str]| {
        let output = lab(folder.path(), words);
        let said = text(&output.stderr);
        assert_eq!(code(&output), 2, "{words:?}: {said}");
        for part in wanted {
            assert!(said.contains(part), "{words:?} lacks {part}: {said}");
        }
    };
    check(
        &["run", "bad.toml"],
        &["bad.toml:4:6", "`apo` is not known here", "did you mean `api`?", "clients.web.to"],
    );
    check(
        &["run", "nowhere.toml"],
        &["nowhere.toml can't be read", "name a text file that is there"],
    );
    check(&["run", "--policy", "[retri: 5]"], &["unknown key `retri`", "did you mean `retry`?"]);
    check(
        &["run", "queue.toml", "--outage", "soon"],
        &["--outage: `soon` is not a number", "such as 30s"],
    );
    check(&["run", "queue.toml", "--seeds", "0"], &["0 is not in 1..=1000"]);
    check(&["run"], &["--policy"]);
    check(&["map", "queue.toml", "--sweep", "load=1..2"], &["`1..2` has no steps", "0.4..1.2/9"]);
    check(
        &["map", "queue.toml", "--sweep", "lod=1"],
        &["`lod` can't be swept", "use load and trigger"],
    );
    check(&["search", "queue.toml", "--within", "queue.toml"], &["unknown key `length`"]);
    check(
        &["run", "queue.toml", "--policy", "[retry: 0]", "--json", "no/such/folder"],
        &["can't be written"],
    );
}

/// The same bytes whatever the threads, in each kind of file.
#[test]
fn files_hold_the_same_bytes_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queue.toml"), QUEUE).unwrap();
    let files = |jobs: &str| {
        let words = ["run", "queue.toml", "--against", "[retry: 0] [timeout: 1s]", "--jobs", jobs];
        let out = ["--json", "a.json", "--csv", "a.csv", "--html", "a.html"];
        let output = lab(folder.path(), &[words.as_slice(), &out].concat());
        assert_eq!(code(&output), 1, "{}", text(&output.stderr));
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        [read("a.json"), read("a.csv"), read("a.html"), text(&output.stdout)]
    };
    let once = files("1");
    assert_eq!(once, files("3"));
    let json: serde_json::Value = serde_json::from_str(&once[0]).unwrap();
    assert_eq!(
        (&json["first"]["verdict"], &json["second"]["verdict"]),
        (&"metastable".into(), &"recovers".into())
    );
    assert_eq!(json["first"]["series"].as_array().unwrap().len(), 240);
    assert_eq!(once[1].lines().count(), 1 + 2 * 240);
    assert!(once[1].starts_with("side,at,offered,good,"));
    assert!(once[2].contains("<svg") && !once[2].contains("://"), "the page needs a network");
}

/// Two lab files may have different parts.
#[test]
fn two_files_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let layered = QUEUE.replace(
        "time = { exponential = \"100ms\" }\n",
        "time = { exponential = \"100ms\" }\ncalls = [{ to = \"db\" }]\n[services.db]\nworkers = 10\ntime = \"1ms\"\n",
    );
    std::fs::write(folder.path().join("one.toml"), QUEUE).unwrap();
    std::fs::write(folder.path().join("two.toml"), layered).unwrap();
    for [first, second] in [["one.toml", "two.toml"], ["two.toml", "one.toml"]] {
        let words = [
            "run",
            first,
            "--against",
            second,
            "--seeds",
            "1",
            "--csv",
            "a.csv",
            "--html",
            "a.html",
        ];
        let output = lab(folder.path(), &words);
        assert_eq!(code(&output), 1, "{}", text(&output.stderr));
        let csv = std::fs::read_to_string(folder.path().join("a.csv")).unwrap();
        let cells: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(cells.iter().all(|n| *n == cells[0]), "{first}: {cells:?}");
    }
}

#[test]
fn map_and_search_show_where_it_is_safe_and_what_is_better() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("queue.toml"), QUEUE).unwrap();
    let within = "attempts = [1, 4]\njitter = [\"full\"]\nbackoff = [\"1s\"]\ntimeout = [\"1s\"]\n";
    std::fs::write(folder.path().join("within.toml"), within).unwrap();
    let words = ["map", "queue.toml", "--sweep", "load=0.2..1.4/4,trigger=0..2/3", "--seeds", "1"];
    let map = lab(
        folder.path(),
        &[words.as_slice(), &["--html", "map.html", "--json", "map.json"]].concat(),
    );
    assert_eq!(code(&map), 0, "{}", text(&map.stderr));
    let said = text(&map.stdout);
    assert!(said.starts_with("The highest safe load is 0.20 times that of the file"), "{said}");
    assert!(said.contains("  .  M  M  O ") || said.contains("  .  M  O  O "), "{said}");
    assert!(
        std::fs::read_to_string(folder.path().join("map.html"))
            .unwrap()
            .contains("class=\"cell metastable\"")
    );
    let words =
        ["search", "queue.toml", "--within", "within.toml", "--seeds", "1", "--html", "s.html"];
    let found = lab(folder.path(), &words);
    assert_eq!(code(&found), 0, "{}", text(&found.stderr));
    let said = text(&found.stdout);
    assert!(said.contains("recovers    1 attempt, timeout 1s"), "{said}");
    assert!(
        std::fs::read_to_string(folder.path().join("s.html"))
            .unwrap()
            .contains("class=\"dot front\"")
    );
}
