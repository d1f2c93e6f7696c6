//! `noetl logs`: prints the stdout and stderr of the tasks of a run.

use std::time::Duration;

use model::status::RunStatus;
use worker::{LogLine, LogStream};

use crate::app::{App, Ended};
use crate::args::{Format, LogsArgs};
use crate::find;
use crate::problem::Exit;
use crate::render::human;
use crate::runs;

/// Polling interval if the store sends no change notification.
const PATIENCE: Duration = Duration::from_millis(300);

/// Prints log lines.
pub(crate) async fn logs(app: &App, args: &LogsArgs) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, &args.id).await?;
    let collects = app.out.format == Format::Json && !args.follow;
    let mut all: Vec<LogLine> = Vec::new();
    let mut after = 0;
    loop {
        // Reads the status before the lines: if it is terminal, the lines read after it are complete.
        let status = runs.get(row.id).await?.map(|row| row.status);
        let mut is_more = true;
        while is_more && !app.out.is_closed() {
            let page = runs.lines(row.id, after).await?;
            (after, is_more) = (page.next, page.is_more);
            let fitting = page.fresh.into_iter().filter(|line| fits(line, args));
            if collects {
                all.extend(fitting);
            } else {
                fitting.for_each(|line| print(app, &line));
            }
        }
        let is_over = status.is_none_or(RunStatus::is_terminal);
        if !args.follow || is_over || app.out.is_closed() {
            break;
        }
        runs.changed(PATIENCE).await;
    }
    if collects {
        app.out.records(&all);
    }
    Ok(Exit::Done)
}

fn fits(line: &LogLine, args: &LogsArgs) -> bool {
    let is =
        |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| wanted == name);
    is(line.step.as_str(), &args.step) && is(line.task.as_str(), &args.task)
}

fn print(app: &App, line: &LogLine) {
    if app.out.is_machine() {
        let text = serde_json::to_string(line).expect("a log line serializes to JSON");
        app.out.data(&text);
        return;
    }
    let surface = app.out.stdout;
    let iteration = line
        .iteration
        .map_or_else(String::new, |index| format!("#{index}"));
    let attempt = if line.attempt > 1 {
        format!("@{}", line.attempt)
    } else {
        String::new()
    };
    let place = format!("{}{iteration}/{}{attempt}", line.step, line.task);
    let text = match line.stream {
        LogStream::Stdout => human::tame(&line.text),
        LogStream::Stderr => surface.warn(&human::tame(&line.text)),
    };
    let head = surface.dim(&format!("{} {place}", human::clock(line.time)));
    app.out.data(&format!("{head}  {text}"));
}
