//! The tool kinds for external services, in the syntax of playbooks.

use language::playbook::parse;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: reach }
workflow:
  - step: keys
    tool:
      - put: { kind: nats, action: kv_put, auth: bus, bucket: b, key: k, data: { a: 1 }, expected_last_revision: 0 }
      - take: { kind: nats, operation: js_consume, nats_url: "nats://n:4222", stream: s, durable: c, max_messages: 5 }
    next: [{ step: ask }]
  - step: ask
    tool: { kind: mcp, endpoint: "http://tools/mcp", tool: add, arguments: { a: 1 }, credential: tools }
    next: [{ step: run }]
  - step: run
    tool:
      kind: container
      image: alpine:3
      command: [echo]
      args: ["{{ ask.result }}"]
      env: { A: b }
      resources: { cpu: 0.5, memory: 64MiB }
      timeout: 60
"#;

#[test]
fn a_playbook_uses_the_keys_of_the_reference() {
    let parsed = parse("reach.yaml", PLAYBOOK.as_bytes());
    assert_eq!(parsed.diagnostics, []);
    let playbook = parsed.playbook.unwrap();
    let fields = |step: usize, task: usize| -> Vec<&str> {
        let fields = playbook.steps[step].tasks[task].fields.keys();
        fields.map(String::as_str).collect()
    };
    let put = ["auth", "bucket", "expected_last_revision", "key", "operation", "value"];
    assert_eq!(fields(0, 0), put);
    assert_eq!(fields(0, 1), ["batch", "consumer", "operation", "stream", "url"]);
    assert_eq!(fields(1, 0), ["arguments", "auth", "server", "tool"]);
    assert_eq!(fields(2, 0), ["args", "command", "env", "image", "resources"]);
    assert!(
        playbook.steps[2].tasks[0].input.is_none(),
        "`args` belong to the container"
    );
}

#[test]
fn a_task_that_cannot_work_is_refused_before_it_runs() {
    for task in [
        "{kind: nats, bucket: b}",
        "{kind: mcp, tool: add}",
        "{kind: mcp, server: 'http://x', command: [y], tool: add}",
        "{kind: mcp, server: 'http://x', tool: add, uri: 'a://b'}",
        "{kind: container, command: [echo]}",
        "{kind: container, image: a, privileged: true}",
    ] {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: x}}\nworkflow:\n  - step: a\n    tool: {task}\n"
        );
        let parsed = parse("x.yaml", text.as_bytes());
        assert!(!parsed.diagnostics.is_empty(), "{task}");
    }
}
