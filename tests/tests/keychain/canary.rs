//! Canaries: secrets pass through every input of a playbook, then the test searches all that is stored or printed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::peers::PostgresServer;

use crate::scan::{find_hits, find_hits_below};

/// The secret that must not appear. Each of its encodings differs.
pub(crate) const SECRET: &str = "cänary-\"7f/3a+ 9e1d%zz~";
const FROM_ENV: &str = "env-canary-55aa77cc";

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: canary, path: canary}
workload: {which: api_cred}
keychain:
  - {name: api, kind: credential, credential: api_cred}
  - {name: joined, kind: static, data: {text: "A{{ keychain.api.token }}Z"}}
  - {name: outside, kind: env, map: {key: NOETL_SECRET_CANARY}}
workflow:
  - step: speak
    tool:
      - say:
          kind: python
          input:
            token: "{{ keychain.api.token }}"
            joined: "{{ keychain.joined.text }}"
            outside: "{{ keychain.outside.key }}"
          code: |
            import base64, json, sys, urllib.parse
            print("printed", token, joined, outside)
            print(base64.b64encode(("user:" + token).encode()).decode(), file=sys.stderr)
            print(urllib.parse.quote(token, safe=""), token.encode().hex(), json.dumps(token))
            result = {
                "works": len(token) == 23 and joined == "A" + token + "Z" and outside.startswith("env-"),
                "token": token, "joined": joined, "outside": outside,
                "basic": base64.b64encode(("user:" + token).encode()).decode(),
                "safe": base64.urlsafe_b64encode(token.encode()).decode(),
                "url": urllib.parse.quote(token), "hex": token.encode().hex(),
                "text": json.dumps({"t": token}), token: 1,
            }
          set: {ctx.kept: "{{ output.token }}", ctx.given: "{{ input.token }}"}
      - much:
          kind: python
          input: {token: "{{ keychain.api.token }}"}
          code: |
            result = {"many": [token + str(n) for n in range(9000)]}
    next: {arcs: [{step: call}]}
  - step: call
    tool:
      - ask:
          kind: http
          url: "http://user:{{ keychain.api.token }}@127.0.0.1:9/x?q={{ keychain.api.token }}"
          auth: "{{ workload.which }}"
          timeout: 2
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - closed:
          kind: http
          url: "http://127.0.0.1:9/x?q={{ keychain.outside.key }}"
          auth: api_cred
          timeout: 2
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - crash:
          kind: python
          input: {token: "{{ keychain.api.token }}"}
          code: |
            raise RuntimeError("no good: " + token)
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
      - shout:
          kind: shell
          command: "echo {{ keychain.api.token }}; exit 3"
          spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: {works: "{{ speak.say.works }}", kept: "{{ ctx.kept }}", given: "{{ ctx.given }}"}}
"#;

fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    sandbox.write("canary.yaml", PLAYBOOK);
    let data = json!({"name": "api_cred", "type": "bearer", "data": {"token": SECRET}});
    sandbox.write("credential.json", &data.to_string());
    sandbox
}

fn check_absent(output: impl AsRef<[u8]>, message: &str) {
    let output = output.as_ref();
    for secret in [SECRET, FROM_ENV] {
        let hits = find_hits(output, secret);
        let text = || String::from_utf8_lossy(output);
        assert!(hits.is_empty(), "{message} shows a secret as {hits:?}: {}", text());
    }
}

/// How often the logs of a run are requested.
const ATTEMPTS_MAX: u32 = 200;

/// Everything that the command line prints about a run.
fn check_outputs(sandbox: &CliSandbox, id: &str, server_args: &[&str]) {
    for verb in [
        &["show", id][..],
        &["events", id, "-o", "ndjson"],
        &["logs", id],
        &["result", id],
        &["result", id, "speak"],
        &["secret", "list", "-j"],
    ] {
        let output = sandbox.run(&[verb, server_args].concat());
        assert_ne!(output.code, Some(2), "{verb:?}: {output:?}");
        check_absent(&output.stdout, &format!("{verb:?}"));
        check_absent(&output.stderr, &format!("{verb:?}"));
    }
    // Log lines are sent with a delay.
    let logs = || sandbox.run(&[&["logs", id][..], server_args].concat());
    let shipped = (0..ATTEMPTS_MAX)
        .map(|_| logs())
        .find(|output| output.stdout.contains("printed ***"));
    assert!(shipped.is_some(), "{:?}", logs());
}

#[test]
fn no_secret_shows_in_a_local_store_or_in_the_output() {
    let sandbox = sandbox();
    let set = sandbox.run(&["register", "-f", "credential.json"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    check_absent(format!("{set:?}"), "register");
    std::fs::remove_file(sandbox.path("credential.json")).unwrap();
    let mut command = sandbox.command(&["run", "canary.yaml", "-j", "-v"]);
    command.env("NOETL_SECRET_CANARY", FROM_ENV);
    let output = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{out} {err}");
    check_absent(&out, "run");
    check_absent(&err, "run");
    let ended: Value = serde_json::from_str(&out).unwrap();
    let expected = json!({"works": true, "kept": "***", "given": "***"});
    assert_eq!(ended["result"], expected, "{ended}");
    let id = ended["execution_id"].as_str().or(ended["id"].as_str());
    check_outputs(&sandbox, id.unwrap(), &[]);
    let store_dir = sandbox.path(".noetl");
    for secret in [SECRET, FROM_ENV] {
        assert_eq!(find_hits_below(&store_dir, secret), Vec::<String>::new());
    }
    let planted = store_dir.join("logs").join("planted");
    std::fs::write(&planted, crate::scan::base64(SECRET.as_bytes())).unwrap();
    assert_eq!(find_hits_below(&store_dir, SECRET).len(), 1);
}

/// A server that logs verbosely; a thread collects its log.
pub(crate) struct VerboseServer {
    child: Child,
    pub(crate) url: String,
    stderr_reader: Option<std::thread::JoinHandle<String>>,
}

impl VerboseServer {
    /// Stops the server, and returns its output.
    pub(crate) fn end(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let stderr_reader = self.stderr_reader.take().map(std::thread::JoinHandle::join);
        stderr_reader.and_then(Result::ok).unwrap_or_default()
    }
}

impl Drop for VerboseServer {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn start_server(sandbox: &CliSandbox, store: &str) -> VerboseServer {
    let args = [
        "serve",
        "--store",
        store,
        "--listen",
        "127.0.0.1:0",
        "--local-slots",
        "4",
        "-v",
    ];
    let mut command = sandbox.command(&args);
    command.env("NOETL_SECRET_CANARY", FROM_ENV);
    command.env("NOETL_MASTER_KEY", "5a".repeat(32));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines
        .by_ref()
        .map_while(Result::ok)
        .find(|line| line.starts_with("listening on"));
    let url = ready.unwrap().split_whitespace().nth(2).unwrap().to_owned();
    let output = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    VerboseServer {
        child,
        url,
        stderr_reader: Some(output),
    }
}

/// Every value of every table, unchanged; a row as text would quote its values once more.
async fn dump_database(url: &str) -> Vec<u8> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let columns = "SELECT c.table_name::text, c.column_name::text, c.data_type::text
        FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
        WHERE c.table_schema = 'noetl' AND t.table_type = 'BASE TABLE'";
    let mut all = Vec::new();
    for column in client.query(columns, &[]).await.unwrap() {
        let [table, column, kind]: [String; 3] = [0, 1, 2].map(|at| column.get(at));
        let value = match kind.as_str() {
            "bytea" => format!("t.\"{column}\""),
            _ => format!("convert_to(t.\"{column}\"::text, 'UTF8')"),
        };
        let values = format!("SELECT {value} FROM noetl.\"{table}\" t");
        for row in client.query(&values, &[]).await.unwrap() {
            all.extend(row.get::<_, Option<Vec<u8>>>(0).unwrap_or_default());
            all.push(b'\n');
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_shows_in_a_database_or_in_the_output_of_its_server() {
    let database = PostgresServer::shared().fresh_database();
    let sandbox = sandbox();
    let mut server = start_server(&sandbox, &database.url());
    let url = server.url.clone();
    let server_args = ["--server", &url];
    let set = sandbox.run(&["register", "-f", "credential.json", server_args[0], server_args[1]]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let output = sandbox.run(&["run", "canary.yaml", "-j", server_args[0], server_args[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    check_absent(&output.stdout, "run");
    let ended = output.json();
    assert_eq!(ended["result"]["works"], true, "{ended}");
    let id = ended["execution_id"].as_str().or(ended["id"].as_str());
    let id = id.unwrap().to_owned();
    check_outputs(&sandbox, &id, &server_args);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    for path in [
        "/metrics",
        "/api/credentials",
        "/api/credentials/api_cred",
        "/api/audit",
        &format!("/api/executions/{id}"),
        &format!("/api/executions/{id}/events"),
        &format!("/api/executions/{id}/logs"),
        &format!("/api/vars/{id}"),
    ] {
        let response = http.get(format!("{}{path}", server.url)).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        check_absent(response.text().await.unwrap(), path);
    }
    let dump = dump_database(&database.url()).await;
    let shows = |needle: &[u8]| dump.windows(needle.len()).any(|window| window == needle);
    assert!(shows(b"api_cred") && shows(b"***"));
    check_absent(&dump, "the database");
    check_absent(server.end(), "the output of the server");
}

#[test]
fn a_run_whose_credential_is_missing_does_not_start() {
    let sandbox = sandbox();
    let output = sandbox.run(&["run", "canary.yaml", "-j"]);
    assert_ne!(output.code, Some(0), "{output:?}");
    let text = format!("{}{}", output.stdout, output.stderr);
    assert!(text.contains("CREDENTIAL_NOT_FOUND"), "{text}");
    assert!(text.contains("noetl secret set api_cred"), "{text}");
    let runs = sandbox.run(&["runs", "-j"]);
    assert!(!runs.stdout.contains("canary"), "{runs:?}");
}
