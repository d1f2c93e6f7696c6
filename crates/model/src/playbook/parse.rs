//! Parses bytes into a checked playbook and its diagnostics.

use crate::diagnostic::Diagnostic;
use crate::playbook::check;
use crate::playbook::read::read;
use crate::playbook::shape::Playbook;
use crate::source::{Source, Span};
use crate::yaml::{Documents, Node, documents};

/// The result of parsing a document.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The playbook, if there are no errors.
    pub playbook: Option<Playbook>,
    /// Errors and warnings, in document order.
    pub diagnostics: Vec<Diagnostic>,
}

impl Parsed {
    /// Whether the document cannot be used.
    pub fn has_errors(&self) -> bool {
        self.playbook.is_none()
    }
}

/// Parses and checks the playbook in `bytes`; `name` is the file name for messages.
pub fn parse(name: &str, bytes: &[u8]) -> Parsed {
    let Documents {
        source,
        roots,
        mut diagnostics,
    } = documents(name, bytes);
    let mut playbook = None;
    if let Some(root) = choose(&roots, &source, &mut diagnostics) {
        let mut draft = read(root, &source);
        check::check(&mut draft, root);
        diagnostics.append(&mut draft.reader.diagnostics);
        playbook = Some(draft.playbook);
    }
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    let has_errors = diagnostics.iter().any(Diagnostic::is_error);
    Parsed {
        playbook: playbook.filter(|_| !has_errors),
        diagnostics,
    }
}

/// Returns the first document of kind Playbook. Further playbooks are errors; documents of other kinds are allowed.
fn choose<'n>(
    roots: &'n [Node],
    source: &Source,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<&'n Node> {
    let is_playbook = |root: &&Node| root.get("kind").and_then(Node::as_str) == Some("Playbook");
    let mut playbooks = roots.iter().filter(is_playbook);
    let first = playbooks.next();
    for other in playbooks {
        let error = Diagnostic::new(
            "E0012",
            "the file contains a second playbook",
            other.span,
            source,
        )
        .label("put it into a file of its own");
        diagnostics.push(error);
    }
    if first.is_none() && diagnostics.is_empty() {
        diagnostics.push(no_playbook(roots, source));
    }
    first
}

fn no_playbook(roots: &[Node], source: &Source) -> Diagnostic {
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
        .label("begin with `apiVersion: noetl.io/v2` and `kind: Playbook`")
}
