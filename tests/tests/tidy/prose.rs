//! The language of the documentation: phrases that plain English does without.

use crate::house::{File, Finding, assert_catches, assert_clean, assert_passes};

/// Where the phrases are not used.
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

/// Each phrase, and what to write instead.
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
    ("that it lives", "a heartbeat"),
    ("offered again", "reassigned"),
    ("given back", "released"),
    ("folded anew", "replayed"),
    ("poisonous", "dead-lettered"),
    ("broke off", "was interrupted"),
    ("breaks off", "is interrupted"),
    ("leads nowhere", "does not exist"),
    ("of the house", "of the project"),
    ("the house", "the project"),
];

fn pages_use_plain_phrases(files: &[File]) -> Vec<Finding> {
    let is_judged = |file: &&File| {
        let is_page = |page: &&&str| match page.strip_suffix('/') {
            Some(_) => file.path.starts_with(**page),
            None => file.path == **page,
        };
        file.is_markdown() && PAGES.iter().any(|page| is_page(&page))
    };
    let mut findings = Vec::new();
    for page in files.iter().filter(is_judged) {
        let mut is_sample = false;
        for (number, line) in page.numbered() {
            if line.trim_start().starts_with("```") {
                is_sample = !is_sample;
            }
            if is_sample {
                continue;
            }
            let prose = prose(line);
            for (phrase, better) in PHRASES {
                if has_phrase(&prose, phrase) {
                    let what = format!("\"{phrase}\": write \"{better}\" or the like");
                    findings.push(page.finding(number, what));
                }
            }
        }
    }
    findings
}

/// A line in lower case, without what is in backticks.
fn prose(line: &str) -> String {
    let outside = line.split('`').step_by(2);
    outside.collect::<Vec<_>>().join(" ").to_lowercase()
}

/// Whether a phrase is in a text, as whole words.
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
    assert_clean(pages_use_plain_phrases);
}

#[test]
fn a_phrase_of_the_list_is_caught() {
    assert_catches(
        pages_use_plain_phrases,
        &[
            ("README.md", "It takes 16 at once unless said otherwise.\n"),
            ("docs/start/a.md", "Check it By head.\n"),
            ("docs/concepts/a.md", "Whoever has `token` may enter.\n"),
            ("docs/reference/a.md", "It goes on.\n"),
        ],
    );
    assert_passes(
        pages_use_plain_phrases,
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
