//! Parsing a large valid document takes at most 64 MB of memory.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests may panic, and this one reads the output of its child process"
)]

use std::fmt::Write as _;
use std::process::Command;

use language::playbook::parse;

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: large}\nworkflow:\n";
const PEAK_KIB_MAX: u64 = 64 * 1024;

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words: Vec<&str> = line.unwrap().split_whitespace().collect();
    words[1].parse().unwrap()
}

/// As many rules as fit into a document of 1 MiB.
fn rules() -> String {
    let mut text = HEAD.to_owned();
    for step in 0..90 {
        write!(
            text,
            "  - step: s{step}\n    tool:\n      kind: noop\n      spec:\n        policy:\n          rules:\n"
        )
        .unwrap();
        for rule in 0..100 {
            writeln!(
                text,
                "            - {{when: \"{{{{ outcome.error.code == 'E{rule}' }}}}\", then: {{do: retry, attempts: {}}}}}",
                rule + 1
            )
            .unwrap();
        }
        text.push_str("            - {else: {then: {do: fail}}}\n");
    }
    text
}

/// Runs itself as a child process, so that only the parsing counts.
#[test]
fn nine_thousand_rules_are_read_within_the_bound() {
    if std::env::var("MEMORY_CHILD").is_ok() {
        let text = rules();
        let parsed = parse("large.yaml", text.as_bytes());
        assert!(parsed.playbook.is_some(), "{:?}", parsed.diagnostics.first());
        println!("\nPEAK {}", peak_kib());
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "nine_thousand_rules_are_read_within_the_bound",
            "--nocapture",
        ])
        .env("MEMORY_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    let peak = text.lines().find_map(|line| line.strip_prefix("PEAK "));
    let peak: u64 = peak.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
    assert!(peak < PEAK_KIB_MAX, "peak memory: {peak} KiB");
}
