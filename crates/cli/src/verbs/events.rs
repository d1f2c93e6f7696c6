//! `noetl events`: prints the event log of a run, and follows it with `-f`.

use std::fmt::Write;

use model::event::Event;
use model::id::{ExecutionId, Seq};

use crate::app::{App, VerbResult};
use crate::args::EventsArgs;
use crate::cli_error::{CliError, Exit};
use crate::find;
use crate::render::{human, preview};
use crate::runs::{self, RunBackend, RunUpdate};

/// Prints events.
pub(crate) async fn events(app: &App, args: &EventsArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, &args.id).await?;
    let mut after = Seq(args.after);
    if app.output.format == crate::args::OutputFormat::Json && !args.follow {
        let mut all = Vec::new();
        read_events(&*backend, row.id, &mut after, &mut |event| {
            if is_selected(args, event) {
                all.push(event.to_json());
            }
            true
        })
        .await?;
        app.output.print_json(&all);
        return Ok(Exit::Done);
    }
    let mut each = |event: &Event| {
        if is_selected(args, event) {
            print_event(app, event);
        }
        !app.output.is_closed()
    };
    read_events(&*backend, row.id, &mut after, &mut each).await?;
    if args.follow {
        follow_events(app, &*backend, row.id, after, &mut each).await?;
    }
    Ok(Exit::Done)
}

/// Callback for an event; returns whether to continue.
type EventVisitor<'a> = dyn FnMut(&Event) -> bool + Send + 'a;

/// Passes new events to `each` until the run ends or standard output is closed.
async fn follow_events(
    app: &App,
    backend: &dyn RunBackend,
    id: ExecutionId,
    mut after: Seq,
    visitor: &mut EventVisitor<'_>,
) -> Result<(), CliError> {
    let mut watch = backend.watch_run(id, after);
    while !app.output.is_closed() {
        match watch.next_update().await? {
            RunUpdate::Events(events) => {
                for event in events.iter().filter(|event| event.seq > after) {
                    visitor(event);
                }
                after = events.last().map_or(after, |event| event.seq.max(after));
            }
            RunUpdate::Notice(text) => app.output.info(&text),
            RunUpdate::Commit(_) | RunUpdate::LogChanged => {
                read_events(backend, id, &mut after, visitor).await?;
            }
            RunUpdate::Closed => return read_events(backend, id, &mut after, visitor).await,
        }
    }
    Ok(())
}

fn is_selected(args: &EventsArgs, event: &Event) -> bool {
    args.kinds.is_empty() || args.kinds.contains(&event.kind())
}

/// Passes the events of the log after `after` to `visitor`, and advances `after`.
async fn read_events(
    backend: &dyn RunBackend,
    id: ExecutionId,
    after: &mut Seq,
    visitor: &mut EventVisitor<'_>,
) -> Result<(), CliError> {
    loop {
        let page = backend.events(id, *after).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        *after = last.seq;
        if !page.iter().all(&mut *visitor) {
            return Ok(());
        }
    }
}

fn print_event(app: &App, event: &Event) {
    if app.output.is_machine() {
        app.output.print_data(event.to_raw().text());
        return;
    }
    let style = app.output.stdout;
    let mut location = event
        .location
        .step
        .as_ref()
        .map_or_else(String::new, ToString::to_string);
    if let Some(index) = event.location.iteration {
        let _ = write!(location, "#{index}");
    }
    if let Some(task) = &event.location.task {
        let _ = write!(location, "/{task}");
    }
    if let Some(page) = event.location.page {
        let _ = write!(location, " page {page}");
    }
    if event.location.attempt > 1 {
        let _ = write!(location, "@{}", event.location.attempt);
    }
    let remaining_columns = style.columns.unwrap_or(160).saturating_sub(72).max(20);
    let payload = preview::preview_value(&event.body.payload().to_value(), remaining_columns);
    let payload = if payload == "{}" { String::new() } else { payload };
    let line = format!(
        "{:>6}  {}  {:<28}  {:<24}  {}",
        event.seq.0,
        style.dim(&human::format_time(event.recorded_at)),
        event.kind().name(),
        location,
        style.dim(&payload),
    );
    app.output.print_data(line.trim_end());
}
