//! Reads token files, and converts API errors to command errors.

use std::path::Path;

use wire::{AccessToken, CallError};

use crate::cli_error::{CliError, Exit};

/// Reads the access token in a file.
pub(crate) fn read_token(file: &Path) -> Result<AccessToken, CliError> {
    let name = file.display().to_string();
    let text =
        std::fs::read_to_string(file).map_err(|error| CliError::read_error(&name, &error))?;
    if text.trim().is_empty() {
        let message = format!("`{name}` contains no token");
        return Err(CliError::new(Exit::Usage, "TOKEN_MISSING", message));
    }
    Ok(AccessToken::new(&text))
}

/// Converts a failed API call to an error with exit code and help.
pub(crate) fn call_error(error: &CallError) -> CliError {
    let message = error_text(error);
    let CallError::Problem(problem) = error else {
        let exit = match error {
            CallError::InvalidAddress(_) => Exit::Usage,
            _ => Exit::Unreachable,
        };
        return CliError::new(exit, "SERVER_UNREACHABLE", message)
            .help("check the URL, and that `noetl serve` is running there");
    };
    let exit = match problem.status {
        401 | 403 | 409 => Exit::NotAllowed,
        404 => Exit::NotFound,
        422 if problem.code == "PLAYBOOK_INVALID" => Exit::InvalidPlaybook,
        400..=499 => Exit::Usage,
        _ => Exit::Unreachable,
    };
    let mut shown = CliError::with_code(exit, &problem.code, message);
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
fn error_text(error: &CallError) -> String {
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
