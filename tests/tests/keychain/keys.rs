//! Master keys: created, rotated, missing and wrong, with the real binary.

use std::os::unix::fs::PermissionsExt as _;

use tests::cli_sandbox::CliSandbox;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: uses, path: uses}
workflow:
  - step: use
    tool: {kind: python, input: {pin: "{{ keychain.door.pin }}"}, code: "result = len(pin)"}
"#;

fn set_credential(sandbox: &CliSandbox, name: &str) {
    let data = r#"{"pin": "canary-1"}"#;
    let output = sandbox.run(&["secret", "set", name, "--type", "door", "--data", data]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!format!("{output:?}").contains("canary"), "{output:?}");
}

#[test]
fn a_store_makes_a_key_and_changes_it_without_losing_anything() {
    let sandbox = CliSandbox::new();
    sandbox.write("uses.yaml", PLAYBOOK);
    set_credential(&sandbox, "door");
    set_credential(&sandbox, "door");
    set_credential(&sandbox, "window");
    let file = sandbox.path(".noetl/master.key");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = std::fs::read(&file).unwrap();
    let list = sandbox.run_json(&["secret", "list", "-j"]);
    assert_eq!(list[0]["name"], "door");
    assert_eq!((&list[0]["version"], &list[1]["version"]), (&2.into(), &1.into()));
    let rotated = sandbox.run_json(&["secret", "rotate-key", "-j"]);
    assert_eq!((&rotated["rewrapped"], &rotated["remaining"]), (&2.into(), &0.into()));
    assert_ne!(std::fs::read(&file).unwrap(), before);
    assert!(!sandbox.path(".noetl/master.key.old").exists());
    let ran = sandbox.run_json(&["run", "uses.yaml", "-j"]);
    assert_eq!(ran["result"], 8, "{ran}");
    let removed = sandbox.run(&["secret", "rm", "door"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    let failure = sandbox.run(&["run", "uses.yaml", "-j"]);
    assert!(format!("{failure:?}").contains("CREDENTIAL_NOT_FOUND"), "{failure:?}");
}

#[test]
fn an_interrupted_key_rotation_is_continued() {
    let sandbox = CliSandbox::new();
    sandbox.write("uses.yaml", PLAYBOOK);
    set_credential(&sandbox, "door");
    // The state after a crash between writing the new key and re-encrypting the first credential.
    let (file, old) = (sandbox.path(".noetl/master.key"), sandbox.path(".noetl/master.key.old"));
    std::fs::rename(&file, &old).unwrap();
    std::fs::write(&file, "7e".repeat(32)).unwrap();
    assert_eq!(sandbox.run_json(&["run", "uses.yaml", "-j"])["result"], 8);
    let rotated = sandbox.run_json(&["secret", "rotate-key", "-j"]);
    assert_eq!(rotated["remaining"], 0, "{rotated}");
    assert!(!old.exists());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "7e".repeat(32));
    assert_eq!(sandbox.run_json(&["run", "uses.yaml", "-j"])["result"], 8);
}

#[test]
fn without_its_key_a_credential_stays_closed() {
    let sandbox = CliSandbox::new();
    sandbox.write("uses.yaml", PLAYBOOK);
    set_credential(&sandbox, "door");
    std::fs::write(sandbox.path(".noetl/master.key"), "7e".repeat(32)).unwrap();
    let output = sandbox.run(&["run", "uses.yaml", "-j"]);
    assert!(format!("{output:?}").contains("MASTER_KEY_WRONG"), "{output:?}");
    let mut command = sandbox.command(&["secret", "list"]);
    command.env("NOETL_MASTER_KEY", "short");
    let output = command.output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(err.contains("invalid NOETL_MASTER_KEY"), "{err}");
}

#[test]
fn a_child_whose_credential_is_missing_fails_its_parents_task() {
    let sandbox = CliSandbox::new();
    sandbox.write("uses.yaml", PLAYBOOK);
    let parent = r"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parent, path: parent}
workflow:
  - step: start
    tool: {kind: playbook, path: uses.yaml}
";
    sandbox.write("parent.yaml", parent);
    let output = sandbox.run(&["run", "parent.yaml", "-j"]);
    assert_eq!(output.code, Some(1), "{output:?}");
    let error = &output.json()["error"];
    assert_eq!(error["code"], "CREDENTIAL_NOT_FOUND", "{output:?}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("noetl secret set door"), "{message}");
}
