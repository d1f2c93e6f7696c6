//! Runs simulations from the command line: `simulate --seeds N --from S`, or `simulate --verbose SEED` to print one.
//! `simulate --bug NAME --seeds N` prints what the checkers report for each seed with this bug.

use std::io::Write as _;
use std::process::ExitCode;

use tests::sim::{Bug, simulate};

/// Options of the command line.
struct SimulateArgs {
    first_seed: u64,
    seeds: u64,
    verbose: Option<u64>,
    bug: Option<Bug>,
}

fn main() -> ExitCode {
    let options = match parse_args(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(reason) => {
            return print_and_exit(
                &format!("{reason}\nusage: simulate [--seeds N] [--from S] [--verbose SEED] [--bug NAME]"),
                false,
            );
        }
    };
    if let Some(seed) = options.verbose {
        let report = simulate(seed, options.bug);
        let verdict = format!("{:?}", report.violation);
        let text = format!("{}\n{}\n{verdict}", report.playbook, report.trace.join("\n"));
        return print_and_exit(&text, report.violation.is_none());
    }
    if let Some(bug) = options.bug {
        return print_findings(bug, &options);
    }
    let mut events = 0;
    for seed in options.first_seed..options.first_seed + options.seeds {
        let report = simulate(seed, None);
        events += report.events;
        if let Some(violation) = report.violation {
            return print_and_exit(&format!("seed {seed}: {violation:?}"), false);
        }
    }
    print_and_exit(
        &format!("{} seeds, {events} events, no violations", options.seeds),
        true,
    )
}

/// Prints what the checkers report for each seed with a bug.
fn print_findings(bug: Bug, options: &SimulateArgs) -> ExitCode {
    let mut catching_seeds = 0;
    for seed in options.first_seed..options.first_seed + options.seeds {
        if let Some(violation) = simulate(seed, Some(bug)).violation {
            let is_expected = bug.violated_invariants().contains(&violation.number);
            catching_seeds += u64::from(is_expected);
            let _ = writeln!(std::io::stdout(), "seed {seed}: {violation:?}");
        }
    }
    let text = format!(
        "{catching_seeds} of {} seeds: reported by a checker of this bug",
        options.seeds
    );
    print_and_exit(&text, catching_seeds > 0)
}

fn parse_args(mut args: impl Iterator<Item = String>) -> Result<SimulateArgs, String> {
    let mut options = SimulateArgs {
        first_seed: 0,
        seeds: 1_000,
        verbose: None,
        bug: None,
    };
    while let Some(option) = args.next() {
        let value = args.next();
        if option == "--bug" {
            let is_named = |bug: &&Bug| Some(format!("{bug:?}")) == value;
            let bug = Bug::ALL.iter().find(is_named);
            options.bug = Some(*bug.ok_or("no such bug; their names are in `Bug`")?);
            continue;
        }
        let value = value.and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("`{option}` requires a number"))?;
        match option.as_str() {
            "--seeds" => options.seeds = value,
            "--from" => options.first_seed = value,
            "--verbose" => options.verbose = Some(value),
            _ => return Err(format!("unknown option `{option}`")),
        }
    }
    Ok(options)
}

/// Prints to stdout; a closed pipe is not an error.
fn print_and_exit(text: &str, is_fine: bool) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
