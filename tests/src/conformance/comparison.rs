//! Compares the log of a case with the expected one.

use model::playbook::RouteMode;

use crate::conformance::case::Case;

const NO_EXPECTATION: &str = "the case has no expected log; run it with NOETL_ACCEPT=1 and review the file";

/// Compares a log with the expected one, except for what differs between runs (see [`recorded_lines`]).
pub fn compare_log(case: &Case, text: &str) -> Result<(), String> {
    match case.expected() {
        Some(expected) => match (recorded_lines(&expected), recorded_lines(text)) {
            (expected, text) if expected == text => Ok(()),
            (expected, text) => Err(first_difference(&expected, &text)),
        },
        None => Err(NO_EXPECTATION.to_owned()),
    }
}

/// The lines of a log that are the same in each run, with the decisions sorted.
///
/// The start of a task that never ended is left out: a worker reports a start together with what follows it, so a worker
/// that is killed or stopped may not have reported it.
fn recorded_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let compared = lines.iter().enumerate().filter(|(at, line)| {
        let siblings = lines[at + 1..].iter();
        let mut siblings = siblings.take_while(|other| indent(other) == indent(line));
        let fields: Vec<&str> = line.split_whitespace().collect();
        match fields[..] {
            ["task.started", task] => siblings.any(|other| {
                let mut fields = other.split_whitespace();
                let (kind, of) = (fields.next().unwrap_or_default(), fields.next());
                kind.starts_with("task.") && kind != "task.started" && of == Some(task)
            }),
            ["step.started" | "loop.iteration.started"] => {
                siblings.any(|other| other.trim_start().starts_with("task.") && !other.contains("task.started "))
            }
            _ => true,
        }
    });
    let mut compared: Vec<&str> = compared.map(|(_, line)| *line).collect();
    // Branches race, so only the order within a step run and an iteration is compared.
    for decided in compared.split_mut(|line| indent(line) < 4) {
        if decided.iter().all(|line| indent(line) == 4 && !line.ends_with(": |")) {
            decided.sort_unstable();
        }
    }
    compared.join("\n")
}

/// The first lines that differ, with the lines around them.
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

/// Compares a log of a run in real time with the expected one. If the run forks, its branches race and the last one to end
/// gives the result, so the result is not compared.
pub fn compare_raced_log(case: &Case, text: &str) -> Result<(), String> {
    let parsed = language::playbook::parse("playbook", case.playbook.as_bytes());
    let forks = parsed.playbook.is_some_and(|playbook| {
        let modes = playbook.steps.iter().map(|step| step.next.mode);
        modes.into_iter().any(|mode| mode == RouteMode::Inclusive)
    });
    if !forks {
        return compare_log(case, text);
    }
    let expected = case.expected().ok_or(NO_EXPECTATION)?;
    let (expected, actual) = (recorded_lines(&expected), recorded_lines(text));
    let (expected, actual) = (without_result(&expected), without_result(&actual));
    if expected == actual {
        return Ok(());
    }
    Err(first_difference(&expected, &actual))
}

/// A log without the run's result and the step that returned it.
fn without_result(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("result: "));
    let lines = lines.map(|line| match line.split_once(" result=") {
        Some((before, after)) if before.contains(".finished ") => {
            let tail = after.split_once(' ').map_or("", |(_, tail)| tail);
            format!("{before} {tail}")
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_result_of_a_run_is_left_out_where_branches_race() {
        let log =
            "root:\n  result: '1'\n  ctx: '{}'\n  playbook.finished success generation=1 result=a\n  a:1 step.done";
        let other = log.replace("'1'", "'2'").replace("result=a", "result=b");
        assert_eq!(without_result(log), without_result(&other));
        for changed in [log.replace("success", "error"), log.replace("a:1", "b:1")] {
            assert_ne!(without_result(log), without_result(&changed));
        }
    }
}
