//! Attacks: values that try to become code, in every lexical context of a Rhai script, parsed by Rhai itself.
//!
//! The syntax tree of the script with the attack must be that of the script with a harmless value, apart from that
//! text, and the script must evaluate to the attack exactly.

use std::time::Duration;

use ::rhai::{Engine, OptimizationLevel};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::program::rhai_script;
use super::run_script;
use crate::corpus::{
    all_cases, cases_from, check, check_code_values, check_marked_values, code_pieces, evaluation_problem, json_pieces,
};

/// The harmless value.
const HARMLESS: &str = "QharmlessQ";

const ATTACKS: &[&str] = &[
    "\"; print(1); \"",
    "\"; throw 1; //",
    "\" + evil() + \"",
    "\"",
    "\"\"",
    "\"\"\"",
    "\\",
    "\\\\",
    "\\\"",
    "\"\\",
    "\\\\\"",
    "`",
    "``",
    "` + evil() + `",
    "${evil()}",
    "\\${evil()}",
    "$",
    "${",
    "$${evil()}",
    "{evil()}",
    "}",
    "} evil() ${",
    "#{a: 1}",
    "\"#",
    "\"# + evil() + #\"",
    "\"##; evil()",
    "#",
    "##\"",
    "'",
    "'a'",
    "' + evil() + '",
    "//",
    "/*",
    "*/",
    "*/ evil() /*",
    "/*/ evil()",
    "/",
    "*",
    "x\nevil();\n",
    "x\r\nevil();",
    "x\revil()",
    "\n",
    "\r",
    "\t",
    " ",
    "   x",
    "",
    "\u{0}",
    "\u{85}evil()",
    "\u{2028}evil()",
    "\u{a0}x",
    "\u{feff}",
    "é ü 漢字 🦀",
    "\\x22 + evil()",
    "\\u0022",
    ");",
    "];",
    "() => evil()",
    "true",
    "let x = 1;",
    "fn f() { }",
    "eval(\"evil()\")",
];

/// Scripts around a value, marked by `@`. Each evaluates to a text that contains the value.
const CONTEXTS: &[&str] = &[
    "@",
    "let v = @; v",
    "[@][0]",
    "#{k: @}.k",
    "#{@: 1}.keys()[0]",
    "(@)",
    "@+@",
    "\"\"+@",
    "@+\"\"",
    "@ + `x`",
    "`x` + @",
    "if true { @ } else { @ }",
    "switch 1 { 1 => @, _ => @ }",
    "fn f(x) { x } f(@)",
    "\"@\"",
    "\"\\@\"",
    "\"a@b@c\"",
    "\"\"\"@\"",
    "\"@\"\"x\"",
    "\"\"\"@\"\"\"",
    "\"\\\\@\"",
    "\"\\\"@\"",
    "\"it's '@'\"",
    "\"`${@}`\"",
    "\"// @\"",
    "\"/* @ */\"",
    "\"a\\\n   @\"",
    "`@`",
    "`a@b@c`",
    "``` + @```",
    "```@`",
    "`\"@\"`",
    "`$@`",
    "`\\@`",
    "`\\\\@`",
    "`\\$@`",
    "`a\n@\nb`",
    "`${@}`",
    "`a${1}@${2}b`",
    "`${\"@\"}`",
    "`${ `@` }`",
    "`${ #{a: @}.a }`",
    "`${ if true { @ } else { \"}\" } }`",
    "`\\${@`",
    "'x' + @",
    "'\"' + \"@\"",
    "'`' + `@`",
    "'\\'' + \"@\"",
    "#\"a\"b\"# + \"@\"",
    "##\"a\"#b\"## + @",
    "// @\n@",
    "/* @ */ @",
    "/* /* @ */ @ */ \"@\"",
    "/*@*/@/*@*/",
    "// \" @\n\"@\"",
    "/* \" */ \"@\" /* ` */",
    "@ // @",
];

fn build_script(context: &str, value: &Value) -> String {
    rhai_script(&code_pieces(context, value)).unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

/// The syntax tree as text, without positions and with a space for every run of white space.
fn syntax_tree(script: &str) -> Result<String, String> {
    let mut engine = Engine::new();
    engine.set_optimization_level(OptimizationLevel::None);
    let tree = engine.compile(script).map_err(|error| error.to_string())?;
    let tree = format!("{tree:?}");
    let mut plain = String::new();
    let mut remaining = tree.as_str();
    while let Some(at) = remaining.find(" @ ") {
        let (before, after) = remaining.split_at(at);
        plain.push_str(before);
        remaining = after[3..].trim_start_matches(|c: char| c.is_ascii_digit() || ":-".contains(c));
    }
    plain.push_str(remaining);
    Ok(plain)
}

/// Problem of a context with an attack.
fn find_problem(context: &str, attack: &str) -> Option<String> {
    let code = build_script(context, &json!(attack));
    let expected = syntax_tree(&build_script(context, &json!(HARMLESS))).expect("the context is a script");
    let inner = |text: &str| {
        let quoted = format!("{text:?}");
        quoted[1..quoted.len() - 1].to_owned()
    };
    let expected = expected.replace(HARMLESS, &inner(attack));
    let parsed = match syntax_tree(&code) {
        Ok(parsed) => parsed,
        Err(error) => return Some(format!("{code:?}: {error}")),
    };
    if parsed != expected {
        return Some(format!("{code:?}: {parsed} instead of {expected}"));
    }
    let result = run_script(&code, json!({}), Duration::from_secs(5), |_| {});
    evaluation_problem(&code, &result, attack)
}

#[test]
fn no_value_becomes_code_in_any_context() {
    check(&all_cases(CONTEXTS, ATTACKS), find_problem);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_text_changes_one_literal_only(
        values in prop::collection::vec("[a-z'\"\\\\{}$#`/*\n\r\t ();]{0,12}", 40),
        seed in 0..CONTEXTS.len(),
    ) {
        check(&cases_from(CONTEXTS, seed, values), find_problem);
    }
}

#[test]
fn a_value_in_code_is_that_value() {
    let own = [
        json!(i64::MAX),
        json!(i64::MIN),
        json!(-2.5e-7),
        json!(1e300),
        json!({"a": {"b": [true, 1.5]}, "let": "\"`${x}"}),
    ];
    let contexts = ["@", "[@][0]", "#{k: @}.k", "(@)", "fn f(x) { x } f(@)"];
    check_code_values(&contexts, own, build_script, |code| {
        run_script(code, json!({}), Duration::from_secs(5), |_| {})
    });
}

#[test]
fn json_of_a_template_is_a_literal_in_code_and_a_text_in_quotes() {
    let json = |context: &str, text: &str| rhai_script(&json_pieces(context, text)).unwrap();
    assert_eq!(json("let v = @;", "{\"a\": [true]}"), "let v = #{\"a\": [true]};");
    assert_eq!(json("\"@\"", "\"x\""), "\"\\\"x\\\"\"");
}

#[test]
fn values_in_unsupported_contexts_are_rejected() {
    for (context, value) in [
        ("name_@", json!("x")),
        ("name_@", json!(3)),
        ("1@", json!(3)),
        ("ñ@", json!("x")),
        ("'@'", json!("x")),
        ("#\"@\"#", json!("a\"b")),
        ("#\"@\"#", json!("a#b")),
        ("#\"a\"@\"#", json!("#")),
    ] {
        let error = rhai_script(&code_pieces(context, &value)).expect_err(context);
        assert_eq!(error.code, "RHAI_VALUE", "{context}");
    }
    assert_eq!(build_script("#\"@\"#", &json!("a`b")), "#\"a`b\"#");
}

#[test]
fn marked_values_are_names_and_programs() {
    check_marked_values(rhai_script, "1 + 1", "rows", &["x y", "1x", "let", "", "x\n", "x;"]);
}

#[test]
fn values_do_not_change_line_numbers() {
    let code = build_script("let a = \"@\";\nlet b = `@`;\n// @\n/* @ */\n@", &json!("x\ny\r\nz"));
    assert_eq!(code.lines().count(), 5);
}
