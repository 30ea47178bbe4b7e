//! What goes with the binary: completions for shells and the manual's pages.

use std::io::Write;
use std::process::{Command, Stdio};

use super::workspace::{Workspace, done};

/// Every command that `retrial --help` names.
fn commands(workspace: &Workspace) -> Vec<String> {
    let help = workspace.run(&["--help"]).out;
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let name = |line: &str| line.strip_prefix("  ")?.split_whitespace().next().map(str::to_owned);
    let starts = listed.lines().filter(|line| !line.starts_with("   "));
    let mut names: Vec<_> = starts.filter_map(name).collect();
    names.retain(|name| name != "help");
    assert!(names.len() >= 16, "{names:?}");
    names
}

/// What bash offers for the last of these words.
fn completed(words: &[&str]) -> Vec<String> {
    let workspace = Workspace::new();
    let script = workspace.run(&["completions", "bash"]);
    assert_eq!((script.code, script.err.as_str()), (Some(0), ""), "{script:?}");
    workspace.write("retrial.bash", &script.out);
    let (last, before) = (words.last().unwrap(), words[words.len() - 2]);
    let ask = "source ./retrial.bash\n\
               COMP_WORDS=(\"${@:3}\"); COMP_CWORD=$(( $# - 3 ))\n\
               _retrial retrial \"$1\" \"$2\"\n\
               printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ask, "bash", last, before]).args(words);
    bash.current_dir(workspace.path("."));
    let said = done(bash);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{said:?}");
    said.out.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    assert_eq!(completed(&["retrial", "insp"]), ["inspect"]);
    assert_eq!(completed(&["retrial", "dlq", "red"]), ["redrive"]);
    assert_eq!(completed(&["retrial", "list", "--ph"]), ["--phase"]);
    assert_eq!(completed(&["retrial", "list", "--phase", "de"]), ["deactivated"]);
    let offered = completed(&["retrial", ""]);
    let missing: Vec<_> =
        commands(&Workspace::new()).into_iter().filter(|name| !offered.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {offered:?}");
}

#[test]
fn every_shell_has_completions_and_bash_can_read_its_own() {
    let workspace = Workspace::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = workspace.run(&["completions", shell]);
        assert_eq!(script.code, Some(0), "{script:?}");
        for command in commands(&workspace) {
            assert!(script.out.contains(&command), "{shell} does not know {command}");
        }
    }
    workspace.write("retrial.bash", workspace.run(&["completions", "bash"]).out);
    let mut bash = Command::new("bash");
    bash.arg("-n").arg(workspace.path("retrial.bash"));
    let read = done(bash);
    assert_eq!((read.code, read.err.as_str()), (Some(0), ""), "{read:?}");
    assert_eq!(workspace.run(&["completions", "tcsh"]).code, Some(2));
}

/// The pages, by name.
fn pages(workspace: &Workspace) -> Vec<(String, String)> {
    std::fs::create_dir(workspace.path("man")).unwrap();
    let made = workspace.run(&["man", "--out", "man"]);
    assert_eq!((made.code, made.out.as_str(), made.err.as_str()), (Some(0), "", ""), "{made:?}");
    let all = std::fs::read_dir(workspace.path("man")).unwrap().map(|page| {
        let page = page.unwrap();
        let text = std::fs::read_to_string(page.path()).unwrap();
        (page.file_name().into_string().unwrap(), text)
    });
    all.collect()
}

#[test]
fn each_command_has_its_page() {
    let workspace = Workspace::new();
    let pages = pages(&workspace);
    let page = |name: &str| {
        let found = pages.iter().find(|(file, _)| file == name);
        found.unwrap_or_else(|| panic!("there is no {name}")).1.as_str()
    };
    for command in commands(&workspace) {
        let text = page(&format!("retrial-{command}.1"));
        for section in [".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n"] {
            assert!(text.contains(section), "{command} has no {section}");
        }
    }
    assert!(page("retrial-dlq-redrive.1").contains("The letters\\*(Aq ids"));
    assert!(page("retrial-run.1").contains(r"\fB\-\-concurrency\fR"));
    assert_eq!(workspace.run(&["man"]).out, page("retrial.1"), "one page, however it is asked for");
}

#[test]
fn pages_need_a_folder() {
    let done = Workspace::new().run(&["man", "--out", "nosuch"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("can't be written to `nosuch`"), "{}", done.err);
}

/// As `man` does: groff finds nothing to complain of, and the words are there.
#[test]
#[ignore = "needs groff (Debian: groff-base): scripts/test.sh runs it"]
fn groff_sets_every_page_without_a_warning() {
    for (name, text) in pages(&Workspace::new()) {
        let mut groff = Command::new("groff");
        groff.args(["-ww", "-man", "-Tutf8"]);
        groff.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = groff.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let set = child.wait_with_output().unwrap();
        assert!(set.status.success() && set.stderr.is_empty(), "{name}: {set:?}");
        let words = String::from_utf8(set.stdout).unwrap();
        let stem = name.strip_suffix(".1").unwrap();
        assert!(words.contains(&format!("{stem}(1)")), "{name}: {words}");
    }
}
