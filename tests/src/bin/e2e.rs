//! Runs the fault-injection test on a cluster: `e2e [--minutes N] [--seconds N] [--seed S] [--runs N]`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tests::e2e::{StormPlan, run_storm};

#[tokio::main]
async fn main() -> ExitCode {
    let plan = match parse_plan(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(reason) => {
            eprintln!("{reason}\nusage: e2e [--minutes N] [--seconds N] [--seed S] [--runs N]");
            return ExitCode::from(2);
        }
    };
    let report = run_storm(plan).await;
    // A closed pipe is not an error.
    let _ = write!(std::io::stdout(), "{report}");
    if report.has_no_violations() {
        return ExitCode::SUCCESS;
    }
    eprintln!("the logs of the processes are in {}", report.plan.output_file.display());
    ExitCode::FAILURE
}

fn parse_plan(mut args: impl Iterator<Item = String>) -> Result<StormPlan, String> {
    let mut plan = StormPlan {
        seed: 1,
        duration: Duration::from_secs(75),
        runs: 0,
        settle_timeout: Duration::from_secs(75),
        output_file: std::env::temp_dir().join("noetl-e2e.txt"),
    };
    while let Some(option) = args.next() {
        let value: Option<u64> = args.next().and_then(|value| value.parse().ok());
        let value = value.ok_or_else(|| format!("`{option}` requires a number"))?;
        match option.as_str() {
            "--minutes" => plan.duration = Duration::from_secs(value * 60),
            "--seconds" => plan.duration = Duration::from_secs(value),
            "--seed" => plan.seed = value,
            "--runs" => plan.runs = value,
            _ => return Err(format!("unknown option `{option}`")),
        }
    }
    if plan.runs == 0 {
        plan.runs = plan.duration.as_secs().saturating_mul(4).max(306);
    }
    Ok(plan)
}
