//! Failure block: the error, the line of the playbook that caused it, and the next commands.

use std::fmt::Write;

use language::playbook::Playbook;
use model::source::Span;
use serde_json::Value;

use crate::render::human;
use crate::terminal_style::TerminalStyle;
use crate::view::{RunView, StepFailure, StepView};

/// Maximum number of other failed iterations to list.
const OTHERS_NAMED_MAX: usize = 8;

/// Returns the block of a failed run; `None` if it has no error.
pub(crate) fn render_run_failure(
    view: &RunView,
    playbook: Option<&Playbook>,
    id: &str,
    style: TerminalStyle,
) -> Option<String> {
    let run_error = view.error.as_ref()?;
    let step = view.failed_step();
    let first_failure = step.and_then(StepView::failure);
    let run_failure = StepFailure {
        task: None,
        attempt: 0,
        attempts_max: None,
        error: run_error.clone(),
    };
    let (iteration, failure) = first_failure.unwrap_or((None, &run_failure));
    let mut out = render_failure(step, iteration, failure, playbook, style);
    if let Some(also) = step.and_then(|step| other_failures(step, iteration)) {
        let _ = writeln!(out, "   = also: {also}");
    }
    let _ = writeln!(out, "   retry the failed steps   noetl retry {id}");
    let _ = writeln!(out, "   show error details       noetl show {id} --failed");
    Some(out)
}

/// Returns one failure with its position in the playbook.
pub(crate) fn render_failure(
    step: Option<&StepView>,
    iteration: Option<u64>,
    failure: &StepFailure,
    playbook: Option<&Playbook>,
    style: TerminalStyle,
) -> String {
    let error = &failure.error;
    let mut out = String::new();
    let head = style.bad(&format!("error[{}]", error.code));
    let _ = writeln!(out, "{head}: {}", human::escape_controls(error.message.trim_end()));
    let address = failure_address(step, iteration, failure);
    let span = playbook.and_then(|playbook| failure_span(step, failure, playbook));
    if let (Some(playbook), Some(span)) = (playbook, span) {
        write_snippet(&mut out, playbook, span, &address, style);
    } else {
        let corner = style.dim(style.choose("┌─", "-->"));
        let _ = writeln!(out, "   {corner} {address}");
    }
    for key in ["exception_type", "exit_code", "status", "stderr", "child_execution_id"] {
        if let Some(value) = error.details.get(key).filter(|value| !value.is_null() && *value != "") {
            let text = crate::render::preview::preview_value(value, 120);
            let _ = writeln!(out, "   {} {key}: {text}", style.dim("="));
        }
    }
    out
}

/// Returns `step#iteration/task, attempt n of m`.
fn failure_address(step: Option<&StepView>, iteration: Option<u64>, failure: &StepFailure) -> String {
    let mut text = step.map_or_else(|| "the run".to_owned(), |step| step.step.to_string());
    if let Some(index) = iteration {
        let _ = write!(text, "#{index}");
    }
    if let Some(task) = &failure.task {
        let _ = write!(text, "/{task}");
    }
    match (failure.attempt, failure.attempts_max) {
        (0, _) => {}
        (attempt, Some(max)) => {
            let _ = write!(text, ", attempt {attempt} of {max}");
        }
        (attempt, None) if attempt > 1 => {
            let _ = write!(text, ", attempt {attempt}");
        }
        _ => {}
    }
    text
}

/// Returns the position in the error details, else the position of the task, else of the step.
fn failure_span(step: Option<&StepView>, failure: &StepFailure, playbook: &Playbook) -> Option<Span> {
    let details = &failure.error.details;
    let number = |key: &str| u32::try_from(details.get(key)?.as_u64()?).ok();
    let file = details.get("file").and_then(Value::as_str);
    let is_here = file.is_none_or(|file| file == &*playbook.source.name);
    if let (true, Some(line)) = (is_here, number("line").filter(|line| *line > 0)) {
        return Some(Span {
            line,
            column: number("column").unwrap_or(0),
            ..Span::default()
        });
    }
    let playbook_step = playbook.step(step?.step.as_str())?;
    let task = failure
        .task
        .as_ref()
        .and_then(|label| playbook_step.task(label.as_str()));
    Some(task.map_or(playbook_step.span, |(_, task)| task.span))
}

fn write_snippet(out: &mut String, playbook: &Playbook, span: Span, label: &str, style: TerminalStyle) {
    let number = span.line.to_string();
    let gutter = " ".repeat(number.len().max(2));
    let text = &playbook.source.text;
    let line = text.lines().nth((span.line as usize).saturating_sub(1)).unwrap_or("");
    let line: String = human::escape_controls(line).replace('\t', " ");
    let indent = line.chars().take_while(|c| c.is_whitespace()).count();
    let column = match span.column {
        0 => indent,
        column => (column as usize - 1).min(line.chars().count()),
    };
    let width = underline_width(text, span, &line, column);
    let corner = style.dim(style.choose("┌─", "-->"));
    let bar = style.dim(style.choose("│", "|"));
    let column_number = column + 1;
    let name = &playbook.source.name;
    let _ = writeln!(out, "{gutter} {corner} {name}:{}:{column_number}", span.line);
    let wide = gutter.len();
    let _ = writeln!(out, "{number:>wide$} {bar} {}", human::truncate(&line, 160));
    let mark = style.bad(&"^".repeat(width));
    let _ = writeln!(out, "{gutter} {bar} {}{mark} {label}", " ".repeat(column));
}

/// Returns the number of characters to underline: the part of the span on this line, else one word.
fn underline_width(text: &str, span: Span, line: &str, column: usize) -> usize {
    let marked = text.get(span.start as usize..span.end as usize).unwrap_or("");
    let first = marked.lines().next().unwrap_or("").trim_end().chars().count();
    let line_end = line.chars().skip(column);
    let remaining_chars = line_end.clone().count().max(1);
    let word_chars = line_end.take_while(|c| !c.is_whitespace() && *c != ':').count();
    let width = if first > 0 { first } else { word_chars };
    width.clamp(1, remaining_chars)
}

/// Lists the other failed iterations.
fn other_failures(step: &StepView, displayed_iteration: Option<u64>) -> Option<String> {
    let loop_view = step.loop_view.as_ref()?;
    let reasons: Vec<String> = loop_view
        .failed
        .iter()
        .filter(|index| Some(**index) != displayed_iteration)
        .take(OTHERS_NAMED_MAX)
        .map(u64::to_string)
        .collect();
    let is_displayed = displayed_iteration.is_some_and(|index| loop_view.failed.contains(&index));
    let hidden_count = loop_view.failed_count() - u64::from(is_displayed) - reasons.len() as u64;
    let mut text = reasons.join(", ");
    if hidden_count > 0 {
        let _ = write!(text, " and {} more", human::format_count(hidden_count));
    }
    (!reasons.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use model::event::EventBody;
    use model::outcome::Outcome;

    use super::*;
    use crate::view::testing::{EventLogFixture, task_ended, task_error, task_location};

    const TEXT: &str = "\
apiVersion: noetl.io/v2
kind: Playbook
metadata:
  name: demo
workflow:
  - step: load
    tool:
      - save:
          kind: noop
";

    fn failed_run(details: &[(&str, u32)]) -> RunView {
        let mut broken = task_error("BROKEN", "load");
        for (key, value) in details {
            broken = broken.with_detail(key, *value);
        }
        let mut log = EventLogFixture::started();
        log.push(
            task_location("load", None, "save", 3),
            EventBody::TaskFailed(Box::new(task_ended(&Outcome::error(broken.clone())))),
        )
        .fail_run("load", broken);
        RunView::from_events(&log.events)
    }

    fn playbook() -> Playbook {
        language::playbook::parse("demo.yaml", TEXT.as_bytes())
            .playbook
            .unwrap()
    }

    #[test]
    fn the_block_points_at_the_task_that_failed() {
        let playbook = playbook();
        let block = render_run_failure(&failed_run(&[]), Some(&playbook), "7", TerminalStyle::PLAIN).unwrap();
        assert!(block.starts_with("error[BROKEN]: BROKEN happened\n"), "{block}");
        assert!(block.contains("demo.yaml:9:11"), "{block}");
        assert!(block.contains("save"), "{block}");
        assert!(block.contains("load/save, attempt 3"), "{block}");
        assert!(block.contains("noetl retry 7") && block.contains("noetl show 7 --failed"));
    }

    #[test]
    fn a_line_named_by_the_error_beats_the_tasks_own() {
        let playbook = playbook();
        let view = failed_run(&[("line", 9), ("column", 17)]);
        let block = render_run_failure(&view, Some(&playbook), "7", TerminalStyle::PLAIN).unwrap();
        assert!(block.contains("demo.yaml:9:17"), "{block}");
        assert!(block.contains("^^^^ load/save"), "{block}");
    }

    #[test]
    fn without_the_playbook_the_address_is_enough() {
        let block = render_run_failure(&failed_run(&[]), None, "7", TerminalStyle::PLAIN).unwrap();
        assert!(block.contains("┌─ load/save"), "{block}");
    }
}
