//! Converts the playbook diagnostics of a server to local diagnostics, so that they show the source line.

use std::sync::Arc;

use model::diagnostic::{Diagnostic, Severity, explain};
use model::source::{Source, Span};
use serde::Deserialize;
use wire::CallError;

use crate::problem::Problem;
use crate::remote::token::unanswered;

/// A diagnostic in an API response.
#[derive(Deserialize)]
struct Found {
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
pub(super) fn of_text(error: &CallError, name: &str, text: &str) -> Problem {
    let mut problem = unanswered(error);
    let CallError::Problem(told) = error else {
        return problem;
    };
    if told.code != "PLAYBOOK_INVALID" {
        return problem;
    }
    let source = Source {
        name: Arc::from(name),
        text: Arc::from(text),
    };
    let found = told.errors.iter().cloned();
    let found = found.filter_map(|found| serde_json::from_value(found).ok());
    problem.findings = found
        .map(|found: Found| diagnostic(found, source.clone()))
        .collect();
    problem
}

fn diagnostic(found: Found, source: Source) -> Diagnostic {
    // A newer server may use codes that this client does not have.
    let code = explain(&found.code).map_or("E????", |known| known.code);
    let start = place(&source.text, found.line, found.column);
    Diagnostic {
        severity: found.severity,
        code,
        message: found.message,
        span: Span {
            line: found.line,
            column: found.column,
            start,
            end: start + 1,
        },
        source,
        label: found.label,
        help: found.help,
    }
}

/// Returns the byte offset of a line and column.
fn place(text: &str, line: u32, column: u32) -> u32 {
    let before = text.split_inclusive('\n');
    let start: usize = before
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let rest = text.get(start..).unwrap_or("").char_indices();
    let within = rest.take(column as usize).last().map_or(0, |(at, _)| at);
    u32::try_from(start + within).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_of_a_server_show_the_line_they_are_in() {
        let text = "kind: Playbook\nworkflow: é 1\n";
        let parsed = model::playbook::parse("a.yaml", text.as_bytes());
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
        let problem = of_text(&CallError::Problem(Box::new(problem)), "a.yaml", text);
        assert_eq!(problem.exit, crate::problem::Exit::InvalidPlaybook);
        let shown = problem.findings[0].render(crate::surface::Surface::PLAIN.diagnostics());
        let expected = own.render(crate::surface::Surface::PLAIN.diagnostics());
        // The API returns only the start of a diagnostic, so the mark is one character wide.
        let marked = expected.replacen(&"^".repeat(14), "^", 1);
        assert_ne!(marked, expected);
        assert_eq!(shown, marked);
    }

    #[test]
    fn a_place_counts_characters_and_not_bytes() {
        assert_eq!(place("ab\ncé!\n", 2, 3), 6);
        assert_eq!(place("ab", 9, 9), 2);
    }
}
