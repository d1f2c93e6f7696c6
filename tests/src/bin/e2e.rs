//! Runs the fault-injection test on a cluster: `e2e [--minutes N] [--seconds N] [--seed S] [--runs N]`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tests::e2e::{Plan, storm};

#[tokio::main]
async fn main() -> ExitCode {
    let plan = match plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(why) => {
            eprintln!("{why}\nusage: e2e [--minutes N] [--seconds N] [--seed S] [--runs N]");
            return ExitCode::from(2);
        }
    };
    let report = storm(plan).await;
    // A closed pipe is not an error.
    let _ = write!(std::io::stdout(), "{report}");
    if report.is_fine() {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "the logs of the processes are in {}",
        report.plan.diary.display()
    );
    ExitCode::FAILURE
}

fn plan(mut words: impl Iterator<Item = String>) -> Result<Plan, String> {
    let mut plan = Plan {
        seed: 1,
        time: Duration::from_secs(75),
        runs: 0,
        patience: Duration::from_secs(75),
        diary: std::env::temp_dir().join("noetl-e2e.txt"),
    };
    while let Some(word) = words.next() {
        let value: Option<u64> = words.next().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("`{word}` requires a number"))?;
        match word.as_str() {
            "--minutes" => plan.time = Duration::from_secs(value * 60),
            "--seconds" => plan.time = Duration::from_secs(value),
            "--seed" => plan.seed = value,
            "--runs" => plan.runs = value,
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    if plan.runs == 0 {
        plan.runs = plan.time.as_secs().saturating_mul(4).max(306);
    }
    Ok(plan)
}
