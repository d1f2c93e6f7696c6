//! Tests of differences between playbooks.

use model::id::Name;

use crate::playbook::difference::{ChangeKind, PlaybookChange, compare_playbooks};
use crate::playbook::{Playbook, parse};

const BASE: &str = r#"apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: load, description: loads pages}
executor: {spec: {entry_step: start}}
keychain:
  - {name: db, kind: postgres, credential: pg_main}
workload:
  # How many pages are read.
  limit: 5
  db: {host: localhost, limit: 7}
  day: "{{ execution_id }}"
workflow:
  - step: start
    next: [{step: fetch}]
  - step: fetch
    loop: {in: "{{ range(workload.limit) }}", iterator: page, spec: {mode: parallel, max_in_flight: 4}}
    tool:
      - get_page:
          kind: http
          url: "http://localhost/{{ iter.page }}"
          spec:
            policy:
              rules:
                - when: "{{ outcome.http.status == 429 }}"
                  then: {do: retry, attempts: 3}
                - else: {then: {do: fail}}
      - save_page:
          kind: python
          input: {page: "{{ iter.page }}", retries: 3}
          code: |
            first = 1
            result = {"page": page}
    next:
      arcs:
        - {step: check, when: "{{ workload.limit > 1 }}"}
        - {step: end}
  - step: check
    tool: {kind: noop}
  - step: end
    set: {ctx.done: true}
    tool: {kind: noop}
"#;

fn parse_text(text: &str) -> Playbook {
    let parsed = parse("load.yaml", text.as_bytes());
    parsed.playbook.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
}

fn compare(after: &str) -> Vec<PlaybookChange> {
    let difference = compare_playbooks(&parse_text(BASE), &parse_text(after));
    assert!(difference.is_complete);
    difference.changes
}

/// The change of the base playbook in which `before` is replaced.
fn replaced(before: &str, after: &str) -> Vec<String> {
    assert!(BASE.contains(before), "the base contains {before}");
    compare(&BASE.replacen(before, after, 1)).iter().map(write).collect()
}

fn write(change: &PlaybookChange) -> String {
    let side = |text: &Option<crate::playbook::ChangedText>| {
        text.as_ref()
            .map_or("none".to_owned(), |text| format!("{}:{}", text.line, text.text))
    };
    let (before, after) = (side(&change.before), side(&change.after));
    format!("{:?} {} {before} -> {after}", change.kind, change.path)
}

#[test]
fn comments_layout_key_order_and_spellings_make_no_difference() {
    assert_eq!(compare(BASE), []);
    for (before, after) in [
        ("# How many pages are read.", "# Another comment."),
        ("limit: 5\n", "limit: 5   # pages\n\n"),
        ("{host: localhost, limit: 7}", "{limit: 7, host: 'localhost'}"),
        ("{host: localhost, limit: 7}", "\n    host: localhost\n    limit: 7"),
        (
            "input: {page: \"{{ iter.page }}\", retries: 3}",
            "args: {retries: 3, page: \"{{ iter.page }}\"}",
        ),
        ("kind: http", "kind: \"http\""),
        ("executor: {spec: {entry_step: start}}\n", ""),
        ("set: {ctx.done: true}", "set: {ctx: {done: true}}"),
    ] {
        assert_eq!(replaced(before, after), Vec::<String>::new(), "{before} -> {after}");
    }
}

#[test]
fn a_changed_value_has_its_path_and_both_lines() {
    assert_eq!(
        replaced("limit: 5", "limit: 50"),
        ["Changed workload.limit 9:5 -> 9:50"]
    );
    assert_eq!(
        replaced("host: localhost, limit: 7", "host: localhost,\n    limit: 8"),
        ["Changed workload.db.limit 10:7 -> 11:8"]
    );
    assert_eq!(
        replaced("description: loads pages", "description: loads all pages"),
        ["Changed metadata.description 3:loads pages -> 3:loads all pages"]
    );
    assert_eq!(
        replaced("retries: 3", "retries: \"3\""),
        ["Changed fetch/save_page.input.retries 29:3 -> 29:\"3\""]
    );
    assert_eq!(
        replaced("max_in_flight: 4", "max_in_flight: 8"),
        ["Changed fetch.loop.spec.max_in_flight 16:4 -> 16:8"]
    );
    assert_eq!(
        replaced("credential: pg_main", "credential: pg_other"),
        ["Changed keychain.db.credential 6:pg_main -> 6:pg_other"]
    );
}

#[test]
fn a_template_differs_from_the_same_text() {
    assert_eq!(
        replaced("day: \"{{ execution_id }}\"", "day: !raw \"{{ execution_id }}\""),
        ["Changed workload.day 11:{{ execution_id }} -> 11:!raw {{ execution_id }}"]
    );
}

#[test]
fn added_and_removed_values_are_no_changes_of_others() {
    assert_eq!(
        replaced("  limit: 5\n", "  limit: 5\n  region: eu\n"),
        ["Added workload.region none -> 10:eu"]
    );
    assert_eq!(replaced("  limit: 5\n", ""), ["Removed workload.limit 9:5 -> none"]);
    assert_eq!(
        replaced("db: {host: localhost, limit: 7}", "db: none"),
        [
            "Added workload.db none -> 10:none",
            "Removed workload.db.host 10:localhost -> none",
            "Removed workload.db.limit 10:7 -> none",
        ]
    );
}

#[test]
fn an_added_task_is_one_change_with_its_values() {
    let changes = compare(&BASE.replacen("      - save_page:", "      - log: {kind: noop}\n      - save_page:", 1));
    assert_eq!(changes.len(), 1);
    assert_eq!(write(&changes[0]), "Added fetch/log none -> 27:kind: noop");
    assert_eq!(
        (
            changes[0].step.as_ref().map(Name::as_str),
            changes[0].task.as_ref().map(Name::as_str)
        ),
        (Some("fetch"), Some("log"))
    );
}

#[test]
fn an_added_step_lists_its_tasks_and_arcs() {
    let step = "  - step: notify\n    tool: {kind: noop}\n    next: [{step: end}]\n";
    let changes = compare(&format!("{BASE}{step}"));
    assert_eq!(changes.len(), 1);
    assert_eq!(
        write(&changes[0]),
        "Added notify none -> 42:notify.kind: noop\nnext[end]"
    );
}

#[test]
fn a_removed_step_and_the_arc_to_it_are_two_changes() {
    let after = BASE.replacen("  - step: check\n    tool: {kind: noop}\n", "", 1);
    let after = after.replacen("        - {step: check, when: \"{{ workload.limit > 1 }}\"}\n", "", 1);
    let changes: Vec<String> = compare(&after).iter().map(write).collect();
    assert_eq!(
        changes,
        [
            "Removed fetch.next[check] 35:when: {{ workload.limit > 1 }} -> none",
            "Removed check 37:check.kind: noop -> none",
        ]
    );
}

#[test]
fn a_renamed_step_is_removed_and_added() {
    let after = BASE.replace("check", "verify");
    let kinds: Vec<ChangeKind> = compare(&after).iter().map(|change| change.kind).collect();
    let expected = [
        ChangeKind::Added,
        ChangeKind::Removed,
        ChangeKind::Added,
        ChangeKind::Removed,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn the_order_of_steps_counts_only_for_the_entry() {
    let base = BASE.replacen("executor: {spec: {entry_step: start}}\n", "", 1);
    let step = "  - step: check\n    tool: {kind: noop}\n";
    let moved = base
        .replacen(step, "", 1)
        .replacen("  - step: fetch\n", &format!("{step}  - step: fetch\n"), 1);
    assert_eq!(compare_playbooks(&parse_text(&base), &parse_text(&moved)).changes, []);
    let first = base
        .replacen(step, "", 1)
        .replacen("workflow:\n", &format!("workflow:\n{step}"), 1);
    let changes = compare_playbooks(&parse_text(&base), &parse_text(&first)).changes;
    let paths: Vec<&str> = changes.iter().map(|change| &*change.path).collect();
    assert_eq!(paths, ["executor.spec.entry_step"]);
}

#[test]
fn the_order_of_tasks_and_arcs_counts() {
    let arcs = "        - {step: check, when: \"{{ workload.limit > 1 }}\"}\n        - {step: end}\n";
    let swapped = "        - {step: end}\n        - {step: check, when: \"{{ workload.limit > 1 }}\"}\n";
    assert_eq!(
        replaced(arcs, swapped),
        ["Reordered fetch.next 35:check\nend -> 35:end\ncheck"]
    );
    let start = BASE.find("      - get_page:").unwrap();
    let middle = BASE.find("      - save_page:").unwrap();
    let end = BASE.find("    next:\n      arcs:").unwrap();
    let (first, second) = (&BASE[start..middle], &BASE[middle..end]);
    let after = BASE.replacen(&BASE[start..end], &format!("{second}{first}"), 1);
    let changes: Vec<String> = compare(&after).iter().map(write).collect();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].starts_with("Reordered fetch.tool "), "{changes:?}");
}

#[test]
fn rules_of_a_policy_are_compared_by_condition_and_then_by_index() {
    assert_eq!(
        replaced("attempts: 3", "attempts: 9"),
        ["Changed fetch/get_page.spec.policy.rules[0].then.attempts 25:3 -> 25:9"]
    );
    assert_eq!(
        replaced("status == 429", "status == 503"),
        [concat!(
            "Changed fetch/get_page.spec.policy.rules[0].when ",
            "24:{{ outcome.http.status == 429 }} -> 24:{{ outcome.http.status == 503 }}"
        )]
    );
    let rule = "                - when: \"{{ outcome.http.status == 404 }}\"\n                  then: {do: continue}\n";
    let first = "                - when: \"{{ outcome.http.status == 429 }}\"\n";
    assert_eq!(
        replaced(first, &format!("{rule}{first}")),
        [concat!(
            "Added fetch/get_page.spec.policy.rules[0] none -> ",
            "24:when: {{ outcome.http.status == 404 }}\nthen.do: continue"
        )]
    );
}

#[test]
fn the_code_of_a_task_is_one_text() {
    let changes = compare(&BASE.replacen("first = 1", "first = 2", 1));
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].path, "fetch/save_page.code");
    let (before, after) = (changes[0].before.as_ref().unwrap(), changes[0].after.as_ref().unwrap());
    assert_eq!(before.text, "first = 1\nresult = {\"page\": page}\n");
    assert_eq!((before.line, after.line), (30, 30));
}

#[test]
fn the_number_of_changes_is_bounded() {
    let inputs = |value: u32| {
        let inputs: Vec<String> = (0..600).map(|index| format!("  key_{index}: {value}\n")).collect();
        BASE.replacen("workload:\n", &format!("workload:\n{}", inputs.concat()), 1)
    };
    let difference = compare_playbooks(&parse_text(&inputs(1)), &parse_text(&inputs(2)));
    assert_eq!(difference.changes.len(), 500);
    assert!(!difference.is_complete);
}
