//! What a rerun would do, as text.

use model::id::Name;
use wire::api::{PlaybookDiffChange, RerunPreview};

use crate::render::human::{escape_controls, format_count, truncate};

/// Maximum number of changes that are printed.
const CHANGES_MAX: usize = 20;
/// Maximum number of characters of a value.
const VALUE_CHARS_MAX: usize = 60;

/// Writes one line each for what is reused, what runs, which inputs differ, and each change of the playbook.
pub(crate) fn render_preview(preview: &RerunPreview) -> String {
    let mut lines = Vec::new();
    let mut reused: Vec<String> = preview
        .reused_steps
        .iter()
        .map(|entry| entry.step.to_string())
        .collect();
    if let Some(iterations) = &preview.reused_iterations {
        let (done, total) = (format_count(iterations.reused), format_count(iterations.total));
        reused.push(format!("{} ({done} of {total} iterations)", iterations.step));
    }
    if reused.is_empty() {
        lines.push("reuse    nothing".to_owned());
    } else {
        let from = preview.execution_id;
        lines.push(format!("reuse    {}   from {from}, by reference", reused.join(", ")));
    }
    let join = |names: &[Name], separator: &str| {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        names.join(separator)
    };
    let first = join(&preview.first_steps, ", ");
    if preview.later_steps.is_empty() {
        lines.push(format!("run      {first}"));
    } else {
        let later = join(&preview.later_steps, ", ");
        lines.push(format!("run      {first}, then {later} as arcs decide"));
    }
    if !preview.changed_inputs.is_empty() {
        lines.push(format!("inputs   {}", preview.changed_inputs.join(", ")));
    }
    if let Some(difference) = &preview.difference {
        let versions = format!("v{} → v{}", preview.from_version, preview.version);
        if difference.changes.is_empty() {
            lines.push(format!("changed  nothing that a run does   {versions}"));
        }
        let printed = difference.changes.iter().take(CHANGES_MAX);
        lines.extend(printed.map(|change| render_change(change, &versions)));
        let hidden = difference.changes.len().saturating_sub(CHANGES_MAX);
        if hidden > 0 {
            lines.push(format!("         and {} more changes", format_count(hidden as u64)));
        }
    }
    lines.join("\n")
}

fn render_change(change: &PlaybookDiffChange, versions: &str) -> String {
    let mut line = format!("changed  {}   {versions}", escape_controls(&change.path));
    for (sign, text) in [('-', &change.before), ('+', &change.after)] {
        if let Some(text) = text {
            let first = text.text.lines().next().unwrap_or_default();
            let value = truncate(&escape_controls(first), VALUE_CHARS_MAX);
            let more = if text.text.lines().count() > 1 { " …" } else { "" };
            line.push_str(&format!("   {sign} {value}{more}"));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn preview(changes: &serde_json::Value) -> RerunPreview {
        let preview = json!({
            "execution_id": "42", "path": "demo/load", "from_version": 1, "version": 2,
            "reused_steps": [{"step": "list", "ok": true, "execution_id": "42", "seq": 9, "tasks": 1}],
            "reused_iterations": {"step": "fetch", "total": 10_000, "reused": 9_997},
            "first_steps": ["fetch"], "later_steps": ["check", "end"], "changed_inputs": ["limit"],
            "difference": {"path": "demo/load", "from": 1, "to": 2, "is_same_text": false, "is_complete": true,
                "changes": changes},
        });
        serde_json::from_value(preview).expect("the preview is valid")
    }

    #[test]
    fn a_preview_lists_what_is_reused_run_and_changed() {
        let change = json!({"path": "fetch/save.command", "section": "task", "kind": "changed", "step": "fetch",
            "task": "save", "lines": [], "before": {"text": "VALUES ($1)", "is_truncated": false, "line": 3},
            "after": {"text": "VALUES ($1)\nON CONFLICT", "is_truncated": false, "line": 4}});
        let expected = "reuse    list, fetch (9,997 of 10,000 iterations)   from 42, by reference\n\
            run      fetch, then check, end as arcs decide\n\
            inputs   limit\n\
            changed  fetch/save.command   v1 → v2   - VALUES ($1)   + VALUES ($1) …";
        assert_eq!(render_preview(&preview(&json!([change]))), expected);
    }

    #[test]
    fn versions_that_do_the_same_are_named() {
        let text = render_preview(&preview(&json!([])));
        assert!(text.ends_with("changed  nothing that a run does   v1 → v2"), "{text}");
    }
}
