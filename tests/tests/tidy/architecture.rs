//! Checks that `ARCHITECTURE.md` and the contributor pages match the code: crates, dependencies, paths and types.

use std::collections::BTreeSet;

use regex::Regex;
use toml::{Table, Value};

use crate::dependencies::ALLOWED_DEPENDENCIES;
use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

const PAGE: &str = "ARCHITECTURE.md";

/// Every member of the workspace has a row under "Crates", and every row there is a member.
fn find_unlisted_crates(files: &[SourceFile]) -> Vec<TidyFinding> {
    let (Some(page), Some(manifest)) = (file(files, PAGE), file(files, "Cargo.toml")) else {
        return Vec::new();
    };
    let names: BTreeSet<String> = first_cells(&section(&page.text, "Crates"));
    let members = members(&manifest.text, files);
    let missing = members.difference(&names);
    let missing = missing.map(|name| page.finding(1, format!("`{name}` has no row under Crates")));
    let stale = names.difference(&members);
    let stale = stale.map(|name| page.finding(1, format!("`{name}` is not in the workspace")));
    missing.chain(stale).collect()
}

/// Directories of the workspace members.
fn members(manifest: &str, files: &[SourceFile]) -> BTreeSet<String> {
    let manifest: Table = manifest.parse().expect("the manifest is valid TOML");
    let patterns = manifest["workspace"]["members"].as_array();
    let patterns = patterns.expect("the workspace lists its members").iter();
    let patterns: Vec<&str> = patterns.filter_map(Value::as_str).collect();
    let directories = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let is_member = |directory: &&str| {
        let parent = directory.rsplit_once('/').map_or("", |(parent, _)| parent);
        let of_parent = format!("{parent}/*");
        patterns
            .iter()
            .any(|pattern| pattern == directory || *pattern == of_parent)
    };
    directories.filter(is_member).map(str::to_owned).collect()
}

/// The table of dependencies equals `ALLOWED_DEPENDENCIES`, which the manifests are checked against.
fn find_wrong_dependency_rows(files: &[SourceFile]) -> Vec<TidyFinding> {
    let Some(page) = file(files, PAGE) else {
        return Vec::new();
    };
    let rows = section(&page.text, "Dependencies between crates");
    let expected = ALLOWED_DEPENDENCIES
        .iter()
        .map(|(name, allowed)| dependency_row(name, allowed));
    let is_missing = |row: &String| !rows.contains(&row.as_str());
    expected
        .filter(is_missing)
        .map(|row| page.finding(1, format!("the table of dependencies needs the row {row}")))
        .collect()
}

/// The row of a crate in the table of dependencies.
fn dependency_row(name: &str, allowed: &[&str]) -> String {
    let allowed: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
    let allowed = if allowed.is_empty() {
        "nothing".to_owned()
    } else {
        allowed.join(", ")
    };
    format!("| `{name}` | {allowed} |")
}

/// Paths in the pages for contributors exist.
fn find_missing_paths(files: &[SourceFile]) -> Vec<TidyFinding> {
    let path =
        Regex::new(r"`((?:crates|tests|docs|xtask|bench|examples|deploy)/[\w./-]*)`").expect("the pattern is valid");
    let is_judged = |file: &&SourceFile| {
        [PAGE, "CONTRIBUTING.md"].contains(&file.path.as_str())
            || (file.is_markdown() && file.path.starts_with("docs/contributing/"))
    };
    let mut findings = Vec::new();
    for page in files.iter().filter(is_judged) {
        for (number, line) in page.numbered_lines() {
            for captures in path.captures_iter(line) {
                let path = captures[1].trim_end_matches('/');
                let folder = format!("{path}/");
                let exists = |file: &SourceFile| file.path == path || file.path.starts_with(&folder);
                if !files.iter().any(exists) {
                    findings.push(page.finding(number, format!("`{path}` does not exist")));
                }
            }
        }
    }
    findings
}

/// Every type in the data flow table is declared in a crate.
fn find_missing_types(files: &[SourceFile]) -> Vec<TidyFinding> {
    let Some(page) = file(files, PAGE) else {
        return Vec::new();
    };
    let pattern = Regex::new(r"`([A-Z]\w+)(?:::([A-Z]\w+))?`").expect("the pattern is valid");
    let table = section(&page.text, "Data flow").join("\n");
    let names: BTreeSet<(String, Option<String>)> = pattern
        .captures_iter(&table)
        .map(|captures| {
            let variant = captures.get(2).map(|variant| variant.as_str().to_owned());
            (captures[1].to_owned(), variant)
        })
        .collect();
    if names.is_empty() {
        return vec![page.finding(1, "the table under Data flow names no type")];
    }
    let is_missing = |(name, variant): &(String, Option<String>)| {
        !files
            .iter()
            .filter(|file| file.is_rust() && file.crate_name().is_some())
            .any(|file| declares(&file.text, name, variant.as_deref()))
    };
    names
        .into_iter()
        .filter(is_missing)
        .map(|(name, variant)| {
            let variant = variant.map_or_else(String::new, |variant| format!("::{variant}"));
            page.finding(1, format!("no crate declares `{name}{variant}`"))
        })
        .collect()
}

fn declares(text: &str, name: &str, variant: Option<&str>) -> bool {
    let pattern = match variant {
        None => format!(r"(?m)^pub (?:struct|enum|trait|type) {name}\b"),
        Some(variant) => format!(r"(?ms)^pub enum {name} \{{[^}}]*?^    {variant}\b"),
    };
    let pattern = Regex::new(&pattern).expect("type names need no escaping");
    pattern.is_match(text)
}

/// Findings in the format of the test output.
fn to_lines(findings: &[TidyFinding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn file<'a>(files: &'a [SourceFile], path: &str) -> Option<&'a SourceFile> {
    files.iter().find(|file| file.path == path)
}

/// Lines between a level 2 heading and the next one.
fn section<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let heading = format!("## {heading}");
    page.lines()
        .skip_while(|line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .collect()
}

/// Names in backticks at the start of table rows.
fn first_cells(lines: &[&str]) -> BTreeSet<String> {
    lines
        .iter()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`'))
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[test]
fn the_architecture_lists_every_crate() {
    assert_clean(find_unlisted_crates);
}

#[test]
fn the_architecture_shows_the_allowed_dependencies() {
    assert_clean(find_wrong_dependency_rows);
}

#[test]
fn paths_in_pages_for_contributors_exist() {
    assert_clean(find_missing_paths);
}

#[test]
fn types_of_the_data_flow_exist() {
    assert_clean(find_missing_types);
}

#[test]
fn a_crate_that_is_missing_or_stale_is_caught() {
    let manifest = "[workspace]\nmembers = [\"crates/*\", \"bench\"]\n";
    let page = "## Crates\n\n| `crates/a` | one |\n| `crates/gone` | two |\n\n## Else\n\n| `crates/b` | no |\n";
    let files = [
        SourceFile::new_seeded("ARCHITECTURE.md", page),
        SourceFile::new_seeded("Cargo.toml", manifest),
        SourceFile::new_seeded("crates/a/Cargo.toml", ""),
        SourceFile::new_seeded("crates/b/Cargo.toml", ""),
        SourceFile::new_seeded("examples/tools/words/Cargo.toml", ""),
    ];
    assert_eq!(
        to_lines(&find_unlisted_crates(&files)),
        [
            "ARCHITECTURE.md:1: `crates/b` has no row under Crates",
            "ARCHITECTURE.md:1: `crates/gone` is not in the workspace",
        ]
    );
}

#[test]
fn a_wrong_row_of_dependencies_is_caught() {
    let rows = ALLOWED_DEPENDENCIES
        .iter()
        .map(|(name, allowed)| dependency_row(name, allowed));
    let rows: Vec<String> = rows.collect();
    let right = format!("## Dependencies between crates\n\n{}\n", rows.join("\n"));
    let wrong = right.replace("| `wire` | `model` |", "| `wire` | `model`, `store` |");
    assert_passes(find_wrong_dependency_rows, &[(PAGE, &right)]);
    assert_catches(find_wrong_dependency_rows, &[(PAGE, &wrong)]);
}

#[test]
fn a_path_that_does_not_exist_is_caught() {
    assert_catches(
        find_missing_paths,
        &[
            ("ARCHITECTURE.md", "See `crates/gone/src`.\n"),
            ("docs/contributing/a.md", "Edit `tests/gone.rs`.\n"),
        ],
    );
    assert_passes(
        find_missing_paths,
        &[
            (
                "docs/contributing/a.md",
                "This is `docs/contributing/a.md` in `docs/contributing/`.\n",
            ),
            ("docs/guide/a.md", "See `crates/gone/src`.\n"),
        ],
    );
}

#[test]
fn a_page_without_the_data_flow_is_caught() {
    assert_catches(find_missing_types, &[(PAGE, "## Flow\n\n| 1 | `Input` |\n")]);
}

#[test]
fn a_type_that_does_not_exist_is_caught() {
    let page = "## Data flow\n\n| 1 | `Input::Submit` | `Input::Gone` | `Outcome` | `Missing` |\n";
    let input =
        "pub enum Input {\n    /// A run.\n    Submit(Box<Submit>),\n    Resume,\n}\n\npub enum Gone {\n    Gone,\n}\n";
    let files = [
        SourceFile::new_seeded(PAGE, page),
        SourceFile::new_seeded("crates/engine/src/input.rs", input),
        SourceFile::new_seeded("crates/model/src/outcome.rs", "pub enum Outcome {\n}\n"),
        SourceFile::new_seeded("tests/src/a.rs", "pub struct Missing;\n"),
    ];
    assert_eq!(
        to_lines(&find_missing_types(&files)),
        [
            "ARCHITECTURE.md:1: no crate declares `Input::Gone`",
            "ARCHITECTURE.md:1: no crate declares `Missing`",
        ]
    );
}
