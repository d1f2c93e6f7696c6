//! `noetl explain`: what a code means and what to do.

use serde_json::json;

use crate::app::{App, Ended};
use crate::args::ExplainArgs;
use crate::problem::{Exit, Problem};

/// The reference of codes that runs fail with: one table row each.
const REFERENCE: &str = include_str!("../../../../docs/reference/errors.md");

/// Explains a code.
pub(crate) fn explain(app: &App, args: &ExplainArgs) -> Ended {
    let code = args.code.trim().to_ascii_uppercase();
    let (meaning, remedy) = find(&code).ok_or_else(|| {
        Problem::new(
            Exit::NotFound,
            "CODE_NOT_FOUND",
            format!("there is no code `{code}`"),
        )
        .help("codes look like E0107, T0201, W0204 or LIMIT_JUMPS")
    })?;
    if app.out.is_machine() {
        app.out
            .json(&json!({ "code": code, "meaning": meaning, "remedy": remedy }));
    } else {
        let head = app.out.stdout.strong(&code);
        app.out.data(&format!("{head}  {meaning}\n\n  {remedy}"));
    }
    Ok(Exit::Done)
}

fn find(code: &str) -> Option<(String, String)> {
    if let Some(entry) = model::diagnostic::explain(code) {
        return Some((entry.meaning.to_owned(), entry.remedy.to_owned()));
    }
    let rows = REFERENCE.lines().filter_map(|line| {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split(" | ")
            .map(str::trim)
            .collect();
        let [name, meaning, remedy] = cells[..] else {
            return None;
        };
        Some((
            name.trim_matches('`'),
            meaning.to_owned(),
            remedy.to_owned(),
        ))
    });
    let fits = |name: &str| match name.split_once('<') {
        // `HTTP_<status>` stands for a family of codes.
        Some((family, _)) => code.len() > family.len() && code.starts_with(family),
        None => name == code,
    };
    rows.into_iter()
        .find(|(name, _, _)| fits(name))
        .map(|(_, meaning, remedy)| (sentence(&meaning), sentence(&remedy)))
}

/// The table writes fragments; an answer is a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars
        .next()
        .map(|c| c.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_playbooks_and_of_runs_are_found() {
        assert!(find("E0003").unwrap().0.contains("YAML"));
        assert!(find("LIMIT_JUMPS").unwrap().1.starts_with("Bound the loop"));
        assert!(find("HTTP_503").is_some());
        assert_eq!(find("HTTP_"), None);
        assert_eq!(find("NOPE"), None);
    }
}
