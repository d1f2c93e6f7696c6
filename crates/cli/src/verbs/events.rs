//! `noetl events`: prints the event log of a run, and follows it with `-f`.

use std::fmt::Write;

use model::event::Event;
use model::id::{ExecutionId, Seq};

use crate::app::{App, Ended};
use crate::args::EventsArgs;
use crate::find;
use crate::problem::{Exit, Problem};
use crate::render::{human, preview};
use crate::runs::{self, News, Runs};

/// Prints events.
pub(crate) async fn events(app: &App, args: &EventsArgs) -> Ended {
    let runs = runs::existing(app)?;
    let row = find::run(&*runs, &args.id).await?;
    let mut after = Seq(args.after);
    if app.out.format == crate::args::Format::Json && !args.follow {
        let mut all = Vec::new();
        read(&*runs, row.id, &mut after, &mut |event| {
            if is_wanted(args, event) {
                all.push(event.to_json());
            }
            true
        })
        .await?;
        app.out.json(&all);
        return Ok(Exit::Done);
    }
    let mut each = |event: &Event| {
        if is_wanted(args, event) {
            print(app, event);
        }
        !app.out.is_closed()
    };
    read(&*runs, row.id, &mut after, &mut each).await?;
    if args.follow {
        follow(app, &*runs, (row.id, after), &mut each).await?;
    }
    Ok(Exit::Done)
}

/// Callback for an event; returns whether to continue.
type Each<'a> = dyn FnMut(&Event) -> bool + Send + 'a;

/// Passes new events to `each` until the run ends or standard output is closed.
async fn follow(
    app: &App,
    runs: &dyn Runs,
    (id, mut after): (ExecutionId, Seq),
    each: &mut Each<'_>,
) -> Result<(), Problem> {
    let mut watch = runs.watch(id, after);
    while !app.out.is_closed() {
        match watch.news().await? {
            News::Events(events) => {
                for event in events.iter().filter(|event| event.seq > after) {
                    each(event);
                }
                after = events.last().map_or(after, |event| event.seq.max(after));
            }
            News::Said(text) => app.out.note(&text),
            News::Commit(_) | News::Unread => read(runs, id, &mut after, each).await?,
            News::Over => return read(runs, id, &mut after, each).await,
        }
    }
    Ok(())
}

fn is_wanted(args: &EventsArgs, event: &Event) -> bool {
    args.kinds.is_empty() || args.kinds.contains(&event.kind())
}

/// Passes the events of the log after `after` to `each`, and advances `after`.
async fn read(
    runs: &dyn Runs,
    id: ExecutionId,
    after: &mut Seq,
    each: &mut Each<'_>,
) -> Result<(), Problem> {
    loop {
        let page = runs.events(id, *after).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        *after = last.seq;
        if !page.iter().all(&mut *each) {
            return Ok(());
        }
    }
}

fn print(app: &App, event: &Event) {
    if app.out.is_machine() {
        app.out.data(event.to_raw().text());
        return;
    }
    let surface = app.out.stdout;
    let mut place = event
        .at
        .step
        .as_ref()
        .map_or_else(String::new, ToString::to_string);
    if let Some(index) = event.at.iteration {
        let _ = write!(place, "#{index}");
    }
    if let Some(task) = &event.at.task {
        let _ = write!(place, "/{task}");
    }
    if let Some(page) = event.at.page {
        let _ = write!(place, " page {page}");
    }
    if event.at.attempt > 1 {
        let _ = write!(place, "@{}", event.at.attempt);
    }
    let room = surface.columns.unwrap_or(160).saturating_sub(72).max(20);
    let said = preview::value(&event.body.payload().value(), room);
    let said = if said == "{}" { String::new() } else { said };
    let line = format!(
        "{:>6}  {}  {:<28}  {:<24}  {}",
        event.seq.0,
        surface.dim(&human::clock(event.recorded_at)),
        event.kind().name(),
        place,
        surface.dim(&said),
    );
    app.out.data(line.trim_end());
}
