//! Shared by the attack corpora: contexts with values in them, the test of every context with every attack, and its
//! report.
//!
//! A context is a program around a value, marked by `@`. Each language adds its contexts, its attacks, and a check that
//! uses the language's own parser.

use std::fmt::Write as _;

use language::template::{CodePiece, Piece};
use model::outcome::TaskError;
use serde_json::{Value, json};

/// A context and an attack.
pub type Case = (String, String);

/// Pieces of a context with a value.
pub fn pieces(context: &str, value: &Value) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, text) in context.split('@').enumerate() {
        if index > 0 {
            pieces.push(Piece::Value(value.clone()));
        }
        pieces.push(Piece::Text(text.to_owned()));
    }
    pieces
}

/// Pieces of a program.
pub fn code_pieces(context: &str, value: &Value) -> Vec<CodePiece> {
    let pieces = pieces(context, value).into_iter();
    pieces.map(|piece| CodePiece { piece, is_json: false }).collect()
}

/// Pieces of a program with JSON text that a template produced.
pub fn json_pieces(context: &str, text: &str) -> Vec<CodePiece> {
    let mut pieces = code_pieces(context, &Value::from(text));
    pieces[1].is_json = true;
    pieces
}

/// Checks that values of every type, and those in `own`, evaluate to themselves in these contexts.
pub fn check_code_values<E: std::fmt::Debug>(
    contexts: &[&str],
    own: impl IntoIterator<Item = Value>,
    build: impl Fn(&str, &Value) -> String,
    evaluate: impl Fn(&str) -> Result<Value, E>,
) {
    for value in plain_values().into_iter().chain(own) {
        for context in contexts {
            let code = build(context, &value);
            assert_eq!(evaluate(&code).expect(&code), value, "{code}");
        }
    }
}

/// JSON values of every type, each of which must be a valid literal.
fn plain_values() -> Vec<Value> {
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

/// Checks that values marked as code or as names are inserted unchanged, and that invalid names are rejected.
pub fn check_marked_values(
    write: impl Fn(&[CodePiece]) -> Result<String, TaskError>,
    program: &str,
    name: &str,
    no_names: &[&str],
) {
    let write = |piece| write(&[CodePiece { piece, is_json: false }]);
    assert_eq!(write(Piece::Raw(program.to_owned())), Ok(program.to_owned()));
    assert_eq!(write(Piece::Ident(json!(name))), Ok(name.to_owned()));
    for text in no_names {
        assert!(write(Piece::Ident(json!(text))).is_err(), "{text}");
    }
}

/// Problem of a program that must evaluate to a text with the attack in it.
pub fn evaluation_problem<E: std::fmt::Debug>(code: &str, result: &Result<Value, E>, attack: &str) -> Option<String> {
    match result {
        Ok(Value::String(text)) if text.contains(attack) => None,
        other => Some(format!("{code:?}: evaluates to {other:?}")),
    }
}

/// Every context with every attack.
pub fn all_cases(contexts: &[&str], attacks: &[&str]) -> Vec<Case> {
    let cases_of_context = |context: &&str| {
        let context = (*context).to_owned();
        attacks
            .iter()
            .map(move |attack| (context.clone(), (*attack).to_owned()))
    };
    contexts.iter().flat_map(cases_of_context).collect()
}

/// Pairs each value with the next context, starting at index `first`.
pub fn cases_from(contexts: &[&str], first: usize, values: Vec<String>) -> Vec<Case> {
    let contexts = contexts.iter().cycle().skip(first);
    let contexts = contexts.map(|context| (*context).to_owned());
    contexts.zip(values).collect()
}

/// Checks each case and fails with a report of all problems.
pub fn check(cases: &[Case], problem: impl Fn(&str, &str) -> Option<String>) {
    let problems = cases.iter().map(|(context, attack)| problem(context, attack));
    report(cases, problems);
}

/// Fails with a report if there are problems.
pub fn report(cases: &[Case], problems: impl IntoIterator<Item = Option<String>>) {
    let mut report = String::new();
    for ((context, attack), problem) in cases.iter().zip(problems) {
        if let Some(problem) = problem {
            let _ = writeln!(report, "{context:?} with {attack:?}: {problem}");
        }
    }
    assert!(report.is_empty(), "{report}");
}
