//! Hostile text is rejected with a code, by limits on its structure, before it exhausts time or memory.

use std::fmt::Write as _;

use language::playbook::parse;

fn error_codes(bytes: &[u8]) -> Vec<&'static str> {
    let parsed = parse("bomb.yaml", bytes);
    assert!(parsed.playbook.is_none());
    parsed.diagnostics.iter().map(|diagnostic| diagnostic.code).collect()
}

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: bomb}\n";

fn with_workload(workload: &str) -> String {
    format!("{HEAD}workload: {workload}\nworkflow:\n  - step: start\n    tool: {{kind: noop}}\n")
}

#[test]
fn a_file_of_fifty_megabytes_is_refused_unread() {
    assert_eq!(error_codes(&vec![b'a'; 50_000_000]), ["E0001"]);
}

#[test]
fn bytes_that_are_not_text_are_refused() {
    assert_eq!(error_codes(b"kind: \xff\xfe"), ["E0002"]);
    assert_eq!(error_codes(b"kind: Play\0book"), ["E0002"]);
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let text = format!("\u{feff}{}", with_workload("{}"));
    assert!(parse("bom.yaml", text.as_bytes()).playbook.is_some());
}

#[test]
fn nesting_of_every_kind_is_bounded() {
    let deep = 100_000;
    for text in [
        "[".repeat(deep),
        "{a: ".repeat(deep / 2),
        "- ".repeat(deep),
        "? ".repeat(deep),
        with_workload(&"[".repeat(deep)),
        with_workload(&format!("{}{}", "[".repeat(deep), "]".repeat(deep))),
        with_workload(&"{".repeat(deep)),
    ] {
        let codes = error_codes(text.as_bytes());
        assert!(codes.contains(&"E0004"), "{codes:?}: {}", &text[..40.min(text.len())]);
    }
}

#[test]
fn aliases_cannot_nest_deeper_than_text_can() {
    let mut workload = String::from("\n  a0: &a0 [[[[[[[[[[1]]]]]]]]]]\n");
    for level in 1..20 {
        let below = level - 1;
        let _ = writeln!(workload, "  a{level}: &a{level} [[[[[*a{below}]]]]]");
    }
    assert!(error_codes(with_workload(&workload).as_bytes()).contains(&"E0004"));
}

#[test]
fn aliases_that_repeat_long_text_are_bounded() {
    let text = "x".repeat(400_000);
    let aliases = vec!["*a"; 100_000].join(", ");
    let workload = format!("{{a: &a {text}, b: [{aliases}]}}");
    assert!(error_codes(with_workload(&workload).as_bytes()).contains(&"E0005"));
}

#[test]
fn nested_anchors_are_bounded() {
    let inner = vec!["1"; 60_000].join(",");
    let mut open = String::new();
    for level in 0..50 {
        let _ = write!(open, "&n{level} [");
    }
    let workload = format!("{open}{inner}{}", "]".repeat(50));
    assert!(error_codes(with_workload(&workload).as_bytes()).contains(&"E0005"));
}

#[test]
fn the_number_of_values_is_bounded() {
    let workload = format!("[{}]", vec!["1"; 400_000].join(","));
    assert!(error_codes(with_workload(&workload).as_bytes()).contains(&"E0005"));
}

#[test]
fn a_flow_collection_that_the_scanner_would_hoard_is_refused_unread() {
    let text = with_workload(&format!("{{{}", "a: ".repeat(300_000)));
    assert_eq!(error_codes(text.as_bytes()), ["E0005"]);
}

#[test]
fn the_number_of_templates_is_bounded() {
    let templates = vec!["\"{{a}}\""; 11_000].join(", ");
    let text = format!("{HEAD}workflow:\n  - {{step: a, input: {{x: [{templates}]}}, next: end}}\n");
    assert!(error_codes(text.as_bytes()).contains(&"E0005"));
}

#[test]
fn defaults_that_every_task_inherits_are_bounded() {
    let value = "x".repeat(200_000);
    let mut text = format!("{HEAD}executor:\n  spec:\n    policy:\n      defaults: {{sandbox: {value}}}\nworkflow:\n");
    for step in 0..5_000 {
        let _ = writeln!(text, "  - {{step: s{step}, tool: {{kind: noop}}}}");
    }
    assert!(error_codes(text.as_bytes()).contains(&"E0005"));
}

#[test]
fn the_number_of_diagnostics_is_limited() {
    let mut text = format!("{HEAD}workflow:\n");
    for step in 0..10_000 {
        let _ = writeln!(text, "  - {{step: s{step}, next: nowhere{step}}}");
    }
    let codes = error_codes(text.as_bytes());
    assert!(codes.len() <= 101, "{}", codes.len());
}
