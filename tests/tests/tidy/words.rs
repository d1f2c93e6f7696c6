//! Banned names of types and modules, and banned texts: unfinished work, local paths, disabled code, history.

use regex::Regex;

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Suffixes that do not describe a type.
const VAGUE_WORDS: &[&str] = &[
    "Manager", "Handler", "Service", "Helper", "Helpers", "Info", "Util", "Utils", "V2",
];
const VAGUE_MODULES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "core"];

fn find_vague_type_names(files: &[SourceFile]) -> Vec<TidyFinding> {
    let declaration = Regex::new(r"^\s*(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type|union) ([A-Z]\w*)")
        .expect("the pattern is valid");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, line) in file.numbered_lines() {
            let Some(captures) = declaration.captures(line) else {
                continue;
            };
            let name = &captures[1];
            let is_empty =
                VAGUE_WORDS.iter().any(|suffix| name.ends_with(suffix)) || (name.ends_with("Data") && name != "Data");
            if is_empty {
                findings.push(file.finding(number, format!("`{name}` does not describe the type")));
            }
        }
    }
    findings
}

fn find_vague_module_names(files: &[SourceFile]) -> Vec<TidyFinding> {
    let is_empty = |part: &str| VAGUE_MODULES.contains(&part.strip_suffix(".rs").unwrap_or(part));
    files
        .iter()
        .filter(|file| file.is_rust() && file.path.split('/').any(is_empty))
        .map(|file| file.finding(1, "name a module or crate after what it contains"))
        .collect()
}

/// Finds markers of unfinished work and paths of a developer's machine, in all files.
fn find_unfinished_texts(files: &[SourceFile]) -> Vec<TidyFinding> {
    // The markers are split so that this line does not match them.
    let marker = Regex::new(concat!(r"\b(TO", "DO|FIX", "ME|XX", r"X)\b")).expect("the pattern is valid");
    let machine = Regex::new(r"(?:^|[^\w.])/(?:root|work|farm)/").expect("the pattern is valid");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| !is_this_file(file)) {
        for (number, line) in file.numbered_lines() {
            if marker.is_match(line) {
                findings.push(file.finding(number, "marker of unfinished work; move it to the issue tracker"));
            } else if machine.is_match(line) {
                findings.push(file.finding(number, "path of a developer's machine"));
            }
        }
    }
    findings
}

/// Finds disabled and unimplemented code.
fn find_disabled_code(files: &[SourceFile]) -> Vec<TidyFinding> {
    const DEAD: &[&str] = &[
        "todo!(",
        "unimplemented!(",
        "allow(dead_code",
        "expect(dead_code",
        "#[ignore",
    ];
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !is_this_file(file)) {
        for (number, line) in file.numbered_lines() {
            if let Some(dead) = DEAD.iter().find(|dead| line.contains(**dead)) {
                findings.push(file.finding(number, format!("`{dead}`: implement the code or delete it")));
            }
        }
    }
    findings
}

/// Finds history and plans in comments and documents: issue numbers, dates of work, phases.
fn find_history(files: &[SourceFile]) -> Vec<TidyFinding> {
    let history = Regex::new(r"(?i)(?:^|[\s(])#\d+\b|\b20\d\d-\d\d-\d\d\b(?:[^T\d]|$)|\bphase \d|\bpreviously\b")
        .expect("the pattern is valid");
    let quoted = Regex::new("`[^`]*`|\"[^\"]*\"").expect("the pattern is valid");
    let mut findings = Vec::new();
    let is_judged = |file: &&SourceFile| {
        (file.is_rust() && !is_this_file(file)) || (file.is_markdown() && file.name() != "CHANGELOG.md")
    };
    for file in files.iter().filter(is_judged) {
        let mut is_sample = false;
        for (number, line) in file.numbered_lines() {
            let prose = if file.is_rust() { comment_text(line) } else { Some(line) };
            let Some(prose) = prose else { continue };
            if prose.trim_start().starts_with("```") {
                is_sample = !is_sample;
            }
            if !is_sample && history.is_match(&quoted.replace_all(prose, "")) {
                findings.push(file.finding(
                    number,
                    "remove history and plans: they belong in git and in the issue tracker",
                ));
            }
        }
    }
    findings
}

fn comment_text(line: &str) -> Option<&str> {
    let trimmed = line.trim_start();
    if trimmed.starts_with("//") {
        return Some(trimmed.trim_start_matches(['/', '!']));
    }
    line.split_once("; // ").map(|(_, comment)| comment)
}

/// This file is exempt because its patterns and controls match the rules.
fn is_this_file(file: &SourceFile) -> bool {
    file.path == "tests/tests/tidy/words.rs"
}

#[test]
fn no_type_has_a_vague_name() {
    assert_clean(find_vague_type_names);
}

#[test]
fn no_module_has_a_vague_name() {
    assert_clean(find_vague_module_names);
}

#[test]
fn no_text_is_unfinished_or_tied_to_a_machine() {
    assert_clean(find_unfinished_texts);
}

#[test]
fn no_code_is_disabled() {
    assert_clean(find_disabled_code);
}

#[test]
fn no_text_describes_history() {
    assert_clean(find_history);
}

#[test]
fn a_vague_type_name_is_reported() {
    assert_catches(
        find_vague_type_names,
        &[
            ("crates/store/src/a.rs", "pub(crate) struct LogManager {\n"),
            ("crates/store/src/b.rs", "pub enum TaskData {\n"),
            ("crates/store/src/c.rs", "trait Handler {\n"),
        ],
    );
    assert_passes(
        find_vague_type_names,
        &[("crates/model/src/a.rs", "pub struct Data;\n")],
    );
}

#[test]
fn a_vague_module_name_is_reported() {
    assert_catches(
        find_vague_module_names,
        &[("crates/store/src/utils.rs", ""), ("crates/common/src/lib.rs", "")],
    );
    assert_passes(find_vague_module_names, &[("crates/store/src/log/mod.rs", "")]);
}

#[test]
fn unfinished_text_is_caught() {
    assert_catches(
        find_unfinished_texts,
        &[
            ("docs/a.md", "TODO: write this\n"),
            ("crates/store/src/a.rs", "// FIXME later\n"),
            ("examples/a.yaml", "path: /root/data.csv\n"),
        ],
    );
}

#[test]
fn dead_code_is_caught() {
    assert_catches(
        find_disabled_code,
        &[
            ("crates/store/src/a.rs", "    todo!(\"later\")\n"),
            ("crates/store/src/b.rs", "#[allow(dead_code)]\n"),
            ("crates/store/tests/c.rs", "#[ignore = \"slow\"]\n"),
        ],
    );
}

#[test]
fn history_is_caught() {
    assert_catches(
        find_history,
        &[
            ("crates/store/src/a.rs", "// See #115 for why.\n"),
            ("crates/store/src/b.rs", "/// Changed on 2031-02-03.\n"),
            ("crates/store/src/c.rs", "let a = 1; // Phase 3 removes it.\n"),
            ("docs/a.md", "It was previously called a node (#7).\n"),
        ],
    );
    assert_passes(
        find_history,
        &[
            ("crates/store/src/a.rs", "let colour = \"#115\";\n"),
            (
                "docs/a.md",
                "## A title\n\nThe address `fetch#44`, the time `2031-02-03`.\n```\n# 1 and #2\n```\n",
            ),
        ],
    );
}
