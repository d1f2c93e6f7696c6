//! Tokens in files, and what a server's refusals mean at the terminal.

use std::path::Path;

use wire::{CallError, Token};

use crate::problem::{Exit, Problem};

/// The token in a file.
pub(crate) fn read_token(file: &Path) -> Result<Token, Problem> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|error| Problem::unreadable(&name, &error))?;
    if text.trim().is_empty() {
        let message = format!("`{name}` holds no token");
        return Err(Problem::new(Exit::Usage, "TOKEN_MISSING", message));
    }
    Ok(Token::new(&text))
}

/// Why a server did not do what it was asked.
pub(crate) fn unanswered(error: &CallError) -> Problem {
    let message = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    let CallError::Problem(problem) = error else {
        let exit = match error {
            CallError::Address(_) => Exit::Usage,
            _ => Exit::Unreachable,
        };
        return Problem::new(exit, "SERVER_UNREACHABLE", message)
            .help("check the address, and that `noetl serve` runs there");
    };
    let exit = match problem.status {
        401 | 403 | 409 => Exit::NotAllowed,
        404 => Exit::NotFound,
        422 if problem.code == "PLAYBOOK_INVALID" => Exit::InvalidPlaybook,
        400..=499 => Exit::Usage,
        _ => Exit::Unreachable,
    };
    Problem {
        exit,
        code: problem.code.clone().into(),
        message,
        help: problem.remedy.iter().cloned().collect(),
    }
}
