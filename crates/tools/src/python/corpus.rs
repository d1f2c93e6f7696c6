//! Attacks: values that try to become code, in every lexical context of Python code, parsed by Python itself.
//!
//! The syntax tree of the code with the attack must be that of the code with a harmless value, apart from constants,
//! and the code must evaluate to the attack exactly.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::code::python_code;
use crate::corpus::{Case, all_cases, cases_from, check_marked_values, code_pieces as pieces, json_pieces, report};

/// Attacks.
const ATTACKS: &[&str] = &[
    "'; import os; os.system('touch x'); '",
    "\"; import os; os.system('touch x'); \"",
    "''' + __import__('os').system('x') + '''",
    "\"\"\" + __import__('os').system('x') + \"\"\"",
    "'''\nimport os\n'''",
    "\"\"\"\nimport os\n\"\"\"",
    "x\nimport os\n",
    "x\r\nimport os\r\n",
    "x\rimport os",
    "\n",
    "\r",
    "\\",
    "\\\\",
    "\\'",
    "\\\"",
    "'\\",
    "\"\\",
    "\\\n",
    "'",
    "\"",
    "''",
    "'''",
    "\"\"\"",
    "''''",
    "{__import__('os').system('x')}",
    "{{x}}",
    "{",
    "}",
    "{x!r:>{y}}",
    "\\x27 + y",
    "\\u0027 + y",
    "\\N{APOSTROPHE}",
    "N{APOSTROPHE}",
    "#",
    "# x",
    "' # ",
    "\" # ",
    "%s' % y",
    "\u{0}",
    "\u{0c}import os",
    "\u{2028}import os",
    "\u{feff}",
    "é ü 漢字 🦀",
    ")",
    "]",
    "]; import os; [",
    "}; import os; {",
    "",
    " ",
    "\t",
    "0",
    "None",
    "x = 1",
    "r'",
    "f'{y}'",
    "b'",
    "b\"\"\"",
];

/// Code around a value, marked by `@`. Each assigns the value that it evaluates to.
const CONTEXTS: &[&str] = &[
    "v = @",
    "v = [@]",
    "v = {'k': @}",
    "v = f(@, @)",
    "if @:\n    v = @\nelse:\n    v = (@,)",
    "v = ''@",
    "v = @''",
    "v = \"\"@\"\"",
    "v = 'x'@'y'",
    "v = '@'",
    "v = \"@\"",
    "v = 'a@b@c'",
    "v = '''@'''",
    "v = \"\"\"@\"\"\"",
    "v = '''it's '@'''",
    "v = \"\"\"a\n@\n\"b\" \"\"\"",
    "v = '\\@'",
    "v = '\\\\@'",
    "v = \"C:\\\\dir\\@\"",
    "v = r'@'",
    "v = r\"@\"",
    "v = r'\\@'",
    "v = R'a\\\\@b'",
    "v = r'''@'''",
    "v = r'''a'@'b'''",
    "v = r'''a''@b'''",
    "v = r'''\\'\\@'''",
    "v = r\"\"\"\n@\n\"\"\"",
    "v = u'@'",
    "v = b'@'",
    "v = B\"\"\"@\"\"\"",
    "v = rb'@'",
    "v = bR'''x'@'''",
    "v = f'@'",
    "v = f'a{n}@b'",
    "v = f\"{n:>5}@\"",
    "v = F'''{n!r}@{n}'''",
    "v = rf'a{n}@b'",
    "v = fr'''@{n}'@'''",
    "v = f'{n}' '@'",
    "v = 1 # @",
    "# @\nv = 1",
    "v = 1 # '@' \"\"\" @\nw = '@'",
    "v = '#@'",
    "v = '@' # '@'",
    "v = ('@'\n     \"@\")",
    "v = {'a': '@', @: 1}",
    "v = '@'.upper() + @",
    "v = '%s' % @",
    "\"\"\"doc @ doc\"\"\"\nv = @",
];

/// Reads pairs of programs and prints which of them differ in more than their constants, and the value of each attack.
const ORACLE: &str = r#"
import ast, json, sys

class Blank(ast.NodeTransformer):
    def visit_Constant(self, node):
        return ast.Constant(value=type(node.value).__name__)

    # An f-string without text has no constant for it.
    def visit_JoinedStr(self, node):
        fields = [part for part in node.values if not isinstance(part, ast.Constant)]
        return self.generic_visit(ast.JoinedStr(values=fields))

def shape(code):
    tree = Blank().visit(ast.parse(code))
    return ast.dump(tree)

def constants(code):
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant):
            value = node.value
            found.append(value.decode() if isinstance(value, bytes) else value)
    return [value for value in found if isinstance(value, str)]

differences = []
for pair in json.load(sys.stdin.buffer):
    try:
        same = shape(pair["attack"]) == shape(pair["plain"])
        held = not pair["wanted"] or any(pair["value"] in text for text in constants(pair["attack"]))
        differences.append("" if same and held else "same=%s held=%s" % (same, held))
    except Exception as error:
        differences.append(repr(error))
print(json.dumps(differences))
"#;

fn build_code(context: &str, value: &Value) -> String {
    python_code(&pieces(context, value)).unwrap_or_else(|error| panic!("{context}: {error:?}"))
}

/// Whether the tree must contain the value: not if it is part of a comment or split by a field.
fn is_in_tree(context: &str) -> bool {
    !context.contains('#')
}

/// Checks many pairs in one Python process.
fn find_differences(pairs: &[Value]) -> Vec<String> {
    let mut python = Command::new("python3")
        .args(["-c", ORACLE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    let mut stdin = python.stdin.take().expect("stdin is piped");
    let text = Value::from(pairs.to_vec()).to_string();
    stdin.write_all(text.as_bytes()).expect("Python reads");
    drop(stdin);
    let output = python.wait_with_output().expect("Python ends");
    serde_json::from_slice(&output.stdout).expect("Python prints JSON")
}

fn check_cases(cases: &[Case]) {
    let pair = |(context, attack): &Case| {
        json!({
            "attack": build_code(context, &json!(attack)),
            "plain": build_code(context, &json!("x")),
            "value": attack,
            "wanted": is_in_tree(context) && !attack.is_empty(),
        })
    };
    let pairs: Vec<Value> = cases.iter().map(pair).collect();
    let problem = |(pair, difference): (&Value, String)| {
        let code = &pair["attack"];
        (!difference.is_empty()).then(|| format!("{code}: {difference}"))
    };
    report(cases, pairs.iter().zip(find_differences(&pairs)).map(problem));
}

#[test]
fn no_value_becomes_code_in_any_context() {
    check_cases(&all_cases(CONTEXTS, ATTACKS));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_text_changes_one_constant_only(
        values in prop::collection::vec("[\\PC'\"\\\\{}#\n\r]{0,12}", 40),
        seed in 0..CONTEXTS.len(),
    ) {
        check_cases(&cases_from(CONTEXTS, seed, values));
    }
}

#[test]
fn values_are_python_literals_outside_of_quotes() {
    let value = json!({"n": null, "t": true, "f": false, "i": -5, "x": 1.5, "s": "it's", "l": [1, "a"]});
    assert_eq!(
        build_code("v = @", &value),
        "v = {'n': None, 't': True, 'f': False, 'i': (-5), 'x': 1.5, 's': 'it\\'s', 'l': [1, 'a']}"
    );
    assert_eq!(
        build_code("v = '@'", &json!({"a": [1, true]})),
        "v = '{\"a\": [1, true]}'"
    );
    assert_eq!(build_code("v = '@'", &json!(true)), "v = 'True'");
    assert_eq!(build_code("v = x_@", &json!(3)), "v = x_3");
}

#[test]
fn json_is_a_literal_outside_of_quotes_and_a_text_inside() {
    let json = |context: &str, text: &str| python_code(&json_pieces(context, text)).unwrap();
    assert_eq!(json("v = @", "{\"a\": [true, null]}"), "v = {'a': [True, None]}");
    assert_eq!(json("v = @", "\"x\""), "v = 'x'");
    assert_eq!(json("v = '@'", "\"x\""), "v = '\"x\"'");
}

#[test]
fn values_do_not_change_line_numbers() {
    let code = build_code("a = '@'\nb = r'''@'''\n# @\nc = @\nd = 1", &json!("x\ny\r\nz"));
    assert_eq!(code.lines().count(), 5);
}

#[test]
fn values_in_unsupported_contexts_are_rejected() {
    for (context, value) in [
        ("name_@ = 1", json!("x")),
        ("r@", json!("x")),
        ("v = f'{@}'", json!("secret")),
        ("v = f'{@}'", json!(["a"])),
        ("v = f'{d[\"@\"]}'", json!("a'b")),
        ("v = f'{n:@}'", json!(">5}{x")),
    ] {
        let error = python_code(&pieces(context, &value)).expect_err(context);
        assert_eq!(error.code, "PYTHON_VALUE", "{context}");
    }
    assert_eq!(build_code("v = f'{n:@}'", &json!(5)), "v = f'{n:5}'");
}

#[test]
fn marked_values_are_names_and_programs() {
    check_marked_values(python_code, "x = 1", "rows", &["x y", "1x", "import", "", "x\n"]);
}
