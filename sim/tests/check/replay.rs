//! Seeds and capsules asked for by the environment: each in a process of its own, which is this test
//! program again.

use std::process::{Command, Output};

use retrial_sim::check::Check;

use super::kit::{bank, charge, once, policy};

/// What the processes below run. In them it fails as a user's test does; here it is seen to fail.
#[test]
fn asked_for() {
    let check = Check::new("asked for")
        .retry(policy(), charge)
        .service("bank.test", bank)
        .holds("charged once", once)
        .runs(1..=1)
        .seeds(60);
    match std::env::var_os("RETRIAL_TEST_CHILD") {
        Some(_) => check.run(),
        None => assert!(check.outcome().is_err()),
    }
}

fn ask(variables: &[(&str, &str)]) -> (bool, String) {
    ask_with(&["--exact", "replay::asked_for", "--nocapture"], variables)
}

fn ask_with(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(arguments).env("RETRIAL_TEST_CHILD", "1");
    for name in ["RETRIAL_SEED", "RETRIAL_SEEDS", "RETRIAL_CAPSULE", "RETRIAL_PAGE"] {
        program.env_remove(name);
    }
    let Output { status, stdout, stderr } =
        program.envs(variables.iter().copied()).output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (status.success(), said.concat())
}

/// The rest of the line that begins with `start`.
fn after<'t>(text: &'t str, start: &str) -> &'t str {
    let found = text.lines().find_map(|line| line.trim_start().strip_prefix(start));
    found.unwrap_or_else(|| panic!("no line begins with `{start}`:\n{text}"))
}

#[test]
fn a_failure_says_how_to_see_it_again() {
    let (held, said) = ask(&[]);
    assert!(!held, "{said}");
    let test = "cargo test -p retrial-sim -- --exact replay::asked_for --nocapture";
    let nextest = "cargo nextest run -p retrial-sim -E 'test(=replay::asked_for)' --no-capture";
    assert!(said.contains(test) && said.contains(nextest), "{said}");

    let file = after(&said, "RETRIAL_CAPSULE=").split(' ').next().unwrap().to_owned();
    let (held, again) = ask(&[("RETRIAL_CAPSULE", &file)]);
    assert!(!held && again.contains("as it was written down: the same fingerprint"), "{again}");

    let page = std::fs::read_to_string(after(&said, "in a browser: ")).unwrap();
    assert!(page.contains("charged once") && page.contains("was charged twice"), "{page}");

    let mut program = Command::new(env!("CARGO_BIN_EXE_retrial-sim"));
    let Output { status, stderr, .. } = program.args(["repro", &file]).output().unwrap();
    let refusal = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{refusal}");
    assert!(refusal.contains("it is of the check `asked for`"), "{refusal}");

    let seed = after(&said, "RETRIAL_SEED=").split(' ').next().unwrap().to_owned();
    let (held, whole) = ask(&[("RETRIAL_SEED", &seed)]);
    let title = format!("check `asked for`: seed {seed} wrong");
    assert!(!held && whole.contains(&title) && whole.contains("run_created"), "{whole}");
    assert!(said.contains(&title), "{said}");
}

/// Where the harness has one thread, as under nextest, that thread does not bear the test's name.
#[test]
fn a_test_on_the_main_thread_is_named_too() {
    let arguments = ["replay::asked_for", "--exact", "--test-threads=1", "--nocapture"];
    let (held, said) = ask_with(&arguments, &[]);
    assert!(!held && said.contains("-- --exact replay::asked_for --nocapture"), "{said}");
}

#[test]
fn the_environment_says_how_many_seeds() {
    let (held, said) = ask(&[("RETRIAL_SEEDS", "0..1")]);
    assert!(held && said.contains("check `asked for` held: 1 seeds"), "{said}");
    let (held, said) = ask(&[("RETRIAL_SEED", "0")]);
    assert!(held && said.contains("run_ended outcome=completed"), "{said}");
    let (held, said) = ask(&[("RETRIAL_SEEDS", "few")]);
    assert!(!held && said.contains("RETRIAL_SEEDS must be a number or a range"), "{said}");
    let (held, said) = ask(&[("RETRIAL_CAPSULE", "/nowhere.json")]);
    assert!(!held && said.contains("/nowhere.json: the file can't be read"), "{said}");
}

/// Also of a world in which everything holds.
#[test]
fn a_page_is_written_where_one_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pages/seed.html");
    let (held, said) = ask(&[("RETRIAL_SEED", "0"), ("RETRIAL_PAGE", &file.display().to_string())]);
    assert!(held && said.contains(&format!("in a browser: {}", file.display())), "{said}");
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.contains("Seed 0: ") && page.contains("bank.test"), "{page}");
    let taken = folder.path().display().to_string();
    let (held, said) = ask(&[("RETRIAL_SEED", "0"), ("RETRIAL_PAGE", &taken)]);
    assert!(held && said.contains("can't be written"), "{said}");
}
