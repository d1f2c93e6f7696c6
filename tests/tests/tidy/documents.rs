//! Checks the list of dependencies and the links between pages.

use std::collections::BTreeSet;

use regex::Regex;
use toml::{Table, Value};

use crate::source_files::{SourceFile, TidyFinding, assert_clean, project_root};

const REASONS_PAGE: &str = "docs/dependencies.md";
const INVARIANTS_PAGE: &str = "docs/contributing/invariants.md";

/// Every external dependency has a row with its reason, and every row is a dependency of the workspace.
fn find_dependencies_without_reasons(files: &[SourceFile]) -> Vec<TidyFinding> {
    let Some(manifest) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return Vec::new();
    };
    let names: BTreeSet<String> = files
        .iter()
        .find(|file| file.path == REASONS_PAGE)
        .map(|page| first_column(&page.text))
        .unwrap_or_default();
    let used = workspace_libraries(&manifest.text);
    let missing = used.difference(&names).map(|name| {
        manifest.finding(
            1,
            format!("`{name}` has no row in {REASONS_PAGE}: add one with the reason for it"),
        )
    });
    let stale = names
        .difference(&used)
        .map(|name| manifest.finding(1, format!("{REASONS_PAGE} lists `{name}`, which is not a dependency")));
    missing.chain(stale).collect()
}

fn workspace_libraries(manifest: &str) -> BTreeSet<String> {
    let manifest: Table = manifest.parse().expect("the manifest is valid TOML");
    let dependencies = manifest["workspace"]["dependencies"]
        .as_table()
        .expect("the workspace has dependencies");
    let is_foreign = |value: &Value| value.get("path").is_none();
    let foreign = dependencies.iter().filter(|(_, value)| is_foreign(value));
    foreign.map(|(name, _)| name.clone()).collect()
}

/// Names in backticks in the first column.
fn first_column(page: &str) -> BTreeSet<String> {
    page.lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Every number that a checker reports is explained on the page of the invariants.
fn find_unexplained_invariants(files: &[SourceFile]) -> Vec<TidyFinding> {
    let page = files.iter().find(|file| file.path == INVARIANTS_PAGE);
    let explained: BTreeSet<&str> = page
        .iter()
        .flat_map(|page| page.text.lines())
        .filter_map(|line| Some(line.strip_prefix("| ")?.split_once(" |")?.0))
        .collect();
    let check = Regex::new(r"check_invariant\(\s*(\d+)").expect("the pattern is valid");
    let checkers = files.iter().filter(|file| file.path.starts_with("tests/src/"));
    let mut findings = Vec::new();
    for file in checkers {
        for captures in check.captures_iter(&file.text) {
            if !explained.contains(&captures[1]) {
                let (start, number) = (captures.get_match().start(), &captures[1]);
                let line = file.text[..=start].lines().count();
                findings.push(file.finding(line, format!("{INVARIANTS_PAGE} has no row for invariant {number}")));
            }
        }
    }
    findings
}

/// The target of every relative link exists.
fn find_broken_links(files: &[SourceFile]) -> Vec<TidyFinding> {
    let link = Regex::new(r"\]\(([^)\s#]+)(?:#[^)]*)?\)").expect("the pattern is valid");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_markdown()) {
        for (number, line) in file.numbered_lines() {
            for captures in link.captures_iter(line) {
                let target = &captures[1];
                if !target.contains("://") && !is_valid_link(files, &file.path, target) {
                    findings.push(file.finding(number, format!("`{target}` does not exist")));
                }
            }
        }
    }
    findings
}

fn is_valid_link(files: &[SourceFile], from: &str, target: &str) -> bool {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let path = parts.join("/");
    let folder = format!("{path}/");
    // License files have no extension, so `files` does not read them.
    path.starts_with("LICENSE-")
        || is_picture(&path)
        || files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&folder))
}

/// Whether the path is a picture in the project; `files` has only texts.
fn is_picture(path: &str) -> bool {
    let file = project_root().join(path);
    file.extension().is_some_and(|extension| extension == "png") && file.is_file()
}

#[test]
fn every_dependency_has_a_reason() {
    assert_clean(find_dependencies_without_reasons);
}

#[test]
fn every_link_targets_a_file() {
    assert_clean(find_broken_links);
}

#[test]
fn every_invariant_is_explained() {
    assert_clean(find_unexplained_invariants);
}

#[test]
fn an_unexplained_invariant_is_caught() {
    let files = [
        SourceFile::new_seeded(
            INVARIANTS_PAGE,
            "| Number | Invariant |\n|---|---|\n| 2 | `seq` has no gaps. |\n",
        ),
        SourceFile::new_seeded(
            "tests/src/a.rs",
            "    check_invariant(2, a, b)?;\n    check_invariant(\n        7,\n",
        ),
    ];
    let findings = find_unexplained_invariants(&files);
    let findings: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].starts_with("tests/src/a.rs:2"), "{findings:?}");
}

#[test]
fn a_dependency_without_a_reason_and_a_stale_reason_are_caught() {
    let manifest =
        "[workspace.dependencies]\nmodel = { path = \"crates/model\" }\nserde = \"1\"\ntokio = { version = \"1\" }\n";
    let page = "| Crate | Why |\n|---|---|\n| `serde` | values |\n| `chrono` | time |\n";
    let files = [
        SourceFile::new_seeded("Cargo.toml", manifest),
        SourceFile::new_seeded(REASONS_PAGE, page),
    ];
    let findings: Vec<String> = find_dependencies_without_reasons(&files)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("`tokio`"), "{findings:?}");
    assert!(findings[1].contains("`chrono`"), "{findings:?}");
}

#[test]
fn a_broken_link_is_reported() {
    let page = "[a](../README.md) [b](gone.md#x) [c](https://example.com/x) [d](guide/)\n\
        ![e](pictures/runs.png) ![f](pictures/gone.png)\n";
    let files = [
        SourceFile::new_seeded("README.md", "# A\n"),
        SourceFile::new_seeded("docs/guide/a.md", "# B\n"),
        SourceFile::new_seeded("docs/index.md", page),
    ];
    let findings: Vec<String> = find_broken_links(&files).iter().map(ToString::to_string).collect();
    let expected = [
        "docs/index.md:1: `gone.md` does not exist",
        "docs/index.md:2: `pictures/gone.png` does not exist",
    ];
    assert_eq!(findings, expected);
}
