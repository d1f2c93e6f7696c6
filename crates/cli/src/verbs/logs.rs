//! `noetl logs`: prints the stdout and stderr of the tasks of a run.

use std::time::Duration;

use model::status::RunStatus;
use worker::{LogLine, LogStream};

use crate::app::{App, VerbResult};
use crate::args::{LogsArgs, OutputFormat};
use crate::cli_error::Exit;
use crate::find;
use crate::render::human;
use crate::runs;

/// Polling interval if the store sends no change notification.
const POLL_TIMEOUT: Duration = Duration::from_millis(300);

/// Prints log lines.
pub(crate) async fn logs(app: &App, args: &LogsArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, &args.id).await?;
    let collects = app.output.format == OutputFormat::Json && !args.follow;
    let mut all: Vec<LogLine> = Vec::new();
    let mut after = 0;
    loop {
        // Reads the status before the lines: if it is terminal, the lines read after it are complete.
        let status = backend.find_row(row.id).await?.map(|row| row.status);
        let mut is_more = true;
        while is_more && !app.output.is_closed() {
            let page = backend.log_lines(row.id, after).await?;
            (after, is_more) = (page.next_after, page.has_more);
            let fitting = page.lines.into_iter().filter(|line| matches_filter(line, args));
            if collects {
                all.extend(fitting);
            } else {
                fitting.for_each(|line| print_line(app, &line));
            }
        }
        let is_over = status.is_none_or(RunStatus::is_terminal);
        if !args.follow || is_over || app.output.is_closed() {
            break;
        }
        backend.wait_for_change(POLL_TIMEOUT).await;
    }
    if collects {
        app.output.print_records(&all);
    }
    Ok(Exit::Done)
}

fn matches_filter(line: &LogLine, args: &LogsArgs) -> bool {
    let matches = |name: &str, expected: &Option<String>| expected.as_ref().is_none_or(|expected| expected == name);
    matches(line.step.as_str(), &args.step) && matches(line.task.as_str(), &args.task)
}

fn print_line(app: &App, line: &LogLine) {
    if app.output.is_machine() {
        let text = serde_json::to_string(line).expect("a log line serializes to JSON");
        app.output.print_data(&text);
        return;
    }
    let style = app.output.stdout;
    let iteration = line.iteration.map_or_else(String::new, |index| format!("#{index}"));
    let attempt = if line.attempt > 1 {
        format!("@{}", line.attempt)
    } else {
        String::new()
    };
    let location = format!("{}{iteration}/{}{attempt}", line.step, line.task);
    let text = match line.stream {
        LogStream::Stdout => human::escape_controls(&line.text),
        LogStream::Stderr => style.warn(&human::escape_controls(&line.text)),
    };
    let head = style.dim(&format!("{} {location}", human::format_time(line.time)));
    app.output.print_data(&format!("{head}  {text}"));
}
