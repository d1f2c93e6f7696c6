//! Tests of the `shell` tool against a real shell.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use language::template::Piece;
use model::outcome::{ErrorKind, Outcome};
use model::task_log::LogStream;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, Tool};
use crate::isolation::SandboxLevel;
use crate::shell::ShellTool;
use crate::testing::{
    FileAtFirstLine, RecordedLogLines, StopAtFirstLine, command_call, expect_error, expect_result, run_tool,
    wait_for_exit,
};

fn shell_tool() -> ShellTool {
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    ShellTool::new(BTreeMap::from([("PATH".to_owned(), path)]), SandboxLevel::None)
}

fn shell_call(text: &str) -> Call {
    command_call("shell", text, Path::new("/tmp"))
}

fn call_with_pieces(parts: &[Piece]) -> Call {
    let mut call = shell_call("");
    call.pieces.insert("command".to_owned(), vec![parts.to_vec()]);
    call
}

fn text_piece(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn value_piece(value: impl Into<Value>) -> Piece {
    Piece::Value(value.into())
}

async fn run_stdout(call: Call) -> String {
    let result = expect_result(run_tool(&shell_tool(), call).await);
    result["stdout"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_result_has_the_output_and_exit_code() {
    let outcome = run_tool(&shell_tool(), shell_call("echo out; echo err >&2")).await;
    let expected = json!({"stdout": "out\n", "stderr": "err\n", "exit_code": 0});
    assert_eq!(expect_result(outcome), expected);
}

#[tokio::test]
async fn a_nonzero_exit_code_is_an_error_with_the_output() {
    let outcome = run_tool(&shell_tool(), shell_call("echo why >&2; exit 3")).await;
    let failed = expect_error(&outcome);
    assert_eq!((failed.code.as_str(), failed.retryable), ("SHELL_EXIT", false));
    assert_eq!(failed.details["exit_code"], 3);
    assert_eq!(failed.details["stderr"], "why\n");
}

#[tokio::test]
async fn several_commands_share_a_shell_and_stop_at_the_first_that_fails() {
    let mut call = shell_call("");
    let cmds = ["cd /usr", "pwd", "false", "echo never"];
    let cmds = cmds.iter().map(|c| vec![text_piece(c)]).collect();
    call.pieces = BTreeMap::from([("cmds".to_owned(), cmds)]);
    let outcome = run_tool(&shell_tool(), call).await;
    assert_eq!(expect_error(&outcome).details["stdout"], "/usr\n");
}

#[tokio::test]
async fn programs_get_only_declared_variables() {
    let mut call = shell_call("env | cut -d= -f1 | sort | tr '\\n' ' '");
    call.fields = json!({"env": {"MINE": 1}}).as_object().unwrap().clone();
    let output = run_stdout(call).await;
    for name in output.split_whitespace() {
        assert!(
            ["MINE", "NOETL_PROCESS", "PATH", "PWD", "SHLVL", "_", "OLDPWD"].contains(&name),
            "{name}"
        );
    }
    assert!(output.contains("MINE"));
}

#[tokio::test]
async fn input_is_written_to_stdin() {
    let mut call = shell_call("cat | tr a-z A-Z");
    call.fields = json!({"stdin": "hello"}).as_object().unwrap().clone();
    assert_eq!(run_stdout(call).await, "HELLO");
    let mut unread = shell_call("true");
    let long = "x".repeat(1_000_000);
    unread.fields = json!({"stdin": long}).as_object().unwrap().clone();
    assert_eq!(run_stdout(unread).await, "");
}

#[tokio::test]
async fn the_shell_can_be_chosen() {
    let mut call = shell_call("a=(1 2 3); echo ${#a[@]}");
    call.fields = json!({"shell": "bash"}).as_object().unwrap().clone();
    assert_eq!(run_stdout(call).await, "3\n");
    let mut missing = shell_call("true");
    missing.fields = json!({"shell": "no-such-shell"}).as_object().unwrap().clone();
    let outcome = run_tool(&shell_tool(), missing).await;
    assert_eq!(expect_error(&outcome).code, "SHELL_START");
}

#[tokio::test]
async fn a_remaining_child_does_not_block_the_call() {
    let started = Instant::now();
    assert_eq!(run_stdout(shell_call("sleep 600 & echo started")).await, "started\n");
    assert!(started.elapsed() < Duration::from_secs(30));
}

async fn run_stopped(script: &str) -> (Outcome, Duration) {
    let stop = CancellationToken::new();
    let started = Instant::now();
    let outcome = shell_tool()
        .call(shell_call(script), stop.clone(), &StopAtFirstLine(stop))
        .await;
    (outcome, started.elapsed())
}

#[tokio::test]
async fn a_stop_ends_the_whole_group() {
    let (outcome, _) = run_stopped("sh -c 'sleep 600; true' & echo $!; wait").await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    wait_for_exit(expect_error(&outcome).details["stdout"].as_str().unwrap().trim()).await;
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed() {
    let (outcome, took) = run_stopped("trap '' TERM; echo up; while :; do sleep 1; done").await;
    assert_eq!(expect_error(&outcome).kind, ErrorKind::Cancelled);
    assert!(took >= crate::process::KILL_GRACE, "{took:?}");
}

#[tokio::test]
async fn the_error_of_a_timeout_has_the_output() {
    let mut call = shell_call("echo before; sleep 600");
    call.timeout.total = Some(Duration::from_millis(300));
    let outcome = run_tool(&shell_tool(), call).await;
    assert_eq!(expect_error(&outcome).code, "TIMEOUT");
    assert_eq!(expect_error(&outcome).details["stdout"], "before\n");
}

#[tokio::test]
async fn long_output_is_cut_in_the_middle() {
    let lines = RecordedLogLines::default();
    let outcome = shell_tool()
        .call(
            shell_call("yes 0123456789 | head -c 5000000; echo; echo end"),
            CancellationToken::new(),
            &lines,
        )
        .await;
    let stdout = expect_result(outcome)["stdout"].as_str().unwrap().to_owned();
    assert!(stdout.len() < 1_100_000 && stdout.ends_with("end\n"));
    assert!(stdout.contains("bytes left out"));
}

#[tokio::test]
async fn a_long_script_and_long_values_work() {
    let long = "a b".repeat(100_000);
    let call = call_with_pieces(&[
        text_piece("printf %s "),
        value_piece(long.clone()),
        text_piece(" | wc -c | tr -d ' '"),
    ]);
    assert_eq!(run_stdout(call).await, format!("{}\n", long.len()));
}

#[tokio::test]
async fn values_are_not_visible_in_process_arguments() {
    for secret in ["hunter2", "a $secret; text"] {
        let call = call_with_pieces(&[
            text_piece(": "),
            value_piece(secret),
            text_piece("; tr '\\0' ' ' < /proc/$$/cmdline; stat -c ' %a' \"$0\""),
        ]);
        let output = run_stdout(call).await;
        assert!(!output.contains(secret), "{output}");
        assert!(output.ends_with(" 600\n"), "{output}");
    }
}

#[tokio::test]
async fn values_of_other_types_are_text_or_json() {
    let call = call_with_pieces(&[
        text_piece("printf '[%s]' "),
        value_piece(5),
        text_piece(" "),
        value_piece(Value::Null),
        text_piece(" "),
        value_piece(true),
        text_piece(" "),
        value_piece(json!({"a b": [1]})),
    ]);
    assert_eq!(run_stdout(call).await, "[5][][true][{\"a b\":[1]}]");
}

#[tokio::test]
async fn text_marked_as_raw_is_run() {
    let call = call_with_pieces(&[text_piece("echo "), Piece::Raw("a | tr a b".to_owned())]);
    assert_eq!(run_stdout(call).await, "b\n");
}

#[tokio::test]
async fn only_numbers_are_allowed_in_arithmetic() {
    let add = |v: Value| call_with_pieces(&[text_piece("echo $(( 1 + "), Piece::Value(v), text_piece(" ))")]);
    assert_eq!(run_stdout(add(json!(4))).await, "5\n");
    let outcome = run_tool(&shell_tool(), add(json!("a[$(touch /tmp/never)]"))).await;
    assert_eq!(expect_error(&outcome).code, "SHELL_VALUE");
}

#[tokio::test]
async fn a_value_cannot_end_a_quoted_here_document() {
    let cat = |v: &str| call_with_pieces(&[text_piece("cat <<'EOF'\n"), value_piece(v), text_piece("\nEOF\n")]);
    assert_eq!(run_stdout(cat("$HOME `x`")).await, "$HOME `x`\n");
    let outcome = run_tool(&shell_tool(), cat("a\nEOF\ntouch /tmp/never")).await;
    assert_eq!(expect_error(&outcome).code, "SHELL_VALUE");
}

/// Scripts that print the value between brackets, one for every context.
const CONTEXTS: [(&str, &str); 12] = [
    ("printf '<%s>' ", ""),
    ("printf '<%s>' \"", "\""),
    ("printf '<%s>' '", "'"),
    ("printf '<%s>' ''", ""),
    ("printf '<%s>' \"$(printf %s ", "; printf x)\" | sed '$s/x>$/>/'"),
    ("printf '<%s>' \"$(printf %s \"", "\"; printf x)\" | sed '$s/x>$/>/'"),
    ("# it's a \"comment\nprintf '<%s>' ", ""),
    ("printf '<'; cat <<EOF\n", "\nEOF\nprintf '>'"),
    ("printf '<'; cat <<-EOF | cat\n", "\nEOF\nprintf '>'"),
    ("x=", "; printf '<%s>' \"$x\""),
    ("printf %s \"a'b\"'c\"d'\\\" > /dev/null; printf '<%s>' ", ""),
    ("printf '<%s>' ${UNSET:-", "}"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_value_is_unchanged_in_every_context(
        raw in prop_oneof![
            "[ -~\n\t]{0,24}",
            "[\"'`$\\\\(){};&|<>#!*?~\n ]{0,16}",
            "\\PC{0,12}",
            Just("$(touch /tmp/pwned)".to_owned()),
            Just("'; exit 9; '".to_owned()),
            Just("done".to_owned()),
        ]
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // A value never ends in the characters that the scripts cut off.
        let raw = format!("{raw}.");
        for (before, after) in CONTEXTS {
            let call = call_with_pieces(&[text_piece(before), value_piece(raw.clone()), text_piece(after)]);
            let output = runtime.block_on(run_stdout(call));
            let in_document = before.contains("cat <<");
            let expected = if in_document { format!("<{raw}\n>") } else { format!("<{raw}>") };
            prop_assert_eq!(&output, &expected, "in {}…{}", before, after);
        }
    }
}

#[tokio::test]
async fn a_line_is_logged_while_the_command_runs_and_a_part_of_one_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let log = FileAtFirstLine::new(dir.path().join("go"));
    let script =
        "echo first; until [ -e go ]; do :; done; printf err >&2; printf part; head -c 40000 /dev/zero | tr '\\0' x";
    let mut call = command_call("shell", script, dir.path());
    call.timeout.total = Some(Duration::from_secs(30));
    expect_result(shell_tool().call(call, CancellationToken::new(), &log).await);
    let lines = log.lines_of(LogStream::Stdout);
    assert_eq!(lines[0], "first");
    assert!(lines[1].starts_with("partxxx"));
    assert!(lines.iter().all(|line| line.len() <= 16 * 1024), "long lines are split");
    assert_eq!(lines[1..].concat().len(), 40_004, "no part of them is lost");
    assert_eq!(log.lines_of(LogStream::Stderr), ["err"]);
}
