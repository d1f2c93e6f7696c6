//! Tests of completions, in texts as they are while an author types.

use super::*;

/// The completions at the mark `^` of a text.
fn at(marked: &str) -> CompletionList {
    let offset = marked.find('^').expect("the text has a mark");
    let text = marked.replace('^', "");
    complete(&text, Position::from_offset(&text, offset))
}

fn labels(marked: &str) -> Vec<String> {
    at(marked)
        .completions
        .into_iter()
        .map(|completion| completion.label)
        .collect()
}

fn has(marked: &str, label: &str) -> bool {
    labels(marked).iter().any(|offered| offered == label)
}

const HEAD: &str =
    "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a}\nworkload:\n  city: Riga\n  limit: 3\n";

fn playbook(sections: &str) -> String {
    format!("{HEAD}{sections}")
}

#[test]
fn keys_of_the_root_are_offered_without_those_that_are_written() {
    let offered = labels(&playbook("wor^\n"));
    assert!(offered.contains(&"workflow".to_owned()) && offered.contains(&"executor".to_owned()));
    assert!(!offered.contains(&"workload".to_owned()) && !offered.contains(&"kind".to_owned()));
    assert!(has("^", "apiVersion"));
}

#[test]
fn keys_of_a_step_are_offered_at_a_misspelled_key() {
    let text = playbook("workflow:\n  - step: fetch\n    tol^:\n      kind: noop\n");
    let list = at(&text);
    let tool = list
        .completions
        .iter()
        .find(|completion| completion.label == "tool")
        .unwrap();
    assert_eq!(tool.insert, "tool", "the colon is written already");
    assert_eq!(list.start, Position { line: 9, column: 5 });
}

#[test]
fn keys_of_a_task_include_those_of_its_kind() {
    for text in [
        "workflow:\n  - step: a\n    tool:\n      kind: http\n      ^\n",
        "workflow:\n  - step: a\n    tool:\n      - get:\n          kind: http\n          u^\n",
        "workflow:\n  - step: a\n    tool: {kind: http, ^}\n",
        "workflow:\n  - step: a\n    tool: {kind: http, u^\n  - step: b\n",
        "workflow:\n- step: a\n  tool:\n  - name: get\n    kind: http\n    ^\n",
    ] {
        let text = playbook(text);
        assert!(
            has(&text, "url") && has(&text, "spec") && !has(&text, "kind"),
            "{text}: {:?}",
            labels(&text)
        );
    }
}

#[test]
fn a_map_or_a_list_is_inserted_with_its_indentation() {
    let list = at(&playbook("workflow:\n  - step: a\n    ^\n"));
    let find = |label: &str| {
        list.completions
            .iter()
            .find(|completion| completion.label == label)
            .unwrap()
    };
    assert_eq!(find("loop").insert, "loop:\n      ");
    assert_eq!(find("tool").insert, "tool:\n      kind: ");
    assert_eq!(find("desc").insert, "desc: ");
    let list = at(&playbook("workflow:\n  - step: a\n    next:\n      ar^\n"));
    assert_eq!(
        list.completions
            .iter()
            .find(|completion| completion.label == "arcs")
            .unwrap()
            .insert,
        "arcs:\n        - "
    );
    assert_eq!(at(&playbook("workflow:\n  ^\n")).completions[0].insert, "- step: ");
}

#[test]
fn targets_of_arcs_and_jumps_come_from_the_document() {
    let text = "workflow:\n  - step: fetch\n    tool:\n      - get:\n          kind: http\n          \
                spec: {policy: {rules: [{else: {then: {do: jump, to: ^}}}]}}\n      - save: {kind: noop}\n    \
                next: {arcs: [{step: report}]}\n  - step: report\n";
    assert_eq!(labels(&playbook(text)), ["get", "previous", "save"]);
    let text = text.replace('^', "x").replace("{step: report}", "{step: ^}");
    assert_eq!(labels(&playbook(&text)), ["end", "fetch", "report"]);
}

#[test]
fn values_are_the_words_of_the_parser() {
    assert!(has("workflow:\n  - step: a\n    tool: {kind: ^}\n", "postgres"));
    assert!(has("workflow:\n  - step: a\n    tool:\n      kind: p^\n", "python"));
    assert_eq!(
        labels("workflow:\n  - step: a\n    loop:\n      spec:\n        mode: ^\n"),
        ["sequential", "parallel", "cursor"]
    );
    assert!(has(
        "workflow:\n  - step: a\n    tool: {kind: noop, spec: {policy: {rules: [{else: {then: {do: ^}}}]}}}\n",
        "retry"
    ));
}

#[test]
fn names_from_the_catalog_are_left_to_the_caller() {
    let list = at("workflow:\n  - step: a\n    tool:\n      kind: playbook\n      path: ^\n");
    assert_eq!(
        (list.external, list.completions.len()),
        (Some(ExternalNames::Playbooks), 0)
    );
    let list = at("keychain:\n  - name: db\nworkflow:\n  - step: a\n    tool: {kind: postgres, auth: ^}\n");
    assert_eq!(list.external, Some(ExternalNames::Credentials));
    assert_eq!(list.completions[0].label, "db");
}

#[test]
fn templates_offer_names_in_scope_fields_filters_and_tests() {
    let value = |expression: &str| {
        playbook(&format!(
            "workflow:\n  - step: a\n    tool:\n      kind: noop\n      result: \"{expression}\n  - step: b\n"
        ))
    };
    assert_eq!(labels(&value("{{ workload.^ }}\"")), ["city", "limit"]);
    assert!(has(&value("{{ ^"), "workload") && has(&value("{{ ^"), "b") && !has(&value("{{ ^"), "event"));
    assert!(has(&value("{{ workload.city | ^ }}\""), "upper"));
    assert!(has(&value("{{ workload.city is not ^"), "defined"));
    assert!(has(&value("{{ b.^"), "status"));
    assert!(labels(&value("{{ b }} ^\"")).is_empty(), "text after a template");
}

#[test]
fn a_condition_is_a_template_without_braces() {
    let text = "workflow:\n  - step: a\n    next: {arcs: [{step: b, when: ev^}]}\n  - step: b\n";
    assert!(has(text, "event") && has(text, "outcome") && !has(text, "_attempt"));
    let text = "workflow:\n  - step: a\n    next:\n      arcs:\n        - step: b\n          when: event.^\n";
    assert!(has(text, "payload"));
}

#[test]
fn iterations_offer_the_name_of_the_element() {
    let text = "workflow:\n  - step: a\n    loop: {in: [1], iterator: row}\n    \
                tool: {kind: noop, result: \"{{ iter.^ }}\"}\n";
    assert!(has(text, "row") && has(text, "index"));
}

#[test]
fn code_offers_only_names_inside_templates() {
    let code =
        |line: &str| format!("workflow:\n  - step: a\n    tool:\n      kind: python\n      code: |\n        {line}\n");
    assert!(labels(&code("loo^")).is_empty());
    assert!(has(&code("x = {{ ^ }}"), "workload"));
}

#[test]
fn a_list_beyond_the_limit_is_filtered_by_the_typed_word() {
    let steps: Vec<String> = (0..400).map(|index| format!("  - step: s{index}\n")).collect();
    let steps = steps.concat();
    let list = at(&format!(
        "workflow:\n{steps}  - step: last\n    next: {{arcs: [{{step: s39^}}]}}\n"
    ));
    assert!(!list.is_complete);
    assert_eq!(list.completions.len(), 11);
}

#[test]
fn every_position_of_a_broken_text_can_be_completed() {
    let text = playbook(
        "workflow:\n  - step: é\n    tool: {kind: http, url: \"{{ x\n    \
         next: {arcs: [{step: b, when: 'a'\n  -\n - x: |\n   {{ y\n\t- {[",
    );
    for offset in (0..=text.len()).filter(|offset| text.is_char_boundary(*offset)) {
        complete(&text, Position::from_offset(&text, offset));
        crate::completion::hover(&text, Position::from_offset(&text, offset));
    }
    complete(&text, Position { line: 900, column: 900 });
    complete("", Position { line: 0, column: 0 });
}
