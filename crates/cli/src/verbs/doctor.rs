//! `noetl doctor`: checks this machine and prints the results with remedies.

use crate::app::{App, Ended};
use crate::args::DoctorArgs;
use crate::doctor::{self, Check, State};
use crate::problem::Exit;
use crate::render::human;

/// Runs all checks and prints their results.
pub(crate) async fn doctor(app: &App, args: &DoctorArgs) -> Ended {
    let mut checks = doctor::programs(app);
    checks.extend(doctor::storage(app));
    checks.extend(doctor::contents(app).await);
    checks.extend(doctor::isolation(app));
    checks.push(doctor::port(&args.listen).await);
    checks.extend(doctor::server(app).await.unwrap_or_default());
    show(app, &checks);
    let failed = checks.iter().filter(|check| check.state == State::Fail);
    // `Unreachable` takes precedence over other exit codes.
    let exits: Vec<Exit> = failed.map(|check| check.exit).collect();
    Ok(match exits.first() {
        None => Exit::Done,
        Some(_) if exits.contains(&Exit::Unreachable) => Exit::Unreachable,
        Some(exit) => *exit,
    })
}

fn show(app: &App, checks: &[Check]) {
    let out = &app.out;
    if out.is_machine() {
        out.records(checks);
        return;
    }
    let width = checks.iter().map(|check| check.name.len()).max();
    let width = width.unwrap_or_default();
    let surface = out.stdout;
    for check in checks {
        let mark = match check.state {
            State::Ok => surface.good("ok  "),
            State::Warn => surface.warn("warn"),
            State::Fail => surface.bad("fail"),
        };
        let Check { name, detail, .. } = check;
        out.data(&format!("{mark}  {name:<width$}  {detail}"));
        if let Some(remedy) = check.remedy {
            out.data(&surface.dim(&format!("      {:<width$}  {remedy}", "")));
        }
    }
    let count = |state| checks.iter().filter(|check| check.state == state).count();
    let (warnings, failures) = (count(State::Warn), count(State::Fail));
    let warnings = human::counted(warnings, "warning");
    let failures = human::counted(failures, "failure");
    out.note(&format!(
        "{}, {warnings}, {failures}",
        human::counted(checks.len(), "check")
    ));
}
