//! Parses bytes into a checked playbook and its diagnostics.

use model::source::{SourceText, Span};

use crate::diagnostic::Diagnostic;
use crate::playbook::check;
use crate::playbook::definition::Playbook;
use crate::playbook::read::read_playbook;
use crate::yaml::{Node, YamlDocuments, parse_documents};

/// The result of parsing a document.
#[derive(Debug, Clone)]
pub struct ParseResult {
    /// The playbook, if there are no errors.
    pub playbook: Option<Playbook>,
    /// Errors and warnings, in document order.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParseResult {
    /// Whether the document cannot be used.
    pub fn has_errors(&self) -> bool {
        self.playbook.is_none()
    }
}

/// A document that may have errors.
#[derive(Debug, Clone)]
pub struct DraftResult {
    /// What could be read, unless the text is no YAML or contains no playbook. With errors, parts are missing, names
    /// may occur twice and arcs may name missing steps, so it must not run.
    pub draft: Option<Playbook>,
    /// Errors and warnings, in document order.
    pub diagnostics: Vec<Diagnostic>,
}

impl DraftResult {
    /// Whether the document cannot be used.
    pub fn has_errors(&self) -> bool {
        self.draft.is_none() || self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Parses and checks the playbook in `bytes`; `name` is the file name for messages.
pub fn parse(name: &str, bytes: &[u8]) -> ParseResult {
    let draft = parse_draft(name, bytes);
    let has_errors = draft.has_errors();
    ParseResult {
        playbook: draft.draft.filter(|_| !has_errors),
        diagnostics: draft.diagnostics,
    }
}

/// Parses and checks a document as [`parse`] does, and returns what could be read in spite of errors, for editors.
pub fn parse_draft(name: &str, bytes: &[u8]) -> DraftResult {
    let YamlDocuments {
        source,
        roots,
        mut diagnostics,
    } = parse_documents(name, bytes);
    let mut playbook = None;
    if let Some(root) = choose_document(&roots, &source, &mut diagnostics) {
        let mut draft = read_playbook(root, &source);
        check::check(&mut draft, root);
        diagnostics.append(&mut draft.reader.diagnostics);
        playbook = Some(draft.playbook);
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    DraftResult {
        draft: playbook,
        diagnostics,
    }
}

/// Returns the first document of kind Playbook. Further playbooks are errors; documents of other kinds are allowed.
fn choose_document<'n>(roots: &'n [Node], source: &SourceText, diagnostics: &mut Vec<Diagnostic>) -> Option<&'n Node> {
    let is_playbook = |root: &&Node| root.get("kind").and_then(Node::as_str) == Some("Playbook");
    let mut playbooks = roots.iter().filter(is_playbook);
    let first = playbooks.next();
    for other in playbooks {
        let error = Diagnostic::new("E0012", "the file contains a second playbook", other.span, source)
            .with_label("put it into a file of its own");
        diagnostics.push(error);
    }
    if first.is_none() && diagnostics.is_empty() {
        diagnostics.push(no_playbook_error(roots, source));
    }
    first
}

fn no_playbook_error(roots: &[Node], source: &SourceText) -> Diagnostic {
    let kind = roots.iter().find_map(|root| root.get("kind"));
    let message = match kind.and_then(Node::as_str) {
        Some(kind) => format!("the document is of kind `{kind}`, not `Playbook`"),
        None => "the file contains no playbook".to_owned(),
    };
    let start = Span {
        line: 1,
        column: 1,
        ..Span::default()
    };
    let span = kind.or(roots.first()).map_or(start, |node| node.span);
    Diagnostic::new("E0011", message, span, source)
        .with_label("begin with `apiVersion: noetl.io/v2` and `kind: Playbook`")
}
