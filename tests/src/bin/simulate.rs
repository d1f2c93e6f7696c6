//! Runs simulations by hand: `simulate --seeds N --from S`, or `simulate --verbose SEED` to see one of them.

use std::io::Write as _;
use std::process::ExitCode;

use tests::sim::simulate;

/// What the command line asks for.
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
        &format!("{} seeds, {events} events, nothing broken", asked.seeds),
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
        let value = value.ok_or_else(|| format!("`{word}` needs a number"))?;
        match word.as_str() {
            "--seeds" => asked.seeds = value,
            "--from" => asked.from = value,
            "--verbose" => asked.verbose = Some(value),
            _ => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(asked)
}

/// Prints; a reader that went away is no reason to fail.
fn said(text: &str, is_fine: bool) -> ExitCode {
    let _ = writeln!(std::io::stdout(), "{text}");
    if is_fine {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
