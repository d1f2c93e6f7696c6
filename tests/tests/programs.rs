//! External tools, `noetl doctor`, and the sandbox of tasks, with the real binary.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, examples_dir};

/// A directory with the example tools, like a checkout.
fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    for dir in ["tools", "tools/greet", "tools/words", "tools/words/src"] {
        std::fs::create_dir(sandbox.path(dir)).expect("the directory is writable");
    }
    for file in [
        "greet.yaml",
        "greet/tool.toml",
        "greet/greet.py",
        "words/tool.toml",
        "words/Cargo.toml",
        "words/Cargo.lock",
        "words/src/main.rs",
    ] {
        let to = sandbox.path("tools").join(file);
        std::fs::copy(examples_dir().join("tools").join(file), to).expect("the directory is writable");
    }
    sandbox
}

fn tool_playbook(tool: &str) -> String {
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p, path: p}}\nworkflow:\n\
         - step: one\n  tool: {tool}\n  next: {{arcs: [{{step: end}}]}}\n\
         - step: end\n  tool: {{kind: noop, result: \"{{{{ one.data }}}}\"}}\n"
    )
}

fn run_codes(sandbox: &CliSandbox, args: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = sandbox.run(args);
    let findings = output.json();
    let findings = findings.as_array().expect("diagnostics are a list");
    let codes = findings.iter().filter_map(|finding| finding["code"].as_str());
    (output.code, codes.map(ToOwned::to_owned).collect())
}

#[test]
fn a_kind_that_a_program_in_python_adds_runs_as_the_example_shows() {
    let sandbox = sandbox();
    let ran = sandbox.run_json(&["run", "tools/greet.yaml", "--tools", "tools", "-o", "json"]);
    assert_eq!(ran["result"], json!({"text": "Hello, world! Hello, world!"}));
    let logs = sandbox.run(&["logs", "last"]);
    assert!(logs.stdout.contains("greeting for attempt 1"), "{logs:?}");
    let nobody = sandbox.run(&["run", "tools/greet.yaml", "--tools", "tools", "--set-string", "who= "]);
    assert_eq!(nobody.code, Some(1), "{nobody:?}");
    assert!(nobody.stderr.contains("GREET_NOBODY"), "{nobody:?}");
}

#[test]
fn an_external_tool_in_rust_builds_alone_and_runs() {
    let sandbox = sandbox();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("words");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--locked", "--target-dir"])
        .arg(&target)
        .current_dir(sandbox.path("tools/words"))
        .output()
        .expect("cargo is installed");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let at = sandbox.path("tools/words/target/release");
    std::fs::create_dir_all(&at).expect("the directory is writable");
    std::fs::copy(target.join("release/words"), at.join("words")).expect("the program was built");
    sandbox.write("p.yaml", &tool_playbook("{kind: x-words, text: \"a b A\"}"));
    let ran = sandbox.run_json(&["run", "p.yaml", "--tools", "tools", "-o", "json"]);
    assert_eq!(ran["result"], json!({"counts": {"a": 2, "b": 1}}));
}

#[test]
fn a_playbook_is_checked_against_the_installed_manifests() {
    let sandbox = sandbox();
    sandbox.write("p.yaml", &tool_playbook("{kind: x-greet, whom: you}"));
    let codes = run_codes(&sandbox, &["validate", "p.yaml", "--tools", "tools", "-o", "json"]);
    assert_eq!(codes, (Some(3), vec!["E0127".to_owned(), "E0127".to_owned()]));
    let codes = run_codes(&sandbox, &["validate", "p.yaml", "-o", "json"]);
    assert_eq!(codes, (Some(0), vec!["W219".to_owned()]));
    let ran = sandbox.run(&["run", "p.yaml"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("E0108"), "{ran:?}");
    sandbox.write("tools/greet/tool.toml", "name = 'greet'");
    let broken = sandbox.run(&["validate", "p.yaml", "--tools", "tools"]);
    assert_eq!(broken.code, Some(2), "{broken:?}");
    assert!(broken.stderr.contains("TOOLS_INVALID"), "{broken:?}");
}

fn find_check<'a>(checks: &'a Value, name: &str) -> &'a Value {
    let all = checks.as_array().expect("checks are a list");
    let check = all.iter().find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no check `{name}`: {checks}"))
}

#[test]
fn doctor_reports_each_status_with_a_remedy() {
    let sandbox = sandbox();
    let checks = sandbox.run_json(&[
        "doctor",
        "--listen",
        "127.0.0.1:0",
        "--tools",
        "tools/greet",
        "-o",
        "json",
    ]);
    for name in [
        "python",
        "shell",
        "store",
        "disk",
        "sandbox",
        "landlock",
        "seccomp",
        "namespaces",
        "port",
    ] {
        let check = find_check(&checks, name);
        assert!(
            check["detail"].as_str().is_some_and(|detail| !detail.is_empty()),
            "{check}"
        );
        assert!(check["state"] == "ok" || check["remedy"].is_string(), "{check}");
    }
    assert!(
        find_check(&checks, "store")["detail"]
            .as_str()
            .is_some_and(|detail| detail.contains(" ms"))
    );
    let text = sandbox.run(&["doctor", "--listen", "127.0.0.1:0"]);
    assert!(text.stdout.contains("python"), "{text:?}");
}

#[test]
fn doctor_fails_with_the_code_of_what_is_wrong() {
    let sandbox = CliSandbox::new();
    let mut command = sandbox.command(&["doctor", "--listen", "127.0.0.1:0", "-o", "json"]);
    let lacking = command
        .env("NOETL_PYTHON", "no-such-python")
        .output()
        .expect("the binary starts");
    assert_eq!(lacking.status.code(), Some(6));
    let checks: Value = serde_json::from_slice(&lacking.stdout).expect("the output is JSON");
    assert_eq!(find_check(&checks, "python")["state"], "fail");
    let away = sandbox.run(&[
        "doctor",
        "--server",
        "http://127.0.0.1:9",
        "--listen",
        "127.0.0.1:0",
        "-o",
        "json",
    ]);
    assert_eq!(away.code, Some(5), "{away:?}");
    assert_eq!(find_check(&away.json(), "server")["state"], "fail");
}

#[test]
fn a_deployment_can_sandbox_every_program() {
    let sandbox = CliSandbox::new();
    sandbox.write("secret.txt", "secret");
    let secret = sandbox.path("secret.txt");
    let shell = format!(
        "{{kind: shell, command: \"cat {} || echo refused; echo $TMPDIR\"}}",
        secret.display()
    );
    sandbox.write("p.yaml", &tool_playbook(&shell));
    let result = |level: &str| {
        let mut command = sandbox.command(&["run", "p.yaml", "-o", "json"]);
        let ran = command.env("NOETL_SANDBOX", level).output().expect("the binary starts");
        let ran: Value = serde_json::from_slice(&ran.stdout).expect("the output is JSON");
        ran["result"]["stdout"].as_str().unwrap_or_default().to_owned()
    };
    assert!(result("none").starts_with("secret\n") || result("none").starts_with("secret"));
    assert!(result("strict").starts_with("refused\n/"), "{}", result("strict"));
    let mut command = sandbox.command(&["run", "p.yaml"]);
    let ran = command
        .env("NOETL_SANDBOX", "iron")
        .output()
        .expect("the binary starts");
    assert_eq!(ran.status.code(), Some(2));
}

/// Starts a process, waits for a line with this prefix, and returns both.
fn start_process(sandbox: &CliSandbox, args: &[&str], text: &str) -> (std::process::Child, String) {
    let mut command = sandbox.command(args);
    let mut child = command
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let stderr = child.stderr.take().expect("its output is piped");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
    let line = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with(text));
    let line = line.unwrap_or_else(|| panic!("the process did not print `{text}`"));
    // Keeps reading, so that the process never blocks on a full pipe.
    std::thread::spawn(move || lines.map_while(Result::ok).count());
    (child, line)
}

#[test]
fn a_step_with_an_external_tool_waits_for_a_worker_that_has_it() {
    let sandbox = sandbox();
    let (mut server, line) = start_process(
        &sandbox,
        &["serve", "--store", "kept", "--listen", "127.0.0.1:0"],
        "listening on",
    );
    let url = line
        .split_whitespace()
        .nth(2)
        .expect("the line contains a URL")
        .to_owned();
    let health = sandbox.run_json(&["doctor", "--server", &url, "--listen", "127.0.0.1:0", "-o", "json"]);
    assert_eq!(find_check(&health, "server")["state"], "ok");
    assert_eq!(find_check(&health, "clock")["state"], "ok");
    let (mut plain, _) = start_process(&sandbox, &["worker", "--server", &url], "started worker");
    let run = sandbox.run(&["run", "tools/greet.yaml", "--server", &url, "--timeout", "1s"]);
    assert_eq!(run.code, Some(7), "no worker has the tool, so the run waits: {run:?}");
    let (mut able, _) = start_process(
        &sandbox,
        &["worker", "--server", &url, "--tools", "tools"],
        "started worker",
    );
    let mut follow = sandbox.start(&["events", "last", "--server", &url, "-f", "-o", "ndjson"]);
    assert!(
        follow
            .wait_for_line(|line| line.contains("playbook.finished"))
            .is_some()
    );
    let result = sandbox.run_json(&["result", "last", "--server", &url, "-o", "json"]);
    assert_eq!(result["text"], "Hello, world! Hello, world!", "{result}");
    for child in [&mut able, &mut plain, &mut server] {
        child.kill().expect("the process is running");
        child.wait().expect("the process exits");
    }
}

#[test]
fn what_a_killed_worker_has_left_running_is_ended_by_the_next() {
    let sandbox = CliSandbox::new();
    let leaving = "{kind: shell, command: \"setsid sh -c 'echo $$ > left; exec sleep 600' & wait\"}";
    sandbox.write("leaving.yaml", &tool_playbook(leaving));
    sandbox.write("next.yaml", &tool_playbook("{kind: shell, command: sleep 2}"));
    let mut running = sandbox.start(&["run", "leaving.yaml", "-q"]);
    let left = || std::fs::read_to_string(sandbox.path("left")).unwrap_or_default();
    while !left().ends_with('\n') && running.exit_code().is_none() {
        std::thread::yield_now();
    }
    let process = Path::new("/proc").join(left().trim());
    assert!(process.join("stat").exists(), "the program has started");
    running.kill();
    assert_eq!(sandbox.run(&["run", "next.yaml", "-q"]).code, Some(0));
    let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
}
