//! What the corpora of attacks share: places with values in them, the walk over places and attacks, and its report.
//!
//! A place is a program around a value; `@` is where the value stands. Each language adds its places, its attacks, and a
//! check that asks the language's own parser.

use std::fmt::Write as _;

use language::template::{CodePiece, Piece};
use serde_json::Value;

/// A place, and the attack that stands in it.
pub(crate) type Case = (String, String);

/// The pieces of a place with a value.
pub(crate) fn pieces(place: &str, value: &Value) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (at, text) in place.split('@').enumerate() {
        if at > 0 {
            pieces.push(Piece::Value(value.clone()));
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
    pieces
}

/// The same for programs, in which a template may write JSON.
pub(crate) fn code_pieces(place: &str, value: &Value) -> Vec<CodePiece> {
    let pieces = pieces(place, value).into_iter();
    let marked = pieces.map(|piece| CodePiece {
        piece,
        is_json: false,
    });
    marked.collect()
}

/// Every place with every attack.
pub(crate) fn all_cases(places: &[&str], attacks: &[&str]) -> Vec<Case> {
    let of_place = |place: &&str| {
        let place = (*place).to_owned();
        attacks
            .iter()
            .map(move |attack| (place.clone(), (*attack).to_owned()))
    };
    places.iter().flat_map(of_place).collect()
}

/// Values, each in the next place, beginning with the place of this index.
pub(crate) fn cases_from(places: &[&str], first: usize, values: Vec<String>) -> Vec<Case> {
    let places = places.iter().cycle().skip(first);
    let places = places.map(|place| (*place).to_owned());
    places.zip(values).collect()
}

/// Checks cases one by one, and fails with all that is wrong.
pub(crate) fn check(cases: &[Case], problem: impl Fn(&str, &str) -> Option<String>) {
    let problems = cases.iter().map(|(place, attack)| problem(place, attack));
    report(cases, problems);
}

/// Fails if there is a problem with a case, and shows all of them.
pub(crate) fn report(cases: &[Case], problems: impl IntoIterator<Item = Option<String>>) {
    let mut shown = String::new();
    for ((place, attack), problem) in cases.iter().zip(problems) {
        if let Some(problem) = problem {
            let _ = writeln!(shown, "{place:?} with {attack:?}: {problem}");
        }
    }
    assert!(shown.is_empty(), "{shown}");
}
