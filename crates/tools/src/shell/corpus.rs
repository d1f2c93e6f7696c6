//! Attacks: values that try to become commands, in every context of a shell script, run in real shells.
//!
//! Each attack tries to create the canary file. Afterwards the file must not exist, and the value must be printed
//! unchanged.

use std::collections::BTreeMap;
use std::path::Path;

use language::template::Piece;
use serde_json::json;

use crate::isolation::SandboxLevel;
use crate::shell::ShellTool;
use crate::testing::{command_call, expect_error, run_tool};

/// Attacks; `@` stands for the path of the canary.
const ATTACKS: &[&str] = &[
    "; touch @",
    "& touch @",
    "&& touch @",
    "|| touch @",
    "| touch @",
    "\ntouch @\n",
    "\r\ntouch @\r\n",
    "$(touch @)",
    "`touch @`",
    "${IFS}$(touch${IFS}@)",
    "'; touch @; '",
    "\"; touch @; \"",
    "'$(touch @)'",
    "\"$(touch @)\"",
    "\"`touch @`\"",
    "' ; touch @ #",
    "\" ; touch @ #",
    "\\'; touch @ #",
    "\\\"; touch @ #",
    "\\$(touch @)",
    "\\\\$(touch @)",
    "\\`touch @\\`",
    "$'\\ntouch @\\n'",
    "> @",
    ">> @",
    ">| @",
    "2> @",
    "&> @",
    "<> @",
    "x > @",
    "x\n> @",
    "<(touch @)",
    ">(touch @)",
    "(touch @)",
    "{ touch @; }",
    ") ; touch @ ; (",
    "); touch @ #",
    "`; touch @; `",
    "} ; touch @ ; {",
    "EOF\ntouch @",
    "EOF\ntouch @\ncat <<EOF",
    "\nEOF\ntouch @\n",
    "END\ntouch @\n",
    "a[$(touch @)]",
    "a[`touch @`]",
    "x=$(touch @)",
    "1 + $(touch @)",
    "1)); touch @; ((1",
    "1 )) ; touch @ #",
    "$((`touch @`))",
    "$(( $(touch @) ))",
    "${x:-$(touch @)}",
    "${x:=`touch @`}",
    "${x:?$(touch @)}",
    "${x:+y}$(touch @)",
    "${!x}$(touch @)",
    "-exec touch @ ;",
    "--$(touch @)",
    "if true; then touch @; fi",
    "then touch @",
    "do touch @; done",
    "done; touch @",
    "fi; touch @",
    "esac; touch @",
    ";; esac; touch @",
    "case x in x) touch @ ;; esac",
    "while touch @; do break; done",
    "for i in 1; do touch @; done",
    "function f { touch @; }; f",
    "f() { touch @; }; f",
    "eval touch @",
    "exec touch @",
    ". @",
    "source @",
    "trap 'touch @' EXIT",
    "alias ls='touch @'",
    "export X=$(touch @)",
    "! touch @",
    "time touch @",
    "command touch @",
    "sh -c 'touch @'",
    "\\\ntouch @",
    "#\ntouch @",
    "# $(touch @)",
    "*; touch @",
    "?$(touch @)",
    "~$(touch @)",
    "!!; touch @",
    "^x^touch @",
    "%0atouch @",
    "\u{2028}touch @",
    "\u{a0}; touch @",
    "\u{feff}$(touch @)",
    "é'; touch @; 'é",
    "''''; touch @; ''''",
    "\"\"\"; touch @; \"\"\"",
    "'\"'; touch @; '\"'",
    "'\\''; touch @; '\\''",
    "\\; touch @",
    "\t; touch @",
    "\u{1b}[2J; touch @",
    "\u{7f}; touch @",
    "_noetl_1=x; touch @",
    "${_noetl_1}; touch @",
    "$_noetl_1`touch @`",
    "}\"; touch @; \"${x",
    "\"'`$(touch @)`'\"",
    "$(touch @",
    "`touch @",
    "\"$(touch @",
    "'; touch @",
    "$(`touch @`)",
    "$(cat <<X\n$(touch @)\nX\n)",
    "((touch @))",
    "[[ $(touch @) ]]",
    "[ -n `touch @` ]",
    "a;b;touch @",
    "a&b&touch @",
    "\n\n\n;touch @;\n\n\n",
];

/// A context: script text before and after the value, and the shells that support it.
struct AttackContext {
    name: &'static str,
    before: &'static str,
    after: &'static str,
    shells: &'static [&'static str],
    /// Expected output for a value.
    expected_output: ExpectedOutput,
}

#[derive(Clone, Copy, PartialEq)]
enum ExpectedOutput {
    /// The exact value.
    Exact,
    /// The exact value without trailing newlines, which the shell drops there.
    Trimmed,
    /// Nothing: the context is a comment.
    Nothing,
    /// An error, unless the value is a number.
    Refused,
}

const BOTH_SHELLS: &[&str] = &["/bin/sh", "bash"];
const BASH_ONLY: &[&str] = &["bash"];

const CONTEXTS: &[AttackContext] = &[
    context("bare", "printf '%s' ", "", BOTH_SHELLS, ExpectedOutput::Exact),
    context(
        "bare, as a part of a word",
        "printf '%s' pre",
        "post",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "double quotes",
        "printf '%s' \"",
        "\"",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "double quotes, among others",
        "printf '%s' \"a $HOME_",
        " b\"",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "single quotes",
        "printf '%s' '",
        "'",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "ANSI quotes",
        "printf '%s' $'a\\'b",
        "'",
        BASH_ONLY,
        ExpectedOutput::Exact,
    ),
    context(
        "assignment",
        "x=",
        "; printf '%s' \"$x\"",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "assignment in quotes",
        "x=\"",
        "\"; printf '%s' \"$x\"",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context("heredoc", "cat <<EOF\n", "\nEOF\n", BOTH_SHELLS, ExpectedOutput::Exact),
    context(
        "heredoc, tabs stripped",
        "cat <<-EOF\n\tx",
        "\n\tEOF\n",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context(
        "$( )",
        "printf '%s' \"$(printf '%s' ",
        ")\"",
        BOTH_SHELLS,
        ExpectedOutput::Trimmed,
    ),
    context(
        "$( ), double quotes",
        "printf '%s' \"$(printf '%s' \"",
        "\")\"",
        BOTH_SHELLS,
        ExpectedOutput::Trimmed,
    ),
    context(
        "$( ), single quotes",
        "printf '%s' \"$(printf '%s' '",
        "')\"",
        BOTH_SHELLS,
        ExpectedOutput::Trimmed,
    ),
    context(
        "backticks",
        "x=`printf '%s' ",
        "`; printf '%s' \"$x\"",
        BOTH_SHELLS,
        ExpectedOutput::Trimmed,
    ),
    context("subshell", "(printf '%s' ", ")", BOTH_SHELLS, ExpectedOutput::Exact),
    context(
        "condition",
        "if [ -n ",
        " ]; then :; fi",
        BOTH_SHELLS,
        ExpectedOutput::Nothing,
    ),
    context(
        "default of a parameter",
        "unset u; printf '%s' \"${u:-",
        "}\"",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    ),
    context("here-string", "cat <<< ", "", BASH_ONLY, ExpectedOutput::Exact),
    context("comment", ": # ", "\n:", BOTH_SHELLS, ExpectedOutput::Nothing),
    context(
        "arithmetic",
        "printf '%s' $(( 1 + ",
        " ))",
        BOTH_SHELLS,
        ExpectedOutput::Refused,
    ),
];

const fn context(
    name: &'static str,
    before: &'static str,
    after: &'static str,
    shells: &'static [&'static str],
    fate: ExpectedOutput,
) -> AttackContext {
    AttackContext {
        name,
        before,
        after,
        shells,
        expected_output: fate,
    }
}

impl AttackContext {
    /// Expected output: that of a harmless word, with the value in its place.
    fn expected(&self, value: &str) -> String {
        let (before, after) = match self.name {
            "bare, as a part of a word" => ("pre", "post"),
            "double quotes, among others" => ("a ", " b"),
            "ANSI quotes" => ("a'b", ""),
            "heredoc" | "here-string" => ("", "\n"),
            "heredoc, tabs stripped" => ("x", "\n"),
            _ => ("", ""),
        };
        format!("{before}{value}{after}")
    }
}

fn shell_tool() -> ShellTool {
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    ShellTool::new(BTreeMap::from([("PATH".to_owned(), path)]), SandboxLevel::None)
}

async fn run_attack(context: &AttackContext, shell: &str, value: &str, dir: &Path) -> Result<String, String> {
    let pieces = vec![
        Piece::Text(context.before.to_owned()),
        Piece::Value(value.into()),
        Piece::Text(context.after.to_owned()),
    ];
    run_pieces(pieces, shell, dir).await
}

/// Output of a script, or its error code.
async fn run_pieces(pieces: Vec<Piece>, shell: &str, dir: &Path) -> Result<String, String> {
    let mut call = command_call("shell", "", dir);
    call.pieces.insert("command".to_owned(), vec![pieces]);
    call.fields = json!({"shell": shell}).as_object().unwrap().clone();
    let outcome = run_tool(&shell_tool(), call).await;
    match &outcome {
        model::outcome::Outcome::Ok(success) => Ok(success.result["stdout"].as_str().unwrap().to_owned()),
        model::outcome::Outcome::Error(_) => Err(expect_error(&outcome).code.clone()),
    }
}

/// Runs every attack in one context and returns the problems.
async fn run_attacks(context: &AttackContext) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let canary = dir.path().join("canary");
    let mut faults = Vec::new();
    for shell in context.shells {
        for attack_ in ATTACKS {
            let value = attack_.replace('@', canary.to_str().unwrap());
            let printed = run_attack(context, shell, &value, dir.path()).await;
            let wanted = match context.expected_output {
                ExpectedOutput::Exact => Ok(context.expected(&value)),
                ExpectedOutput::Trimmed => Ok(context.expected(value.trim_end_matches('\n'))),
                ExpectedOutput::Nothing => Ok(String::new()),
                ExpectedOutput::Refused => Err("SHELL_VALUE".to_owned()),
            };
            let name = context.name;
            if printed != wanted {
                faults.push(format!("{name}, {shell}: {value:?} came as {printed:?}"));
            }
            if canary.exists() {
                faults.push(format!("{name}, {shell}: {value:?} was run"));
                std::fs::remove_file(&canary).unwrap();
            }
        }
    }
    faults
}

#[tokio::test]
async fn no_value_becomes_a_command_in_any_context() {
    assert!(ATTACKS.len() >= 100, "{}", ATTACKS.len());
    let mut faults = Vec::new();
    for context in CONTEXTS {
        faults.extend(run_attacks(context).await);
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test]
async fn a_raw_heredoc_accepts_values_that_do_not_end_it() {
    let raw = context(
        "raw heredoc",
        "cat <<'EOF'\n",
        "\nEOF\n",
        BOTH_SHELLS,
        ExpectedOutput::Exact,
    );
    let dir = tempfile::tempdir().unwrap();
    let canary = dir.path().join("canary");
    let mut refused = 0;
    for attack_ in ATTACKS {
        let value = attack_.replace('@', canary.to_str().unwrap());
        match run_attack(&raw, "/bin/sh", &value, dir.path()).await {
            Ok(printed) => assert_eq!(printed, format!("{value}\n")),
            Err(code) => {
                assert_eq!(code, "SHELL_VALUE", "{value:?}");
                refused += 1;
            }
        }
        assert!(!canary.exists(), "{value:?}");
    }
    assert!(refused >= 3, "those that name the delimiter: {refused}");
}

/// Scripts with several values, each in `‹…›`, that form an attack together; `@` stands for the path of the canary.
const COMBINED_ATTACKS: &[(&str, Result<&str, &str>)] = &[
    ("cat <<EOF\n‹EOF›\n‹touch @›\nEOF\n", Ok("EOF\ntouch @\n")),
    ("cat <<EOF\n‹E›‹OF›\n‹touch @›\nEOF\n", Ok("EOF\ntouch @\n")),
    ("cat <<EOF\nE‹OF›\n‹touch @›\nEOF\n", Ok("EOF\ntouch @\n")),
    ("cat <<-EOF\n\t‹EOF›\n\t‹touch @›\n\tEOF\n", Ok("EOF\ntouch @\n")),
    ("cat <<EOF\n‹EO›F‹›\n‹touch @›\nEOF\n", Ok("EOF\ntouch @\n")),
    ("cat <<A; cat <<B\n‹A›\nA\n‹B›\n‹touch @›\nB\n", Ok("A\nB\ntouch @\n")),
    ("cat <<EOF\n$(( ‹a[$(touch @)]› ))\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<'EOF'\n‹EOF›\n‹touch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<'EOF'\n‹E›‹OF›\n‹touch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<'EOF'\nE‹OF›\n‹touch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<'EOF'\n‹EO›F\n‹touch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<'EOF'\n‹x\nE›‹OF\ntouch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<\\EOF\n‹›EOF\n‹touch @›\nEOF\n", Err(REFUSED_CODE)),
    ("cat <<-'EOF'\n\t‹EOF›\n‹touch @›\n\tEOF\n", Err(REFUSED_CODE)),
    ("cat <<''\n‹›\n‹touch @›\n\n", Err(REFUSED_CODE)),
    ("x=$(cat <<'EOF'\n‹EOF›); ‹touch @›\nEOF\n)", Err(REFUSED_CODE)),
    ("x=`cat <<'EOF'\n‹`; touch @; echo `›\nEOF\n`", Err(REFUSED_CODE)),
    ("cat <<'EOF'\n‹EOF›-‹EOF› EOF\nEOF\n", Ok("EOF-EOF EOF\n")),
    ("x=`printf a # ‹`; touch @; echo `›\n`; printf %s $x", Ok("a")),
];

const REFUSED_CODE: &str = "SHELL_VALUE";

#[tokio::test]
async fn several_values_do_not_form_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let canary = dir.path().join("canary");
    let canary_text = canary.to_str().unwrap();
    for (script, wanted) in COMBINED_ATTACKS {
        let script = script.replace('@', canary_text);
        let mut pieces = Vec::new();
        for part in script.split('‹') {
            match part.split_once('›') {
                Some((value, text)) => {
                    pieces.push(Piece::Value(value.into()));
                    pieces.push(Piece::Text(text.to_owned()));
                }
                None => pieces.push(Piece::Text(part.to_owned())),
            }
        }
        let wanted = match wanted {
            Ok(text) => Ok(text.replace('@', canary_text)),
            Err(code) => Err((*code).to_owned()),
        };
        for shell in BOTH_SHELLS {
            let printed = run_pieces(pieces.clone(), shell, dir.path()).await;
            assert_eq!(printed, wanted, "{shell}: {script}");
            assert!(!canary.exists(), "{shell}: {script}");
        }
    }
}

#[tokio::test]
async fn a_value_in_the_environment_is_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let canary = dir.path().join("canary");
    for attack_ in ATTACKS {
        let value = attack_.replace('@', canary.to_str().unwrap());
        let mut call = command_call(
            "shell",
            "printf '%s' \"$VALUE\"; sh -c 'printf %s \"$VALUE\"'",
            dir.path(),
        );
        call.fields = json!({"env": {"VALUE": value}}).as_object().unwrap().clone();
        let result = crate::testing::expect_result(run_tool(&shell_tool(), call).await);
        assert_eq!(result["stdout"], format!("{value}{value}"));
        assert!(!canary.exists(), "{value:?}");
    }
}

#[tokio::test]
async fn the_canary_detects_an_unquoted_value() {
    let dir = tempfile::tempdir().unwrap();
    let canary = dir.path().join("canary");
    let mut call = command_call("shell", "", dir.path());
    let raw = format!("; touch {}", canary.display());
    let pieces = vec![Piece::Text("true ".to_owned()), Piece::Raw(raw)];
    call.pieces.insert("command".to_owned(), vec![pieces]);
    crate::testing::expect_result(run_tool(&shell_tool(), call).await);
    assert!(canary.exists(), "a corpus that cannot fail shows nothing");
}
