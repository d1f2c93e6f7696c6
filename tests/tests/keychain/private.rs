//! Other users of a machine see no password of a URL and no file of a store; token files work as `serve` recommends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tests::cli_sandbox::CliSandbox;
use tests::server_process::ServerProcess;

const PASSWORD: &str = "pw-canary-31f7";

#[test]
fn no_message_shows_the_password_of_a_url() {
    let sandbox = CliSandbox::new();
    sandbox.write("plain.yaml", PLAYBOOK);
    let store = format!("postgres://someone:{PASSWORD}@127.0.0.1:9/db?password={PASSWORD}");
    let nats = format!("nats://someone:{PASSWORD}@127.0.0.1:9");
    let server = format!("http://someone:{PASSWORD}@127.0.0.1:9");
    for args in [
        &["runs"][..],
        &["runs", "-j"],
        &["show", "last"],
        &["run", "plain.yaml"],
        &["run", "plain.yaml", "-j", "-vvv"],
        &["doctor"],
        &["doctor", "-j"],
        &["context"],
        &["context", "show", "-j"],
        &["gc"],
        &["serve", "--listen", "127.0.0.1:0", "-vv"],
        &["serve", "--store", "kept", "--nats", &nats.replace("nats:", "natz:")],
        &["runs", "--server", &server],
        &["worker", "--server", &server.replace("http:", "htp:")],
    ] {
        let mut command = sandbox.command(args);
        let output = command.env("NOETL_STORE", &store).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let text = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(!text.contains(PASSWORD), "{args:?}: {text}");
        assert!(!text.is_empty(), "{args:?}");
    }
    let output = sandbox.command(&["runs"]).env("NOETL_STORE", &store).output();
    let stderr = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(stderr.contains("STORE_NEEDS_SERVER"), "{stderr}");

    // A configuration file sets the same store, wherever the file is.
    sandbox.write("noetl.toml", &format!("store = {store:?}\n"));
    let output = sandbox.run(&["runs"]);
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("STORE_NEEDS_SERVER"), "{text}");
    assert!(text.contains("--server"), "{text}");
    assert!(!text.contains(PASSWORD), "{text}");
}

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: plain, path: plain}
workflow:
  - step: say
    tool: {kind: shell, command: "echo said; head -c 200000 /dev/zero | tr '\\0' x"}
"#;

/// Files below a directory with the permissions of their group and of other users.
fn readable_by_others(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    if mode(folder) & 0o077 != 0 {
        paths.push(format!("{} {:o}", folder.display(), mode(folder)));
    }
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            paths.extend(readable_by_others(&path));
        } else if mode(&path) & 0o077 != 0 {
            paths.push(format!("{} {:o}", path.display(), mode(&path)));
        }
    }
    paths
}

#[test]
fn only_the_owner_can_read_a_store_even_if_it_was_open_before() {
    let sandbox = CliSandbox::new();
    sandbox.write("plain.yaml", PLAYBOOK);
    let data = r#"{"pin": "canary-1"}"#;
    let set = sandbox.run(&["secret", "set", "door", "--type", "door", "--data", data]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let run = || {
        let output = sandbox.run(&["run", "plain.yaml", "-j"]);
        assert_eq!(output.code, Some(0), "{output:?}");
    };
    run();
    let store = sandbox.path(".noetl");
    assert_eq!(readable_by_others(&store), Vec::<String>::new());
    assert!(store.join("bodies").is_dir() && store.join("logs").is_dir());
    let opened = Command::new("chmod").args(["-R", "a+rX"]).arg(&store).status();
    assert!(opened.unwrap().success());
    assert!(readable_by_others(&store).len() > 5);
    run();
    let left = readable_by_others(&store);
    // The key, and files that are not part of the store, keep their permissions.
    let left: Vec<_> = left.iter().filter(|path| !path.contains("master.key")).collect();
    assert_eq!(left, Vec::<&String>::new());
}

/// The command that the help of an error recommends.
fn remedy_in(output: &str) -> String {
    let line = output.lines().find(|line| line.contains("openssl"));
    let line = line.unwrap_or_else(|| panic!("{output}"));
    let start = line.find('(').expect("the help contains a command in parentheses");
    line[start..].to_owned()
}

#[test]
fn the_advice_of_serve_about_token_files_works() {
    let sandbox = CliSandbox::new();
    let serve = |args: &[&str]| {
        let serve = [
            "serve",
            "--store",
            "kept",
            "--listen",
            "127.0.0.1:0",
            "--token-file",
            "token",
        ];
        sandbox.run(&[&serve[..], args].concat())
    };
    let follow = |output: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &remedy_in(output)]).current_dir(sandbox.path(""));
        assert!(command.status().unwrap().success(), "{output}");
    };
    let token = || sandbox.read("token").trim().to_owned();
    let demands_a_token = |server: &ServerProcess, token: &str| {
        let without = sandbox.run(&["runs", "--server", &server.url]);
        assert_eq!(without.code, Some(6), "{without:?}");
        let mut command = sandbox.command(&["runs", "--server", &server.url]);
        let with = command.env("NOETL_TOKEN", token).output().unwrap();
        assert!(with.status.success(), "{with:?}");
    };
    let first = ServerProcess::start(&sandbox, &["--token-file", "token"]);
    let old = token();
    demands_a_token(&first, &old);
    drop(first);
    fs::remove_file(sandbox.path("token")).unwrap();
    let missing = serve(&[]);
    assert!(missing.stderr.contains("TOKEN_MISSING"), "{missing:?}");
    follow(&missing.stderr);
    assert_ne!(token(), old);
    demands_a_token(&ServerProcess::start(&sandbox, &["--token-file", "token"]), &token());
    sandbox.write("token", "short\n");
    let invalid = serve(&[]);
    assert!(invalid.stderr.contains("TOKEN_INVALID"), "{invalid:?}");
    follow(&invalid.stderr);
    demands_a_token(&ServerProcess::start(&sandbox, &["--token-file", "token"]), &token());
}
