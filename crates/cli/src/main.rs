//! The `noetl` binary: reads flags and configuration, connects the crates, prints.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod added;
mod app;
mod args;
mod clock;
mod config;
mod doctor;
mod drive;
mod fetching;
mod find;
mod graph;
mod hiring;
mod init;
mod inputs;
mod local;
mod log;
mod memory;
mod out;
mod problem;
mod progress;
mod reach;
mod remote;
mod render;
mod runs;
mod stop;
mod surface;
mod trace;
mod verbs;
mod view;

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
