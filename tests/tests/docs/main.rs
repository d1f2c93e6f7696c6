//! Generated parts of pages: the tables of events, errors, decisions, the configuration and the command line must match the
//! code and the decision records.
//!
//! With `NOETL_ACCEPT` set, a stale page is rewritten instead; `cargo xtask docs` does that.

mod command_line;
mod configuration;
mod licenses;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use language::diagnostic::CODES;
use model::event::{AllowedSource, EventKind};

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Compares the generated parts of a page with the expected texts, or rewrites them.
fn assert_current(page: &str, expected: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(&path).expect("the page exists");
    let current = with_generated(&text, expected).expect("the page marks its generated parts");
    assert_file_is_current(page, &current);
}

/// Compares a generated file with the expected text, or rewrites it.
#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn assert_file_is_current(file: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("NOETL_ACCEPT").is_some() {
        fs::write(&path, expected).expect("the file is writable");
    } else {
        let text = fs::read_to_string(&path).expect("the file exists");
        assert_eq!(text, expected, "{file} is stale; run `cargo xtask docs`");
    }
}

/// The page with new generated parts; `None` if the page has markers for another number of parts.
fn with_generated(text: &str, parts: &[String]) -> Option<String> {
    let mut page = String::new();
    let mut remaining = text;
    for part in parts {
        let (before, marked) = remaining.split_once(BEGIN)?;
        let (_, after) = marked.split_once(END)?;
        page.push_str(&format!("{before}{BEGIN}{part}{END}"));
        remaining = after;
    }
    (!remaining.contains(BEGIN)).then(|| page + remaining)
}

fn events_table() -> String {
    let mut table = String::from("| Event | Entity | Emitted by | Also accepted as |\n|---|---|---|---|\n");
    for kind in EventKind::ALL {
        let entity = format!("{:?}", kind.entity()).to_lowercase();
        let emitter = match kind.allowed_source() {
            AllowedSource::Server => "server",
            AllowedSource::Worker => "worker",
            AllowedSource::Both => "worker, server",
        };
        let aliases: Vec<String> = kind.aliases().iter().map(|name| format!("`{name}`")).collect();
        let aliases = aliases.join(", ");
        writeln!(table, "| `{kind}` | {entity} | {emitter} | {aliases} |").expect("text grows");
    }
    table
}

#[test]
fn the_page_of_events_lists_every_kind() {
    assert_current("docs/reference/events.md", &[events_table()]);
}

fn codes_table() -> String {
    let mut table = String::from("| Code | Meaning | Remedy |\n|---|---|---|\n");
    for code in CODES {
        let (meaning, remedy) = (code.meaning, code.remedy);
        writeln!(table, "| `{}` | {meaning} | {remedy} |", code.code).expect("text grows");
    }
    table
}

#[test]
fn the_page_of_errors_lists_every_code() {
    assert_current("docs/reference/errors.md", &[codes_table()]);
}

/// One row for each record: its number as a link, and its title.
fn decisions_table() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/decisions");
    let entries = fs::read_dir(directory).expect("the directory of records exists");
    let mut records: Vec<_> = entries
        .map(|entry| entry.expect("the directory is readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .filter(|path| !path.ends_with("README.md"))
        .collect();
    records.sort();
    let mut table = String::from("| Number | Decision |\n|---|---|\n");
    for path in records {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(&path).expect("the record is readable");
        let (number, title) = decision_title(&name, &text);
        writeln!(table, "| [{number}]({name}) | {title} |").expect("text grows");
    }
    table
}

/// Number of a record, from its file name, and title, from its first line.
fn decision_title<'a>(name: &'a str, text: &'a str) -> (&'a str, &'a str) {
    let number = name.split('-').next().unwrap_or_default();
    let title = text.lines().next().and_then(|line| line.strip_prefix("# "));
    let title = title.unwrap_or_else(|| panic!("{name} does not begin with a title"));
    let bare = title.strip_prefix(number).and_then(|title| title.strip_prefix(": "));
    (number, bare.unwrap_or(title))
}

#[test]
fn the_index_of_decisions_lists_every_record() {
    assert_current("docs/decisions/README.md", &[decisions_table()]);
}

#[test]
fn the_title_of_a_decision_is_shown_without_its_number() {
    let name = "0015-a-rule.md";
    assert_eq!(decision_title(name, "# 0015: A rule\n"), ("0015", "A rule"));
    assert_eq!(decision_title(name, "# A rule\n\nText"), ("0015", "A rule"));
}

#[test]
fn a_stale_page_is_noticed() {
    let page = |first: &str, second: &str| format!("# Page\n\n{BEGIN}{first}{END}\nProse.\n{BEGIN}{second}{END}End.\n");
    let parts = ["| one |\n".to_owned(), "| two |\n".to_owned()];
    let fresh = page(&parts[0], &parts[1]);
    assert_eq!(with_generated(&page("| old |\n", ""), &parts), Some(fresh));
    assert_eq!(with_generated("# Page\n", &parts), None);
    assert_eq!(with_generated(&page("", ""), &parts[..1]), None);
}
