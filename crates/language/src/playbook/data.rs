//! Parses plain data with the YAML rules of playbooks, so that inputs have the same meaning inside and outside a
//! playbook.

use serde_json::Value;

use crate::diagnostic::Diagnostic;
use crate::yaml::{Node, parse_documents};

/// Parses the first document in `bytes`. JSON is valid YAML; an empty file is null.
pub fn parse_data(name: &str, bytes: &[u8]) -> Result<Value, Vec<Diagnostic>> {
    let read = parse_documents(name, bytes);
    if read.diagnostics.iter().any(Diagnostic::is_error) {
        return Err(read.diagnostics);
    }
    Ok(read.roots.first().map_or(Value::Null, Node::to_json))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_mean_what_they_mean_in_a_playbook() {
        assert_eq!(parse_data("v", b"12").unwrap(), json!(12));
        assert_eq!(parse_data("v", b"NO").unwrap(), json!("NO"));
        assert_eq!(parse_data("v", b"{\"a\": [1, null]}").unwrap(), json!({"a": [1, null]}));
        assert_eq!(parse_data("v", b"").unwrap(), json!(null));
    }

    #[test]
    fn text_that_is_no_yaml_is_refused_with_a_place() {
        let problems = parse_data("v", b"a: [1").unwrap_err();
        assert_eq!(problems[0].code, "E0003");
    }
}
