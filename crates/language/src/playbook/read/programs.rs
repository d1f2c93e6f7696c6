//! The text of programs: `code`, `command`, `jq`. Braces in it that cannot be a template stay unchanged.
//!
//! Python, shell and Go formats use doubled braces themselves (`f"{{{x}}}"`, `{{.State}}`), and comments mention names
//! such as `{{ ctx.* }}`. Such text is put into a raw block, so that templates beside it still work.

use std::ops::Range;

use crate::playbook::CodeLanguage;
use crate::playbook::check::RESERVED;
use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::values::{is_template, to_list_tree};
use crate::template::{Template, Tree, is_syntax};
use crate::yaml::{Node, NodeValue};

const RAW_START: &str = "{% raw %}";
const RAW_END: &str = "{% endraw %}";

/// Markers of comments in the languages of programs.
const COMMENT_MARKERS: &[&str] = &["#", "--", "//"];

/// A text with raw blocks around some of its braces.
struct ProtectedText {
    text: String,
    insertions: Vec<Insertion>,
    /// The byte ranges of the author's text that stay unchanged.
    verbatim_ranges: Vec<Range<usize>>,
}

/// The key of a program, its task and its language, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeTitle<'t> {
    pub(crate) key: &'t str,
    pub(crate) title: &'t str,
    pub(crate) language: CodeLanguage,
}

/// A range of bytes that was inserted into the author's text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Insertion {
    /// The byte offset in the template.
    start: usize,
    bytes: usize,
}

/// Converts a byte range of a template to a range of the author's text.
pub(crate) fn to_source_range(insertions: &[Insertion], range: &Range<usize>) -> Range<usize> {
    let source_offset = |offset: usize| {
        let before = insertions.iter().filter(|insertion| insertion.start < offset);
        offset - before.map(|insertion| insertion.bytes).sum::<usize>().min(offset)
    };
    source_offset(range.start)..source_offset(range.end)
}

impl PlaybookReader {
    /// Reads the text of a program, or a list of texts, with templates.
    pub(crate) fn read_program(&mut self, node: &Node) -> Tree {
        match &node.value {
            NodeValue::Text(text) if !text.is_raw && is_template(&text.text) => self.read_program_text(node),
            NodeValue::List(items) => to_list_tree(items.iter().map(|item| self.read_program(item)).collect()),
            _ => self.read_tree(node),
        }
    }

    fn read_program_text(&mut self, node: &Node) -> Tree {
        let text = node.as_str().unwrap_or_default();
        let Some(protected) = ProtectedText::from_text(text) else {
            return self.read_template(node);
        };
        for range in &protected.verbatim_ranges {
            let written = &text[range.clone()];
            let span = node.locate(&self.source.text, range);
            let message = format!("`{written}` is not a template and stays unchanged");
            let warning = self.diagnostic("W231", message, span);
            self.report(warning.with_label("correct it if it should be a template"));
        }
        if !protected.has_templates() {
            return Tree::Literal(node.to_json());
        }
        if !self.may_compile(node) {
            return Tree::Literal(node.to_json());
        }
        match Template::parse(&protected.text, node.span) {
            Ok(template) => {
                self.record_use(&template, node, protected.insertions);
                Tree::Template(template)
            }
            // Parsing the author's own text gives the right position of the error.
            Err(_) => self.read_template(node),
        }
    }
}

impl PlaybookReader {
    /// Reports templates in programs: their values are inserted as literals.
    pub(crate) fn check_code(&mut self, node: &Node, code: &Tree, code_title: CodeTitle<'_>) {
        let Tree::Template(template) = code else {
            return;
        };
        let text = node.as_str().unwrap_or_default();
        let CodeTitle { key, title, language } = code_title;
        let (name, raw) = (language.name(), language.raw_filter());
        if text.contains(raw) {
            return;
        }
        if template.is_one_value() {
            let message = format!("`{key}` of {title} is a single template, so no code would run");
            let label = format!("write `{{{{ … | {raw} }}}}` to run the value as a program");
            self.report_error("E0140", message, node.span, label);
            return;
        }
        let start = text.find("{{").or_else(|| text.find("{%")).unwrap_or(0);
        let span = node.locate(&self.source.text, &(start..start + 2));
        let message = format!("`{key}` of {title} contains a template");
        let warning = self.diagnostic("W232", message, span).with_label(format!(
            "its value is inserted as a {name} literal; pass it under `input` instead"
        ));
        self.report(warning);
    }
}

impl ProtectedText {
    /// Puts raw blocks around braces that cannot be a template; `None` if there are none.
    fn from_text(text: &str) -> Option<Self> {
        if is_syntax(text) || text.contains("raw %}") {
            return None;
        }
        let mut protected = Self {
            text: String::with_capacity(text.len()),
            insertions: Vec::new(),
            verbatim_ranges: Vec::new(),
        };
        let mut offset = 0;
        while let Some(start) = text[offset..].find("{{").map(|braces| offset + braces) {
            let end = start + text[start..].find("}}")? + "}}".len();
            protected.text.push_str(&text[offset..start]);
            let segment = &text[start..end];
            if is_syntax(segment) {
                protected.text.push_str(segment);
            } else if is_mistyped_template(text, start, segment) {
                return None;
            } else {
                protected.insert(RAW_START);
                protected.text.push_str(segment);
                protected.insert(RAW_END);
                protected.verbatim_ranges.push(start..end);
            }
            offset = end;
        }
        protected.text.push_str(&text[offset..]);
        (!protected.verbatim_ranges.is_empty()).then_some(protected)
    }

    fn insert(&mut self, text: &str) {
        self.insertions.push(Insertion {
            start: self.text.len(),
            bytes: text.len(),
        });
        self.text.push_str(text);
    }

    /// Whether the text still contains templates.
    fn has_templates(&self) -> bool {
        let blocks = self.text.matches("{%").count();
        let values = self.text.matches("{{").count();
        blocks > 2 * self.verbatim_ranges.len() || values > self.verbatim_ranges.len()
    }
}

/// Whether a text is probably a mistyped template: it begins with a name of the language and is not in a comment.
fn is_mistyped_template(text: &str, start: usize, segment: &str) -> bool {
    let inner = segment.trim_start_matches(['{', '-', ' ', '\n']);
    let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_');
    let first_word = &inner[..end.unwrap_or(inner.len())];
    RESERVED.contains(&first_word) && !is_in_comment(&text[..start])
}

/// Whether the position after this text is inside a comment or a multi-line Python string.
fn is_in_comment(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    let starts_word = |offset: usize| line[..offset].ends_with(char::is_whitespace) || offset == 0;
    let has = |mark: &&str| line.match_indices(*mark).any(|(offset, _)| starts_word(offset));
    let is_open = |quotes: &str| before.matches(quotes).count() % 2 == 1;
    COMMENT_MARKERS.iter().any(has) || is_open("\"\"\"") || is_open("'''")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected(text: &str) -> Option<String> {
        ProtectedText::from_text(text).map(|protected| protected.text)
    }

    #[test]
    fn braces_that_cannot_be_a_template_are_put_into_raw_blocks() {
        let raw = |text: &str| format!("{RAW_START}{text}{RAW_END}");
        for (text, expected) in [
            (
                "# see {{ ctx.* }}\nx = {{ y }}",
                format!("# see {}\nx = {{{{ y }}}}", raw("{{ ctx.* }}")),
            ),
            (
                "docker ps --format '{{.Names}}'",
                format!("docker ps --format '{}'", raw("{{.Names}}")),
            ),
            ("f'{{{x}}}'", format!("f'{}}}'", raw("{{{x}}"))),
        ] {
            assert_eq!(protected(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn templates_and_mistyped_templates_are_left_to_the_template_reader() {
        for text in [
            "x = {{ y }}",
            "echo {{ workload.a | }}",
            "y = {{ workload.a",
            "{% raw %}{{ a b }}{% endraw %}{{",
        ] {
            assert_eq!(protected(text), None, "{text}");
        }
    }

    #[test]
    fn a_place_behind_a_raw_block_is_found_in_the_authors_text() {
        let text = "# {{ ctx.* }}\nx = {{ y }}";
        let protected = ProtectedText::from_text(text).expect("the text has such braces");
        let offset = protected.text.rfind('y').expect("the text has the name");
        let range = to_source_range(&protected.insertions, &(offset..offset + 1));
        assert_eq!(&text[range], "y");
    }
}
