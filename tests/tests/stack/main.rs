//! Every conformance case, run by the whole embedded stack: it leaves the log that the engine alone leaves.

mod case;
mod clock;
mod doubt;
mod mortal;
mod stored;
mod tool;

use std::path::Path;

use model::event::Emitter;
use tests::conformance::{Case, Trigger, What, cases};

/// A write between two events of one report is something only the engine alone can time.
fn is_engine_only(case: &Case) -> bool {
    case.inputs.iter().any(|happening| {
        let is_amid = |trigger: &Trigger| matches!(trigger, Trigger::At { kind, .. } if kind.emitter() == Emitter::Worker);
        matches!(happening.what, What::Patch(_)) && is_amid(&happening.trigger)
    })
}

fn check(folder: &Path) -> Result<(), String> {
    let case = Case::load(folder).map_err(|error| error.to_string())?;
    if is_engine_only(&case) {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(|error| error.to_string())?;
    let text = runtime.block_on(case::run(&case))?;
    runtime.shutdown_background();
    match case.expected() {
        Some(expected) => match (recorded(&expected), recorded(&text)) {
            (expected, text) if expected == text => Ok(()),
            (expected, text) => Err(difference(&expected, &text)),
        },
        None => Err("nothing is expected yet".to_owned()),
    }
}

/// A log without the starts of tasks that never ended: a start is recorded with whatever its worker records next, so a
/// worker that dies or is stopped may never have said it.
fn recorded(text: &str) -> String {
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
fn difference(expected: &str, actual: &str) -> String {
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
fn is_wanted(folder: &Path) -> bool {
    let wanted = std::env::var("NOETL_CASE").unwrap_or_default();
    folder.to_string_lossy().contains(&wanted)
}

#[test]
fn every_case_leaves_the_same_log_through_the_whole_stack() {
    let folders: Vec<_> = cases().into_iter().filter(|one| is_wanted(one)).collect();
    let halves: Vec<_> = folders.chunks(folders.len().div_ceil(4).max(1)).collect();
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let checks = halves.into_iter().map(|folders| {
            scope.spawn(move || {
                let wrong = folders.iter().filter_map(|folder| {
                    let why = check(folder).err()?;
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
