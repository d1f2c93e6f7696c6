//! Programs that tasks start: too few file descriptors, and a step that times out.

use std::path::Path;
use std::process::Command;

use tests::cli_sandbox::CliSandbox;
use tests::server_process::{ServerProcess, spawn_process, wait_for_line};

const MANY: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: many, path: tests/many}
workflow:
  - step: each
    loop: {in: '{{ range(60) | list }}', iterator: n, spec: {mode: parallel, max_in_flight: 40}}
    tool:
      kind: shell
      command: 'sleep 0.1; echo {{ iter.n }}'
";

const OUT_OF_TIME: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: slow, path: tests/slow}
workflow:
  - step: slow
    spec: {timeout: 1}
    tool: [{a: {kind: shell, command: 'echo $$ > pid; sleep 600'}}]
";

const PAYLOAD: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: payload, path: tests/payload}
workflow:
  - step: script
    tool: {kind: rhai, code: 'let name = "{{ workload.name }}"; [name, {{ workload.name }}, `${1}{{ workload.name }}`]'}
    next: [{step: program}]
  - step: program
    tool: {kind: transform, jq: '["{{ workload.name }}", {{ workload.name }}, {{ workload.list }}[1]]'}
    next: [{step: end}]
  - step: end
    tool: {kind: noop, result: {script: '{{ script.data }}', program: '{{ program.data }}'}}
"#;

#[test]
fn a_payload_does_not_become_code_in_scripts_and_jq_programs() {
    let sandbox = CliSandbox::new();
    sandbox.write("payload.yaml", PAYLOAD);
    let name = r#"x"; throw "evil"; // ` + 1 \(error) ${throw 1}"#;
    let payload = serde_json::json!({"name": name, "list": [1, name]});
    sandbox.write("payload.json", &payload.to_string());
    let ran = sandbox.run_json(&["run", "payload.yaml", "--payload", "payload.json", "-o", "json"]);
    let text = serde_json::json!([name, name, format!("1{name}")]);
    assert_eq!(ran["result"]["script"], text, "{ran}");
    let text = serde_json::json!([name, name, name]);
    assert_eq!(ran["result"]["program"], text, "{ran}");
}

#[test]
fn a_program_that_cannot_be_started_for_want_of_descriptors_is_started_later() {
    let sandbox = CliSandbox::new();
    sandbox.write("many.yaml", MANY);
    let plain = sandbox.command(&["run", "many.yaml", "--slots", "40", "--store", "kept", "-o", "json"]);
    let mut command = Command::new("sh");
    command.args(["-c", r#"ulimit -n 40; exec "$@""#, "sh"]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(sandbox.path("")).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(ran.status.code(), Some(0), "{out}\n{err}");
    let events = sandbox.run(&["events", "last", "--store", "kept", "-o", "ndjson"]);
    let lines = events.stdout.lines();
    let failed = lines.filter(|line| line.contains("\"task.attempt.failed\"") || line.contains("\"task.failed\""));
    assert_eq!(failed.count(), 0, "{events:?}");
}

#[test]
fn the_programs_of_a_step_that_is_out_of_time_end_with_it() {
    let sandbox = CliSandbox::new();
    sandbox.write("slow.yaml", OUT_OF_TIME);
    let ran = sandbox.run(&["run", "slow.yaml", "--store", "kept"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("STEP_TIMEOUT"), "{ran:?}");
    let pid = sandbox.read("pid");
    assert!(!pid.trim().is_empty(), "the program did not start");
    assert!(sandbox.wait_for_no_processes(), "process {pid} is still running");
}

#[test]
fn the_programs_of_a_step_that_times_out_end_on_a_remote_worker() {
    let sandbox = CliSandbox::new();
    sandbox.write("slow.yaml", OUT_OF_TIME);
    let server = ServerProcess::start_as_context(&sandbox, &["--local-slots", "0"]);
    let (mut worker, mut stderr) = spawn_process(&sandbox, &["worker", "--server", &server.url]);
    wait_for_line(&mut stderr, "started worker");
    let ran = sandbox.run(&["run", "slow.yaml"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("STEP_TIMEOUT"), "{ran:?}");
    let pid = sandbox.read("pid");
    let process = Path::new("/proc").join(pid.trim());
    assert!(!pid.trim().is_empty(), "the program did not start");
    // If the program does not exit, this waits until the test runner's timeout.
    while process.exists() {
        std::thread::yield_now();
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
}
