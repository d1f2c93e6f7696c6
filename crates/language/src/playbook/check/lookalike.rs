//! Warns about plain scalars that YAML reads as another type than they seem to have.

use crate::diagnostic::Diagnostic;
use crate::playbook::read::PlaybookReader;
use crate::yaml::{Node, NodeValue, ScalarQuoting};

const BOOLEAN_WORDS: &[&str] = &["yes", "no", "on", "off"];

/// Checks every value below `root`.
pub(crate) fn check(root: &Node, reader: &mut PlaybookReader) {
    let mut open: Vec<(&str, &Node)> = vec![("", root)];
    while let Some((key, node)) = open.pop() {
        match &node.value {
            NodeValue::List(items) => open.extend(items.iter().map(|item| (key, item))),
            NodeValue::Map(entries) => {
                let entries = entries.iter();
                open.extend(entries.map(|entry| (&*entry.key, &entry.value)));
            }
            _ => {
                if let Some(warning) = find_lookalike(key, node, reader) {
                    reader.report(warning);
                }
            }
        }
    }
}

fn find_lookalike(key: &str, node: &Node, reader: &PlaybookReader) -> Option<Diagnostic> {
    let range = node.span.start as usize..node.span.end as usize;
    let written = reader.source.text.get(range)?;
    match &node.value {
        NodeValue::Text(text) if text.quoting == ScalarQuoting::Plain => {
            let lowercase = text.text.to_ascii_lowercase();
            BOOLEAN_WORDS.contains(&lowercase.as_str()).then(|| {
                reader
                    .diagnostic("W301", format!("`{written}` is text here, not a boolean"), node.span)
                    .with_label(format!("write `true` or `false`, or quote it: `\"{written}\"`"))
            })
        }
        NodeValue::Number(number) if has_leading_zero(written) => Some(
            reader
                .diagnostic("W302", format!("`{written}` is the number {number}"), node.span)
                .with_label(format!("quote it to keep the zero: `\"{written}\"`; octal is `0o755`")),
        ),
        NodeValue::Number(number) if key.contains("version") && loses_zero(written) => Some(
            reader
                .diagnostic("W303", format!("`{written}` is the number {number}"), node.span)
                .with_label(format!("quote it to keep the zero: `\"{written}\"`")),
        ),
        _ => None,
    }
}

fn has_leading_zero(written: &str) -> bool {
    let digits = written.strip_prefix(['-', '+']).unwrap_or(written);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn loses_zero(written: &str) -> bool {
    let fraction = written.split_once('.').map(|(_, fraction)| fraction);
    fraction.is_some_and(|fraction| fraction.len() > 1 && fraction.ends_with('0'))
}
