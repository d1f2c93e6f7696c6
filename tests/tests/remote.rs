//! The command line against a server: every command works as with a local store, with the real binary on both sides.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, CommandOutput, RunningCommand};
use tests::server_process::{ServerProcess, spawn_process, wait_for_line};

const WAITING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waiting, path: demo/waiting}
workflow:
  - step: hold
    tool:
      - go: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ hold.data }}"}
"#;

const COUNTING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: counting, path: demo/counting}
workload: {upto: 3}
workflow:
  - step: each
    loop: {in: "{{ range(1, workload.upto + 1) | list }}", iterator: n}
    tool:
      - square: {kind: noop, result: "{{ iter.n * iter.n }}"}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {squares: "{{ each.data }}"}}
"#;

const FAILING: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: failing, path: demo/failing}
workflow:
  - step: look
    tool:
      - file: {kind: shell, command: "cat answer.txt"}
"#;

fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    sandbox.write("waiting.yaml", WAITING);
    sandbox.write("counting.yaml", COUNTING);
    sandbox.write("failing.yaml", FAILING);
    sandbox
}

/// Starts the waiting playbook and waits until it waits for its signal; returns the process and the run ID.
fn start_waiting(sandbox: &CliSandbox) -> (RunningCommand, String) {
    let mut run = sandbox.start(&["run", "waiting.yaml", "-o", "ndjson"]);
    let event = run.wait_for_event("task.started", Some("hold"));
    let event = event.expect("the task starts");
    let id = event["execution_id"].as_str().expect("ids are text");
    (run, id.to_owned())
}

fn last_json(lines: &[String]) -> Value {
    let line = lines.last().expect("something was printed");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// The parts that are equal in two runs of one playbook.
fn comparable_fields(run: &Value) -> Value {
    let steps = run["steps"].as_array().expect("steps are listed");
    let steps = steps.iter().map(|step| {
        let mut step = step.clone();
        let fields = step.as_object_mut().expect("a step is an object");
        fields.retain(|key, _| !key.ends_with("_at") && key != "duration_ms");
        step
    });
    json!({
        "status": run["status"], "result": run["result"], "error": run["error"]["code"],
        "events": run["events"], "name": run["name"], "steps": steps.collect::<Vec<_>>(),
    })
}

fn check_denied(output: &CommandOutput, code: &str) {
    assert_eq!(output.code, Some(6), "{output:?}");
    assert!(output.stderr.contains(code), "{output:?}");
    assert!(output.stderr.contains("help"), "{output:?}");
    assert_eq!(output.stdout, "");
}

#[test]
fn the_same_playbook_prints_the_same_here_and_there() {
    let sandbox = sandbox();
    let server = ServerProcess::start(&sandbox, &[]);
    let (here, there) = (["--store", "local"], ["--server", server.url.as_str()]);
    let both = |args: &[&str]| {
        let here = sandbox.run(&[args, &here[..]].concat());
        let there = sandbox.run(&[args, &there[..]].concat());
        assert_eq!(here.code, there.code, "{here:?} {there:?}");
        (here, there)
    };
    let (plain, same) = both(&["run", "counting.yaml", "--set", "upto=4"]);
    assert_eq!((plain.code, &plain.stdout), (Some(0), &same.stdout), "{same:?}");
    assert!(plain.stdout.contains("16"), "{plain:?}");
    for file in ["counting.yaml", "failing.yaml"] {
        let (here, there) = both(&["run", file, "-o", "json"]);
        assert_eq!(
            comparable_fields(&here.json()),
            comparable_fields(&there.json()),
            "{file}"
        );
        let (here, there) = both(&["show", "-o", "json"]);
        assert_eq!(
            comparable_fields(&here.json()),
            comparable_fields(&there.json()),
            "{file}"
        );
        let kinds = |output: &CommandOutput| -> Vec<Value> {
            let events = output.json();
            let events = events.as_array().expect("a log is a list").iter();
            events.map(|event| event["event_type"].clone()).collect()
        };
        let (here, there) = both(&["events", "-o", "json"]);
        assert_eq!(kinds(&here), kinds(&there), "{file}");
        let (here, there) = both(&["show", "--failed"]);
        // On a server a playbook is identified by its path, locally by its file.
        let path = format!("demo/{}", file.trim_end_matches(".yaml"));
        assert_eq!(here.stdout.replace(file, &path), there.stdout, "{file}");
    }
    let (here, there) = both(&["run", "failing.yaml"]);
    assert_eq!(here.code, Some(1));
    for output in [here, there] {
        assert!(output.stderr.contains("SHELL_EXIT"), "{output:?}");
        assert!(output.stderr.contains("noetl retry"), "{output:?}");
    }
}

#[test]
fn a_run_on_a_server_is_followed_displayed_and_signalled() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    let (run, id) = start_waiting(&sandbox);
    let mut follower = sandbox.start(&["events", &id, "-f", "-o", "ndjson"]);
    assert!(follower.wait_for_event("task.started", Some("hold")).is_some());
    assert!(sandbox.run(&["show", "last"]).stdout.contains("waits for signal go"));
    assert_eq!(
        sandbox.run_json(&["runs", "--status", "running", "-o", "json"])[0]["execution_id"],
        id
    );
    let unfinished = sandbox.run(&["result", &id]);
    assert_eq!(unfinished.code, Some(4), "{unfinished:?}");
    assert_eq!(
        sandbox.run(&["signal", &id[..14], "go", "--set", "answer=7"]).code,
        Some(0)
    );
    let (code, lines) = run.finish();
    assert_eq!(code, Some(0));
    assert_eq!(last_json(&lines)["result"], json!({"answer": 7}));
    assert!(follower.wait_for_event("playbook.finished", None).is_some());
    assert_eq!(follower.finish().0, Some(0), "following ends with the run");
    let result = sandbox.run_json(&["result", &id, "hold", "--path", "answer", "-o", "json"]);
    assert_eq!(result, 7);
    assert!(!sandbox.path(".noetl").exists(), "nothing is stored locally");
}

#[test]
fn a_run_on_a_server_is_paused_resumed_and_cancelled() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    let (run, id) = start_waiting(&sandbox);
    assert_eq!(sandbox.run(&["pause", &id]).code, Some(0));
    assert_eq!(run.finish().0, Some(10));
    let again = sandbox.run(&["pause", &id]);
    assert_eq!(again.code, Some(6), "the run is already paused: {again:?}");
    let mut resumed = sandbox.start(&["resume", "-o", "ndjson"]);
    assert!(resumed.wait_for_event("playbook.resumed", None).is_some());
    let output = sandbox.run(&["cancel", &id, "--reason", "enough", "-o", "json"]);
    assert_eq!(output.json()["status"], "CANCELLED", "{output:?}");
    let (code, lines) = resumed.finish();
    assert_eq!(code, Some(8));
    assert_eq!(last_json(&lines)["status"], "CANCELLED");
    assert_eq!(sandbox.run(&["resume", &id]).code, Some(6), "the run has ended");
    let mut retried = sandbox.start(&["retry", &id, "-o", "ndjson"]);
    assert!(retried.wait_for_event("execution.retried", None).is_some());
    assert_eq!(sandbox.run(&["signal", &id, "go"]).code, Some(0));
    let (code, lines) = retried.finish();
    assert_eq!(code, Some(0));
    assert_eq!(last_json(&lines)["generation"], 2);
}

#[test]
fn a_run_on_a_server_is_done_again_from_a_step_and_shows_what_it_printed() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    sandbox.write("answer.txt", "forty-two");
    let first = sandbox.run_json(&["run", "counting.yaml", "-o", "json"]);
    assert_eq!(first["status"], "COMPLETED", "{first}");
    let again = sandbox.run_json(&["rerun", "last", "--from", "end", "-o", "json"]);
    assert_eq!(again["result"], first["result"], "{again}");
    assert_ne!(again["execution_id"], first["execution_id"]);
    let log = sandbox.run(&["events", "last", "-o", "json"]);
    assert!(log.stdout.contains("step.reused"), "{log:?}");
    assert!(!log.stdout.contains("loop.started"), "the loop ran once");
    let printed = sandbox.run(&["run", "failing.yaml"]);
    assert_eq!(printed.code, Some(0), "the file exists now: {printed:?}");
    let logs = sandbox.run(&["logs", "last"]);
    assert!(logs.stdout.contains("forty-two"), "{logs:?}");
}

#[test]
fn the_keyboard_cancels_a_run_on_a_server() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    let (run, id) = start_waiting(&sandbox);
    let signal = Command::new("kill").args(["-INT", &run.id().to_string()]).status();
    assert!(signal.expect("the `kill` command exists").success());
    assert_eq!(run.finish().0, Some(130));
    assert_eq!(sandbox.run_json(&["show", &id, "-o", "json"])["status"], "CANCELLED");
}

#[test]
fn nobody_has_to_wait_for_a_run_on_a_server() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    let detached = sandbox.run(&["run", "waiting.yaml", "--detach"]);
    assert_eq!(detached.code, Some(0), "{detached:?}");
    let timed = sandbox.run(&["run", "waiting.yaml", "--timeout", "200ms", "-o", "json"]);
    assert_eq!(timed.code, Some(7), "{timed:?}");
    assert_eq!(timed.json()["status"], "RUNNING");
    let second = timed.json()["execution_id"].as_str().map(str::to_owned);
    for id in [detached.stdout.trim().to_owned(), second.expect("ids are text")] {
        assert_eq!(sandbox.run(&["signal", &id, "go"]).code, Some(0));
        let followed = sandbox.run(&["events", &id, "-f"]);
        assert!(followed.stdout.contains("playbook.finished"), "{followed:?}");
    }
}

#[test]
fn a_worker_that_was_killed_comes_back_under_its_name_at_once() {
    let sandbox = sandbox();
    let server = ServerProcess::start_as_context(&sandbox, &["--local-slots", "0"]);
    let url = server.url.as_str();
    let args = ["worker", "--server", url, "--store", "scratch", "--name", "fixed"];
    let (mut killed, mut lines) = spawn_process(&sandbox, &args);
    wait_for_line(&mut lines, "started worker fixed");
    killed.kill().expect("the worker can be killed");
    killed.wait().expect("the worker exits");

    let (mut replaced, mut lines) = spawn_process(&sandbox, &args);
    wait_for_line(&mut lines, "started worker fixed");
    let run = sandbox.run(&["run", "counting.yaml"]);
    assert_eq!(run.code, Some(0), "{run:?}");

    // If two workers have the same name, the one that registered first exits with an error.
    let (mut second, mut second_lines) = spawn_process(&sandbox, &args);
    wait_for_line(&mut second_lines, "started worker fixed");
    wait_for_line(&mut lines, "error[SESSION_MISMATCH]");
    assert_eq!(replaced.wait().expect("the worker exits").code(), Some(6));
    let run = sandbox.run(&["run", "counting.yaml"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    second.kill().expect("the worker can be killed");
    second.wait().expect("the worker exits");
}

#[test]
fn a_remote_worker_runs_the_tasks_of_a_server_without_slots() {
    let sandbox = sandbox();
    let server = ServerProcess::start_as_context(&sandbox, &["--local-slots", "0"]);
    let id = sandbox
        .run(&["run", "counting.yaml", "--detach"])
        .stdout
        .trim()
        .to_owned();
    let waits = sandbox.run(&["resume", &id, "--timeout", "200ms"]);
    assert_eq!(waits.code, Some(7), "no worker is running: {waits:?}");
    let worker = ["worker", "--server", server.url.as_str(), "--store", "scratch"];
    let (mut worker, mut lines) = spawn_process(&sandbox, &worker);
    wait_for_line(&mut lines, "started worker");
    let followed = sandbox.run(&["events", &id, "-f"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    let result = sandbox.run(&["result", &id]);
    assert!(result.stdout.contains('9'), "{result:?}");
    let signal = Command::new("kill").args(["-TERM", &worker.id().to_string()]).status();
    assert!(signal.expect("the `kill` command exists").success());
    wait_for_line(&mut lines, "stopped");
    assert_eq!(worker.wait().expect("the worker exits").code(), Some(0));
}

#[test]
fn following_outlives_a_server_that_is_killed_and_comes_back() {
    let sandbox = sandbox();
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    let mut command = sandbox.command(&["run", "waiting.yaml", "-o", "ndjson"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().expect("the binary starts");
    let mut stderr = BufReader::new(run.stderr.take().expect("its output is piped"));
    let mut lines = BufReader::new(run.stdout.take().expect("its output is piped")).lines();
    let mut seqs = Vec::new();
    let mut next = || -> Option<Value> {
        let event: Value = serde_json::from_str(&lines.next()?.ok()?).expect("a line is JSON");
        seqs.extend(event["seq"].as_u64());
        Some(event)
    };
    let started = std::iter::from_fn(&mut next).find(|event| event["event_type"] == "task.started");
    let id = started.expect("the task starts")["execution_id"].clone();
    let id = id.as_str().expect("ids are text");
    // The first of these may still be read from the log; later ones come through the stream.
    for name in ["one", "two"] {
        assert_eq!(sandbox.run(&["signal", id, name]).code, Some(0));
        let is_signal = |event: &Value| event["event_type"] == "signal.received";
        assert!(std::iter::from_fn(&mut next).any(|event| is_signal(&event)));
    }
    let server = server.restart(&sandbox);
    wait_for_line(&mut stderr, "lost");
    assert_eq!(sandbox.run(&["signal", id, "go", "--set", "x=1"]).code, Some(0));
    let end = std::iter::from_fn(&mut next).last();
    assert_eq!(end.expect("the process prints the result")["result"], json!({"x": 1}));
    assert_eq!(run.wait().expect("the process exits").code(), Some(0));
    let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, expected, "each event once, in order");
    let remaining_lines: Vec<String> = stderr.lines().map_while(Result::ok).collect();
    assert!(
        !remaining_lines.iter().any(|line| line.starts_with("lost")),
        "the outage is reported once: {remaining_lines:?}"
    );
    drop(server);
}

#[test]
fn a_server_that_requires_tokens_accepts_a_valid_one() {
    let sandbox = sandbox();
    let server = ServerProcess::start_as_context(&sandbox, &["--token-file", "admin"]);
    check_denied(&sandbox.run(&["runs"]), "UNAUTHENTICATED");
    check_denied(&sandbox.run(&["run", "counting.yaml"]), "UNAUTHENTICATED");
    sandbox.write("wrong", "noetl_pat_0000000000000000000000000000000000000000");
    check_denied(&sandbox.run(&["runs", "--token-file", "wrong"]), "UNAUTHENTICATED");
    let admin = ["--token-file", "admin"];
    let create = |role: &str| {
        let args = ["token", "create", role, "--role", role, "--expires", "1d"];
        let output = sandbox.run(&[&args[..], &admin[..]].concat());
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(
            output.stdout.lines().count(),
            1,
            "only the token is printed: {output:?}"
        );
        sandbox.write(role, &output.stdout);
        output.stdout.trim().to_owned()
    };
    let viewer = create("viewer");
    create("author");
    let added = [
        "context",
        "add",
        "looking",
        "--server",
        &server.url,
        "--token-file",
        "viewer",
    ];
    assert_eq!(sandbox.run(&added).code, Some(0));
    assert_eq!(sandbox.run(&["context", "use", "looking"]).code, Some(0));
    assert_eq!(sandbox.run_json(&["runs", "-o", "json"]), json!([]));
    check_denied(&sandbox.run(&["run", "counting.yaml"]), "FORBIDDEN");
    check_denied(&sandbox.run(&["register", "counting.yaml"]), "FORBIDDEN");
    check_denied(&sandbox.run(&["token", "list"]), "FORBIDDEN");
    let ran = sandbox.run(&["run", "counting.yaml", "--token-file", "author"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let tokens = sandbox.run(&["token", "list", "-o", "json", "--token-file", "admin"]);
    assert!(!tokens.stdout.contains(&viewer), "no list contains a token");
    let tokens = tokens.json();
    let of = |name: &str| tokens.as_array()?.iter().find(|token| token["name"] == name);
    let id = of("viewer").expect("the token is listed")["id"].clone();
    let revoke = ["token", "revoke", id.as_str().expect("ids are text")];
    let revoked = sandbox.run(&[&revoke[..], &admin[..]].concat());
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    check_denied(&sandbox.run(&["runs"]), "UNAUTHENTICATED");
    let missing = sandbox.run(&["token", "revoke", "1", "--token-file", "admin"]);
    assert_eq!(missing.code, Some(4), "{missing:?}");
}

#[test]
fn a_token_made_on_the_store_opens_the_server_on_it() {
    let sandbox = sandbox();
    let made = sandbox.run(&["token", "create", "ci", "--role", "operator", "--store", "kept"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    let server = ServerProcess::start(&sandbox, &["--token-file", "admin"]);
    let mut runs = sandbox.command(&["runs", "-o", "json", "--server", &server.url]);
    let output = runs.env("NOETL_TOKEN", made.stdout.trim()).output();
    let output = output.expect("the binary starts");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let listed = sandbox.run(&["token", "list", "--store", "kept"]);
    assert!(listed.stdout.contains("ci"), "{listed:?}");
}

#[test]
fn playbooks_are_registered_on_a_server_and_run_by_path() {
    let sandbox = sandbox();
    let _server = ServerProcess::start_as_context(&sandbox, &[]);
    std::fs::create_dir(sandbox.path("books")).expect("the directory is writable");
    sandbox.write("books/a.yaml", COUNTING);
    sandbox.write("books/typo.yaml", &WAITING.replace("    tool:\n", "    tol:\n"));
    sandbox.write("books/other.yaml", "x: 1\n");
    let invalid = sandbox.run(&["register", "-d", "books"]);
    assert_eq!(invalid.code, Some(3), "{invalid:?}");
    assert!(invalid.stderr.contains("books/typo.yaml:7:5"), "{invalid:?}");
    assert!(invalid.stderr.contains("did you mean `tool`?"), "{invalid:?}");
    assert_eq!(sandbox.run_json(&["catalog", "list", "-o", "json"]), json!([]));
    sandbox.write("books/typo.yaml", WAITING);
    let registered = sandbox.run(&["register", "-d", "books"]);
    assert_eq!(
        registered.stdout, "demo/counting@1   new\ndemo/waiting@1   new\n",
        "{registered:?}"
    );
    sandbox.write("books/a.yaml", &COUNTING.replace("upto: 3", "upto: 2"));
    let registered = sandbox.run(&["register", "-d", "books"]);
    assert_eq!(
        registered.stdout, "demo/counting@2   new\ndemo/waiting@1   unchanged\n",
        "{registered:?}"
    );
    let squares = |path: &str| sandbox.run_json(&["exec", path, "-o", "json"])["result"]["squares"].clone();
    assert_eq!(squares("demo/counting"), json!([1, 4]));
    assert_eq!(squares("demo/counting@1"), json!([1, 4, 9]));
    assert_eq!(sandbox.run(&["catalog", "get", "demo/counting@1"]).stdout, COUNTING);
    for nowhere in ["demo/counting@3", "demo/none"] {
        let output = sandbox.run(&["run", nowhere]);
        assert_eq!(output.code, Some(4), "{output:?}");
        assert!(output.stderr.contains("catalog"), "{output:?}");
    }
}

/// The browser is a script that writes the URL to a pipe, which the test reads until it is closed.
#[test]
fn open_starts_the_browser_at_the_page_of_a_run() {
    let sandbox = sandbox();
    let server = ServerProcess::start_as_context(&sandbox, &[]);
    let pipe = sandbox.path("opened");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("`mkfifo` exists");
    assert!(made.success());
    sandbox.write("browser", "#!/bin/sh\nprintf %s \"$1\" > opened\n");
    std::fs::set_permissions(sandbox.path("browser"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = sandbox.run_json(&["run", "counting.yaml", "-j"]);
    let id = run["execution_id"].as_str().unwrap();
    let url = format!("{}/runs/{id}", server.url);

    let mut open = sandbox.command(&["open", "last"]);
    open.env("BROWSER", sandbox.path("browser"));
    let opened = open.output().unwrap();
    assert_eq!(opened.status.code(), Some(0), "{opened:?}");
    assert_eq!(String::from_utf8_lossy(&opened.stdout).trim(), url);
    assert_eq!(std::fs::read_to_string(&pipe).unwrap(), url);

    drop(server);
    let refused = sandbox.run(&["open", "last", "--print"]);
    assert_eq!(refused.code, Some(5), "{refused:?}");
}

#[test]
fn a_context_selects_the_server() {
    let sandbox = sandbox();
    let show = |args: &[&str]| sandbox.run_json(&[&["context", "show", "-o", "json"][..], args].concat());
    assert_eq!(show(&[])["context"], "local");
    let add = |name: &str, url: &str| sandbox.run(&["context", "add", name, "--server", url]);
    assert_eq!(add("one", "http://127.0.0.1:1,http://127.0.0.1:2").code, Some(0));
    assert_eq!(add("two", "http://127.0.0.1:3").code, Some(0));
    assert_eq!(
        show(&[])["servers"],
        json!(["http://127.0.0.1:1", "http://127.0.0.1:2"])
    );
    assert_eq!(sandbox.run(&["context", "use", "two"]).code, Some(0));
    assert_eq!(show(&[])["context"], "two");
    assert_eq!(show(&["--store", "here"])["context"], "local");
    assert_eq!(
        show(&["--server", "http://127.0.0.1:4"])["servers"],
        json!(["http://127.0.0.1:4"])
    );
    let local = sandbox.run(&["run", "counting.yaml", "--store", "here"]);
    assert_eq!(local.code, Some(0), "{local:?}");
    let both = sandbox.run(&["runs", "--store", "here", "--server", "http://127.0.0.1:4"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    let list = sandbox.run(&["context", "list"]);
    assert!(list.stdout.contains("*  two"), "{list:?}");
    assert_eq!(sandbox.run(&["context", "rm", "two"]).code, Some(0));
    assert_eq!(show(&[])["context"], "local", "the current context was removed");
    assert_eq!(sandbox.run(&["context", "use", "two"]).code, Some(4));
    assert_eq!(add("three", "nonsense").code, Some(2));
    assert_eq!(add("local", "http://127.0.0.1:1").code, Some(2));
    let file = sandbox.path(".config/noetl/contexts.toml");
    let mode = std::fs::metadata(file).expect("the file was written").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}

#[test]
fn a_server_that_is_not_there_exits_with_5_and_is_named() {
    let sandbox = sandbox();
    let nowhere = "http://127.0.0.1:1";
    for args in [
        &["runs"][..],
        &["show"],
        &["run", "counting.yaml"],
        &["signal", "1", "go"],
    ] {
        let output = sandbox.run(&[args, &["--server", nowhere]].concat());
        assert_eq!(output.code, Some(5), "{args:?}: {output:?}");
        assert!(output.stderr.contains(nowhere), "{output:?}");
        assert!(!output.stderr.contains("context"), "{output:?}");
    }
    let added = sandbox.run(&["context", "add", "old", "--server", nowhere]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let output = sandbox.run(&["runs"]);
    let help = "help: context `old` selects this server; `noetl context use local` selects the local store";
    assert!(output.stderr.contains(help), "{output:?}");
    let server = ServerProcess::start(&sandbox, &[]);
    let several = format!("{nowhere},{}", server.url);
    let ran = sandbox.run(&["run", "counting.yaml", "--server", &several]);
    assert_eq!(ran.code, Some(0), "another server responds: {ran:?}");
    let wrong = sandbox.run(&["runs", "--server", "localhost"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    for verb in ["show", "events", "result", "retry", "cancel", "pause"] {
        let output = sandbox.run(&[verb, "99999", "--server", &server.url]);
        assert_eq!(output.code, Some(4), "{verb}: {output:?}");
        assert!(output.stderr.contains("99999"), "{verb}: {output:?}");
    }
}
