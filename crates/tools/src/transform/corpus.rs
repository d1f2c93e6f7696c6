//! Attacks: values that try to become code, in every lexical context of a jq program, read by the lexer that runs it.
//!
//! The tokens of the program with the attack must be those of the program with a harmless value, apart from the texts of
//! strings, and the program must evaluate to the attack exactly.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use jaq_core::load::lex::{Lexer, StrPart, Tok, Token};
use language::template::{CodePiece, Piece};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::program::jq_program;
use super::run_jq;
use crate::corpus::{
    all_cases, cases_from, check, check_code_values, check_marked_values, code_pieces, evaluation_problem, json_pieces,
};

const ATTACKS: &[&str] = &[
    "\" | error | \"",
    "\" , input , \"",
    "\"",
    "\"\"",
    "\\",
    "\\\\",
    "\\\"",
    "\"\\",
    "\\\\\"",
    "\\(error)",
    "\\\\(error)",
    "(error)",
    ")",
    ") | error | (",
    "\\)",
    "#",
    "# x",
    "\" #",
    "x\n| error\n",
    "x\r\n| error",
    "x\r| error",
    "\n",
    "\r",
    "\t",
    " ",
    "",
    "\u{0}",
    "\u{85}error",
    "\u{2028}error",
    "\u{feff}",
    "é ü 漢字 🦀",
    "\\u0022",
    "u0022",
    "n",
    ".",
    "..",
    "$__loc__",
    "@base64",
    "]",
    "}",
    "] | error | [",
    "} | error | {",
    "null",
    "true",
    "1",
    "-1",
    "def f: error; f",
    "? // error",
    "\\\n",
    "x\\",
    "x\\\\\\",
];

/// Programs around a value, marked by `@`. Each evaluates to a text that contains the value.
const CONTEXTS: &[&str] = &[
    "@",
    "@|.",
    "[@][0]",
    "{k: @}.k",
    "{@: 1}|keys[0]",
    "{(@): 1}|keys[0]",
    "{\"@\": 1}|keys[0]",
    "(@)",
    "@+@",
    "\"a\"+@",
    "@+\"a\"",
    "if true then @ else @ end",
    "def f: @; f",
    "def f(g): g; f(@)",
    "@ as $v | $v",
    "[@, 1] | .[0]",
    "reduce 1 as $i (@; .)",
    "try error(@) catch .",
    "{\"x\": 1} | (.[@] = 2) | keys | map(select(. != \"x\")) | add",
    "{\"x\": 1} | (.@ = 2) | keys | map(select(. != \"x\")) | add",
    "null // @",
    "\"@\"",
    "\"\\@\"",
    "\"a@b@c\"",
    "\"\\\\@\"",
    "\"\\\"@\"",
    "\"#@\"",
    "\"it's (@)\"",
    "\"\\(@)\"",
    "\"a\\(1)@\\(2)b\"",
    "\"\\(\"@\")\"",
    "\"\\((@))\"",
    "\"\\({a: [@]} | .a[0])\"",
    "\"\\(\")\" + @)\"",
    "\"\\(1 # @)\n)@\"",
    "@text \"@\"",
    "# @\n@",
    "@ # @",
    "# \" @\n\"@\"",
    "# \\(\n@",
    "# x \\\n y @\n@",
    "# x \\@\n@",
    "# x @\\\\\n@",
    "1 as $x # @\r\n| @",
];

/// Pieces of a context. `@text` is a format, every other `@` a value.
fn build_pieces(context: &str, value: &Value) -> Vec<CodePiece> {
    let mut pieces = code_pieces(&context.replace("@text", "\u{1}"), value);
    for CodePiece { piece, .. } in &mut pieces {
        if let Piece::Text(text) = piece {
            *text = text.replace('\u{1}', "@text");
        }
    }
    pieces
}

fn build_program(context: &str, value: &Value) -> String {
    jq_program(&build_pieces(context, value)).unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

/// The tokens as text, without the texts of strings.
fn write_token_shape(tokens: &[Token<&str>], out: &mut String) {
    for Token(text, token) in tokens {
        match token {
            Tok::Str(parts) => {
                out.push_str(" string");
                for part in parts {
                    if let StrPart::Term(term) = part {
                        out.push_str(" \\(");
                        write_token_shape(std::slice::from_ref(term), out);
                        out.push(')');
                    }
                }
            }
            Tok::Block(tokens) => {
                let _ = write!(out, " {}", &text[..1]);
                write_token_shape(tokens, out);
            }
            Tok::Word | Tok::Var | Tok::Fmt | Tok::Num | Tok::Sym => {
                let _ = write!(out, " {text}");
            }
        }
    }
}

fn lex_tokens(program: &str) -> Result<String, String> {
    let tokens = Lexer::new(program).lex();
    let tokens = tokens.map_err(|errors| format!("{errors:?}"))?;
    let mut out = String::new();
    write_token_shape(&tokens, &mut out);
    Ok(out)
}

/// Problem of a context with an attack.
fn find_problem(context: &str, attack: &str) -> Option<String> {
    let code = build_program(context, &json!(attack));
    let expected = lex_tokens(&build_program(context, &json!("harmless"))).expect("the context is a program");
    match lex_tokens(&code) {
        Ok(tokens) if tokens == expected => {}
        other => return Some(format!("{code:?}: {other:?} instead of {expected}")),
    }
    let result = run_jq(&code, json!({}), Instant::now() + Duration::from_secs(5));
    evaluation_problem(&code, &result, attack)
}

#[test]
fn no_value_becomes_code_in_any_context() {
    check(&all_cases(CONTEXTS, ATTACKS), find_problem);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_changes_one_literal_only(
        values in prop::collection::vec("[\\PC'\"\\\\{}#()\n\r\t]{0,12}", 20),
        seed in 0..CONTEXTS.len(),
    ) {
        check(&cases_from(CONTEXTS, seed, values), find_problem);
    }
}

#[test]
fn a_value_in_code_is_that_value() {
    let own = [json!(u64::MAX), json!({"a": {"b": [true, 1.5]}, "if": "\"\\(x)"})];
    let contexts = [
        "@",
        "[@][0]",
        "{k: @}.k",
        "(@)",
        "def f(g): g; f(@)",
        "[[@]|.[-1]]|.[0]",
    ];
    check_code_values(&contexts, own, build_program, |code| {
        run_jq(code, json!({}), Instant::now() + Duration::from_secs(5))
    });
}

#[test]
fn json_of_a_template_is_a_value_in_code_and_a_text_in_quotes() {
    let json = |context: &str, text: &str| jq_program(&json_pieces(context, text)).unwrap();
    assert_eq!(json(". + @", "\"x\""), ". + \"x\"");
    assert_eq!(json(". + @", "[1]"), ". + (\"[1]\" | fromjson)");
    assert_eq!(json("\"@\"", "\"x\""), "\"\\\"x\\\"\"");
}

#[test]
fn values_in_unsupported_contexts_are_rejected() {
    for context in ["name@", ".name@", "$@", "1@", "\"\\(x@)\""] {
        for value in [json!("x"), json!(3), json!(true)] {
            let error = jq_program(&build_pieces(context, &value)).expect_err(context);
            assert_eq!(error.code, "JQ_VALUE", "{context}");
        }
    }
}

#[test]
fn marked_values_are_names_and_programs() {
    check_marked_values(jq_program, ".a | .b", "keys", &["x y", "1x", "def", "", "x\n", "a.b"]);
}
