//! What the corpora of attacks share: places with values in them, the walk over places and attacks, and its report.
//!
//! A place is a program around a value; `@` is where the value stands. Each language adds its places, its attacks, and a
//! check that asks the language's own parser.

use std::fmt::Write as _;

use language::template::{CodePiece, Piece};
use model::outcome::TaskError;
use serde_json::{Value, json};

/// A place, and the attack that stands in it.
pub type Case = (String, String);

/// The pieces of a place with a value.
pub fn pieces(place: &str, value: &Value) -> Vec<Piece> {
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
pub fn code_pieces(place: &str, value: &Value) -> Vec<CodePiece> {
    let pieces = pieces(place, value).into_iter();
    let marked = pieces.map(|piece| CodePiece { piece, is_json: false });
    marked.collect()
}

/// The same with a text that a template wrote as JSON.
pub fn json_pieces(place: &str, text: &str) -> Vec<CodePiece> {
    let mut pieces = code_pieces(place, &Value::from(text));
    pieces[1].is_json = true;
    pieces
}

/// JSON values of every type, which code must be able to hold.
pub fn plain_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-5),
        json!(1.5),
        json!("x"),
        json!([]),
        json!({}),
        json!([1, "a", [null, {"k \" y": -1}]]),
    ]
}

/// Checks that a value marked as a program or a name is placed as it is, and that these texts are no names.
pub fn check_marked_values(
    place: impl Fn(&[CodePiece]) -> Result<String, TaskError>,
    program: &str,
    name: &str,
    no_names: &[&str],
) {
    let place = |piece| place(&[CodePiece { piece, is_json: false }]);
    assert_eq!(place(Piece::Raw(program.to_owned())), Ok(program.to_owned()));
    assert_eq!(place(Piece::Ident(json!(name))), Ok(name.to_owned()));
    for text in no_names {
        assert!(place(Piece::Ident(json!(text))).is_err(), "{text}");
    }
}

/// Every place with every attack.
pub fn all_cases(places: &[&str], attacks: &[&str]) -> Vec<Case> {
    let of_place = |place: &&str| {
        let place = (*place).to_owned();
        attacks.iter().map(move |attack| (place.clone(), (*attack).to_owned()))
    };
    places.iter().flat_map(of_place).collect()
}

/// Values, each in the next place, beginning with the place of this index.
pub fn cases_from(places: &[&str], first: usize, values: Vec<String>) -> Vec<Case> {
    let places = places.iter().cycle().skip(first);
    let places = places.map(|place| (*place).to_owned());
    places.zip(values).collect()
}

/// Checks cases one by one, and fails with all that is wrong.
pub fn check(cases: &[Case], problem: impl Fn(&str, &str) -> Option<String>) {
    let problems = cases.iter().map(|(place, attack)| problem(place, attack));
    report(cases, problems);
}

/// Fails if there is a problem with a case, and shows all of them.
pub fn report(cases: &[Case], problems: impl IntoIterator<Item = Option<String>>) {
    let mut shown = String::new();
    for ((place, attack), problem) in cases.iter().zip(problems) {
        if let Some(problem) = problem {
            let _ = writeln!(shown, "{place:?} with {attack:?}: {problem}");
        }
    }
    assert!(shown.is_empty(), "{shown}");
}
