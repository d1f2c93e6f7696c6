//! Banned phrases in the documentation, and in the comments and string literals of the crates.

use regex::Regex;

use crate::source_files::{
    COMMENTS_AND_LITERALS, SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes,
};

/// Pages and directories of pages that are checked.
const PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "docs/README.md",
    "docs/benchmarks.md",
    "docs/glossary.md",
    "docs/concepts/",
    "docs/contributing/",
    "docs/guide/",
    "docs/reference/",
    "docs/start/",
];

/// Crates and modules that are not checked, because their texts still contain the phrases.
const UNCHECKED_CODE: &[&str] = &[
    "crates/language/",
    "crates/model/",
    "crates/server/src/result_reader/",
    "crates/server/src/results.rs",
];

/// Phrases that neither pages nor code may contain, each with a replacement.
const PHRASES: &[(&str, &str)] = &[
    ("unless said", "by default"),
    ("unless told", "by default"),
    ("by head", "expected result"),
    ("goes on", "continues"),
    ("went on", "continued"),
    ("so many", "maximum"),
    ("whoever", "the actor"),
    ("nobody", "the actor"),
    ("how it stands", "status"),
    ("as it stands", "current state"),
    ("put together", "combined"),
    ("comes to", "evaluates to"),
    ("come to", "evaluate to"),
    ("lifted out", "extracted"),
    ("shut in", "sandboxed"),
    ("in the clear", "unencrypted"),
    ("at hand", "available"),
    ("says goodbye", "deregisters"),
    ("say goodbye", "deregister"),
    ("that it lives", "a heartbeat"),
    ("given back", "released"),
    ("folded anew", "replayed"),
    ("poisonous", "dead-lettered"),
    ("broke off", "was interrupted"),
    ("breaks off", "is interrupted"),
    ("leads nowhere", "does not exist"),
    ("of the house", "of the project"),
    ("the house", "the project"),
];

/// Phrases that pages may not contain. In code, a command that no worker has claimed is offered.
const PAGE_PHRASES: &[(&str, &str)] = &[("offered again", "reassigned")];

/// Phrases that code may not contain.
const CODE_PHRASES: &[(&str, &str)] = &[
    ("in the same breath", "in the same commit"),
    ("somebody", "the actor"),
    ("is told", "receives"),
    ("are told", "receive"),
    ("heard", "received"),
    ("hears", "receives"),
    ("so often", "maximum"),
    ("anew", "again"),
    ("the room", "the module"),
    ("rooms", "modules"),
];

fn find_banned_phrases_in_pages(files: &[SourceFile]) -> Vec<TidyFinding> {
    let is_judged = |file: &&SourceFile| {
        let is_page = |page: &&&str| match page.strip_suffix('/') {
            Some(_) => file.path.starts_with(**page),
            None => file.path == **page,
        };
        file.is_markdown() && PAGES.iter().any(|page| is_page(&page))
    };
    let mut findings = Vec::new();
    for page in files.iter().filter(is_judged) {
        let mut is_sample = false;
        for (number, line) in page.numbered_lines() {
            if line.trim_start().starts_with("```") {
                is_sample = !is_sample;
            }
            if is_sample {
                continue;
            }
            for message in banned(line, PAGE_PHRASES) {
                findings.push(page.finding(number, message));
            }
        }
    }
    findings
}

fn find_banned_phrases_in_code(files: &[SourceFile]) -> Vec<TidyFinding> {
    let is_judged = |file: &&SourceFile| {
        file.is_rust() && file.crate_name().is_some() && !UNCHECKED_CODE.iter().any(|path| file.path.starts_with(path))
    };
    let mut findings = Vec::new();
    for file in files.iter().filter(is_judged) {
        for (number, line) in comments_and_literals(&file.text) {
            for message in banned(line, CODE_PHRASES) {
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

/// Numbered lines of comments and string literals. Literals without a space are values, not prose, and are left out.
fn comments_and_literals(text: &str) -> Vec<(usize, &str)> {
    let pattern = Regex::new(COMMENTS_AND_LITERALS).expect("the pattern is valid");
    let mut lines = Vec::new();
    let (mut number, mut end) = (1, 0);
    for matched in pattern.find_iter(text) {
        number += text[end..matched.start()].matches('\n').count();
        end = matched.start();
        if matched.as_str().contains(' ') {
            let matched_lines = matched.as_str().lines().enumerate();
            lines.extend(matched_lines.map(|(index, line)| (number + index, line)));
        }
    }
    lines
}

/// A message for each banned phrase in a line: those of `PHRASES` and `more`.
fn banned(line: &str, more: &[(&str, &str)]) -> Vec<String> {
    let prose = plain_line(line);
    PHRASES
        .iter()
        .chain(more)
        .filter(|(phrase, _)| has_phrase(&prose, phrase))
        .map(|(phrase, better)| format!("\"{phrase}\": write \"{better}\" or the like"))
        .collect()
}

/// The line in lower case, without text in backticks.
fn plain_line(line: &str) -> String {
    let outside = line.split('`').step_by(2);
    outside.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether a text contains a phrase as whole words.
fn has_phrase(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + phrase.len()..].chars().next();
        !is_letter(before) && !is_letter(after)
    })
}

#[test]
fn pages_are_written_in_plain_phrases() {
    assert_clean(find_banned_phrases_in_pages);
}

#[test]
fn code_is_written_in_plain_phrases() {
    assert_clean(find_banned_phrases_in_code);
}

#[test]
fn a_phrase_of_the_list_is_caught() {
    assert_catches(
        find_banned_phrases_in_pages,
        &[
            ("README.md", "It takes 16 at once unless said otherwise.\n"),
            ("docs/start/a.md", "Check it By head.\n"),
            ("docs/concepts/a.md", "Whoever has `token` may enter.\n"),
            ("docs/reference/a.md", "It goes on.\n"),
        ],
    );
    assert_passes(
        find_banned_phrases_in_pages,
        &[
            (
                "docs/start/a.md",
                "The field `whoever` is text.\n```\nunless said\n```\n",
            ),
            ("docs/decisions/a.md", "16 unless said.\n"),
            ("docs/start/b.md", "The warehouse has income to report.\n"),
        ],
    );
}

#[test]
fn a_phrase_in_code_is_caught() {
    assert_catches(
        find_banned_phrases_in_code,
        &[
            ("crates/store/src/a.rs", "//! Whoever reads this.\n"),
            ("crates/store/src/b.rs", "let a = 1; // The run goes on.\n"),
            ("crates/store/src/c.rs", "let quote = '\"';\nbail!(\"nobody asked\");\n"),
            (
                "crates/store/src/d.rs",
                "let text = r#\"a \"quoted\" word\nand somebody\"#;\n",
            ),
        ],
    );
    assert_passes(
        find_banned_phrases_in_code,
        &[
            ("crates/store/src/a.rs", "fn goes_on<'a>(nobody: &'a str) {}\n"),
            ("crates/store/src/b.rs", "let worker = \"nobody\";\n"),
            ("crates/store/src/c.rs", "/// Fills `so many` fields.\n"),
            ("tests/src/d.rs", "// Nobody reads this.\n"),
        ],
    );
}

#[test]
fn comments_and_literals_keep_their_lines() {
    let text = "fn a() {\n    // one two\n    b(\"three\\\" four\nfive\", 'x', \"six\");\n}\n";
    assert_eq!(
        comments_and_literals(text),
        [(2, "// one two"), (3, "\"three\\\" four"), (4, "five\"")]
    );
}
