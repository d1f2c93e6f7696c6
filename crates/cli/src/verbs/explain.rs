//! `noetl explain`: prints the meaning and remedy of an error code.

use serde_json::json;

use crate::app::{App, VerbResult};
use crate::args::ExplainArgs;
use crate::cli_error::{CliError, Exit};

/// Reference page of the error codes of runs; its tables have one row for one or more codes.
const REFERENCE: &str = include_str!("../../../../docs/reference/errors.md");

/// Explains a code.
pub(crate) fn explain(app: &App, args: &ExplainArgs) -> VerbResult {
    let code = args.code.trim().to_ascii_uppercase();
    let (meaning, remedy) = find_code(&code).ok_or_else(|| {
        CliError::new(Exit::NotFound, "CODE_NOT_FOUND", format!("unknown error code `{code}`"))
            .help("examples: E0107, T0201, W204, LIMIT_JUMPS")
    })?;
    if app.output.is_machine() {
        app.output
            .print_json(&json!({ "code": code, "meaning": meaning, "remedy": remedy }));
    } else {
        let head = app.output.stdout.strong(&code);
        app.output.print_data(&format!("{head}  {meaning}\n\n  {remedy}"));
    }
    Ok(Exit::Done)
}

fn find_code(code: &str) -> Option<(String, String)> {
    if let Some(entry) = language::diagnostic::find_code(code) {
        return Some((entry.meaning.to_owned(), entry.remedy.to_owned()));
    }
    let rows = REFERENCE.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        let [names, meaning, remedy] = cells[..] else {
            return None;
        };
        Some((names, meaning, remedy))
    });
    let rows: Vec<(&str, &str, &str)> = rows.collect();
    let is_named = |names: &str| {
        let mut names = names.split(", ").map(|name| name.trim_matches('`'));
        names.any(|name| name == code)
    };
    // `HTTP_<status>` describes all codes with this prefix that have no row of their own.
    let is_in_family = |names: &str| {
        let family = names.trim_matches('`').split_once('<');
        family.is_some_and(|(prefix, _)| code.len() > prefix.len() && code.starts_with(prefix))
    };
    let table_row = rows.iter().find(|(names, _, _)| is_named(names));
    table_row
        .or_else(|| rows.iter().find(|(names, _, _)| is_in_family(names)))
        .map(|(_, meaning, remedy)| (sentence(meaning), sentence(remedy)))
}

/// Turns a fragment from the table into a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn playbook_and_run_codes_have_explanations() {
        assert!(find_code("E0003").unwrap().0.contains("YAML"));
        assert!(find_code("LIMIT_JUMPS").unwrap().1.starts_with("Bound the loop"));
        assert!(find_code("HTTP_503").is_some());
        assert_ne!(find_code("HTTP_CONNECT"), find_code("HTTP_503"));
        assert!(find_code("HTTP_CONNECT").is_some() && find_code("PG_LOST").is_some());
        assert_eq!(find_code("HTTP_"), None);
        assert_eq!(find_code("NOPE"), None);
    }
}
