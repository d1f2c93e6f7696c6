//! Project commands, run as `cargo xtask COMMAND`. CI runs the same commands.
//!
//! Each command is a module. It starts child processes, whose output goes to the terminal.

mod accept;
mod bench;
mod check;
mod docs;
mod e2e;
mod fmt;
mod prerequisite;
mod shell;
mod sim;
mod test;
mod web_client;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND [ARGS]

  check    check format, lints, dependencies and project rules
  test     run all checks and all tests of the workspace
  fmt      format the workspace
  accept   rewrite the expectations of conformance and golden tests, for review
  docs     rewrite the generated parts of docs/reference and docs/decisions
  pictures take the pictures of docs/pictures again
  sim      run the simulator: cargo xtask sim -- --seeds 1000
  e2e      run the fault-injection test: cargo xtask e2e -- --minutes 10 --seed 7
  bench    run benchmarks: cargo xtask bench -- NAME; --client measures the web client
  ui       serve the web client from its sources, next to the server at NOETL_SERVER
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let verb = args.next().unwrap_or_default();
    let remaining: Vec<String> = args.skip_while(|arg| arg == "--").collect();
    let done = match verb.as_str() {
        "check" => check::run(),
        "test" => test::run(&remaining),
        "fmt" => fmt::run(),
        "accept" => accept::run(&remaining),
        "docs" => docs::run(),
        "pictures" => web_client::take_pictures(),
        "sim" => sim::run(&remaining),
        "e2e" => e2e::run(&remaining),
        "bench" => bench::run(&remaining),
        "ui" => web_client::run_development_server(),
        "help" | "--help" | "-h" => {
            eprint!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {verb}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
