//! Every conformance case, run by a whole stack: it leaves the log that the engine alone leaves, embedded on SQLite as
//! well as over HTTP on Postgres.

mod assignments;
mod case;
mod deployment;
mod lost_replies;
mod not_loaded;
mod tool;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use language::playbook::Playbook;
use model::event::{AllowedSource, Event};
use model::playbook::RouteMode;
use tests::conformance::{Case, ExternalInput, Trigger, case_folders};
use tests::peers::PostgresServer;

use crate::deployment::CaseDeployment;

/// A case that takes longer than this is not run in real time.
const REAL_TIME_MAX: Duration = Duration::from_secs(3);
/// So many databases are used beside each other.
const DATABASES: usize = 4;

/// A write between two events of one report is something only the engine alone can time.
fn is_engine_only(case: &Case) -> bool {
    case.inputs.iter().any(|happening| {
        let is_amid = |trigger: &Trigger| matches!(trigger, Trigger::OnEvent { kind, .. } if kind.allowed_source() == AllowedSource::Worker);
        matches!(happening.input, ExternalInput::Patch(_)) && is_amid(&happening.trigger)
    })
}

fn check_case(folder: &Path) -> Result<(), String> {
    let case = Case::load(folder).map_err(|error| error.to_string())?;
    if is_engine_only(&case) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    let text = runtime.block_on(case::run_case(&case, CaseDeployment::Embedded))?;
    runtime.shutdown_background();
    compare_log(&case, &text)
}

fn compare_log(case: &Case, text: &str) -> Result<(), String> {
    match case.expected() {
        Some(expected) => match (recorded_lines(&expected), recorded_lines(text)) {
            (expected, text) if expected == text => Ok(()),
            (expected, text) => Err(first_difference(&expected, &text)),
        },
        None => Err("nothing is expected yet".to_owned()),
    }
}

/// A log without the starts of tasks that never ended: a start is recorded with whatever its worker records next, so a
/// worker that dies or is stopped may never have said it.
fn recorded_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let kept = lines.iter().enumerate().filter(|(at, line)| {
        let rest = lines[at + 1..].iter();
        let mut rest = rest.take_while(|other| indent(other) == indent(line));
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["task.started", task] => rest.any(|other| {
                let mut words = other.split_whitespace();
                let (kind, of) = (words.next().unwrap_or_default(), words.next());
                kind.starts_with("task.") && kind != "task.started" && of == Some(task)
            }),
            ["step.started" | "loop.iteration.started"] => rest.any(|other| {
                other.trim_start().starts_with("task.") && !other.contains("task.started ")
            }),
            _ => true,
        }
    });
    let mut kept: Vec<&str> = kept.map(|(_, line)| *line).collect();
    // Branches may overtake each other; order counts within a step run and an iteration.
    for decided in kept.split_mut(|line| indent(line) < 4) {
        if decided
            .iter()
            .all(|line| indent(line) == 4 && !line.ends_with(": |"))
        {
            decided.sort_unstable();
        }
    }
    kept.join("\n")
}

/// The first lines that differ, with what surrounds them.
fn first_difference(expected: &str, actual: &str) -> String {
    let expected: Vec<&str> = expected.lines().collect();
    let actual: Vec<&str> = actual.lines().collect();
    let same = expected.iter().zip(&actual).take_while(|(a, b)| a == b);
    let first = same.count();
    let around = |lines: &[&str]| {
        let from = first.saturating_sub(2).min(lines.len());
        let to = (first + 4).min(lines.len());
        lines[from..to].join("\n    ")
    };
    format!(
        "line {}:\n  expected\n    {}\n  found\n    {}",
        first + 1,
        around(&expected),
        around(&actual)
    )
}

#[expect(
    clippy::disallowed_methods,
    reason = "one case is asked for through the environment, as test runners pass no flags"
)]
fn is_selected(folder: &Path) -> bool {
    let wanted = std::env::var("NOETL_CASE").unwrap_or_default();
    folder.to_string_lossy().contains(&wanted)
}

#[test]
fn every_case_leaves_the_same_log_through_the_whole_stack() {
    let folders: Vec<_> = case_folders()
        .into_iter()
        .filter(|one| is_selected(one))
        .collect();
    let halves: Vec<_> = folders.chunks(folders.len().div_ceil(4).max(1)).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks = halves.into_iter().map(|folders| {
            scope.spawn(move || {
                let wrong = folders.iter().filter_map(|folder| {
                    let why = check_case(folder).err()?;
                    Some(format!("{}: {why}", folder.display()))
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
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Branches of a run race in real time, and its result is that of whichever ends last; the rest of the log is compared.
fn compare_raced_log(case: &Case, text: &str) -> Result<(), String> {
    let parsed = language::playbook::parse("playbook", case.playbook.as_bytes());
    let forks = parsed.playbook.is_some_and(|playbook| {
        let modes = playbook.steps.iter().map(|step| step.next.mode);
        modes.into_iter().any(|mode| mode == RouteMode::Inclusive)
    });
    if !forks {
        return compare_log(case, text);
    }
    let expected = case.expected().ok_or("nothing is expected yet")?;
    let (expected, found) = (recorded_lines(&expected), recorded_lines(text));
    let (expected, found) = (without_result(&expected), without_result(&found));
    if expected == found {
        return Ok(());
    }
    Err(first_difference(&expected, &found))
}

/// A log without the run's result and the step that gave it.
fn without_result(text: &str) -> String {
    let kept = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("result: "));
    let kept = kept.map(|line| match line.split_once(" result=") {
        Some((before, after)) if before.contains(".finished ") => {
            let rest = after.split_once(' ').map_or("", |(_, rest)| rest);
            format!("{before} {rest}")
        }
        _ => line.to_owned(),
    });
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn only_the_result_of_a_run_is_left_out_where_branches_race() {
    let log = "root:\n  result: '1'\n  ctx: '{}'\n  playbook.finished success generation=1 result=a\n  a:1 step.done";
    let other = log.replace("'1'", "'2'").replace("result=a", "result=b");
    assert_eq!(without_result(log), without_result(&other));
    for changed in [log.replace("success", "error"), log.replace("a:1", "b:1")] {
        assert_ne!(without_result(log), without_result(&changed));
    }
}

/// Why a case is not run in real time, if it is not.
fn skip_reason(case: &Case) -> Option<&'static str> {
    if is_engine_only(case) {
        return Some("only the engine alone can time it");
    }
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
    let dies = |what: &ExternalInput| matches!(what, ExternalInput::Crash);
    if case.inputs.iter().any(|input| dies(&input.input)) {
        return Some("a worker dies, and its claims last fifteen seconds");
    }
    let ran = tests::conformance::run_case(case).ok()?;
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

/// Runs cases one after the other on one database; answers what is wrong, and how many were left out.
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
        let ran = runtime.block_on(case::run_case(
            &case,
            CaseDeployment::cluster(store.clone()),
        ));
        if let Err(why) = ran.and_then(|text| compare_raced_log(&case, &text)) {
            wrong.push(format!("{}: {why}", folder.display()));
        }
    }
    runtime.shutdown_background();
    (wrong, skipped)
}

#[test]
fn every_case_without_long_waits_leaves_the_same_log_over_http_on_postgres() {
    let folders: Vec<_> = case_folders()
        .into_iter()
        .filter(|one| is_selected(one))
        .collect();
    let lanes: Vec<_> = folders
        .chunks(folders.len().div_ceil(DATABASES).max(1))
        .collect();
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
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Those that take long in real time are the few.
    assert!(skipped * 3 <= folders.len(), "{skipped} cases are left out");
}
