//! Tests that draw small playbooks.

use crate::graph::Diagram;
use crate::graph::{render_ascii, render_dot, render_mermaid};
use crate::terminal_style::TerminalStyle;

fn diagram(workflow: &str) -> Diagram {
    let text = format!("apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: demo\nworkflow:\n{workflow}");
    let parsed = language::playbook::parse("demo.yaml", text.as_bytes());
    let problems: Vec<_> = parsed.diagnostics.iter().map(|d| d.message.clone()).collect();
    Diagram::from_playbook(&parsed.playbook.unwrap_or_else(|| panic!("{problems:?}")))
}

const LOAD: &str = "
  - step: start
    next: {arcs: [{step: fetch}]}
  - step: fetch
    loop: {in: [1, 2, 3], iterator: n}
    tool: {kind: noop}
    next:
      arcs:
        - {step: validate, when: \"{{ event.name == 'loop.done' }}\"}
        - {step: cleanup, when: \"{{ event.name == 'step.failed' }}\"}
  - step: validate
    tool: {kind: noop}
    next: {arcs: [{step: end}]}
  - step: cleanup
    tool: {kind: noop}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop}
";

#[test]
fn branches_are_drawn_below_each_other_and_failures_are_dashed() {
    let expected = "\
start ─▶ fetch ⟳3 ─┬─▶ validate ─▶ end
                   └┈failed┈▶ cleanup ─▶ end";
    assert_eq!(render_ascii(&diagram(LOAD), TerminalStyle::PLAIN), expected);
}

#[test]
fn a_terminal_without_unicode_gets_ascii() {
    let style = TerminalStyle {
        has_unicode: false,
        ..TerminalStyle::PLAIN
    };
    let text = render_ascii(&diagram(LOAD), style);
    assert!(text.is_ascii(), "{text}");
    assert!(text.contains("..failed..> cleanup"), "{text}");
}

#[test]
fn a_backward_arc_ends_at_the_name_of_its_target() {
    let text = render_ascii(
        &diagram(
            "
  - step: poll
    tool: {kind: noop}
    next:
      arcs:
        - {step: poll_again, when: \"{{ poll.data.more }}\"}
        - {step: end}
  - step: poll_again
    tool: {kind: noop}
    next: {arcs: [{step: poll}]}
  - step: end
    tool: {kind: noop}
",
        ),
        TerminalStyle::PLAIN,
    );
    let expected = "\
poll ─┬─ poll.data.more ─▶ poll_again ─▶ ↺ poll
      └─▶ end";
    assert_eq!(text, expected);
}

#[test]
fn nested_branches_keep_their_columns() {
    let text = render_ascii(
        &diagram(
            "
  - step: a
    next: {spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}
  - step: b
    next: {spec: {mode: inclusive}, arcs: [{step: d}, {step: e}]}
  - step: c
    tool: {kind: noop}
  - step: d
    tool: {kind: noop}
  - step: e
    tool: {kind: noop}
",
        ),
        TerminalStyle::PLAIN,
    );
    let expected = "\
a ─┬─▶ b ─┬─▶ d
   │      └─▶ e
   └─▶ c";
    assert_eq!(text, expected);
}

#[test]
fn mermaid_and_dot_name_every_step_and_arc() {
    let diagram = diagram(LOAD);
    let mermaid = render_mermaid(&diagram);
    assert!(mermaid.starts_with("flowchart LR\n"));
    assert!(mermaid.contains("n1[[\"fetch<br/>"), "{mermaid}");
    assert!(mermaid.contains("n1 -. failed .-> n3"), "{mermaid}");
    let dot = render_dot(&diagram);
    assert!(
        dot.contains("\"fetch\" -> \"cleanup\" [style=dashed, label=\"failed\"];"),
        "{dot}"
    );
    assert_eq!(dot.matches(" -> ").count(), 5);
}
