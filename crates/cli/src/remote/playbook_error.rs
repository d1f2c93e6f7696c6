//! Converts the playbook diagnostics of a server to local diagnostics, so that they show the source line.

use std::sync::Arc;

use language::diagnostic::{Diagnostic, Severity, find_code};
use model::source::{SourceText, Span};
use serde::Deserialize;
use wire::CallError;

use crate::cli_error::CliError;
use crate::remote::token::call_error;

/// A diagnostic in an API response.
#[derive(Deserialize)]
struct RemoteDiagnostic {
    severity: Severity,
    code: String,
    message: String,
    line: u32,
    column: u32,
    #[serde(default)]
    label: String,
    #[serde(default)]
    help: Vec<String>,
}

/// Returns the error of a rejected playbook, with the server's diagnostics.
pub(super) fn playbook_error(error: &CallError, name: &str, text: &str) -> CliError {
    let mut problem = call_error(error);
    let CallError::Problem(problem_json) = error else {
        return problem;
    };
    if problem_json.code != "PLAYBOOK_INVALID" {
        return problem;
    }
    let source = SourceText {
        name: Arc::from(name),
        text: Arc::from(text),
    };
    let remote = problem_json.errors.iter().cloned();
    let remote = remote.filter_map(|remote| serde_json::from_value(remote).ok());
    problem.diagnostics = remote
        .map(|remote: RemoteDiagnostic| to_diagnostic(remote, source.clone()))
        .collect();
    problem
}

fn to_diagnostic(remote: RemoteDiagnostic, source: SourceText) -> Diagnostic {
    // A newer server may use codes that this client does not have.
    let code = find_code(&remote.code).map_or("E????", |entry| entry.code);
    let start = byte_offset(&source.text, remote.line, remote.column);
    Diagnostic {
        severity: remote.severity,
        code,
        message: remote.message,
        span: Span {
            line: remote.line,
            column: remote.column,
            start,
            end: start + 1,
        },
        source,
        label: remote.label,
        help: remote.help,
    }
}

/// Returns the byte offset of a line and column.
fn byte_offset(text: &str, line: u32, column: u32) -> u32 {
    let before = text.split_inclusive('\n');
    let start: usize = before.take(line.saturating_sub(1) as usize).map(str::len).sum();
    let remaining = text.get(start..).unwrap_or("").char_indices();
    let within = remaining.take(column as usize).last().map_or(0, |(at, _)| at);
    u32::try_from(start + within).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_server_show_the_line_they_are_in() {
        let text = "kind: Playbook\nworkflow: é 1\n";
        let parsed = language::playbook::parse("a.yaml", text.as_bytes());
        let own = parsed.diagnostics.first().unwrap();
        let problem = wire::api::Problem {
            type_: String::new(),
            title: String::new(),
            status: 422,
            code: "PLAYBOOK_INVALID".to_owned(),
            detail: own.message.clone(),
            remedy: None,
            errors: vec![serde_json::to_value(own).unwrap()],
        };
        let problem = playbook_error(&CallError::Problem(Box::new(problem)), "a.yaml", text);
        assert_eq!(problem.exit, crate::cli_error::Exit::InvalidPlaybook);
        let rendered = problem.diagnostics[0].render(crate::terminal_style::TerminalStyle::PLAIN.diagnostic_style());
        let expected = own.render(crate::terminal_style::TerminalStyle::PLAIN.diagnostic_style());
        // The API returns only the start of a diagnostic, so the mark is one character wide.
        let marked = expected.replacen(&"^".repeat(14), "^", 1);
        assert_ne!(marked, expected);
        assert_eq!(rendered, marked);
    }

    #[test]
    fn a_column_counts_characters_not_bytes() {
        assert_eq!(byte_offset("ab\ncé!\n", 2, 3), 6);
        assert_eq!(byte_offset("ab", 9, 9), 2);
    }
}
