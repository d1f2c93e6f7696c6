//! Runs simulations from the command line: `simulate --seeds N --from S`, or `simulate --verbose SEED` to print one.

use std::io::Write as _;
use std::process::ExitCode;

use tests::sim::simulate;

/// Options of the command line.
struct Asked {
    from: u64,
    seeds: u64,
    verbose: Option<u64>,
}

fn main() -> ExitCode {
    let asked = match asked(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(why) => {
            return said(
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
        return said(&text, report.violation.is_none());
    }
    let mut events = 0;
    for seed in asked.from..asked.from + asked.seeds {
        let report = simulate(seed, None, false);
        events += report.events;
        if let Some(violation) = report.violation {
            return said(&format!("seed {seed}: {violation:?}"), false);
        }
    }
    said(
        &format!("{} seeds, {events} events, no violations", asked.seeds),
        true,
    )
}

fn asked(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        from: 0,
        seeds: 1_000,
        verbose: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("`{word}` requires a number"))?;
        match word.as_str() {
            "--seeds" => asked.seeds = value,
            "--from" => asked.from = value,
            "--verbose" => asked.verbose = Some(value),
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(asked)
}

/// Prints to stdout; a closed pipe is not an error.
fn said(text: &str, is_fine: bool) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
