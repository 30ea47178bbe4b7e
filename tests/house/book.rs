//! The pages: `docs/SUMMARY.md` lists each once, their links lead somewhere, and README.md stays
//! short and shows its first program as it is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::source::{read, root};

const SUMMARY: &str = "docs/SUMMARY.md";

/// The pages of the book, but for its summary.
fn pages() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/{name}"))
        .filter(|page| page != SUMMARY)
        .collect();
    pages.sort();
    pages
}

/// The lines outside fenced blocks, each with its number.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of a text's links and pictures, each with its line.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let without_code: Vec<&str> = line.split('`').step_by(2).collect();
        let without_code = without_code.join("");
        let targets = without_code.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| (number, target.to_owned())));
    }
    found
}

/// What a fragment may be: the headings, as both GitHub and mdBook name them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter_map(|(_, line)| line.split_once("# "));
    let headings = headings.filter(|(level, _)| level.bytes().all(|b| b == b'#'));
    headings
        .map(|(_, heading)| {
            let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
            let name = kept.collect::<String>().to_lowercase().replace(' ', "-");
            let before = seen.entry(name.clone()).and_modify(|n| *n += 1).or_default();
            if *before == 0 { name } else { format!("{name}-{before}") }
        })
        .collect()
}

/// The path of `target` as a link in `page` means it.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    if !target.is_empty() {
        parts.pop();
    }
    for part in target.split('/').filter(|part| !part.is_empty()) {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The relative links of `page` that lead nowhere. `text_of` gives a file's text, if it is there.
fn broken(page: &str, text: &str, text_of: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (line, target) in links(text).into_iter().filter(|(_, t)| !t.contains("://")) {
        let (path, fragment) = target.split_once('#').unwrap_or((&target, ""));
        let path = resolved(page, path);
        let why = match text_of(&path) {
            None => "there is no such file",
            Some(_) if page.starts_with("docs/") && !path.starts_with("docs/") => {
                "it leads out of the book; write the path as code"
            }
            Some(text) if !fragment.is_empty() && !anchors(&text).contains(fragment) => {
                "there is no such heading"
            }
            Some(_) => continue,
        };
        found.push(format!("{page}:{line}: {target}: {why}"));
    }
    found
}

/// The pages that the summary does not list exactly once.
fn not_listed_once(summary: &str, pages: &[String]) -> Vec<String> {
    let listed: Vec<String> =
        links(summary).iter().map(|(_, target)| resolved(SUMMARY, target)).collect();
    let times = |page: &String| listed.iter().filter(|one| *one == page).count();
    pages.iter().filter(|page| times(page) != 1).cloned().collect()
}

/// A file's text; of a picture or a folder nothing.
fn text_of(path: &str) -> Option<String> {
    let path = root().join(path);
    path.exists().then(|| fs::read_to_string(path).unwrap_or_default())
}

#[test]
fn the_summary_lists_every_page_once() {
    let (wrong, none) = (not_listed_once(&read(SUMMARY), &pages()), Vec::<String>::new());
    assert_eq!(wrong, none, "{SUMMARY} does not list these pages exactly once");
}

#[test]
fn every_link_leads_somewhere() {
    let mut all = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), SUMMARY.to_owned()];
    all.extend(pages());
    let found: Vec<String> =
        all.iter().flat_map(|page| broken(page, &read(page), text_of)).collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let files = |path: &str| match path {
        "docs/a.md" => Some("# A\n\n## One, two `three`\n\n## Same\n## Same\n".to_owned()),
        "README.md" | "docs/a.png" => Some(String::new()),
        _ => None,
    };
    let found = |text: &str| broken("docs/a.md", text, files);
    let none = Vec::<String>::new();
    assert_eq!(found("[a](a.md), ![b](a.png), [c](#one-two-three) [d](a.md#same-1)"), none);
    assert_eq!(found("[`code`](https://example.org/none.md), `[no](link.md)`"), none);
    assert_eq!(found("```text\n[no](link.md)\n```"), none);
    assert_eq!(found("[x](b.md)"), ["docs/a.md:1: b.md: there is no such file"]);
    assert_eq!(found("\n[x](a.md#two)"), ["docs/a.md:2: a.md#two: there is no such heading"]);
    assert_eq!(found("[x](#same-2)"), ["docs/a.md:1: #same-2: there is no such heading"]);
    let out = "docs/a.md:1: ../README.md: it leads out of the book; write the path as code";
    assert_eq!(found("[x](../README.md)"), [out]);
    assert_eq!(broken("README.md", "[x](docs/a.md#a)", files), none);
}

#[test]
fn a_page_that_the_summary_lacks_is_found() {
    let pages = ["docs/a.md", "docs/b.md", "docs/c.md"].map(str::to_owned);
    let found = not_listed_once("- [A](a.md)\n- [B](b.md)\n- [B again](b.md)\n", &pages);
    assert_eq!(found, ["docs/b.md", "docs/c.md"]);
}

#[test]
fn the_readme_is_short_and_shows_the_first_program() {
    let (readme, file) = (read("README.md"), read("examples/first.rs"));
    let (_, program) = file.split_once("\n\n").expect("a line of documentation comes first");
    let lines = [readme.lines().count(), program.lines().count()];
    assert!(lines[0] <= 200 && lines[1] <= 20, "{lines:?} lines");
    let shown =
        [format!("```rust\n{program}```"), format!("```toml\n{}```", read("examples/hello.toml"))];
    for text in shown {
        assert!(readme.contains(&text), "README.md does not show as it is:\n{text}");
    }
}
