//! `noetl events`: the log of a run, as it is or as it grows.

use std::fmt::Write;
use std::time::Duration;

use model::event::Event;
use model::id::{ExecutionId, Seq};

use crate::app::{App, Ended};
use crate::args::EventsArgs;
use crate::find;
use crate::local;
use crate::log::{Log, PAGE};
use crate::problem::{Exit, Problem};
use crate::render::{human, preview};

/// How long to wait for news when nobody tells of any.
const PATIENCE: Duration = Duration::from_millis(500);

/// Prints events.
pub(crate) async fn events(app: &App, args: &EventsArgs) -> Ended {
    let log = local::existing(&app.settings)?;
    let row = find::run(&*log.store, &args.id).await?;
    let mut after = Seq(args.after);
    if app.out.format == crate::args::Format::Json && !args.follow {
        let mut all = Vec::new();
        while read(&log, row.id, &mut after, args, &mut |event| {
            all.push(event.to_json());
        })
        .await?
        {}
        app.out.json(&all);
        return Ok(Exit::Done);
    }
    loop {
        while read(&log, row.id, &mut after, args, &mut |event| {
            print(app, event);
        })
        .await?
        {
            if app.out.is_closed() {
                return Ok(Exit::Done);
            }
        }
        if !args.follow || app.out.is_closed() {
            return Ok(Exit::Done);
        }
        let now = log.store.execution(row.id).await?;
        if now.is_none_or(|row| row.status.is_terminal() && row.version <= after) {
            return Ok(Exit::Done);
        }
        let _ = tokio::time::timeout(PATIENCE, log.store.changed()).await;
    }
}

/// Reads the next page; answers whether there was one.
async fn read(
    log: &Log,
    id: ExecutionId,
    after: &mut Seq,
    args: &EventsArgs,
    each: &mut dyn FnMut(&Event),
) -> Result<bool, Problem> {
    let page = log.store.events(id, *after, PAGE).await?;
    let Some(last) = page.last() else {
        return Ok(false);
    };
    *after = last.seq;
    for event in &page {
        if args.kinds.is_empty() || args.kinds.contains(&event.kind()) {
            each(event);
        }
    }
    Ok(true)
}

fn print(app: &App, event: &Event) {
    if app.out.is_machine() {
        let line = serde_json::to_string(&event.to_json()).expect("an event serialises to JSON");
        app.out.data(&line);
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
