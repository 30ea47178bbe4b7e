//! H14 as people see it: the binary on a terminal of its own, and what stands on the screen.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::endpoint::Endpoint;
use super::output::without_lengths;
use super::workspace::{Workspace, done};

const ROWS: u16 = 24;
const COLUMNS: u16 = 80;
const SLOW: &str = "work_config = { max_retries = 2, backoff = 1000 }";
const SHORT: &str = "work_config = { max_retries = 2, backoff = 20 }";

/// A terminal with a process in front of it.
struct Terminal {
    wire: File,
    screen: vt100::Parser,
    raw: Vec<u8>,
    child: Child,
}

impl Terminal {
    fn of(mut command: Command) -> Self {
        let ours: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&ours, size).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let child = command.stdout(Stdio::from(theirs)).spawn().unwrap();
        // The command holds the other end, which would keep the wire open.
        drop(command);
        let screen =
            vt100::Parser::new(NonZero::new(ROWS).unwrap(), NonZero::new(COLUMNS).unwrap(), 100);
        Self { wire: ours.into(), screen, raw: Vec::new(), child }
    }

    /// Reads until the screen shows `wanted`, or to the end. A byte at a time: what is shown for a
    /// moment only is seen however late this process gets to look.
    fn read(&mut self, wanted: Option<&str>) {
        let mut bytes = [0; 1];
        while wanted.is_none_or(|wanted| !self.shown().contains(wanted)) {
            // Linux reports the end of a terminal as an error.
            match self.wire.read(&mut bytes) {
                Ok(0) | Err(_) if wanted.is_none() => return,
                Ok(0) | Err(_) => panic!("it ended without {wanted:?}:\n{}", self.shown()),
                Ok(n) => {
                    self.screen.process(&bytes[..n]);
                    self.raw.extend_from_slice(&bytes[..n]);
                }
            }
        }
    }

    /// What stands on the screen, without the first line and lengths of time.
    fn shown(&self) -> String {
        let text = self.screen.screen().contents();
        without_lengths(text.split_once('\n').map_or("", |(_, rest)| rest))
    }

    fn end(mut self) -> (String, String) {
        self.read(None);
        self.child.wait().unwrap();
        (self.shown(), String::from_utf8(self.raw).unwrap())
    }
}

fn terminal(workspace: &Workspace, args: &[&str], term: &str) -> Command {
    let mut command = workspace.command(args);
    command.env("TERM", term);
    // A build server shows colours whatever TERM says, which is what `CI` is read for.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
        command.env_remove(name);
    }
    command
}

const RUN: [&str; 4] = ["run", "w.toml", "--store", "s.redb"];

#[test]
fn h14_on_a_terminal_lines_are_live_and_folded_on_recovery() {
    let workspace = Workspace::with_step(&Endpoint::failing(2).url("/x"), SLOW);
    let mut terminal = Terminal::of(terminal(&workspace, &RUN, "xterm-256color"));
    terminal.read(Some("(retry 3/3)"));
    insta::assert_snapshot!(terminal.shown(), @r"
    🔧 fetch [STARTED]
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 2/3) in 1.0s...
    🔧 fetch [STARTED] (retry 2/3)
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 3/3) in 1.0s...
    🔧 fetch [STARTED] (retry 3/3)
    ");
    let (shown, raw) = terminal.end();
    insta::assert_snapshot!(shown, @r#"
    🔧 fetch [STARTED]
    ✔ fetch [COMPLETED after 3 attempts] (#s total)
      ↻ Recovered after 2 retries
    ✔ w [RUN COMPLETED] (#s total)
    Result of fetch: {"rows":[7,8],"success":true}
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    "#);
    assert!(raw.contains("\x1b[32m✔ fetch [COMPLETED after 3 attempts]"), "in colour: {raw:?}");
}

#[test]
fn h14_on_a_terminal_a_failure_stays_in_detail() {
    let workspace = Workspace::with_step(&Endpoint::failing(9).url("/x"), SHORT);
    let (shown, _) = Terminal::of(terminal(&workspace, &RUN, "xterm-256color")).end();
    insta::assert_snapshot!(shown, @r"
    🔧 fetch [STARTED]
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 2/3) in 0.0s...
    🔧 fetch [STARTED] (retry 2/3)
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
      ↻ Retrying (attempt 3/3) in 0.0s...
    🔧 fetch [STARTED] (retry 3/3)
    ✖ fetch [FAILED] (#s) - HTTP 503 Service Unavailable: busy
    ✖ fetch [EXHAUSTED all 3 attempts] (#s total)
    ✖ w [RUN FAILED] (#s total) - fetch: 503: HTTP 503 Service Unavailable: busy
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 1 (100%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 2.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    ");
}

/// A terminal that can't move its cursor is written to as a file is.
#[test]
fn h14_a_dumb_terminal_gets_no_escapes() {
    let workspace = Workspace::with_step(&Endpoint::failing(2).url("/x"), SHORT);
    let (shown, raw) = Terminal::of(terminal(&workspace, &RUN, "dumb")).end();
    assert!(!raw.contains('\x1b'), "{raw:?}");
    assert!(
        shown.starts_with("🔧 fetch [STARTED]\n✔ fetch [COMPLETED after 3 attempts]"),
        "{shown}"
    );
}

#[test]
fn h14_no_color_is_obeyed_on_a_terminal() {
    let workspace = Workspace::with_step(&Endpoint::failing(2).url("/x"), SHORT);
    let mut command = terminal(&workspace, &RUN, "xterm-256color");
    command.env("NO_COLOR", "1");
    let (shown, raw) = Terminal::of(command).end();
    assert!(!raw.contains("\x1b[32m") && !raw.contains("\x1b[0m"), "no colours: {raw:?}");
    assert!(raw.contains("\x1b[3A"), "moves: {raw:?}");
    assert!(shown.contains("↻ Recovered after 2 retries"), "{shown}");
}

/// Elsewhere colours are there only where they are asked for.
#[test]
fn h14_colours_off_a_terminal_follow_the_environment() {
    let workspace = Workspace::with_step(&Endpoint::failing(0).url("/x"), SHORT);
    for (variables, coloured) in [
        (&[][..], false),
        (&[("CLICOLOR_FORCE", "1")], true),
        (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
        (&[("CLICOLOR", "1")], false),
    ] {
        let mut command = terminal(&workspace, &["run", "w.toml", "--new"], "xterm-256color");
        command.envs(variables.iter().copied());
        let out = done(command).out;
        assert_eq!(out.contains("\x1b[32m✔"), coloured, "{variables:?}: {out:?}");
        assert_eq!(out.contains('\x1b'), coloured, "{variables:?}: {out:?}");
    }
}
