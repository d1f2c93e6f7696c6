//! The difference between two playbooks as a response of bounded size.

use language::playbook::{
    ChangeKind, ChangedText, DiffLine, LineOrigin, Playbook, PlaybookChange, PlaybookSection, compare_playbooks,
    diff_lines,
};
use wire::api::{DiffKind, DiffLineKind, DiffSection, DiffText, DiffTextLine, PlaybookDiff, PlaybookDiffChange};

/// Maximum size of a value in a response; the rest is cut off.
const TEXT_BYTES_MAX: usize = 4 * 1024;
/// Maximum size of the differing lines of one change; further lines are counted as omitted.
const LINES_BYTES_MAX: usize = 32 * 1024;
/// Maximum size of all texts of a response; the texts of further changes are empty and marked as cut off.
const DIFF_BYTES_MAX: usize = 1024 * 1024;

/// Two playbooks to compare.
pub(crate) struct ComparedPlaybooks<'a> {
    /// The catalog path.
    pub(crate) path: &'a str,
    /// The first playbook with its version.
    pub(crate) before: (u32, &'a Playbook),
    /// The second playbook; its version is `None` if it is not registered.
    pub(crate) after: (Option<u32>, &'a Playbook),
}

/// Compares two playbooks.
pub(crate) fn diff_playbooks(compared: &ComparedPlaybooks<'_>) -> PlaybookDiff {
    let (from, before) = compared.before;
    let (to, after) = compared.after;
    let difference = compare_playbooks(before, after);
    let mut bytes_left = DIFF_BYTES_MAX;
    let changes = difference.changes.iter();
    PlaybookDiff {
        path: compared.path.to_owned(),
        from,
        to,
        is_same_text: before.source.text == after.source.text,
        changes: changes.map(|change| to_response(change, &mut bytes_left)).collect(),
        is_complete: difference.is_complete,
    }
}

fn to_response(change: &PlaybookChange, bytes_left: &mut usize) -> PlaybookDiffChange {
    let texts = (change.before.as_ref(), change.after.as_ref());
    let lines = match texts {
        (Some(before), Some(after)) if before.text.contains('\n') || after.text.contains('\n') => {
            cut_lines(&diff_lines(&before.text, &after.text), bytes_left)
        }
        _ => Vec::new(),
    };
    PlaybookDiffChange {
        path: change.path.clone(),
        section: to_section(change.section),
        kind: match change.kind {
            ChangeKind::Added => DiffKind::Added,
            ChangeKind::Removed => DiffKind::Removed,
            ChangeKind::Changed => DiffKind::Changed,
            ChangeKind::Reordered => DiffKind::Reordered,
        },
        step: change.step.clone(),
        task: change.task.clone(),
        before: texts.0.map(|text| cut_text(text, bytes_left)),
        after: texts.1.map(|text| cut_text(text, bytes_left)),
        lines,
    }
}

fn to_section(section: PlaybookSection) -> DiffSection {
    match section {
        PlaybookSection::Metadata => DiffSection::Metadata,
        PlaybookSection::Executor => DiffSection::Executor,
        PlaybookSection::Keychain => DiffSection::Keychain,
        PlaybookSection::Workload => DiffSection::Workload,
        PlaybookSection::Ctx => DiffSection::Ctx,
        PlaybookSection::Step => DiffSection::Step,
        PlaybookSection::Admission => DiffSection::Admission,
        PlaybookSection::Loop => DiffSection::Loop,
        PlaybookSection::Task => DiffSection::Task,
        PlaybookSection::Policy => DiffSection::Policy,
        PlaybookSection::Next => DiffSection::Next,
    }
}

fn cut_text(changed: &ChangedText, bytes_left: &mut usize) -> DiffText {
    let text = &changed.text;
    let mut end = text.len().min(TEXT_BYTES_MAX).min(*bytes_left);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    *bytes_left -= end;
    DiffText {
        text: text[..end].to_owned(),
        is_truncated: end < text.len(),
        line: changed.line,
    }
}

fn cut_lines(lines: &[DiffLine], bytes_left: &mut usize) -> Vec<DiffTextLine> {
    let mut line_bytes_left = LINES_BYTES_MAX.min(*bytes_left);
    let mut cut = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if line.text.len() > line_bytes_left {
            cut.push(DiffTextLine {
                kind: DiffLineKind::Omitted,
                text: (lines.len() - index).to_string(),
            });
            break;
        }
        line_bytes_left -= line.text.len();
        *bytes_left -= line.text.len();
        let (kind, text) = match line.origin {
            LineOrigin::Both => (DiffLineKind::Equal, line.text.clone()),
            LineOrigin::Before => (DiffLineKind::Removed, line.text.clone()),
            LineOrigin::After => (DiffLineKind::Added, line.text.clone()),
            LineOrigin::Omitted(count) => (DiffLineKind::Omitted, count.to_string()),
        };
        cut.push(DiffTextLine { kind, text });
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn playbook(code: &str) -> Playbook {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkflow:\n  - step: start\n    tool:\n      \
             kind: python\n      code: |\n        {}\n",
            code.replace('\n', "\n        ")
        );
        let parsed = language::playbook::parse("p.yaml", text.as_bytes());
        parsed.playbook.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
    }

    fn diff(before: &str, after: &str) -> PlaybookDiff {
        let (before, after) = (playbook(before), playbook(after));
        diff_playbooks(&ComparedPlaybooks {
            path: "p",
            before: (1, &before),
            after: (Some(2), &after),
        })
    }

    #[test]
    fn texts_of_several_lines_have_a_line_diff() {
        let diff = diff("a = 1\nresult = a", "a = 2\nresult = a");
        assert_eq!((diff.from, diff.to, diff.is_same_text), (1, Some(2), false));
        let lines = diff.changes[0].lines.iter();
        let lines: Vec<_> = lines.map(|line| (line.kind, &*line.text)).collect();
        let expected = [
            (DiffLineKind::Removed, "a = 1"),
            (DiffLineKind::Added, "a = 2"),
            (DiffLineKind::Equal, "result = a"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn long_texts_are_cut_off_and_say_so() {
        let long = |character: &str| format!("result = \"{}\"\n", character.repeat(2 * LINES_BYTES_MAX));
        let diff = diff(&long("a"), &long("é"));
        let change = &diff.changes[0];
        let before = change.before.as_ref().unwrap();
        assert!(before.is_truncated && before.text.len() == TEXT_BYTES_MAX);
        assert_eq!(change.lines.len(), 1);
        assert_eq!(
            (change.lines[0].kind, &*change.lines[0].text),
            (DiffLineKind::Omitted, "2")
        );
    }
}
