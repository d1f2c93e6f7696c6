//! Runs simulations from the command line: `simulate --seeds N --from S`, or `simulate --verbose SEED` to print one.

use std::io::Write as _;
use std::process::ExitCode;

use tests::sim::simulate;

/// Options of the command line.
struct SimulateArgs {
    first_seed: u64,
    seeds: u64,
    verbose: Option<u64>,
}

fn main() -> ExitCode {
    let asked = match parse_args(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            return print_and_exit(
                &format!("{why}\nusage: simulate [--seeds N] [--from S] [--verbose SEED]"),
                false,
            );
        }
    };
    if let Some(seed) = asked.verbose {
        let report = simulate(seed, None, true);
        let verdict = format!("{:?}", report.violation);
        let text = format!(
            "{}\n{}\n{verdict}",
            report.playbook,
            report.trace.join("\n")
        );
        return print_and_exit(&text, report.violation.is_none());
    }
    let mut events = 0;
    for seed in asked.first_seed..asked.first_seed + asked.seeds {
        let report = simulate(seed, None, false);
        events += report.events;
        if let Some(violation) = report.violation {
            return print_and_exit(&format!("seed {seed}: {violation:?}"), false);
        }
    }
    print_and_exit(
        &format!("{} seeds, {events} events, no violations", asked.seeds),
        true,
    )
}

fn parse_args(mut args: impl Iterator<Item = String>) -> Result<SimulateArgs, String> {
    let mut asked = SimulateArgs {
        first_seed: 0,
        seeds: 1_000,
        verbose: None,
    };
    while let Some(word) = args.next() {
        let value = args.next().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("`{word}` requires a number"))?;
        match word.as_str() {
            "--seeds" => asked.seeds = value,
            "--from" => asked.first_seed = value,
            "--verbose" => asked.verbose = Some(value),
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(asked)
}

/// Prints to stdout; a closed pipe is not an error.
fn print_and_exit(text: &str, is_fine: bool) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
