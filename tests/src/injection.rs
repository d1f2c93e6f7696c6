//! Attempts to break out of a value's place in SQL, for every database: values that end the place they stand in, and then
//! run something.

use std::collections::BTreeSet;

use language::template::Piece;
use serde_json::json;

/// What may end the place a value stands in.
const OPENERS: [&str; 25] = [
    "",
    "'",
    "''",
    "'''",
    "\\'",
    "\\\\'",
    "\\",
    "\"",
    "\"\"",
    "$$",
    "$a$",
    "$q$",
    "*/",
    "-- ",
    "\n",
    ";",
    ")",
    "'))",
    "E'",
    "U&'\\0027",
    "%'",
    "]}'",
    "\u{2019}",
    "\u{a0}",
    "\u{ff07}",
];

/// What would then be run.
const ATTACKS: [&str; 14] = [
    "; DROP TABLE canary; --",
    "; DELETE FROM canary; SELECT '",
    "; UPDATE canary SET n = 0 --",
    " OR 1=1 --",
    " UNION SELECT secret FROM canary --",
    "; TRUNCATE canary; COMMIT; --",
    "; COPY canary TO PROGRAM 'true'; --",
    "; COPY canary FROM '/dev/null'; --",
    "||(DELETE FROM canary RETURNING secret)||'",
    "; SET standard_conforming_strings = off; DELETE FROM canary; --",
    "; DO $x$ BEGIN DELETE FROM canary; END $x$; --",
    "::int; ALTER TABLE canary RENAME TO gone; /*",
    "; INSERT INTO canary VALUES (9, 'x'); --",
    " RETURNING pg_sleep(0); DELETE FROM canary; --",
];

/// Oddities that fit no pattern.
const ODD: [&str; 16] = [
    "",
    " ",
    "null",
    "NULL",
    "true",
    "0",
    "-1",
    "1e9",
    "{}",
    "[]",
    "{{ 7 * 7 }}",
    "$1",
    ":v",
    "%s",
    "\u{1F980}",
    "\\x41",
];

/// What an attacker sends to a database: every opener with every attack, those of one database besides.
pub fn corpus(extra_args: &[&str]) -> Vec<String> {
    let mut all: BTreeSet<String> = ODD.iter().map(|odd| (*odd).to_owned()).collect();
    for opener in OPENERS {
        for attack in ATTACKS.iter().chain(extra_args) {
            all.insert(format!("{opener}{attack}"));
        }
    }
    all.into_iter().collect()
}

/// A value between author text.
pub fn around(before: &str, value: &str, after: &str) -> Vec<Piece> {
    vec![
        Piece::Text(before.to_owned()),
        Piece::Value(json!(value)),
        Piece::Text(after.to_owned()),
    ]
}

/// What a text in plain quotes comes back as: quotes that are all doubled count as escaped.
pub fn in_quotes(value: &str) -> [String; 2] {
    [value.to_owned(), value.replace("''", "'")]
}
