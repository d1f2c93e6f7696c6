//! `noetl completions`: prints a completion script for a shell.

use clap::CommandFactory;

use crate::app::App;
use crate::args::{Cli, CompletionsArgs};
use crate::cli_error::Exit;

/// Prints the completion script.
pub(crate) fn completions(app: &App, args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "noetl", &mut script);
    app.output.print_data(&String::from_utf8_lossy(&script));
    Exit::Done
}
