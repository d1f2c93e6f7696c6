//! A damaged store is reported, with the run and the row.

use tests::cli_sandbox::CliSandbox;

const PLAYBOOK: &str = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hello, path: tests/hello}
workload: {greeting: hello}
workflow:
  - step: greet
    tool: {kind: noop}
";

#[test]
fn doctor_finds_the_row_that_was_changed() {
    let sandbox = CliSandbox::new();
    sandbox.write("hello.yaml", PLAYBOOK);
    let ran = sandbox.run(&["run", "hello.yaml", "--store", "kept", "-o", "json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let id = ran.json()["execution_id"].as_str().unwrap().to_owned();
    let full = sandbox.run(&["doctor", "--store", "kept", "--listen", "127.0.0.1:0"]);
    assert!(full.stdout.contains("1 run, "), "{full:?}");
    assert!(full.stdout.contains("all intact"), "{full:?}");

    let db = rusqlite::Connection::open(sandbox.path("kept/noetl.db")).unwrap();
    db.execute_batch(
        "DROP TRIGGER log_is_never_changed;
        UPDATE log SET body = replace(body, 'hello', 'jello') WHERE seq_first = 1;",
    )
    .unwrap();
    drop(db);
    let row = format!("run {id}, log row of event 1");
    let doctor = sandbox.run(&["doctor", "--store", "kept", "--listen", "127.0.0.1:0"]);
    assert_eq!(doctor.code, Some(5), "{doctor:?}");
    assert!(doctor.stdout.contains("STORE_CORRUPT"), "{doctor:?}");
    assert!(doctor.stdout.contains("kept/noetl.db"), "{doctor:?}");
    assert!(doctor.stdout.contains(&row), "{doctor:?}");
    let events = sandbox.run(&["events", &id, "--store", "kept"]);
    assert_eq!(events.code, Some(5), "{events:?}");
    assert!(events.stderr.contains("STORE_CORRUPT"), "{events:?}");
    assert!(events.stderr.contains(&row), "{events:?}");
}
