//! `noetl logs`: what the tasks of a run wrote to their output.

use std::time::Duration;

use model::status::RunStatus;
use worker::{LogLine, LogStream};

use crate::app::{App, Ended};
use crate::args::{Format, LogsArgs};
use crate::find;
use crate::local;
use crate::problem::{Exit, Problem};
use crate::render::human;

/// How long to wait for news when nobody tells of any.
const PATIENCE: Duration = Duration::from_millis(300);

/// Prints log lines.
pub(crate) async fn logs(app: &App, args: &LogsArgs) -> Ended {
    let log = local::existing(&app.settings)?;
    let row = find::run(&*log.store, &args.id).await?;
    let dir = local::logs(&app.settings);
    let mut printed = 0;
    loop {
        let status = log.store.execution(row.id).await?.map(|row| row.status);
        let lines = worker::read_logs(&dir, row.id)
            .map_err(|error| Problem::unreadable(&dir.display().to_string(), &error))?;
        let fresh: Vec<&LogLine> = lines
            .iter()
            .skip(printed)
            .filter(|line| fits(line, args))
            .collect();
        printed = lines.len();
        if app.out.format == Format::Json && !args.follow {
            app.out.records(&fresh);
        } else {
            for line in fresh {
                print(app, line);
            }
        }
        let is_over = status.is_none_or(RunStatus::is_terminal);
        if !args.follow || is_over || app.out.is_closed() {
            return Ok(Exit::Done);
        }
        let _ = tokio::time::timeout(PATIENCE, log.store.changed()).await;
    }
}

fn fits(line: &LogLine, args: &LogsArgs) -> bool {
    let is =
        |name: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| wanted == name);
    is(line.step.as_str(), &args.step) && is(line.task.as_str(), &args.task)
}

fn print(app: &App, line: &LogLine) {
    if app.out.is_machine() {
        let text = serde_json::to_string(line).expect("a log line serialises to JSON");
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
