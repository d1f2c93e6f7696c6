//! Parses plain data from YAML, for documents other than playbooks.

use crate::diagnostic::Diagnostic;
use crate::yaml::{Node, parse_documents};

/// Returns the first document in `bytes` as data; null if there is none.
pub fn parse_yaml_data(name: &str, bytes: &[u8]) -> Result<serde_json::Value, Vec<Diagnostic>> {
    let read = parse_documents(name, bytes);
    if read.diagnostics.iter().any(Diagnostic::is_error) {
        return Err(read.diagnostics);
    }
    Ok(read.roots.first().map(Node::to_json).unwrap_or_default())
}
