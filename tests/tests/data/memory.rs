//! Programs of users that want all memory: their task fails with a code, and the worker and the server stay small.

use std::path::Path;
use std::time::Duration;

use model::outcome::Outcome;
use serde_json::{Value, json};
use tempfile::tempdir;
use tools::{Call, Registry};

use crate::fixture::{failure_error, new_call, run_call, success_value};

/// Maximum growth of this process, whatever a program allocates.
const GROWTH_BYTES_MAX: u64 = 200 * 1024 * 1024;

/// A text that is doubled: the shortest way to all memory.
const DOUBLED: &str = r#"reduce range(60) as $i ("xxxxxxxx"; . + .)"#;

/// Programs that would take all memory, if they could.
const PROGRAMS: [&str; 12] = [
    DOUBLED,
    r"reduce range(60) as $i ([1]; . + .)",
    "[range(1e12)]",
    "[limit(1e9; repeat(1))]",
    r#""x" * 1e10"#,
    "def f: [., .] | f; f",
    r#"def f: . + . | f; "ab" | f"#,
    "reduce range(60) as $i (1; [., .])",
    "reduce range(60) as $i (1; [., .]) | tojson",
    r#""x" * 2e8 | explode"#,
    r#"reduce range(1e9) as $i ({}; .["k\($i)"] = $i)"#,
    "[range(5e6)] | [., ., ., .] | tojson | [., .] | tojson | fromjson",
];

/// A script whose variables are each within the limit of a value, and together take all memory.
const MANY_TEXTS: &str = r#"
fn text(n) { let t = "x"; while t.len < 4000000 { t += t; } t + n }
fn hold(n) { let a = text(n); let b = text(n + 1); let c = text(n + 2); let d = text(n + 3); if n < 240 { hold(n + 4); } a.len + b.len + c.len + d.len }
let all = [];
for n in 0..1000 { let t = text(n); all.push(|| t); }
hold(0)"#;

/// Scripts that would take all memory.
const SCRIPTS: [&str; 9] = [
    MANY_TEXTS,
    r"fn many() { let a = []; a.pad(900000, 1); a } let all = []; loop { let a = many(); all.push(|| a); }",
    r"let all = []; loop { let b = blob(8000000); all.push(|| b); }",
    r#"let t = "x"; while t.len < 4000000 { t += t; } let all = []; loop { let a = t.split(""); all.push(|| a); }"#,
    r#"let t = "x"; t.pad(8000000, "y"); let a = t.to_chars(); let b = a; let c = b; [a, b, c]"#,
    r#"let all = []; loop { let m = #{}; for n in 0..1000 { m["key" + n] = [n]; } all.push(|| m); }"#,
    r"let a = [0]; loop { a = [a, a]; }",
    r#"let t = "x"; while t.len < 4000000 { t += t; } loop { print(t); }"#,
    r"let a = 1; for n in 0..1000 { a = [a]; } a",
];

fn tools_with_evaluation(dir: &Path) -> Registry {
    Registry::builtin(tools::Config {
        scratch_dir: dir.to_owned(),
        evaluation_program: Some(tests::cli_sandbox::noetl_path()),
        ..tools::Config::default()
    })
}

fn jq_call(dir: &Path, program: &str) -> Call {
    let mut call = new_call("transform", dir, json!({"jq": program}));
    call.timeout.total = Some(Duration::from_secs(5));
    call
}

/// The most memory that this process ever had.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.unwrap().parse::<u64>().unwrap() * 1024
}

#[tokio::test]
async fn a_jq_program_that_exceeds_its_memory_fails_without_harming_others() {
    let dir = tempdir().unwrap();
    let tools = tools_with_evaluation(dir.path());
    assert_eq!(success_value(run_call(&tools, jq_call(dir.path(), "1 + 1")).await), 2);
    let before = peak_bytes();
    for program in PROGRAMS {
        let outcome = run_call(&tools, jq_call(dir.path(), program)).await;
        let Outcome::Error(failure) = &outcome else {
            panic!("{program}: it has an end")
        };
        let code = failure.error.code.as_str();
        assert!(
            matches!(code, "LIMIT_MEMORY" | "LIMIT_RESULT" | "TIMEOUT" | "JQ_ERROR"),
            "{program}: {:?}",
            failure.error
        );
        assert!(program != DOUBLED || code == "LIMIT_MEMORY", "{code}");
        let grown = peak_bytes() - before;
        assert!(grown < GROWTH_BYTES_MAX, "{program}: {grown} bytes");
    }
    // Later programs still run.
    assert_eq!(
        success_value(run_call(&tools, jq_call(dir.path(), "[1, 2] | add")).await),
        3
    );
}

fn script_call(dir: &Path, code: &str) -> Call {
    let mut call = new_call("rhai", dir, json!({"code": code}));
    call.timeout.total = Some(Duration::from_secs(10));
    call
}

#[tokio::test]
async fn a_rhai_script_that_exceeds_its_memory_fails_without_harming_others() {
    let dir = tempdir().unwrap();
    let tools = tools_with_evaluation(dir.path());
    assert_eq!(
        success_value(run_call(&tools, script_call(dir.path(), "1 + 1")).await),
        2
    );
    let before = peak_bytes();
    for code in SCRIPTS {
        let failed = failure_error(run_call(&tools, script_call(dir.path(), code)).await);
        assert!(
            matches!(
                failed.code.as_str(),
                "LIMIT_MEMORY" | "LIMIT_RESULT" | "LIMIT_SCRIPT" | "TIMEOUT"
            ),
            "{code}: {failed:?}"
        );
        assert!(code != MANY_TEXTS || failed.code == "LIMIT_MEMORY", "{failed:?}");
        let grown = peak_bytes() - before;
        assert!(grown < GROWTH_BYTES_MAX, "{code}: {grown} bytes");
        println!("{}: {} bytes, {code}", failed.code, grown);
    }
    assert_eq!(
        success_value(run_call(&tools, script_call(dir.path(), "[1, 2].len")).await),
        2
    );
}

#[tokio::test]
async fn jq_processes_are_used_again_and_bounded() {
    let dir = tempdir().unwrap();
    let tools = tools_with_evaluation(dir.path());
    let mut children_per_run = Vec::new();
    for number in 0..3 {
        let program = format!("{number} + 1");
        let done = success_value(run_call(&tools, jq_call(dir.path(), &program)).await);
        assert_eq!(done, number + 1);
        children_per_run.push(child_processes());
    }
    assert_eq!(children_per_run[0].len(), 1, "{children_per_run:?}");
    assert!(
        children_per_run.iter().all(|children| *children == children_per_run[0]),
        "{children_per_run:?}"
    );
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", children_per_run[0][0])).unwrap();
    let data = limits.lines().find(|line| line.starts_with("Max data size"));
    let soft = data.and_then(|line| line.split_whitespace().nth(3));
    let soft: u64 = soft.unwrap().parse().expect("a bound");
    assert!(soft < 2 << 30, "{soft}");
    // A program that does not end is killed with its process.
    let mut endless = jq_call(dir.path(), "last(range(1e18))");
    endless.timeout.total = Some(Duration::from_millis(200));
    assert_eq!(failure_error(run_call(&tools, endless).await).code, "TIMEOUT");
}

/// The processes that this one has started.
fn child_processes() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let mut ids: Vec<u32> = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|ids| ids.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|id| id.parse().ok())
        .collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn a_sqlite_value_has_a_bound() {
    let dir = tempdir().unwrap();
    let tools = tools_with_evaluation(dir.path());
    let before = peak_bytes();
    for statement in [
        "SELECT zeroblob(2000000000)",
        "SELECT printf('%.*c', 2000000000, 'x')",
        "SELECT hex(zeroblob(60000000))",
        "WITH RECURSIVE r(n, t) AS (SELECT 1, 'xxxxxxxx' UNION ALL SELECT n + 1, t || t FROM r) SELECT max(length(t)) FROM r",
        "CREATE TABLE t (b); WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) INSERT INTO t SELECT zeroblob(1000000) FROM r",
    ] {
        let mut call = new_call("sqlite", dir.path(), json!({"database": ":memory:"}));
        let pieces = vec![vec![language::template::Piece::Text(statement.to_owned())]];
        call.pieces.insert("command".to_owned(), pieces);
        let failed = failure_error(run_call(&tools, call).await);
        assert!(
            matches!(failed.code.as_str(), "SQLITE_TOOBIG" | "SQLITE_FULL"),
            "{statement}: {failed:?}"
        );
        let grown = peak_bytes() - before;
        assert!(grown < 2 * GROWTH_BYTES_MAX, "{statement}: {grown} bytes");
    }
    let rows: Value = {
        let mut call = new_call("sqlite", dir.path(), json!({"database": ":memory:"}));
        let pieces = vec![vec![language::template::Piece::Text(
            "SELECT length(zeroblob(1000000)) AS n".to_owned(),
        )]];
        call.pieces.insert("command".to_owned(), pieces);
        success_value(run_call(&tools, call).await)
    };
    assert_eq!(rows["rows"][0]["n"], 1_000_000);
}
