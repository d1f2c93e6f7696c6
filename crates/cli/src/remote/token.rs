//! Reads token files, converts API errors to command errors, and adds the context to the error of an unreachable server.

use std::path::Path;

use wire::{AccessToken, CallError};

use crate::cli_error::{CliError, Exit, innermost_cause};
use crate::config::{LOCAL_CONTEXT, ServerAddress};

/// Error code if no server responds.
const SERVER_UNREACHABLE: &str = "SERVER_UNREACHABLE";

/// Reads the access token in a file.
pub(crate) fn read_token(file: &Path) -> Result<AccessToken, CliError> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| CliError::read_error(&name, &error))?;
    if text.trim().is_empty() {
        let message = format!("`{name}` contains no token");
        return Err(CliError::new(Exit::Usage, "TOKEN_MISSING", message));
    }
    Ok(AccessToken::new(&text))
}

/// Converts a failed API call to an error with exit code and help.
pub(super) fn call_error(error: &CallError) -> CliError {
    let message = error_text(error);
    let CallError::Problem(problem) = error else {
        let exit = match error {
            CallError::InvalidAddress(_) => Exit::Usage,
            _ => Exit::Unreachable,
        };
        return CliError::new(exit, SERVER_UNREACHABLE, message)
            .help("check the URL, and that `noetl serve` is running there");
    };
    let exit = match problem.status {
        401 | 403 | 409 => Exit::NotAllowed,
        404 => Exit::NotFound,
        422 if problem.code == "PLAYBOOK_INVALID" => Exit::InvalidPlaybook,
        400..=499 => Exit::Usage,
        _ => Exit::Unreachable,
    };
    let mut error = CliError::with_code(exit, &problem.code, message);
    error.help = match problem.status {
        // The server's remedy names the HTTP header; the CLI has options for the token.
        401 => vec![
            "pass an access token with --token-file FILE, NOETL_TOKEN or `noetl context add NAME --token-file FILE`"
                .to_owned(),
            "an admin can create one with `noetl token create NAME --role ROLE`".to_owned(),
        ],
        _ => problem.remedy.iter().cloned().collect(),
    };
    error
}

impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        call_error(&error)
    }
}

/// Adds the name of the context to the error of an unreachable server, if a context selected the server.
pub(crate) fn add_context_help(error: CliError, server: Option<&ServerAddress>) -> CliError {
    let context = server.and_then(|address| address.context.as_deref());
    match context {
        Some(name) if error.code == SERVER_UNREACHABLE => error.help(format!(
            "context `{name}` selects this server; `noetl context use {LOCAL_CONTEXT}` selects the local store"
        )),
        _ => error,
    }
}

/// Returns the message of an error with its innermost cause.
fn error_text(error: &CallError) -> String {
    match innermost_cause(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(context: Option<&str>) -> ServerAddress {
        ServerAddress {
            servers: vec!["http://127.0.0.1:9000".to_owned()],
            token: None,
            context: context.map(str::to_owned),
        }
    }

    #[test]
    fn only_the_error_of_an_unreachable_server_names_the_context() {
        let unreachable = || CliError::new(Exit::Unreachable, SERVER_UNREACHABLE, "cannot connect");
        let help = "context `old` selects this server; `noetl context use local` selects the local store";
        let old = address(Some("old"));
        assert_eq!(add_context_help(unreachable(), Some(&old)).help, [help]);

        let missing_run = CliError::new(Exit::NotFound, "RUN_NOT_FOUND", "not found");
        assert_eq!(add_context_help(missing_run.clone(), Some(&old)), missing_run);
        for server in [None, Some(&address(None))] {
            assert_eq!(add_context_help(unreachable(), server), unreachable());
        }
    }
}
