//! Conformance cases on the stores of a deployment: the log is the expected one on SQLite in one process, and on Postgres
//! over HTTP.

mod lost_replies;
mod not_loaded;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use language::playbook::Playbook;
use model::event::{Event, EventKind};
use tests::conformance::{
    Case, CaseDeployment, ExternalInput, ScheduledInput, Trigger, case_folders, compare_log, compare_raced_log,
    run_case, run_case_in_virtual_time,
};
use tests::peers::PostgresServer;

/// A case that takes longer than this is not run in real time.
const REAL_TIME_MAX: Duration = Duration::from_secs(3);
/// Number of databases that are used at the same time.
const DATABASES: usize = 4;

fn check_case(folder: &Path) -> Result<(), String> {
    let case = Case::load(folder).map_err(|error| error.to_string())?;
    let result = run_case_in_virtual_time(&case, CaseDeployment::Sqlite)?;
    compare_log(&case, &result.text)
}

#[expect(
    clippy::disallowed_methods,
    reason = "one case is selected through the environment, because test runners pass no flags"
)]
fn is_selected(folder: &Path) -> bool {
    let wanted = std::env::var("NOETL_CASE").unwrap_or_default();
    folder.to_string_lossy().contains(&wanted)
}

#[test]
fn every_case_leaves_the_same_log_through_the_whole_stack() {
    let folders: Vec<_> = case_folders().into_iter().filter(|one| is_selected(one)).collect();
    let halves: Vec<_> = folders.chunks(folders.len().div_ceil(4).max(1)).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks = halves.into_iter().map(|folders| {
            scope.spawn(move || {
                let wrong = folders.iter().filter_map(|folder| {
                    let reason = check_case(folder).err()?;
                    Some(format!("{}: {reason}", folder.display()))
                });
                wrong.collect::<Vec<_>>()
            })
        });
        let checks: Vec<_> = checks.collect();
        checks
            .into_iter()
            .flat_map(|check| check.join().expect("a case does not panic"))
            .collect()
    });
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// Why a case is not run in real time, if it is not.
fn skip_reason(case: &Case) -> Option<&'static str> {
    if case.schedule().times().any(|at| at > REAL_TIME_MAX) {
        return Some("it waits for long");
    }
    let parsed = language::playbook::parse("playbook", case.playbook.as_bytes());
    let is_each = |playbook: &Playbook| playbook.steps.iter().any(|step| !step.is_joining);
    if parsed.playbook.as_ref().is_some_and(is_each) {
        return Some("tokens race for the numbers of a step's runs");
    }
    if !case.versions.is_empty() {
        return Some("versions of a playbook count on in a database that others used");
    }
    let is_crash = |scheduled: &ScheduledInput| matches!(scheduled.input, ExternalInput::Crash);
    if case.inputs.iter().any(is_crash) {
        return Some("a worker crashes, and its leases last fifteen seconds");
    }
    let follows_retry = |input: &ScheduledInput| {
        let kind = EventKind::ExecutionRetried;
        matches!(&input.trigger, Trigger::OnEvent { kind: event, .. } if *event == kind)
    };
    if case.inputs.iter().any(follows_retry) {
        return Some("an input races with the report of a worker that resumed a pipeline");
    }
    let ran = run_case_in_virtual_time(case, CaseDeployment::Memory).ok()?;
    if !ran.status.is_terminal() {
        return Some("it never ends");
    }
    let span = |events: &[Event]| {
        let ends = events.first().zip(events.last());
        ends.map_or(Duration::ZERO, |(first, last)| {
            last.recorded_at.since(first.recorded_at)
        })
    };
    let longest = ran.logs.iter().map(|log| span(&log.events)).max();
    (longest? > REAL_TIME_MAX).then_some("it waits for long")
}

/// Runs cases one after the other on one database; returns the failures, and the number of skipped cases.
fn run_cases(folders: &[PathBuf]) -> (Vec<String>, usize) {
    let database = PostgresServer::shared().fresh_database();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime starts");
    let url = store::PostgresUrl::new(database.url());
    let mut options = store::PostgresOptions::new(url);
    options.pool_size = 4;
    let store = runtime.block_on(store::PostgresStore::open(options));
    let store = Arc::new(store.expect("the store opens"));
    let (mut wrong, mut skipped) = (Vec::new(), 0);
    for folder in folders {
        let case = Case::load(folder).expect("a case can be read");
        if skip_reason(&case).is_some() {
            skipped += 1;
            continue;
        }
        let ran = runtime.block_on(run_case(&case, CaseDeployment::cluster(store.clone())));
        if let Err(reason) = ran.and_then(|result| compare_raced_log(&case, &result.text)) {
            wrong.push(format!("{}: {reason}", folder.display()));
        }
    }
    runtime.shutdown_background();
    (wrong, skipped)
}

#[test]
fn every_case_without_long_waits_leaves_the_same_log_over_http_on_postgres() {
    let folders: Vec<_> = case_folders().into_iter().filter(|one| is_selected(one)).collect();
    let lanes: Vec<_> = folders.chunks(folders.len().div_ceil(DATABASES).max(1)).collect();
    let (wrong, skipped) = std::thread::scope(|scope| {
        let lanes: Vec<_> = lanes
            .into_iter()
            .map(|folders| scope.spawn(move || run_cases(folders)))
            .collect();
        let mut all = (Vec::new(), 0);
        for lane in lanes {
            let (wrong, skipped) = lane.join().expect("a case does not panic");
            all.0.extend(wrong);
            all.1 += skipped;
        }
        all
    });
    println!("{skipped} of {} cases are left out", folders.len());
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    // Most cases must run.
    assert!(skipped * 3 <= folders.len(), "{skipped} cases are left out");
}
