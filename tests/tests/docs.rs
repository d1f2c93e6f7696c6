//! Pages of `docs/reference` that are generated from code: each must equal what the code says today.
//!
//! With `NOETL_ACCEPT` set, a stale page is rewritten instead; `cargo xtask docs` does that.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use model::diagnostic::CODES;
use model::event::{Emitter, Kind};

const BEGIN: &str = "<!-- generated: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// Compares the generated part of a page with what it should be, or rewrites it.
#[expect(
    clippy::disallowed_methods,
    reason = "accepting is asked for through the environment, as test runners pass no flags"
)]
fn assert_current(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(&path).expect("the page exists");
    let current = with_generated(&text, expected).expect("the page marks its generated part");
    if std::env::var_os("NOETL_ACCEPT").is_some() {
        fs::write(&path, current).expect("the page is writable");
    } else {
        assert_eq!(text, current, "{page} is stale; run `cargo xtask docs`");
    }
}

/// The page with its generated part replaced; none if the marks are missing.
fn with_generated(text: &str, expected: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{expected}{END}{after}"))
}

fn events_table() -> String {
    let mut table =
        String::from("| Event | Entity | Emitted by | Also accepted as |\n|---|---|---|---|\n");
    for kind in Kind::ALL {
        let entity = format!("{:?}", kind.entity()).to_lowercase();
        let emitter = match kind.emitter() {
            Emitter::Server => "server",
            Emitter::Worker => "worker",
            Emitter::Both => "worker, server",
        };
        let aliases: Vec<String> = kind
            .aliases()
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let aliases = aliases.join(", ");
        writeln!(table, "| `{kind}` | {entity} | {emitter} | {aliases} |").expect("text grows");
    }
    table
}

#[test]
fn the_page_of_events_lists_every_kind() {
    assert_current("docs/reference/events.md", &events_table());
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
    assert_current("docs/reference/errors.md", &codes_table());
}

#[test]
fn a_stale_page_is_noticed() {
    let stale = format!("# Page\n\n{BEGIN}| old |\n{END}\nProse.\n");
    let fresh = with_generated(&stale, "| new |\n").expect("the marks are there");
    assert_ne!(stale, fresh);
    assert_eq!(fresh, format!("# Page\n\n{BEGIN}| new |\n{END}\nProse.\n"));
    assert_eq!(with_generated("# Page\n", "| new |\n"), None);
}
