//! `docs/events.md` says what a line of JSON holds: held against what is written of every golden
//! record. An event that grows a field, or a new one, fails here until the page says so: add its
//! golden record, its section with an empty example, and run with `EVENTS=write`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use retrial::observe::json::{SCHEMA, object};
use retrial::observe::{JsonLines, Notice};
use retrial::run::{Event, Recorded, Version, decode};
use retrial::workflow::Workflow;
use serde_json::{Map, Value};

use crate::fixtures::*;

/// A field as the page lists it.
#[derive(Clone, Debug)]
struct Field {
    kind: String,
    always: bool,
}

type Fields = BTreeMap<String, Field>;

/// A section: its own fields, the sections that its fields are added from, and its example.
#[derive(Debug, Default)]
struct Section {
    fields: Fields,
    with: Vec<String>,
    example: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The page's sections by their headings.
fn page() -> BTreeMap<String, Section> {
    let text = fs::read_to_string(root().join("docs/events.md")).unwrap();
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let (mut name, mut in_example) = (String::new(), false);
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.trim_matches('`').to_owned();
        }
        let section = sections.entry(name.clone()).or_default();
        if line.starts_with("```") {
            in_example = line == "```json";
        } else if in_example {
            section.example.push_str(line);
        } else if let Some(with) = line.strip_prefix("With ") {
            section.with.extend(
                with.split('[').skip(1).map(|link| link.split(']').next().unwrap().to_owned()),
            );
        } else if let Some(row) = line.strip_prefix("| `") {
            let cells: Vec<&str> = row.split('|').map(|c| c.trim_matches(['`', ' '])).collect();
            let [field, kind, _unit, when, meaning, ""] = cells[..] else { panic!("{line}") };
            assert!(!meaning.is_empty(), "{line}");
            let kind = kind.split(']').next().unwrap().trim_start_matches('[').to_owned();
            let listed = Field { kind, always: when == "always" };
            assert!(section.fields.insert(field.to_owned(), listed).is_none(), "twice: {line}");
        }
    }
    sections
}

/// A section's fields with those of the sections that it names and of every event.
fn fields_of(page: &BTreeMap<String, Section>, name: &str) -> Fields {
    let section =
        page.get(name).unwrap_or_else(|| panic!("docs/events.md has no section `{name}`"));
    let mut fields = section.fields.clone();
    for with in section.with.iter().map(String::as_str).chain(["every event"]) {
        fields.extend(page[with].fields.clone());
    }
    fields
}

/// Every golden record of an event.
fn golden() -> Vec<Recorded> {
    let folder = root().join("crates/core/tests/golden/1");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    let no_event = ["snapshot.record", "letter.record"];
    files.retain(|path| !no_event.iter().any(|name| path.ends_with(name)));
    files.sort();
    files.iter().map(|path| decode(&fs::read(path).unwrap()).unwrap()).collect()
}

/// What is written of each golden record, by event.
fn written() -> BTreeMap<&'static str, Vec<Map<String, Value>>> {
    let records = golden();
    let definition = |r: &Recorded| match &r.event {
        Event::RunCreated { workflow, .. } => Some(Arc::clone(workflow)),
        _ => None,
    };
    let workflow: Arc<Workflow> = records.iter().find_map(definition).unwrap();
    let mut written: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for recorded in &records {
        let (number, at, event) = (Version(7), recorded.at, &recorded.event);
        let notice = Notice { run: run(1), workflow: &workflow, number, at, event };
        written.entry(event.name()).or_default().push(object(&notice));
    }
    written
}

/// Every event's name, as the type itself knows them.
fn events() -> BTreeSet<String> {
    let refusal = serde_json::from_str::<Event>(r#"{"event":"?"}"#).unwrap_err().to_string();
    let (_, names) = refusal.split_once("expected one of ").unwrap();
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Holds what was written against what is listed; `place` says where.
fn hold(
    page: &BTreeMap<String, Section>,
    place: &str,
    listed: &Fields,
    written: &[&Map<String, Value>],
) {
    for (name, field) in listed {
        let values: Vec<&Value> = written.iter().filter_map(|object| object.get(name)).collect();
        assert!(!values.is_empty(), "{place}: `{name}` is listed and never written");
        let missing = values.len() < written.len();
        assert!(!field.always || !missing, "{place}: `{name}` is not always there");
        for value in &values {
            let fits = match (field.kind.as_str(), kind_of(value)) {
                ("number", "integer") | ("any", _) => true,
                (kind, "object") => kind == "object" || page.contains_key(kind),
                (kind, found) => kind == found,
            };
            assert!(fits, "{place}: `{name}` is listed as {}, and is {value}", field.kind);
        }
        if let Some(section) = page.get(&field.kind) {
            let inner: Vec<_> = values.iter().filter_map(|value| value.as_object()).collect();
            hold(page, &format!("{place}.{name}"), &section.fields, &inner);
        }
    }
    let unlisted = written.iter().flat_map(|o| o.keys()).find(|name| !listed.contains_key(*name));
    assert_eq!(unlisted, None, "{place}: written and not listed in docs/events.md");
}

#[test]
fn h16_the_page_lists_every_event_and_every_field() {
    let (page, written) = (page(), written());
    let names: BTreeSet<String> = written.keys().map(|name| (*name).to_owned()).collect();
    assert_eq!(names, events(), "every event has a golden record");
    for (name, objects) in &written {
        hold(&page, name, &fields_of(&page, name), &objects.iter().collect::<Vec<_>>());
    }
    let known = |name: &str| written.contains_key(name);
    for (name, section) in &page {
        assert_eq!(known(name), !section.example.is_empty(), "`{name}`: events have an example");
    }
}

/// The page with each event's example written anew.
fn with_examples(text: &str) -> String {
    let written = written();
    let (mut page, mut name, mut in_example) = (String::new(), "", false);
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.trim_matches('`');
        }
        in_example &= line != "```";
        if !in_example {
            page.extend([line, "\n"]);
        }
        if line == "```json" {
            in_example = true;
            let fullest = written[name].iter().max_by_key(|object| object.len()).unwrap();
            page.extend([serde_json::to_string_pretty(fullest).unwrap().as_str(), "\n"]);
        }
    }
    page
}

/// `EVENTS=write` writes them.
#[test]
fn h16_the_pages_examples_are_what_is_written() {
    let path = root().join("docs/events.md");
    let text = fs::read_to_string(&path).unwrap();
    let today = with_examples(&text);
    if std::env::var_os("EVENTS").is_some_and(|v| v == "write") {
        fs::write(&path, &today).unwrap();
    } else if let Some((line, _)) = today.lines().zip(text.lines()).find(|(a, b)| a != b) {
        panic!("docs/events.md: an example is old, run with EVENTS=write: {line}");
    }
}

#[test]
fn h16_the_page_names_the_schemas_version() {
    let text = fs::read_to_string(root().join("docs/events.md")).unwrap();
    assert!(text.contains(&format!("The schema's version is {SCHEMA}.")));
}

#[test]
fn h16_lines_are_whole_and_written_at_once() {
    let paper = Paper::default();
    let lines = JsonLines::new(paper.clone());
    let events = failing(task(FETCH), Some(3), &[2_000]);
    let mut seen = 0;
    each(run(1), &events, |notice| {
        lines.write(notice);
        let text = paper.text();
        assert!(text.ends_with('\n'));
        let line = &text[seen..];
        seen = text.len();
        let read: Value = serde_json::from_str(line).unwrap();
        assert_eq!(read, Value::Object(object(notice)), "one line, nothing held back");
    });
    assert_eq!(paper.text().lines().count(), events.len());
    assert!(lines.take_error().is_none());
}

/// However little of it a write takes.
#[test]
fn h16_a_line_is_written_to_its_end() {
    struct Pieces(Paper);
    impl std::io::Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.write(&bytes[..bytes.len().min(7)])
        }
        fn flush(&mut self) -> std::io::Result<()> {
            self.0.flush()
        }
    }
    let paper = Paper::default();
    let lines = JsonLines::new(Pieces(paper.clone()));
    each(run(1), &failing(task(FETCH), Some(3), &[2_000]), |notice| {
        lines.write(notice);
        let read: Value = serde_json::from_str(paper.text().lines().last().unwrap()).unwrap();
        assert_eq!(read, Value::Object(object(notice)));
    });
}

/// A full disk must not change what happens to a run; a reader of the file can see the gap.
#[test]
fn h16_missing_lines_are_admitted() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += 1;
            if self.0 > 2 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(bytes.len()) }
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = JsonLines::new(Full(0));
    tell(&Arc::new(()), run(1), &[]);
    each(run(1), &failing(task(FETCH), Some(3), &[2_000]), |notice| lines.write(notice));
    assert_eq!(lines.take_error().map(|e| e.kind()), Some(std::io::ErrorKind::StorageFull));
}
