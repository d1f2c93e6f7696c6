//! The parsed form of a playbook: defaults, layers, workbook tasks, and the example of the specification.

use language::playbook::{JumpTarget, Playbook, parse};
use language::template::Tree;
use model::playbook::{Backoff, Directive, FailureMode, LoopMode, RouteMode};
use serde_json::json;

use crate::spellings::{HEAD, parse_valid};

const APPENDIX: &str = include_str!("appendix.yaml");

fn literal(tree: Option<&Tree>) -> serde_json::Value {
    match tree {
        Some(Tree::Literal(value)) => value.clone(),
        other => panic!("{other:?} is not plain data"),
    }
}

fn workflow(steps: &str) -> Playbook {
    parse_valid(&format!("{HEAD}workflow:\n{steps}\n"))
}

#[test]
fn the_example_of_the_specification_has_nothing_to_complain_about() {
    let parsed = parse("appendix.yaml", APPENDIX.as_bytes());
    assert_eq!(parsed.diagnostics, []);
    let playbook = parsed.playbook.unwrap();
    let step = &playbook.steps[0];
    let labels: Vec<_> = step.tasks.iter().map(|task| task.label.as_str()).collect();
    assert_eq!(labels, ["init", "fetch_page", "save_page", "paginate"]);
    let retry = &step.tasks[1].policy.rules[0].action;
    assert_eq!(
        (retry.directive, retry.retry.backoff),
        (Directive::Retry, Backoff::Exponential)
    );
    assert_eq!(literal(retry.retry.attempts.as_ref()), json!(10));
    let jump = &step.tasks[3].policy.rules[0].action;
    assert!(matches!(&jump.to, Some(JumpTarget::Label(label)) if *label == "fetch_page"));
    assert_eq!(step.next.arcs.len(), 2);
    assert_eq!(step.admission.rules.len(), 1);
}

#[test]
fn omitted_keys_have_defaults() {
    let playbook = workflow("  - {step: a, loop: {in: [1], iterator: i}, tool: {kind: noop}}");
    let step = &playbook.steps[0];
    assert_eq!(playbook.path, playbook.name);
    assert_eq!(playbook.executor.pool, "default");
    assert_eq!(playbook.executor.failure, FailureMode::BestEffort);
    assert_eq!(step.failure, FailureMode::FailFast);
    assert!(step.is_joining);
    assert_eq!(step.next.mode, RouteMode::Exclusive);
    assert_eq!(step.loop_.as_ref().unwrap().mode, LoopMode::Sequential);
}

#[test]
fn layers_of_spec_merge_inward() {
    let text = format!(
        "{HEAD}executor:
  spec:
    policy:
      defaults: {{timeout: 10, resources: {{cpu: 1, memory: 1GB}}, pool: far, retry: {{attempts: 1}}}}
workflow:
  - step: a
    spec: {{resources: {{cpu: 2, file_size: 5GB}}, timeout: 600}}
    loop: {{in: [1], iterator: i, spec: {{resources: {{open_files: 1}}, pool: near}}}}
    tool:
      - t: {{kind: noop, spec: {{resources: {{file_size: 9GB}}, timeout: 20}}}}
      - u: {{kind: noop}}
"
    );
    let playbook = parse_valid(&text);
    let step = &playbook.steps[0];
    let resources = literal(step.tasks[0].knobs.get("resources"));
    assert_eq!(
        resources,
        json!({"cpu": 2, "memory": "1GB", "file_size": "9GB", "open_files": 1})
    );
    assert_eq!(literal(step.tasks[0].timeout.as_ref()), json!(20));
    assert_eq!(literal(step.tasks[1].timeout.as_ref()), json!(10));
    assert_eq!(step.tasks[0].pool.as_ref().unwrap(), "near");
    assert_eq!(step.timeout.unwrap().as_secs(), 600);
}

#[test]
fn rules_of_an_outer_layer_are_replaced_as_a_whole() {
    let playbook = workflow(
        "  - step: a
    spec: {policy: {rules: [{else: {do: break}}]}}
    tool:
      - t: {kind: noop}
      - u: {kind: noop, spec: {policy: {rules: [{else: {do: fail}}]}}}",
    );
    let directive = |at: usize| playbook.steps[0].tasks[at].policy.rules[0].action.directive;
    assert_eq!((directive(0), directive(1)), (Directive::Break, Directive::Fail));
}

#[test]
fn a_workbook_task_is_inserted_and_the_callers_input_overrides_its_own() {
    let text = format!(
        "{HEAD}workbook:
  tasks:
    load: {{kind: http, url: 'https://e', input: {{a: 1, b: 2}}, spec: {{timeout: 5}}}}
    again: {{kind: workbook, name: load, args: {{b: 3}}}}
workflow:
  - step: s
    tool:
      - mine: {{kind: workbook, name: again, input: {{c: 4}}, spec: {{timeout: 7}}}}
"
    );
    let playbook = parse_valid(&text);
    let task = &playbook.steps[0].tasks[0];
    assert_eq!((task.label.as_str(), task.kind.as_str()), ("mine", "http"));
    assert_eq!(literal(task.input.as_ref()), json!({"a": 1, "b": 3, "c": 4}));
    assert_eq!(literal(task.timeout.as_ref()), json!(7));
}

#[test]
fn the_first_line_of_code_is_recorded() {
    let playbook = workflow(
        "  - step: s
    tool:
      - block:
          kind: python
          code: |
            x = 1
      - blank: {kind: noop}
      - later:
          kind: python
          code: |

            x = 1
      - tagged:
          kind: python
          code: !raw |
            x = '{{ not a template }}'
      - inline: {kind: python, code: x = 1}",
    );
    let lines: Vec<_> = playbook.steps[0].tasks.iter().map(|task| task.code_line).collect();
    assert_eq!(lines, [Some(10), None, Some(15), Some(20), Some(21)]);
}

#[test]
fn code_is_text_unless_it_contains_a_template() {
    let playbook = workflow(
        "  - step: s
    tool:
      - plain: {kind: python, code: 'x = {#a#}'}
      - raw: {kind: python, code: !raw 'f\"{{x}}\"'}
      - template: {kind: python, code: 'x = {{ workload.x | tojson }}'}
      - shell: {kind: shell, command: 'echo ${#list}'}",
    );
    let task = |at: usize| &playbook.steps[0].tasks[at];
    assert_eq!(literal(task(0).fields.get("code")), json!("x = {#a#}"));
    assert_eq!(literal(task(1).fields.get("code")), json!("f\"{{x}}\""));
    assert!(matches!(task(2).fields.get("code"), Some(Tree::Template(_))));
    assert_eq!(literal(task(3).fields.get("command")), json!("echo ${#list}"));
}

#[test]
fn anchors_aliases_and_merge_keys_work() {
    let text = format!(
        "{HEAD}workload:
  base: &base {{a: 1, b: 2}}
  over: {{<<: *base, b: 3}}
  both: {{<<: [*base, {{c: 4, a: 9}}], d: 5}}
  list: [*base, &word hi, *word]
workflow:
  - {{step: a, tool: {{kind: noop}}}}
"
    );
    let workload = parse_valid(&text).workload;
    assert_eq!(workload["over"], json!({"a": 1, "b": 3}));
    assert_eq!(workload["both"], json!({"a": 1, "b": 2, "c": 4, "d": 5}));
    assert_eq!(workload["list"], json!([{"a": 1, "b": 2}, "hi", "hi"]));
}

#[test]
fn other_documents_may_follow_the_playbook() {
    let text = format!("{HEAD}workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n---\nkind: Schedule\nevery: 5m\n");
    assert_eq!(parse_valid(&text).steps.len(), 1);
}

#[test]
fn a_steps_write_to_iter_happens_after_its_last_task() {
    let playbook =
        workflow("  - {step: a, loop: {in: [1], iterator: i}, tool: [{t: {kind: noop}}], set: {iter.x: 1, ctx.y: 2}}");
    let step = &playbook.steps[0];
    assert_eq!(step.tasks[0].set[0].key, "x");
    assert_eq!(step.set.len(), 1);
}

#[test]
fn the_hash_is_that_of_the_text() {
    let text = format!("{HEAD}workflow:\n  - {{step: a, tool: {{kind: noop}}}}\n");
    assert_eq!(parse_valid(&text).hash, parse_valid(&text).hash);
    assert_ne!(parse_valid(&text).hash, parse_valid(&format!("{text}# more\n")).hash);
}

#[test]
fn other_keys_of_metadata_are_data() {
    let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: named, path: some/where, labels: {a: b}, tags: one, exposed_in_ui: true}\nworkflow: [{step: work, tool: {kind: noop}}]\n";
    let playbook = parse_valid(text);
    assert_eq!(playbook.path, "some/where");
    assert_eq!(playbook.metadata["labels"], json!({"a": "b"}));
    assert_eq!(playbook.metadata["tags"], json!("one"));
    assert_eq!(playbook.metadata["exposed_in_ui"], json!(true));
}

#[test]
fn an_executor_that_is_none_of_the_kinds_is_refused_under_either_name() {
    for key in ["kind", "profile"] {
        let text = format!("{HEAD}executor: {{{key}: somewhere}}\nworkflow: [{{step: work, tool: {{kind: noop}}}}]\n");
        let parsed = parse("p", text.as_bytes());
        let codes: Vec<_> = parsed.diagnostics.iter().map(|one| one.code).collect();
        assert_eq!(codes, ["E0104"], "{key}");
    }
}

#[test]
fn reference_first_false_earns_a_warning() {
    let text = |first: bool| {
        format!(
            "{HEAD}executor: {{spec: {{policy: {{results: {{reference_first: {first}}}}}}}}}\nworkflow: [{{step: work, tool: {{kind: noop}}}}]\n"
        )
    };
    let codes = |first| -> Vec<&str> {
        let parsed = parse("p", text(first).as_bytes());
        parsed.diagnostics.iter().map(|one| one.code).collect()
    };
    assert_eq!(codes(false), ["W211"]);
    assert!(codes(true).is_empty());
}
