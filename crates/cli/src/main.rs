//! The `noetl` binary: reads flags and configuration, connects the crates, prints.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod app;
mod args;
mod cli_error;
mod clock;
mod config;
mod control_plane;
mod doctor;
mod external_kinds;
mod find;
mod follow;
mod graph;
mod init;
mod inputs;
mod memory;
mod network_access;
mod output;
mod progress;
mod remote;
mod render;
mod run_reader;
mod runs;
mod secret_fetcher;
mod signals;
mod system_config;
mod terminal_style;
mod trace;
mod verbs;
mod view;
mod worker_setup;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // A worker starts this program again for evaluations that may exhaust the memory limit of their process.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == tools::EVALUATION_PROCESS_ARGUMENT)
    {
        return tools::serve_evaluations();
    }
    let cli = args::Cli::parse();
    ExitCode::from(app::run(cli).number())
}
