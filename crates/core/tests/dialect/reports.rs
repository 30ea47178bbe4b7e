//! A mistake as the terminal shows it: the line, a pointer, and no secret.

#![cfg(feature = "report")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use miette::{GraphicalReportHandler, GraphicalTheme};
use retrial_core::dialect::{Environment, Format, parse_workflow, report};

/// The report of the first mistake of `text`.
fn reported(text: &str) -> String {
    let parsed = parse_workflow("w.toml", text, Format::Toml, &Environment::default());
    let mut shown = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor());
    report::render(&mut shown, &handler, &parsed.err().unwrap()[0]).unwrap();
    shown
}

#[test]
fn a_report_shows_the_line_and_points_at_the_place() {
    let text = "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"x\"\nretry = \"[rety: 3]\"\ngoal = true\n";
    insta::assert_snapshot!(reported(text), @r#"
     × unknown key `rety`
      ╭─[w.toml:5:11]
    5 │ retry = "[rety: 3]"
      ·           ──┬─
      ·             ╰── steps.0.retry
      ╰────
     help: did you mean `retry`?
    "#);
    insta::assert_snapshot!(reported("workflow = \"w\"\n\n[steps]\nid = 1\n\n"), @r#"
     × expected a list, found a table
      ╭─[w.toml:3:1]
    3 │ [steps]
      · ───┬───
      ·    ╰── steps
      ╰────
    "#);
}

/// What is pointed at may be long: the first line of it is shown.
#[test]
fn a_report_of_a_long_stretch_shows_its_first_line() {
    let text =
        "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"x\"\nargs = '''\nlong\nlonger'''\r\n";
    insta::assert_snapshot!(reported(text), @r#"
     × expected a table, found the text "long\nlonger"
      ╭─[w.toml:5:8]
    5 │ args = '''
      ·        ─┬─
      ·         ╰── steps.0.args
      ╰────
    "#);
}

/// Behind the text there is nothing to point at: the last character is.
#[test]
fn a_report_of_the_end_points_at_the_last_character() {
    insta::assert_snapshot!(reported("workflow = \"w\n\n  \n"), @r#"
     × invalid basic string, expected `"`
      ╭─[w.toml:1:13]
    1 │ workflow = "w
      ·             ┬
      ·             ╰── here
      ╰────
     help: the text is read as TOML
    "#);
    insta::assert_snapshot!(reported(""), @r#"
    × `workflow` is missing
     ╭─[w.toml:1:1]
     ╰────
    help: give the workflow a name
    "#);
}

/// The place is said in words where the line may not be shown.
#[test]
fn a_report_shows_no_line_with_a_secret() {
    let text = "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"x\"\ngoal = \"ghp_s3cr3t30s3cr3t30s3cr3t30\"\n";
    insta::assert_snapshot!(reported(text), @r#"
      × w.toml:5:8: steps.0.goal: expected true or false, found the text "***"
    "#);
}
