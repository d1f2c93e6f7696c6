//! `noetl doctor`: checks this machine and prints the results with remedies.

use crate::app::{App, VerbResult};
use crate::args::DoctorArgs;
use crate::cli_error::Exit;
use crate::doctor::{self, Check, CheckStatus};
use crate::render::human;

/// Runs all checks and prints their results.
pub(crate) async fn doctor(app: &App, args: &DoctorArgs) -> VerbResult {
    let mut checks = doctor::check_programs(app);
    checks.extend(doctor::check_storage(app));
    checks.extend(doctor::check_contents(app).await);
    checks.extend(doctor::check_isolation(app));
    checks.push(doctor::check_port(&args.listen).await);
    checks.extend(doctor::check_server(app).await.unwrap_or_default());
    print_checks(app, &checks);
    let failed = checks.iter().filter(|check| check.state == CheckStatus::Fail);
    // `Unreachable` takes precedence over other exit codes.
    let exits: Vec<Exit> = failed.map(|check| check.exit).collect();
    Ok(match exits.first() {
        None => Exit::Done,
        Some(_) if exits.contains(&Exit::Unreachable) => Exit::Unreachable,
        Some(exit) => *exit,
    })
}

fn print_checks(app: &App, checks: &[Check]) {
    let out = &app.output;
    if out.is_machine() {
        out.print_records(checks);
        return;
    }
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or_default();
    let style = out.stdout;
    for check in checks {
        let mark = match check.state {
            CheckStatus::Ok => style.good("ok  "),
            CheckStatus::Warn => style.warn("warn"),
            CheckStatus::Fail => style.bad("fail"),
        };
        let Check { name, detail, .. } = check;
        out.print_data(&format!("{mark}  {name:<width$}  {detail}"));
        if let Some(remedy) = check.remedy {
            out.print_data(&style.dim(&format!("      {:<width$}  {remedy}", "")));
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (warnings, failures) = (count(CheckStatus::Warn), count(CheckStatus::Fail));
    let warnings = human::format_counted(warnings, "warning");
    let failures = human::format_counted(failures, "failure");
    out.info(&format!(
        "{}, {warnings}, {failures}",
        human::format_counted(checks.len(), "check")
    ));
}
