//! The inputs of a playbook, as a form shows them: names, kinds, defaults and descriptions.
//!
//! Input: a checked playbook. Output: a field for each key of `workload`. Descriptions are the comments above a key or
//! beside it.

use model::source::SourceText;
use serde_json::Value;

use crate::playbook::{Playbook, Section};
use crate::yaml::{MapEntry, Node, parse_documents};

/// An input of a playbook.
#[derive(Debug, Clone, PartialEq)]
pub struct InputField {
    /// Its name.
    pub name: String,
    /// The comment at its key.
    pub description: Option<String>,
    /// The line of its key.
    pub line: Option<u32>,
    /// What it accepts.
    pub kind: InputKind,
}

/// What an input accepts, as far as its default shows.
#[derive(Debug, Clone, PartialEq)]
pub enum InputKind {
    /// The default is null: any value, and the request must provide it.
    Required,
    /// The default is a template, which is rendered when the run starts. It can have any type.
    Template(String),
    /// The default is a scalar.
    Scalar(Value),
    /// The default is a list, in which no item is or contains a template.
    List(Vec<Value>),
    /// The default is a map.
    Map(Vec<InputField>),
}

/// Describes the inputs of a playbook in the order of its text.
pub fn describe_inputs(playbook: &Playbook) -> Vec<InputField> {
    let documents = parse_documents(&playbook.source.name, playbook.source.text.as_bytes());
    let root = documents.roots.iter().find(|root| root.get("workload").is_some());
    let described = DescribedInputs {
        playbook,
        source: &documents.source,
    };
    described.describe_fields(&playbook.workload, root.and_then(|root| root.get("workload")), &[])
}

struct DescribedInputs<'p> {
    playbook: &'p Playbook,
    source: &'p SourceText,
}

impl DescribedInputs<'_> {
    /// The depth is bounded by that of YAML documents.
    fn describe_fields(
        &self,
        fields: &serde_json::Map<String, Value>,
        node: Option<&Node>,
        path: &[String],
    ) -> Vec<InputField> {
        let entries = node.and_then(Node::as_map).unwrap_or_default();
        let described = fields.iter().map(|(name, default)| {
            let entry = entries.iter().find(|entry| *entry.key == **name);
            let path: Vec<String> = path.iter().chain([name]).cloned().collect();
            InputField {
                name: name.clone(),
                description: entry.and_then(|entry| find_comment(&self.source.text, entry)),
                line: entry.map(|entry| entry.span.line),
                kind: self.describe_default(default, entry.map(|entry| &entry.value), &path),
            }
        });
        described.collect()
    }

    fn describe_default(&self, default: &Value, node: Option<&Node>, path: &[String]) -> InputKind {
        if let Some(template) = self.find_template(path) {
            return InputKind::Template(template);
        }
        match default {
            Value::Null => InputKind::Required,
            Value::Object(fields) => InputKind::Map(self.describe_fields(fields, node, path)),
            Value::Array(items) => InputKind::List(items.clone()),
            scalar => InputKind::Scalar(scalar.clone()),
        }
    }

    /// The template at a path, or the text of a list that contains one.
    fn find_template(&self, path: &[String]) -> Option<String> {
        let templates = self.playbook.default_templates.iter();
        let mut templates = templates.filter(|default| default.section == Section::Workload);
        let template = templates.find(|default| default.path.starts_with(path))?;
        if template.path.len() == path.len() {
            return Some(template.template.source().to_owned());
        }
        let list = path.iter().try_fold(None::<&Value>, |value, key| match value {
            None => self.playbook.workload.get(key).map(Some),
            Some(value) => value.get(key).map(Some),
        });
        list.flatten().filter(|value| value.is_array()).map(Value::to_string)
    }
}

/// The comment beside a key, or the lines of comments directly above it.
fn find_comment(text: &str, entry: &MapEntry) -> Option<String> {
    let line_comment = beside_key(text, entry).and_then(comment_text);
    let description = line_comment.or_else(|| comment_above(text, entry.span.start as usize))?;
    (!description.is_empty()).then_some(description)
}

/// The rest of the line after the value, or after the key if the value begins on a later line.
fn beside_key<'t>(text: &'t str, entry: &MapEntry) -> Option<&'t str> {
    let value = &entry.value;
    let is_scalar = value.as_map().is_none() && !matches!(value.value, crate::yaml::NodeValue::List(_));
    let (key_end, value_start, value_end) = (
        entry.span.end as usize,
        value.span.start as usize,
        value.span.end as usize,
    );
    let key_line = text.get(key_end..)?.lines().next()?;
    let is_on_key_line = |position: usize| (key_end..=key_end + key_line.len()).contains(&position);
    if is_scalar && is_on_key_line(value_end) {
        return text.get(value_end..)?.lines().next();
    }
    if is_on_key_line(value_start) {
        let value_line = text.get(value_start..)?.lines().next()?;
        if value_line.starts_with(['{', '[']) {
            return value_line.get(flow_length(value_line)?..);
        }
    }
    // A block scalar or a flow collection on the line of the key may contain the character `#`.
    let after_colon = key_line.split_once(':').map(|(_, tail)| tail.trim_start())?;
    after_colon.starts_with('#').then_some(after_colon)
}

/// The length of the flow collection at the start of a line; `None` if it continues on the next line. The span of its node
/// ends at its first character.
fn flow_length(line: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut quote = None;
    for (index, character) in line.char_indices() {
        match (quote, character) {
            (Some(open), _) => quote = quote.filter(|_| character != open),
            (None, '"' | '\'') => quote = Some(character),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            (None, _) => {}
        }
    }
    None
}

fn comment_text(line: &str) -> Option<String> {
    let comment = line.trim_start().strip_prefix('#')?;
    Some(comment.trim_start_matches('#').trim().to_owned())
}

fn comment_above(text: &str, start: usize) -> Option<String> {
    let line_start = text.get(..start)?.rfind('\n')? + 1;
    if !text.get(line_start..start)?.trim().is_empty() {
        return None;
    }
    let above = text[..line_start].trim_end_matches('\n');
    let blank_lines = text[..line_start].len() - above.len();
    if blank_lines > 1 {
        return None;
    }
    let mut lines: Vec<String> = above.lines().rev().map_while(comment_text).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| lines.join(" ").trim().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::playbook::parse;

    fn describe(workload: &str) -> Vec<InputField> {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\nworkload:\n{workload}\n\
             workflow: [{{step: start, tool: {{kind: noop}}}}]\n"
        );
        let parsed = parse("p.yaml", text.as_bytes());
        let playbook = parsed.playbook.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics));
        describe_inputs(&playbook)
    }

    fn description<'f>(fields: &'f [InputField], name: &str) -> Option<&'f str> {
        let field = fields.iter().find(|field| field.name == name).unwrap();
        field.description.as_deref()
    }

    #[test]
    fn a_comment_above_or_beside_a_key_describes_it() {
        let fields = describe(
            "  # How many pages\n  # are read.\n  limit: 5\n  region: eu # where\n  plain: \"a # b\"\n\n\
             \x20 # of another block\n\n  apart: 1\n  list: [1, \"]\"] # items\n  text: |  # no description\n    # body\n\
             \x20 map: # settings\n    inner: 1 ## inside\n  after: '#'\n",
        );
        assert_eq!(description(&fields, "limit"), Some("How many pages are read."));
        assert_eq!(description(&fields, "region"), Some("where"));
        assert_eq!(description(&fields, "plain"), None);
        assert_eq!(description(&fields, "apart"), None);
        assert_eq!(description(&fields, "list"), Some("items"));
        assert_eq!(description(&fields, "text"), None);
        assert_eq!(description(&fields, "map"), Some("settings"));
        assert_eq!(description(&fields, "after"), None);
        let InputKind::Map(inner) = &fields[6].kind else {
            panic!("{:?}", fields[6])
        };
        assert_eq!(description(inner, "inner"), Some("inside"));
        assert_eq!(fields[0].line, Some(7));
    }

    #[test]
    fn the_default_shows_what_an_input_accepts() {
        let fields = describe(
            "  needed:\n  day: \"{{ execution_id }}\"\n  exact: 9007199254740993\n  tags: [a, b]\n  on: true\n\
             \x20 computed: [1, \"{{ execution_id }}\"]\n  raw: !raw \"{{ x }}\"\n  empty: {}\n",
        );
        let kinds: Vec<&InputKind> = fields.iter().map(|field| &field.kind).collect();
        assert_eq!(
            kinds,
            [
                &InputKind::Required,
                &InputKind::Template("{{ execution_id }}".to_owned()),
                &InputKind::Scalar(json!(9_007_199_254_740_993_i64)),
                &InputKind::List(vec![json!("a"), json!("b")]),
                &InputKind::Scalar(json!(true)),
                &InputKind::Template("[1,\"{{ execution_id }}\"]".to_owned()),
                &InputKind::Scalar(json!("{{ x }}")),
                &InputKind::Map(Vec::new()),
            ]
        );
    }

    #[test]
    fn inputs_of_a_flow_map_have_no_comment_above() {
        let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\n\
                    # Not a description.\nworkload: {a: 1, b: 2} # nor this\n\
                    workflow: [{step: start, tool: {kind: noop}}]\n";
        let playbook = parse("p.yaml", text.as_bytes()).playbook.unwrap();
        let fields = describe_inputs(&playbook);
        assert_eq!(
            fields.iter().map(|field| field.description.clone()).collect::<Vec<_>>(),
            [None, None]
        );
    }
}
