//! How templates, programs, `noetl run`, `noetl result` and parents of child playbooks see results, and which
//! environment variables templates can read.

use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::http::FakeHttpServer;
use tests::server_process::ServerProcess;

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p, path: p}\n";

/// A loop of this number of iterations, each with a task that accumulates two pages and is not the last one.
fn collecting_playbook(count: usize, inline_bytes_max: usize) -> String {
    format!(
        r#"{HEAD}workflow:
  - step: each
    loop: {{ in: "{{{{ range({count}) | list }}}}", iterator: x, spec: {{ mode: parallel, max_in_flight: 16 }} }}
    tool:
      - first: {{ kind: noop, spec: {{ policy: {{ rules: [ {{ else: {{ then: {{ do: continue, set_iter: {{ page: 1 }} }} }} }} ] }} }} }}
      - pages:
          kind: noop
          result: {{ items: ["page {{{{ iter.page }}}} of some length"] }}
          spec:
            result: {{ inline_max_bytes: {inline_bytes_max}, accumulate: {{ merge_path: "$.items" }} }}
            policy: {{ rules: [ {{ when: "{{{{ iter.page < 2 }}}}", then: {{ do: jump, to: pages, set_iter: {{ page: 2 }} }} }} ] }}
      - last: {{ kind: noop, result: {{ n: "{{{{ pages | length }}}}" }} }}
"#
    )
}

fn run_result(sandbox: &CliSandbox, playbook: &str) -> Value {
    sandbox.write("p.yaml", playbook);
    sandbox.run_json(&["run", "p.yaml", "-o", "json"])
}

#[test]
fn every_reader_sees_the_collected_pages_as_the_result_of_the_iteration() {
    for (count, inline_bytes_max) in [(2, 60_000), (2, 10), (1_100, 60_000)] {
        let sandbox = CliSandbox::new();
        let ran = run_result(&sandbox, &collecting_playbook(count, inline_bytes_max));
        let expected = vec![json!({"n": 2}); count];
        assert_eq!(ran["result"], json!(expected), "{count}");
        let result = sandbox.run_json(&["result", "last", "each", "-o", "json"]);
        assert_eq!(result, json!(expected), "{count}");
        let one = sandbox.run_json(&["result", "last", "each", "--iteration", "1", "-o", "json"]);
        assert_eq!(one, json!({"n": 2}), "{count}");
        let pages = [
            "result",
            "last",
            "each",
            "--task",
            "pages",
            "--iteration",
            "1",
            "-o",
            "json",
        ];
        let pages = sandbox.run_json(&pages);
        assert_eq!(pages.as_array().map(Vec::len), Some(2), "{pages}");
    }
}

#[test]
fn a_run_that_ends_with_a_loop_returns_its_list_also_to_its_parent() {
    let sandbox = CliSandbox::new();
    let child = format!(
        "{HEAD}workflow:\n  - step: each\n    loop: {{ in: [1, 2], iterator: n }}\n    tool: {{ kind: noop, result: \"{{{{ n * 2 }}}}\" }}\n"
    );
    assert_eq!(run_result(&sandbox, &child)["result"], json!([2, 4]));
    sandbox.write("child.yaml", &child);
    let parent = format!("{HEAD}workflow:\n  - step: start\n    tool: {{ kind: playbook, path: child.yaml }}\n");
    assert_eq!(run_result(&sandbox, &parent)["result"], json!([2, 4]));
    let result = sandbox.run_json(&["result", "last", "start", "-o", "json"]);
    assert_eq!(result, json!([2, 4]));
}

#[test]
fn a_program_gets_a_loop_whole_and_a_response_with_its_body() {
    let sandbox = CliSandbox::new();
    let http = FakeHttpServer::start(|_, _| (200, json!({"k": 1})));
    let playbook = format!(
        r#"{HEAD}workflow:
  - step: each
    loop: {{ in: [1, 2], iterator: n }}
    tool: {{ kind: noop, result: "{{{{ n }}}}" }}
    next: fetch
  - step: fetch
    tool: {{ kind: http, url: "{url}" }}
    next: end
  - step: end
    tool:
      kind: python
      input: {{ loop: "{{{{ each }}}}", response: "{{{{ fetch }}}}" }}
      code: |
        fetched = context["fetch"]
        result = [loop, response["body"], fetched["body"] == fetched["data"]]
"#,
        url = http.url()
    );
    let stats = json!({"total": 2, "succeeded": 2, "failed": 0});
    let expected = json!([{"results": [1, 2], "stats": stats}, {"k": 1}, true]);
    assert_eq!(run_result(&sandbox, &playbook)["result"], expected);
    let stored = sandbox.run_json(&["result", "last", "fetch", "-o", "json"]);
    assert_eq!(stored["body"], Value::Null, "the response is stored once");
}

#[test]
fn selected_paths_are_in_the_response_and_missing_ones_warn_once() {
    let sandbox = CliSandbox::new();
    let rows: Vec<u32> = (0..50_000).collect();
    let small = json!({"paging": {"hasMore": true, "next": null}});
    let large = json!({"paging": {"hasMore": true, "next": null}, "rows": rows});
    let http = FakeHttpServer::start(move |request, _| {
        let is_small = request.path.contains("small");
        (200, if is_small { small.clone() } else { large.clone() })
    });
    let select = r#"[{path: "$.paging.hasMore", as: more}, {path: "$.paging.next", as: next}, {path: "$.paging.page", as: page}]"#;
    for size in ["small", "large"] {
        let playbook = format!(
            r#"{HEAD}workflow:
  - step: fetch
    tool: {{ kind: http, url: "{url}/{size}", spec: {{ result: {{ select: {select} }} }} }}
    next: [{{ step: end, when: "{{{{ fetch.more }}}}" }}]
  - step: end
    tool: {{ kind: noop, result: ["{{{{ fetch.more }}}}", "{{{{ fetch.next }}}}", "{{{{ fetch.page }}}}"] }}
"#,
            url = http.url()
        );
        let ran = run_result(&sandbox, &playbook);
        assert_eq!(ran["result"], json!([true, null, null]), "{size}");
        let logs = sandbox.run(&["logs", "last"]).stdout;
        let warnings: Vec<&str> = logs.lines().filter(|line| line.contains("`select`")).collect();
        assert_eq!(warnings.len(), 1, "{size}: {logs}");
        assert!(warnings[0].contains("`$.paging.page`"), "{size}: {logs}");
        assert!(!warnings[0].contains("`$.paging.next`"), "{size}: {logs}");
    }
}

const LOCALE: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: locale, path: demo/locale}
workload: {locale: "{{ env.LANG | default('none') }}"}
workflow:
  - step: end
    tool: {kind: noop, result: "{{ workload.locale }}"}
"#;

#[test]
fn a_server_without_slots_renders_defaults_with_the_variables_that_are_allowed() {
    for (more, expected) in [(&["--allow-env", "LANG"][..], "C.UTF-8"), (&[], "none")] {
        let sandbox = CliSandbox::new();
        sandbox.write("locale.yaml", LOCALE);
        let args = [&["--local-slots", "0"], more].concat();
        let _server = ServerProcess::start_as_context(&sandbox, &args);
        let started = sandbox.run(&["run", "locale.yaml", "--detach"]);
        assert_eq!(started.code, Some(0), "{started:?}");
        let events = json!(sandbox.events("last")).to_string();
        let workload = format!(r#"{{"locale":"{expected}"}}"#);
        assert!(events.contains(&workload), "{events}");
    }
}
