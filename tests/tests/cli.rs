//! The command line for scripts and users: exit codes, data on standard output, control of running processes.

use std::fs;

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;

const WAITING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waiting, path: waiting}
workflow:
  - step: hold
    tool:
      - go: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ hold.data }}"}
"#;

const FAILING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: failing, path: failing}
workflow:
  - step: look
    tool:
      - file: {kind: shell, command: "cat answer.txt"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ look.data.stdout | trim }}"}
"#;

const NAPPING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: napping, path: napping}
workflow:
  - step: nap
    tool:
      - sleep:
          kind: python
          code: |
            import time
            print("asleep", flush=True)
            time.sleep(300)
"#;

fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    sandbox.write("waiting.yaml", WAITING);
    sandbox.write("failing.yaml", FAILING);
    sandbox.write("napping.yaml", NAPPING);
    sandbox
}

fn last_json(lines: &[String]) -> Value {
    let line = lines.last().expect("something was printed");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Starts the waiting playbook and waits until it waits for its signal; returns the process and the run ID.
fn start_waiting(sandbox: &CliSandbox) -> (tests::cli_sandbox::RunningCommand, String) {
    let mut run = sandbox.start(&["run", "waiting.yaml", "-o", "ndjson"]);
    let event = run.wait_for_event("task.started", Some("hold"));
    let event = event.expect("the task starts");
    let id = event["execution_id"].as_str().expect("ids are text");
    (run, id.to_owned())
}

#[test]
fn a_finished_run_is_one_object_on_standard_output() {
    let sandbox = sandbox();
    sandbox.write("answer.txt", "42\n");
    let run = sandbox.run_json(&["run", "failing.yaml", "-o", "json"]);
    assert_eq!(run["status"], "COMPLETED");
    assert_eq!(run["result"], "42");
    assert_eq!(run["error"], Value::Null);
    let report = sandbox.run_json(&["show", "last", "-o", "json"]);
    for key in ["execution_id", "status", "result", "error", "steps"] {
        assert_eq!(report[key], run[key], "{key}");
    }
    let plain = sandbox.run(&["run", "failing.yaml"]);
    assert_eq!(plain.stdout, "42\n", "progress is printed to standard error");
    assert!(plain.stderr.contains("succeeded"), "{plain:?}");
    let quiet = sandbox.run(&["run", "failing.yaml", "-q"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("42\n", ""));
}

#[test]
fn a_failed_run_exits_with_1_and_continues_when_retried() {
    let sandbox = sandbox();
    let failed = sandbox.run(&["run", "failing.yaml", "-o", "json"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let run = failed.json();
    assert_eq!(run["status"], "FAILED");
    assert_eq!(run["error"]["code"], "SHELL_EXIT", "{run:#}");
    assert!(failed.stderr.contains("noetl retry"), "{}", failed.stderr);
    sandbox.write("answer.txt", "found\n");
    let second_output = sandbox.run_json(&["retry", "last", "-o", "json"]);
    assert_eq!(second_output["status"], "COMPLETED");
    assert_eq!(second_output["result"], "found");
    assert_eq!(second_output["generation"], 2);
    assert_eq!(second_output["execution_id"], run["execution_id"]);
}

#[test]
fn wrong_usage_exits_with_2() {
    let sandbox = sandbox();
    for args in [
        &["run"][..],
        &["run", "failing.yaml", "--nope"],
        &["frobnicate"],
        &["run", "failing.yaml", "--set", "no-equals-sign"],
        &["run", "failing.yaml", "--timeout", "soon"],
        &["show", "abc"],
        &["events", "last", "--type", "no.such.type"],
    ] {
        let output = if args[0] == "show" {
            assert!(sandbox.run(&["run", "failing.yaml"]).code.is_some());
            sandbox.run(args)
        } else {
            sandbox.run(args)
        };
        assert_eq!(output.code, Some(2), "{args:?}: {output:?}");
        assert_eq!(output.stdout, "", "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn an_invalid_playbook_exits_with_3_and_names_line_and_column() {
    let sandbox = sandbox();
    sandbox.write("typo.yaml", &FAILING.replace("    tool:\n", "    tol:\n"));
    for args in [&["validate", "typo.yaml"][..], &["run", "typo.yaml"]] {
        let output = sandbox.run(args);
        assert_eq!(output.code, Some(3), "{output:?}");
        let text = output.stdout.clone() + output.stderr.as_str();
        assert!(text.contains("typo.yaml:7:5"), "{text}");
        assert!(text.contains("did you mean `tool`?"), "{text}");
    }
    sandbox.write("broken.yaml", "{");
    let output = sandbox.run(&["run", "broken.yaml"]);
    assert_eq!(output.code, Some(3), "{output:?}");
    assert!(output.stderr.contains("broken.yaml:"), "{output:?}");
    assert_eq!(sandbox.run(&["validate", "failing.yaml"]).code, Some(0));
}

#[test]
fn what_does_not_exist_exits_with_4() {
    let sandbox = sandbox();
    assert_eq!(sandbox.run(&["run", "nowhere.yaml"]).code, Some(4));
    assert_eq!(sandbox.run(&["validate", "nowhere.yaml"]).code, Some(4));
    sandbox.run(&["run", "failing.yaml"]);
    for verb in ["show", "events", "result", "retry", "cancel", "pause", "logs"] {
        let output = sandbox.run(&[verb, "99999"]);
        assert_eq!(output.code, Some(4), "{verb}: {output:?}");
        assert!(output.stderr.contains("99999"), "{verb}: {output:?}");
    }
}

#[test]
fn a_store_that_cannot_be_used_exits_with_5_and_is_named() {
    let sandbox = sandbox();
    let none = sandbox.run(&["runs"]);
    assert_eq!(none.code, Some(5), "{none:?}");
    assert!(none.stderr.contains("STORE_NOT_FOUND"), "{none:?}");
    assert!(!sandbox.path(".noetl").exists(), "reading does not create a store");
    fs::create_dir(sandbox.path(".noetl")).expect("the directory is writable");
    sandbox.write(".noetl/noetl.db", "garbage that is no database at all");
    for args in [&["runs"][..], &["run", "failing.yaml"], &["show"]] {
        let output = sandbox.run(args);
        assert_eq!(output.code, Some(5), "{args:?}: {output:?}");
        assert!(output.stderr.contains("STORE_CORRUPT"), "{output:?}");
        assert!(output.stderr.contains("noetl.db"), "{output:?}");
    }
    let stored_bytes = sandbox.read(".noetl/noetl.db");
    assert_eq!(stored_bytes, "garbage that is no database at all");
}

#[test]
fn a_store_where_nothing_can_be_written_is_refused() {
    let sandbox = sandbox();
    sandbox.write("file", "not a folder");
    let output = sandbox.run(&["run", "failing.yaml", "--store", "file/store"]);
    assert_eq!(output.code, Some(5), "{output:?}");
    assert!(output.stderr.contains("file/store"), "{output:?}");
}

#[test]
fn a_run_is_found_by_last_and_by_the_beginning_and_end_of_its_id() {
    let sandbox = sandbox();
    sandbox.write("answer.txt", "x");
    let run = sandbox.run_json(&["run", "failing.yaml", "-o", "json"]);
    let id = run["execution_id"].as_str().expect("ids are text");
    for name in ["last", "-1", id, &id[..12], &id[id.len() - 8..]] {
        let report = sandbox.run_json(&["show", name, "-o", "json"]);
        assert_eq!(report["execution_id"], id, "{name}");
    }
    let runs = sandbox.run_json(&["runs", "-o", "json"]);
    assert_eq!(runs[0]["execution_id"], id, "{runs:#}");
}

#[test]
fn another_process_signals_a_run_and_follows_its_log() {
    let sandbox = sandbox();
    let (run, id) = start_waiting(&sandbox);
    let mut follower = sandbox.start(&["events", &id, "-f", "-o", "ndjson"]);
    assert!(follower.wait_for_event("task.started", Some("hold")).is_some());
    let report = sandbox.run_json(&["show", &id, "-o", "json"]);
    assert_eq!(report["status"], "RUNNING");
    assert!(sandbox.run(&["show", &id]).stdout.contains("waits for signal go"));
    let output = sandbox.run(&["signal", &id, "go", "--set", "answer=7"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let (code, lines) = run.finish();
    assert_eq!(code, Some(0));
    assert_eq!(last_json(&lines)["result"], json!({"answer": 7}));
    assert!(follower.wait_for_event("playbook.finished", None).is_some());
    assert_eq!(follower.finish().0, Some(0), "following ends with the run");
}

#[test]
fn a_second_run_does_not_disturb_the_first() {
    let sandbox = sandbox();
    sandbox.write("answer.txt", "second");
    let (run, id) = start_waiting(&sandbox);
    let second = sandbox.run_json(&["run", "failing.yaml", "-o", "json"]);
    assert_eq!(second["result"], "second");
    assert_eq!(sandbox.run(&["signal", &id, "go"]).code, Some(0));
    assert_eq!(run.finish().0, Some(0));
}

#[test]
fn a_paused_run_exits_with_10_and_continues_when_resumed() {
    let sandbox = sandbox();
    let (run, id) = start_waiting(&sandbox);
    let output = sandbox.run(&["pause", &id]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let (code, lines) = run.finish();
    assert_eq!(code, Some(10));
    assert_eq!(last_json(&lines)["status"], "PAUSED");
    assert_eq!(sandbox.run(&["pause", &id]).code, Some(6), "the run is already paused");
    let mut resumed = sandbox.start(&["resume", &id, "-o", "ndjson"]);
    assert!(resumed.wait_for_event("playbook.resumed", None).is_some());
    assert_eq!(sandbox.run(&["signal", &id, "go", "--set", "x=1"]).code, Some(0));
    let (code, lines) = resumed.finish();
    assert_eq!(code, Some(0));
    assert_eq!(last_json(&lines)["result"], json!({"x": 1}));
    assert_eq!(sandbox.run(&["resume", &id]).code, Some(6), "the run has ended");
}

#[test]
fn a_cancelled_run_exits_with_8_and_its_tools_are_stopped() {
    let sandbox = sandbox();
    let mut run = sandbox.start(&["run", "napping.yaml", "-o", "ndjson"]);
    let event = run.wait_for_event("step.scheduled", Some("nap"));
    let event = event.expect("the step is scheduled");
    let id = event["execution_id"].as_str().expect("ids are text");
    let mut logs = sandbox.start(&["logs", id, "-f"]);
    assert!(logs.wait_for_line(|line| line.contains("asleep")).is_some());
    let output = sandbox.run(&["cancel", id, "--reason", "enough", "-o", "json"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert_eq!(output.json()["status"], "CANCELLED");
    let (code, lines) = run.finish();
    assert_eq!(code, Some(8));
    assert_eq!(last_json(&lines)["status"], "CANCELLED");
    assert_eq!(logs.finish().0, Some(0), "following ends with the run");
    assert!(sandbox.wait_for_no_processes(), "the interpreter was killed");
}

#[test]
fn a_detached_run_ends_in_the_background() {
    let sandbox = sandbox();
    let output = sandbox.run(&["run", "waiting.yaml", "--detach"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let id = output.stdout.trim().to_owned();
    assert!(!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()), "{id}");
    let mut follower = sandbox.start(&["events", &id, "-f", "-o", "ndjson"]);
    assert!(follower.wait_for_event("task.started", Some("hold")).is_some());
    assert_eq!(sandbox.run(&["signal", &id, "go"]).code, Some(0));
    assert!(follower.wait_for_event("playbook.finished", None).is_some());
    assert_eq!(follower.finish().0, Some(0));
    assert_eq!(sandbox.run_json(&["show", &id, "-o", "json"])["status"], "COMPLETED");
}

#[test]
fn a_timeout_exits_with_7_and_the_run_continues() {
    let sandbox = sandbox();
    let output = sandbox.run(&["run", "waiting.yaml", "--timeout", "300ms", "-o", "json"]);
    assert_eq!(output.code, Some(7), "{output:?}");
    let id = output.json()["execution_id"].as_str().map(str::to_owned);
    let id = id.expect("ids are text");
    let mut follower = sandbox.start(&["events", &id, "-f", "-o", "ndjson"]);
    assert!(follower.wait_for_event("task.started", Some("hold")).is_some());
    assert_eq!(sandbox.run(&["signal", &id, "go"]).code, Some(0));
    assert!(follower.wait_for_event("playbook.finished", None).is_some());
    assert_eq!(follower.finish().0, Some(0));
}

#[test]
fn a_killed_run_is_displayed_as_such_and_resumed() {
    let sandbox = sandbox();
    let (run, id) = start_waiting(&sandbox);
    run.kill();
    let report = sandbox.run(&["show", &id]);
    assert_eq!(report.code, Some(0), "{report:?}");
    assert!(
        report.stdout.contains("noetl resume"),
        "the output recommends a command: {}",
        report.stdout
    );
    let mut resumed = sandbox.start(&["resume", "last", "-o", "ndjson"]);
    assert!(resumed.wait_for_event("task.started", Some("hold")).is_some());
    assert_eq!(sandbox.run(&["signal", &id, "go", "--set", "x=2"]).code, Some(0));
    let (code, lines) = resumed.finish();
    assert_eq!(code, Some(0));
    assert_eq!(last_json(&lines)["result"], json!({"x": 2}));
}

#[test]
fn every_template_begins_valid_and_those_without_a_network_run() {
    let sandbox = sandbox();
    for template in ["hello", "pagination", "fan-out", "retry"] {
        let output = sandbox.run(&["init", template, "--template", template]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(sandbox.run(&["validate", template]).code, Some(0), "{template}");
        let second_output = sandbox.run(&["init", template, "--template", template]);
        assert_eq!(
            second_output.code,
            Some(6),
            "{template} is not overwritten: {second_output:?}"
        );
        let file = format!("{template}/{template}.yaml");
        let ran = sandbox.run(&["run", &file]);
        assert_eq!(ran.code, Some(0), "{template}: {ran:?}");
        assert!(!ran.stdout.is_empty(), "{template} prints its result");
    }
}

#[test]
fn a_registered_playbook_runs_by_its_path_in_the_store() {
    let sandbox = sandbox();
    sandbox.write("answer.txt", "by path\n");
    let none = sandbox.run(&["run", "failing"]);
    assert_eq!(none.code, Some(4), "{none:?}");
    assert!(
        !sandbox.path(".noetl").exists(),
        "a failed lookup does not create a store"
    );
    let output = sandbox.run(&["register", "failing.yaml", "waiting.yaml"]);
    assert_eq!(output.stdout, "failing@1   new\nwaiting@1   new\n", "{output:?}");
    let second_output = sandbox.run(&["register", "failing.yaml"]);
    assert_eq!(second_output.stdout, "failing@1   unchanged\n");
    for path in ["failing", "failing@1"] {
        let output = sandbox.run(&["run", path, "-q"]);
        assert_eq!((output.code, output.stdout.as_str()), (Some(0), "by path\n"));
    }
    assert_eq!(sandbox.run(&["run", "failing@2"]).code, Some(4));
    assert_eq!(sandbox.run(&["catalog", "get", "failing"]).stdout, FAILING);
    assert_eq!(sandbox.run(&["catalog", "get", "failing@7"]).code, Some(4));
    let list = sandbox.run_json(&["catalog", "list", "-o", "json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(2), "{list:#}");
}

#[test]
fn graphs_are_drawn_for_people_and_for_programs() {
    let sandbox = sandbox();
    let ascii = sandbox.run(&["graph", "failing.yaml"]);
    assert!(
        ascii.stdout.contains("look") && ascii.stdout.contains("end"),
        "{ascii:?}"
    );
    let mermaid = sandbox.run(&["graph", "failing.yaml", "--format", "mermaid"]);
    assert!(mermaid.stdout.starts_with("flowchart"), "{mermaid:?}");
    let dot = sandbox.run(&["graph", "failing.yaml", "--format", "dot"]);
    assert!(dot.stdout.starts_with("digraph"), "{dot:?}");
}

#[test]
fn completions_explanations_and_versions_are_printed() {
    let sandbox = sandbox();
    for shell in ["bash", "zsh", "fish"] {
        let output = sandbox.run(&["completions", shell]);
        assert_eq!(output.code, Some(0), "{shell}");
        assert!(output.stdout.contains("noetl"), "{shell}");
    }
    let explained = sandbox.run(&["explain", "TIMEOUT"]);
    assert_eq!(explained.code, Some(0), "{explained:?}");
    assert_eq!(sandbox.run(&["explain", "NO_SUCH_CODE"]).code, Some(4));
    assert!(sandbox.run(&["--version"]).stdout.starts_with("noetl "));
}

/// Runs a playbook and returns the object it prints.
fn run_outcome(sandbox: &CliSandbox, playbook: &str, extra_args: &[&str]) -> Value {
    sandbox.write("tried.yaml", playbook);
    let args = [&["run", "tried.yaml", "-o", "json"], extra_args].concat();
    let mut command = sandbox.command(&args);
    let output = command.env("REGION", "us").output().expect("noetl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn run_result(sandbox: &CliSandbox, playbook: &str, extra_args: &[&str]) -> Value {
    let object = run_outcome(sandbox, playbook, extra_args);
    assert_eq!(object["status"], "COMPLETED", "{object}");
    object["result"].clone()
}

const DEFAULTS: &str = r#"
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: defaults}
ctx: {page: 1}
workload: {name: "run_{{ execution_id }}", region: "{{ env.REGION | default('eu') }}"}
workflow:
  - step: end
    tool: {kind: noop, result: {name: "{{ name }}", same: "{{ 'run_' ~ execution_id == name }}", region: "{{ region }}", page: "{{ ctx.page }}"}}
"#;

#[test]
fn defaults_are_rendered_once_with_the_variables_that_are_allowed() {
    let sandbox = CliSandbox::new();
    let result = run_result(&sandbox, DEFAULTS, &[]);
    assert_eq!(
        (&result["same"], &result["region"], &result["page"]),
        (&json!(true), &json!("eu"), &json!(1))
    );
    let result = run_result(&sandbox, DEFAULTS, &["--allow-env", "REGION"]);
    assert_eq!(result["region"], "us");
    let result = run_result(&sandbox, DEFAULTS, &["--set-string", "name={{ 1 + 1 }}"]);
    assert_eq!(result["name"], "{{ 1 + 1 }}");
    let broken = DEFAULTS.replace("env.REGION | default('eu')", "nowhere.x");
    sandbox.write("tried.yaml", &broken);
    let output = sandbox.run(&["run", "tried.yaml"]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(
        output.stderr.contains("DEFAULT_TEMPLATE") && output.stderr.contains("`workload.region` (line 6)"),
        "{output:?}"
    );
}

const SCRIPTS: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: scripts}
workflow:
  - step: end
    tool:
      - sql: {kind: sqlite, database: ":memory:", script: {uri: q.sql, source: {type: file}}}
      - sh: {kind: shell, script: hello.sh}
      - py: {kind: python, script: {uri: inline, source: {type: inline, code: "result = {'ok': True}"}}}
      - all: {kind: noop, result: {n: "{{ sql.rows[0].n }}", said: "{{ sh.stdout | trim }}", ok: "{{ py.ok }}"}}
"#;

#[test]
fn a_script_may_be_in_a_file_or_in_the_playbook() {
    let sandbox = CliSandbox::new();
    sandbox.write("q.sql", "SELECT 40 + 2 AS n; -- {{ not a template\n");
    sandbox.write("hello.sh", "echo \"hello ${0:+there}\"\n");
    let result = run_result(&sandbox, SCRIPTS, &[]);
    assert_eq!(result, json!({"n": 42, "said": "hello there", "ok": true}));
    let missing = SCRIPTS.replace("hello.sh", "nowhere.sh");
    let object = run_outcome(&sandbox, &missing, &[]);
    assert_eq!(object["error"]["code"], "SCRIPT_NOT_READABLE", "{object}");
}

const BY_INPUT: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: by_input}
workflow:
  - step: make
    tool: {kind: python, code: "result = {'rows': [{'id': i, 'pad': 'x' * 40} for i in range(5000)]}"}
    next: {arcs: [{step: load}]}
  - step: load
    tool: {kind: artifact, action: get, input: {result_ref: "{{ make._ref }}"}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: python, input: {d: "{{ load.data }}"}, code: "result = {'n': len(d['rows'])}"}
"#;

#[test]
fn an_artifact_is_found_by_a_reference_under_input() {
    assert_eq!(run_result(&CliSandbox::new(), BY_INPUT, &[]), json!({"n": 5000}));
}

const PLACED: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: placed}
workload: {text: plain, data: {a: [1, null]}}
workflow:
  - step: end
    tool:
      kind: python
      code: |
        # the text is {{ text }}, see {{ ctx.* }}
        import json
        a = "{{ text }}"
        b = {{ text }}
        c = r'''{{ text }}'''
        d = f"{len(a)} {{ text }}"
        e = {{ data }}
        f = json.loads('{{ data | tojson }}')
        result = {'same': a == b == c == d.split(' ', 1)[1], 'text': a, 'data': [e, f, {{ data | tojson }}]}
"#;

#[test]
fn no_payload_runs_as_python_code() {
    let sandbox = CliSandbox::new();
    for text in [
        "plain",
        "\"; open('canary', 'w'); \"",
        "'''; open('canary', 'w'); '''",
        "x\nopen('canary', 'w')",
        "{open('canary', 'w')}",
        "\\",
    ] {
        let payload = json!({ "text": text }).to_string();
        let result = run_result(&sandbox, PLACED, &["--input", &payload]);
        let data = json!({"a": [1, null]});
        let expected = json!({"same": true, "text": text, "data": [data, data, data]});
        assert_eq!(result, expected);
        assert!(!sandbox.path("canary").exists(), "{text}");
    }
}
