//! Names of types: one name stands for one type, and no name is a bare participle or a metaphor.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Names that several crates may declare. They are always written with their crate.
const SHARED_NAMES: &[&str] = &["Error", "Config"];

/// Number of crates that may not declare the same name.
const CRATES_MAX: usize = 2;

/// Words that do not say what a value is, each with the words to use.
const BANNED_WORDS: &[(&str, &str)] = &[
    ("Ask", "Request or Query"),
    ("Asked", "Request or the noun that is requested"),
    ("Begun", "Started with its noun"),
    ("Broken", "Error"),
    ("Desk", "Sandbox"),
    ("Errand", "Task"),
    ("Found", "the noun that was found"),
    ("Going", "Process"),
    ("Hand", "Assignment, Command or Capacity"),
    ("Handed", "Assigned with its noun"),
    ("Hands", "WorkerCapacity"),
    ("Held", "Claim or Cached with its noun"),
    ("Hole", "AllowedTarget"),
    ("House", "Fixture"),
    ("Keeper", "Store or Writer"),
    ("Kept", "Stored or Cached with its noun"),
    ("Lack", "Missing with its noun"),
    ("Look", "Scan or Poll"),
    ("Manner", "Options"),
    ("Mortal", "Killable with its noun"),
    ("News", "Update or Notice"),
    ("Pace", "Timeouts"),
    ("Place", "Location, Span, Position or Context"),
    ("Said", "Output or Response"),
    ("Shelf", "Store or Queue"),
    ("Spot", "Location"),
    ("Standing", "Status"),
    ("Taken", "the noun that was taken"),
    ("Told", "Notice"),
    ("Trouble", "Error"),
    ("Unusable", "Error"),
    ("Wish", "Options"),
];

/// Vague names of functions.
const BANNED_FUNCTIONS: &[&str] = &[
    "hand",
    "hands",
    "hear",
    "held",
    "kept",
    "lack",
    "must_suit",
    "say",
    "see",
    "told",
    "word",
];

/// The types that a file declares, with line numbers. Associated types of traits are left out.
pub(crate) fn declared_types(file: &SourceFile) -> Vec<(usize, String)> {
    let declaration = Regex::new(
        r"^(?:(\s*)(?:pub(?:\([a-z: ]+\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([a-z: ]+\))? )?type) ([A-Z]\w*)",
    )
    .expect("the pattern is valid");
    let captures = file
        .numbered_lines()
        .filter_map(|(number, line)| Some((number, declaration.captures(line)?)));
    captures
        .map(|(number, captures)| (number, captures[2].to_owned()))
        .collect()
}

/// The crate of a file, with each package outside `crates/` as a crate of its own.
fn package(file: &SourceFile) -> &str {
    let first = || file.path.split('/').next().unwrap_or_default();
    file.crate_name().unwrap_or_else(first)
}

fn find_ambiguous_type_names(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut packages: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut declarations = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, name) in declared_types(file) {
            packages.entry(name.clone()).or_default().insert(package(file));
            declarations.push((file, number, name));
        }
    }
    let is_ambiguous = |name: &String| !SHARED_NAMES.contains(&name.as_str()) && packages[name].len() > CRATES_MAX;
    declarations
        .into_iter()
        .filter(|(_, _, name)| is_ambiguous(name))
        .map(|(file, number, name)| {
            let crates: Vec<&str> = packages[&name].iter().copied().collect();
            let crates = crates.join(", ");
            file.finding(
                number,
                format!("`{name}` is declared in {crates}; name each type after what it is"),
            )
        })
        .collect()
}

fn find_banned_words_in_names(files: &[SourceFile]) -> Vec<TidyFinding> {
    let name_part = Regex::new("[A-Z][a-z0-9]*").expect("the pattern is valid");
    let function =
        Regex::new(r"^\s*(?:pub(?:\([a-z: ]+\))? )?(?:const )?(?:async )?fn (\w+)").expect("the pattern is valid");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, name) in declared_types(file) {
            for part in name_part.find_iter(&name) {
                let banned = BANNED_WORDS.iter().find(|(banned, _)| *banned == part.as_str());
                if let Some((banned, instead)) = banned {
                    let message = format!("`{name}`: `{banned}` does not say what the value is; use {instead}");
                    findings.push(file.finding(number, message));
                }
            }
        }
        for (number, line) in file.numbered_lines() {
            let Some(captures) = function.captures(line) else {
                continue;
            };
            if BANNED_FUNCTIONS.contains(&&captures[1]) {
                let message = format!(
                    "`{}()` does not say what it does; use a verb and its object",
                    &captures[1]
                );
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

#[test]
fn no_type_name_is_used_in_three_crates() {
    assert_clean(find_ambiguous_type_names);
}

#[test]
fn no_name_uses_a_banned_word() {
    assert_clean(find_banned_words_in_names);
}

#[test]
fn a_name_in_three_crates_is_caught() {
    let count_findings = |seeds: &[(&str, &str)]| {
        let files = seeds.iter().map(|(path, text)| SourceFile::new_seeded(path, text));
        find_ambiguous_type_names(&files.collect::<Vec<_>>()).len()
    };
    let reply = "pub(crate) struct Reply;\n";
    let two = [("crates/store/src/a.rs", reply), ("crates/tools/src/a.rs", reply)];
    let three = [two[0], two[1], ("tests/src/a.rs", reply)];
    assert_eq!(count_findings(&three), 3);
    assert_eq!(count_findings(&two), 0);
    let associated = [two[0], two[1], ("crates/wire/src/a.rs", "    type Reply = u8;\n")];
    assert_eq!(count_findings(&associated), 0);
    let error = "pub(crate) struct Error;\n";
    let errors = [
        ("crates/store/src/a.rs", error),
        ("crates/tools/src/a.rs", error),
        ("crates/wire/src/a.rs", error),
    ];
    assert_eq!(count_findings(&errors), 0);
}

#[test]
fn a_banned_word_is_caught() {
    assert_catches(
        find_banned_words_in_names,
        &[
            ("crates/store/src/a.rs", "pub struct Held {\n"),
            ("crates/store/src/b.rs", "enum LogAsk {\n"),
            ("crates/store/src/c.rs", "    pub(crate) async fn told(&self) {\n"),
        ],
    );
    assert_passes(
        find_banned_words_in_names,
        &[(
            "crates/store/src/a.rs",
            "pub struct Handle;\nstruct Placement;\nfn hand_over_slots() {}\n",
        )],
    );
}
