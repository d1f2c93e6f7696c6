//! Runs a command with a private Postgres server: `with_postgres cargo nextest run`.
//!
//! The command reads the server's URL from `NOETL_TEST_POSTGRES`. The server ends with this program, whatever ends it.

use std::process::{Command, ExitCode};

use tests::peers::PostgresServer;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let Some(program) = args.next() else {
        eprintln!("usage: with_postgres COMMAND [ARGS]");
        return ExitCode::from(2);
    };
    let server = PostgresServer::private();
    let status = Command::new(&program)
        .args(args)
        .env("NOETL_TEST_POSTGRES", server.admin_url())
        .status();
    drop(server);
    match status {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("cannot start `{}`: {error}", program.display());
            ExitCode::FAILURE
        }
    }
}
