//! What the pages show of the examples is what they print.

use std::net::{SocketAddr, TcpListener};

use super::output::plain;
use super::workspace::{Done, Workspace};

#[allow(dead_code, reason = "its command line is not used here")]
#[path = "../../../../../examples/flaky_server.rs"]
mod flaky_server;

fn read(path: &str) -> String {
    std::fs::read_to_string(retrial_testkit::root().join(path)).unwrap()
}

/// The example server, failing the first two requests of each task, on a port of its own.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let options = flaky_server::Options { quiet: true, ..flaky_server::Options::default() };
    #[expect(clippy::disallowed_methods, reason = "a server of its own, outside the engine")]
    std::thread::spawn(move || {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let served = async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            flaky_server::serve(listener, options).await
        };
        tokio.block_on(served).unwrap();
    });
    address
}

/// A folder with the examples, their endpoints at `server`.
fn workspace(server: SocketAddr) -> Workspace {
    let workspace = Workspace::new();
    std::fs::create_dir(workspace.path("examples")).unwrap();
    for entry in std::fs::read_dir(retrial_testkit::root().join("examples")).unwrap() {
        let entry = entry.unwrap();
        // The folder of programs for the simulated world holds nothing that is shown here.
        if entry.file_type().unwrap().is_dir() {
            continue;
        }
        let name = entry.file_name().into_string().unwrap();
        let text = read(&format!("examples/{name}"));
        workspace.write(
            &format!("examples/{name}"),
            text.replace("localhost:8080", &server.to_string()),
        );
    }
    workspace
}

/// The commands that a page shows, each with what it prints.
fn shown(page: &str) -> Vec<(String, String)> {
    let blocks = page.split("```console\n").skip(1);
    let inner = blocks.filter_map(|block| block.split_once("\n```").map(|(inner, _)| inner));
    let one = |block: &str| {
        let (command, output) = block.strip_prefix("$ retrial ")?.split_once('\n')?;
        let ours = command.starts_with("run examples/") || command.starts_with("explain ");
        ours.then(|| (command.to_owned(), format!("{output}\n")))
    };
    inner.filter_map(one).collect()
}

/// A command line's words; single quotes hold one together.
fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (i, part) in command.split('\'').enumerate() {
        if i % 2 == 1 { words.push(part) } else { words.extend(part.split_whitespace()) }
    }
    words
}

#[test]
fn the_pages_show_what_is_printed() {
    let [dialects, cli] = ["docs/dialects.md", "docs/cli.md"].map(|page| shown(&read(page)));
    assert!(dialects.len() >= 5, "docs/dialects.md shows only {}", dialects.len());
    assert!(!cli.is_empty(), "docs/cli.md shows none");
    let workspace = workspace(server());
    for (command, output) in dialects.into_iter().chain(cli) {
        let done = workspace.run(&words(&command));
        let expected = Done { code: done.code, out: output, err: String::new() };
        assert_eq!(plain(&done), plain(&expected), "{command}\n{}{}", done.out, done.err);
    }
}

/// Each of the five dialects has a file that is shown.
#[test]
fn every_dialect_has_its_example() {
    let page = read("docs/dialects.md");
    for file in ["waymark.ir", "rappel.ir", "argyll.toml", "capability5.toml", "rh_agents.toml"] {
        assert!(page.contains(&format!("$ retrial run examples/{file}")), "{file}");
        let text = read(&format!("examples/{file}"));
        assert!(page.contains(text.trim_end()), "docs/dialects.md does not show {file} as it is");
    }
}

/// The script starts a service, submits a run to it and sees the run's end.
#[test]
#[ignore = "needs curl: apt-get install curl; scripts/test.sh installs it and runs this"]
fn the_script_of_a_newcomer_drives_a_service() {
    let folder = workspace(server());
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let done =
        std::process::Command::new(retrial_testkit::root().join("examples/start/service.sh"))
            .arg(folder.path("examples/hello.toml"))
            .env("RETRIAL", env!("CARGO_BIN_EXE_retrial"))
            .env("LISTEN", free.to_string())
            .output()
            .unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{out}\n{}", String::from_utf8_lossy(&done.stderr));
    let named = |event: &str| out.matches(&format!("event: {event}\n")).count();
    assert_eq!((named("attempt_failed"), named("run_ended")), (2, 1), "{out}");
}
