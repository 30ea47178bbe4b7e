//! The files in `packaging/`: what must hold of them wherever they are used. None is run here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::source;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use retrial::time::Nanos;
use source::{read, root};

const UNIT: &str = "packaging/retrial.service";
const CONTAINER: &str = "packaging/Containerfile";
const COMPOSE: &str = "packaging/compose.yaml";

/// Each setting of a unit with its values, in order.
fn settings(unit: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let lines = unit.lines().filter(|line| !line.starts_with(['#', ';', '[']));
    for (name, value) in lines.filter_map(|line| line.split_once('=')) {
        all.entry(name).or_default().push(value);
    }
    all
}

/// What is missing of a unit that keeps the service apart from its machine.
fn unit_lacks(unit: &str) -> Vec<String> {
    let settings = settings(unit);
    let wanted = [
        ("DynamicUser", "yes"),
        ("StateDirectory", "retrial"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("MemoryDenyWriteExecute", "yes"),
        ("SystemCallFilter", "@system-service"),
        ("Restart", "on-failure"),
        ("RestartSteps", "8"),
        ("RestartMaxDelaySec", "2min"),
        ("MemoryMax", "1G"),
        ("TasksMax", "640"),
        ("LoadCredential", "token:/etc/retrial/token"),
    ];
    let has = |name: &str, value: &str| settings.get(name).is_some_and(|all| all.contains(&value));
    let missing = wanted.iter().filter(|(name, value)| !has(name, value));
    let mut lacks: Vec<_> = missing.map(|(name, value)| format!("{name}={value}")).collect();
    let words: Vec<_> = settings.get("ExecStart").into_iter().flatten().copied().collect();
    let shown = settings.get("Environment").into_iter().flatten().copied();
    if words.into_iter().chain(shown).any(|text| text.to_lowercase().contains("token=")) {
        lacks.push("a token that nobody sees".to_owned());
    }
    lacks
}

#[test]
fn the_unit_keeps_the_service_apart() {
    assert_eq!(unit_lacks(&read(UNIT)), [""; 0]);
    let planted = read(UNIT).replace("DynamicUser=yes\n", "");
    assert_eq!(unit_lacks(&planted), ["DynamicUser=yes"]);
    let planted = read(UNIT).replace("retrial serve", "retrial serve --token=abc");
    assert_eq!(unit_lacks(&planted), ["a token that nobody sees"]);
}

/// systemd kills what has not stopped by then.
#[test]
fn the_unit_waits_longer_than_the_grace() {
    let unit = read(UNIT);
    let settings = settings(&unit);
    let wait = settings["TimeoutStopSec"][0].strip_suffix('s').unwrap();
    let wait = Nanos::from_secs(wait.parse().unwrap());
    let grace = retrial::engine::Config::default().grace;
    assert!(wait > grace.saturating_add(Nanos::from_secs(15)), "{wait} after a grace of {grace}");
}

/// The unit in a folder of its own, with a program in it that is on every machine.
fn systemd_analyze(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("retrial.service");
    std::fs::write(&path, read(UNIT).replace("/usr/bin/retrial", "/bin/true")).unwrap();
    Command::new("systemd-analyze").args(words).arg(&path).output().unwrap()
}

#[test]
#[ignore = "needs systemd-analyze (Debian: systemd): scripts/test.sh runs it"]
fn systemd_reads_the_unit_without_complaint() {
    let read = systemd_analyze(&["verify", "--man=no"]);
    // Before version 254 systemd leaves these two out, with a warning, and restarts every 2 s.
    let newer =
        |line: &&str| line.contains("'RestartSteps'") || line.contains("'RestartMaxDelaySec'");
    let said = String::from_utf8_lossy(&read.stderr);
    let said: Vec<_> = said.lines().filter(|line| !newer(line)).collect();
    assert!(read.status.success() && said.is_empty(), "{said:?}");
    // In tenths: 20 of 100 is what systemd calls fine.
    let judged = systemd_analyze(&["security", "--offline=true", "--threshold=20"]);
    assert!(judged.status.success(), "{}", String::from_utf8_lossy(&judged.stdout));
}

/// A container file's instructions with what they say, in order.
fn instructions(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    let split = |line: &str| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        (word.to_owned(), rest.trim().to_owned())
    };
    lines.map(split).collect()
}

/// Why an image is not named for good.
fn is_loose(image: &str) -> bool {
    let tag = image.rsplit('/').next().unwrap_or(image).split_once(':').map(|(_, tag)| tag);
    tag.is_none_or(|tag| tag == "latest" || !tag.starts_with(|c: char| c.is_ascii_digit()))
}

fn container_faults(text: &str) -> Vec<String> {
    let all = instructions(text);
    let of = |word: &'static str| all.iter().filter(move |(w, _)| w == word).map(|(_, says)| says);
    let mut faults = Vec::new();
    let mut stages = Vec::new();
    for from in of("FROM") {
        let words: Vec<_> = from.split_whitespace().collect();
        if !stages.contains(&words[0]) && is_loose(words[0]) {
            faults.push(format!("{} is not pinned", words[0]));
        }
        stages.extend(words.get(2));
    }
    if stages.len() < 2 {
        faults.push("what builds is in what runs".to_owned());
    }
    if of("ADD").next().is_some() {
        faults.push("ADD fetches and unpacks: use COPY".to_owned());
    }
    let copies_all = |says: &String| says.split_whitespace().any(|word| word == ".");
    if of("COPY").any(|says| says.starts_with(". ") || copies_all(says) && says.starts_with("./ "))
    {
        faults.push("COPY takes everything, whatever lies there".to_owned());
    }
    let secret = |says: &String| {
        let says = says.to_lowercase();
        ["token=", "password=", "secret="].iter().any(|word| says.contains(word))
    };
    if all.iter().any(|(word, says)| matches!(word.as_str(), "ENV" | "ARG" | "RUN") && secret(says))
    {
        faults.push("a secret stands in a layer".to_owned());
    }
    if !of("RUN").any(|says| says.contains("cargo build") && says.contains("--locked")) {
        faults.push("what is built is not what is locked".to_owned());
    }
    let last = all.iter().rposition(|(word, _)| word == "FROM").unwrap_or(0);
    let user = all[last..].iter().rev().find(|(word, _)| word == "USER").map(|(_, says)| says);
    if user.is_none_or(|user| user.starts_with("0") || user.starts_with("root")) {
        faults.push("it runs as root".to_owned());
    }
    faults
}

#[test]
fn the_container_file_is_sound() {
    let text = read(CONTAINER);
    assert_eq!(container_faults(&text), [""; 0]);
    let check = |from: &str, to: &str, fault: &str| {
        let planted = text.replace(from, to);
        assert_ne!(planted, text, "{from}");
        assert_eq!(container_faults(&planted), [fault], "{to}");
    };
    check("rust:1.95.0-slim-bookworm", "rust", "docker.io/library/rust is not pinned");
    check(
        "rust:1.95.0-slim-bookworm",
        "rust:latest",
        "docker.io/library/rust:latest is not pinned",
    );
    check("COPY src src", "ADD src src", "ADD fetches and unpacks: use COPY");
    check("COPY src src", "COPY . .", "COPY takes everything, whatever lies there");
    check("USER 65532", "USER root", "it runs as root");
    check("--locked", "", "what is built is not what is locked");
    check(
        "ENV RETRIAL_LISTEN",
        "ENV RETRIAL_TOKEN=abc RETRIAL_LISTEN",
        "a secret stands in a layer",
    );
}

/// What it is built with is what the manifest asks for at least.
#[test]
fn the_container_file_builds_with_the_rust_that_is_asked_for() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let wanted = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(read(CONTAINER).contains(&format!("rust:{wanted}.")), "rust:{wanted}");
}

fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from, to).unwrap();
        return;
    }
    for entry in std::fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

/// Cargo finds each package and each of its targets in what the first stage copies.
#[test]
fn the_container_file_copies_what_cargo_needs() {
    let there = tempfile::tempdir().unwrap();
    let text = read(CONTAINER);
    let of_tree = |(word, says): &(String, String)| word == "COPY" && !says.starts_with("--from");
    for (_, says) in instructions(&text).iter().filter(|line| of_tree(line)) {
        let words: Vec<_> = says.split_whitespace().collect();
        let (to, from) = words.split_last().unwrap();
        for path in from {
            let to = if *to == "./" { path } else { to };
            copy(&root().join(path), &there.path().join(to));
        }
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]);
    let read = cargo.current_dir(there.path()).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let metadata = String::from_utf8(read.stdout).unwrap();
    for wanted in ["crates/service/src/main.rs", "examples/load.rs"] {
        assert!(metadata.contains(wanted), "{wanted} is not copied");
    }
    assert!(there.path().join(".cargo/config.toml").is_file(), "the flags of the build");
}

#[test]
fn the_example_of_three_nodes_is_sound() {
    let text = read(COMPOSE);
    let images = text.lines().filter_map(|line| line.trim().strip_prefix("image: "));
    for image in images {
        assert!(image.starts_with("localhost/") || !is_loose(image), "{image} is not pinned");
    }
    let nodes = ["node1:", "node2:", "node3:"];
    assert!(nodes.iter().all(|node| text.lines().any(|line| line.trim() == *node)));
    let ports = text.lines().filter(|line| line.trim().starts_with("ports:"));
    for ports in ports {
        assert!(ports.contains("[\"127.0.0.1:"), "it is open to other machines: {ports}");
    }
    for word in ["privileged", "network_mode: host"] {
        let said = text.lines().filter(|l| !l.trim().starts_with('#')).any(|l| l.contains(word));
        assert!(!said, "{word}");
    }
    let spelled = |line: &str| {
        let line = line.trim().to_lowercase();
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        ["password", "token"].iter().any(|word| name.ends_with(word)) && !value.trim().is_empty()
    };
    let spelled: Vec<_> = text.lines().filter(|line| spelled(line)).collect();
    assert!(spelled.is_empty(), "secrets are files: {spelled:?}");
}
