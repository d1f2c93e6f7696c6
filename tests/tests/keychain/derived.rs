//! Canaries that templates change: each passes through a filter into a task, most of them into a failing one. The test
//! then searches everything that is stored or printed for the original and the changed secret.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use tests::cli_sandbox::CliSandbox;

use crate::canary::start_server;
use crate::scan::{base64, find_hits_below, secret_forms};

/// One canary: the filter that changes it, and the task that gets it in place of `$`.
struct DerivedCanary {
    expression: &'static str,
    becomes: fn(&str) -> String,
    task: &'static str,
}

const fn canary(expression: &'static str, becomes: fn(&str) -> String, task: &'static str) -> DerivedCanary {
    DerivedCanary {
        expression,
        becomes,
        task,
    }
}

fn lower(text: &str) -> String {
    text.to_lowercase()
}

fn upper(text: &str) -> String {
    text.to_uppercase()
}

fn reversed(text: &str) -> String {
    text.chars().rev().collect()
}

fn slice(text: &str) -> String {
    text[2..16].to_owned()
}

fn replaced(text: &str) -> String {
    text.replace('-', "_")
}

fn name_form(text: &str) -> String {
    text.to_lowercase().replace(['-', '/', '+'], "x")
}

fn percent(text: &str) -> String {
    text.replace('+', "%2B")
}

fn hash(text: &str) -> String {
    use sha2::Digest as _;
    hex::encode(sha2::Sha256::digest(text.as_bytes()))
}

fn capitalized(text: &str) -> String {
    text[..1].to_uppercase() + text[1..].to_lowercase().as_str()
}

/// Every second letter: NoETL cannot recognize what a user's program makes of a secret.
fn picked(text: &str) -> String {
    text.chars().step_by(2).collect()
}

const CANARIES: &[DerivedCanary] = &[
    canary("| lower", lower, "{kind: noop, result: {a: '{{ $ }}'}}"),
    canary("| upper", upper, "{kind: noop, input: {a: '{{ $ }}'}}"),
    canary("| reverse", reversed, "{kind: noop, message: 'x {{ $ }} y'}"),
    canary(
        "[2:16]",
        slice,
        "{kind: noop, input: {a: '{{ $ }}'}, set: {ctx.kept: '{{ input.a }}'}}",
    ),
    canary(
        r#"| replace("-", "_")"#,
        replaced,
        "{kind: noop, input: {a: '{{ $ }}'}, spec: {policy: {rules: [{else: {then: {do: continue, set_iter: {x: '{{ input.a | lower }}'}, set_ctx: {y: '{{ input.a }}'}}}}]}}}",
    ),
    canary(
        "| tojson",
        |text| format!("\"{text}\""),
        "{kind: noop, result: '{% set t = $ %}{{ t | lower }}'}",
    ),
    canary(
        "| capitalize",
        capitalized,
        "{kind: shell, command: 'true', cwd: '/nowhere/{{ $ }}'}",
    ),
    canary(
        "| b64encode",
        |text| base64(text.as_bytes()),
        "{kind: shell, command: 'echo {{ $ }} >&2; exit 3'}",
    ),
    canary(
        "| urlencode",
        percent,
        "{kind: shell, command: 'cat; cat /proc/[0-9]*/cmdline > arguments.txt 2>/dev/null || true', stdin: '{{ $ }}'}",
    ),
    canary(
        "| hash",
        hash,
        "{kind: shell, command: 'echo {{ $ | raw_sh }}; cat /proc/[0-9]*/cmdline >> arguments.txt 2>/dev/null || true'}",
    ),
    canary(
        "| trim | lower",
        lower,
        "{kind: shell, command: 'true', shell: '/bin/{{ $ }}'}",
    ),
    canary("| lower", lower, "{kind: python, code: 'x = = \"{{ $ }}\"'}"),
    canary(
        "| upper",
        upper,
        "{kind: python, input: {a: '{{ $ }}'}, code: 'print(a); result = {\"a\": a, a: 1}'}",
    ),
    canary(
        "| reverse",
        reversed,
        "{kind: python, input: {a: \"{{ '%s!' | format($) }}\"}, code: 'raise ValueError(a)'}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: python, input: {a: '{{ $ }}'}, code: 'print(\"x\" * (512 * 1024 - 7) + a + \"y\" * 600000 + a + \"z\" * (512 * 1024 - 9))'}",
    ),
    canary(
        "| reverse",
        reversed,
        "{kind: shell, command: 'head -c 524280 /dev/zero | tr \\\\0 x; printf %s {{ $ }}; head -c 700000 /dev/zero | tr \\\\0 x; printf %s {{ $ }}; head -c 524279 /dev/zero | tr \\\\0 x'}",
    ),
    canary(
        NAMED,
        name_form,
        "{kind: http, url: 'http://{{ $ }}.invalid/x', timeout: 3}",
    ),
    canary(
        "| reverse",
        reversed,
        "{kind: http, url: 'http://127.0.0.1:9/{{ $ }}?q={{ $ }}', timeout: 3}",
    ),
    canary(
        "| upper",
        upper,
        "{kind: http, url: 'http://127.0.0.1:9/', headers: {X-A: \"{{ $ ~ '\\n' }}\"}, timeout: 3}",
    ),
    canary("| lower", lower, "{kind: http, url: '{{ $ }}', timeout: 3}"),
    canary(
        "| lower",
        lower,
        "{kind: sqlite, database: ':memory:', command: 'select * from {{ $ | ident }}'}",
    ),
    canary(
        NAMED,
        name_form,
        "{kind: sqlite, database: ':memory:', command: 'select {{ $ | raw_sql }}'}",
    ),
    canary(
        "| upper",
        upper,
        "{kind: sqlite, database: '/nowhere/{{ $ }}.db', command: 'select 1'}",
    ),
    canary(
        "| reverse",
        reversed,
        "{kind: sqlite, database: ':memory:', command: 'select {{ $ }} as a'}",
    ),
    canary(
        "| urlencode",
        percent,
        "{kind: postgres, auth: {dsn: 'postgres://u:{{ $ }}@127.0.0.1:9/{{ $ }}'}, command: 'select 1', timeout: 3}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: postgres, auth: {host: '{{ $ }}', port: 9, user: '{{ $ }}', password: '{{ $ }}', database: x}, command: 'select {{ $ }}', timeout: 3}",
    ),
    canary(
        NAMED,
        name_form,
        "{kind: duckdb, command: 'select {{ $ | raw_sql }} from nowhere'}",
    ),
    canary("| lower", lower, "{kind: artifact, uri: 'noetl://execution/1/{{ $ }}'}"),
    canary("| upper", upper, "{kind: artifact, uri: 'file://nowhere/{{ $ }}'}"),
    canary(
        "| reverse",
        reversed,
        "{kind: artifact, action: put, data: {a: '{{ $ }}'}}",
    ),
    canary(
        NAMED,
        name_form,
        "{kind: s3, uri: 's3://{{ $ }}/{{ $ }}', credential: {access_key_id: us, secret_access_key: '{{ $ }}', region: x, endpoint: 'http://127.0.0.1:9'}, timeout: 3}",
    ),
    canary("| lower", lower, "{kind: s3, uri: 'x://{{ $ }}'}"),
    canary("| lower", lower, "{kind: wait, signal: '{{ $ }}', timeout: 0.1}"),
    canary("| upper", upper, "{kind: wait, duration: '{{ $ }}'}"),
    canary(
        "| lower",
        lower,
        "{kind: transfer, source: {kind: sqlite, database: '/nowhere/{{ $ }}', query: 'select 1'}, target: {kind: file, uri: 'file://out/{{ $ }}.csv'}}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: playbook, path: child.yaml, input: {a: '{{ $ }}', b: 'x {{ $ | upper }}'}}",
    ),
    canary("| upper", upper, "{kind: playbook, path: '{{ $ }}'}"),
    canary(
        "| lower",
        lower,
        "{kind: nats, operation: publish, url: 'nats://u:{{ $ }}@127.0.0.1:9', subject: '{{ $ }}', value: '{{ $ }}', timeout: 3}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: transform, input: {a: '{{ $ }}'}, jq: '.a | tonumber'}",
    ),
    canary(
        "| upper",
        upper,
        "{kind: transform, input: {a: '{{ $ }}'}, jq: '{(.a): .a}'}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: rhai, input: {a: '{{ $ }}'}, code: 'throw input.a'}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: mcp, command: ['/nowhere/{{ $ }}'], tool: x, timeout: 3}",
    ),
    canary(
        "| lower",
        lower,
        "{kind: container, image: '{{ $ }}', command: ['{{ $ }}'], timeout: 3}",
    ),
    canary("| lower", lower, "{kind: noop, result: '{{ ($) | int }}'}"),
    canary("| lower", lower, "{kind: noop, timeout: '{{ $ }}'}"),
    canary(
        "| upper",
        upper,
        "{kind: shell, command: 'true', env: {A: '{{ $ }}', '{{ $ }}': x}}",
    ),
];

/// A program that changes the secret: the search finds this one, which shows that the search works.
const CONTROL: DerivedCanary = canary(
    "| lower",
    |text| picked(&lower(text)),
    "{kind: python, input: {a: '{{ $ }}'}, code: 'result = {\"a\": a[::2]}'}",
);

const NAMED: &str = r#"| lower | replace("-", "x") | replace("/", "x") | replace("+", "x")"#;

/// A secret that differs from all others in every part, and from what any filter makes of it.
fn canary_secret(number: usize) -> String {
    let seed = hash(&format!("canary {number}"));
    let letters: Vec<char> = seed.chars().map(|c| char::from(b'G' + c as u8 % 16)).collect();
    let part = |from: usize| letters[from..from + 7].iter().collect::<String>();
    let lower = |from: usize| part(from).to_lowercase();
    format!("Kx{}-{}/{}+{}Z", part(0), lower(7), part(14), lower(21))
}

fn canary_playbook() -> String {
    let mut tasks = String::new();
    for (number, canary) in CANARIES.iter().chain([&CONTROL]).enumerate() {
        let value = format!("keychain.door.c{number} {}", canary.expression);
        let value = value.replace(" [", "[");
        let task = canary.task.replace('$', &value);
        let rules = "spec: {policy: {rules: [{else: {then: {do: continue}}}]}}";
        let task = if canary.task.contains("policy") {
            task
        } else {
            format!("{}, {rules}}}", &task[..task.len() - 1])
        };
        writeln!(tasks, "      - t{number}: {task}").unwrap();
    }
    format!(
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: derived, path: derived}}\nkeychain:\n  \
         - {{name: door, kind: credential, credential: door}}\nworkflow:\n  - step: all\n    tool:\n{tasks}    \
         next: {{arcs: [{{step: loops}}]}}\n  - step: loops\n    loop: {{in: [1, 2, 3], iterator: n}}\n    \
         tool: {{kind: noop, result: '{{{{ (keychain.door.c0 | upper) ~ iter.n }}}}'}}\n    \
         next: {{arcs: [{{step: end}}]}}\n  - step: end\n    tool: {{kind: noop, result: {{ctx: '{{{{ ctx }}}}', done: true}}}}\n"
    )
}

const CHILD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: child, path: child}\nworkload: {a: '', b: ''}\n\
    workflow:\n  - step: say\n    tool: {kind: noop, result: {a: '{{ workload.a }}', b: '{{ workload.b }}'}}\n";

/// Searches for every canary, original and changed, in every encoding, in one pass.
struct CanarySearch {
    pattern: regex::bytes::Regex,
    names: HashMap<Vec<u8>, String>,
}

impl CanarySearch {
    fn new() -> Self {
        let mut names = HashMap::new();
        let mut add = |name: &str, text: &str| {
            for (form, needle) in secret_forms(text) {
                names.insert(needle, format!("{name} as {form}: {text}"));
            }
        };
        for (number, canary) in CANARIES.iter().enumerate() {
            add(&format!("t{number}, unchanged,"), &canary_secret(number));
            add(&format!("t{number}"), &(canary.becomes)(&canary_secret(number)));
        }
        add("the loop", &upper(&canary_secret(0)));
        let texts = names.keys().map(|needle| std::str::from_utf8(needle).unwrap());
        let texts: Vec<String> = texts.map(regex::escape).collect();
        Self {
            pattern: regex::bytes::Regex::new(&texts.join("|")).unwrap(),
            names,
        }
    }

    fn find_hits(&self, bytes: &[u8]) -> Vec<&String> {
        let matched = self.pattern.find_iter(bytes);
        let mut matched: Vec<_> = matched.map(|matched| &self.names[matched.as_bytes()]).collect();
        matched.sort();
        matched.dedup();
        matched
    }

    fn check_absent(&self, bytes: impl AsRef<[u8]>, message: &str) {
        assert_eq!(self.find_hits(bytes.as_ref()), Vec::<&String>::new(), "{message}");
    }

    /// Searches every file of a directory tree.
    fn find_hits_below(&self, folder: &Path) -> Vec<String> {
        let mut hits = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                hits.extend(self.find_hits_below(&path));
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let in_file = self.find_hits(&bytes).into_iter();
                hits.extend(in_file.map(|hit| format!("{}: {hit}", path.display())));
            }
        }
        hits
    }
}

fn sandbox() -> CliSandbox {
    let sandbox = CliSandbox::new();
    sandbox.write("derived.yaml", &canary_playbook());
    sandbox.write("child.yaml", CHILD);
    let fields = (0..=CANARIES.len()).map(|number| (format!("c{number}"), canary_secret(number).into()));
    let fields: Map<String, Value> = fields.collect();
    let credential = json!({"name": "door", "type": "door", "data": fields});
    sandbox.write("credential.json", &credential.to_string());
    sandbox
}

/// Registers the credential with these flags.
fn register_playbooks(sandbox: &CliSandbox, server_args: &[&str]) {
    let set = sandbox.run(&[&["register", "-f", "credential.json"], server_args].concat());
    assert_eq!(set.code, Some(0), "{set:?}");
    std::fs::remove_file(sandbox.path("credential.json")).unwrap();
}

#[test]
fn texts_derived_from_a_secret_show_nowhere() {
    let (sandbox, search) = (sandbox(), CanarySearch::new());
    register_playbooks(&sandbox, &[]);
    let output = sandbox
        .command(&["run", "derived.yaml", "-j", "-vvv"])
        .output()
        .unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(output.status.success(), "{out} {err}");
    search.check_absent(&out, "the stdout of `run`");
    search.check_absent(&err, "the stderr of `run`");
    let ended: Value = serde_json::from_str(&out).unwrap();
    let ctx = json!({"kept": "***", "y": "***"});
    assert_eq!(ended["result"], json!({"ctx": ctx, "done": true}), "{ended}");
    let id = ended["execution_id"].as_str().or(ended["id"].as_str()).unwrap();
    for verb in [
        &["show", id][..],
        &["events", id, "-o", "ndjson"],
        &["logs", id],
        &["result", id],
        &["result", id, "loops", "-j"],
        &["runs", "-j"],
        &["explain", id],
    ] {
        let output = sandbox.run(verb);
        assert_ne!(output.code, Some(2), "{verb:?}: {output:?}");
        search.check_absent(&output.stdout, &format!("{verb:?}"));
        search.check_absent(&output.stderr, &format!("{verb:?}"));
    }
    let arguments = std::fs::read(sandbox.path("arguments.txt")).unwrap();
    assert!(!arguments.is_empty());
    search.check_absent(&arguments, "the arguments of processes");
    let store_dir = sandbox.path(".noetl");
    assert_eq!(search.find_hits_below(&store_dir), Vec::<String>::new());
    // The search finds what a user's program made of a secret, and what the test planted.
    let control = (CONTROL.becomes)(&canary_secret(CANARIES.len()));
    assert!(!find_hits_below(&store_dir, &control).is_empty(), "{control}");
    std::fs::write(store_dir.join("logs").join("planted"), lower(&canary_secret(0))).unwrap();
    assert_eq!(search.find_hits_below(&store_dir).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_derived_from_a_secret_show_in_no_response() {
    let (sandbox, search) = (sandbox(), CanarySearch::new());
    let mut server = start_server(&sandbox, "kept");
    let url = server.url.clone();
    let server_args = ["--server", &url];
    register_playbooks(&sandbox, &server_args);
    let output = sandbox.run(&["run", "derived.yaml", "-j", server_args[0], server_args[1]]);
    assert_eq!(output.code, Some(0), "{output:?}");
    search.check_absent(&output.stdout, "the stdout of `run`");
    search.check_absent(&output.stderr, "the stderr of `run`");
    let ended = output.json();
    let id = ended["execution_id"].as_str().or(ended["id"].as_str());
    let id = id.unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let http = reqwest::Client::new();
    for path in [
        "/metrics",
        "/api/audit",
        "/api/executions",
        &format!("/api/executions/{id}"),
        &format!("/api/executions/{id}/events?limit=1000"),
        &format!("/api/executions/{id}/logs"),
        &format!("/api/vars/{id}"),
    ] {
        let response = http.get(format!("{url}{path}")).send().await.unwrap();
        assert!(response.status().is_success(), "{path}: {}", response.status());
        search.check_absent(response.text().await.unwrap(), path);
    }
    search.check_absent(server.end(), "the output of the server");
    let hits = search.find_hits_below(&sandbox.path("kept"));
    assert_eq!(hits, Vec::<String>::new());
}
