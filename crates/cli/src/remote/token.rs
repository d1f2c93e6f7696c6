//! Reads token files, and converts API errors to command errors.

use std::path::Path;

use wire::{CallError, Token};

use crate::problem::{Exit, Problem};

/// Reads the access token in a file.
pub(crate) fn read_token(file: &Path) -> Result<Token, Problem> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Problem::unreadable(&name, &error))?;
    if text.trim().is_empty() {
        let message = format!("`{name}` contains no token");
        return Err(Problem::new(Exit::Usage, "TOKEN_MISSING", message));
    }
    Ok(Token::new(&text))
}

/// Converts a failed API call to an error with exit code and help.
pub(crate) fn unanswered(error: &CallError) -> Problem {
    let message = told(error);
    let CallError::Problem(problem) = error else {
        let exit = match error {
            CallError::Address(_) => Exit::Usage,
            _ => Exit::Unreachable,
        };
        return Problem::new(exit, "SERVER_UNREACHABLE", message)
            .help("check the URL, and that `noetl serve` is running there");
    };
    let exit = match problem.status {
        401 | 403 | 409 => Exit::NotAllowed,
        404 => Exit::NotFound,
        422 if problem.code == "PLAYBOOK_INVALID" => Exit::InvalidPlaybook,
        400..=499 => Exit::Usage,
        _ => Exit::Unreachable,
    };
    let mut shown = Problem::coded(exit, &problem.code, message);
    shown.help = match problem.status {
        // The server's remedy names the HTTP header; the CLI has options for the token.
        401 => vec![
            "pass an access token with --token-file FILE, NOETL_TOKEN or `noetl context add NAME --token-file FILE`".to_owned(),
            "an admin can create one with `noetl token create NAME --role ROLE`".to_owned(),
        ],
        _ => problem.remedy.iter().cloned().collect(),
    };
    shown
}

/// Returns the message of an error with its innermost cause.
fn told(error: &CallError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        cause = inner.source();
        if cause.is_none() {
            text = format!("{text}: {inner}");
        }
    }
    text
}
