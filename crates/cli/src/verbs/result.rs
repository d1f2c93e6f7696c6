//! `noetl result`: prints the result of a run, or of one of its steps, tasks, iterations, pages or attempts.

use model::event::Body;
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use results::Pieces;
use serde_json::Value;
use server::{ResultAddress, ResultPlace};
use store::ExecutionRow;
use wire::api::ReferenceEntry;

use crate::app::{App, Ended};
use crate::args::{Format, ResultArgs};
use crate::find;
use crate::problem::{Exit, Problem};
use crate::render::elements::Elements;
use crate::render::result_text::{self, ResultText, next};
use crate::render::table::table;
use crate::render::{tree, value};
use crate::runs::{self, Runs};
use crate::view::RunView;

/// Number of last events of a run that are searched for `playbook.finished`.
const LAST_EVENTS: u64 = 8;

/// Prints a result.
pub(crate) async fn result(app: &App, args: &ResultArgs) -> Ended {
    let runs = runs::existing(app)?;
    let (run, address) = address(args)?;
    let row = find::run(&*runs, &run).await?;
    if args.list {
        return list(app, &*runs, row.id, &address).await;
    }
    let address = match address.step {
        Some(_) => address,
        None => ResultAddress {
            step: Some(last_step(&*runs, &row).await?),
            ..address
        },
    };
    let found = if args.raw {
        runs.read(row.id, &address).await?
    } else {
        runs.result(row.id, &address).await?
    };
    let Some(pieces) = found else {
        return Err(not_there(&*runs, row.id, &address).await?);
    };
    print(app, args, pieces).await?;
    Ok(Exit::Done)
}

/// Parses `RUN[/STEP[#ITERATION][/TASK]]` and the options of the address.
fn address(args: &ResultArgs) -> Result<(String, ResultAddress), Problem> {
    let mut parts = args.id.splitn(3, '/');
    let run = parts.next().unwrap_or_default().to_owned();
    let (step, task) = (parts.next(), parts.next());
    if step.is_some() && args.step.is_some() {
        return Err(Problem::usage("the step is specified twice"));
    }
    let step = step.or(args.step.as_deref());
    let (step, iteration) = match step.map(|step| step.split_once('#')) {
        Some(Some((step, index))) => {
            let index = index.parse().map_err(|_| {
                Problem::usage(format!("invalid iteration `#{index}`"))
                    .help("use a number, for example #7")
            })?;
            (Some(step), Some(index))
        }
        _ => (step, None),
    };
    let place = ResultPlace {
        run: None,
        task: args.task.as_deref().or(task).map(Name::from),
        iteration: args.iteration.or(iteration),
        page: args.page,
        attempt: args.attempt,
    };
    if step.is_none() && place != ResultPlace::default() {
        return Err(
            Problem::usage("--task, --iteration, --page and --attempt need a step")
                .help("specify the step: `noetl result RUN/STEP#ITERATION/TASK`"),
        );
    }
    let address = ResultAddress {
        step: step.map(Name::from),
        place,
        visit: None,
    };
    Ok((run, address))
}

/// Returns the step whose result is the result of the run.
async fn last_step(runs: &dyn Runs, row: &ExecutionRow) -> Result<Name, Problem> {
    if let Some(problem) = unfinished(row.status, &row.id.to_string()) {
        return Err(problem);
    }
    let after = Seq(row.version.0.saturating_sub(LAST_EVENTS));
    let last = runs.events(row.id, after).await?;
    let pointer = last.into_iter().rev().find_map(|event| match event.body {
        Body::PlaybookFinished(finished) => finished.result,
        _ => None,
    });
    let pointer = pointer.ok_or_else(|| {
        let message = format!("run {} has no result", row.id);
        Problem::new(Exit::NotFound, "NO_RESULT", message)
    })?;
    Ok(pointer.step)
}

async fn print(app: &App, args: &ResultArgs, mut pieces: Pieces) -> Result<(), Problem> {
    let out = &app.out;
    if args.raw {
        while let Some(piece) = next(&mut pieces).await? {
            out.bytes(&piece);
        }
        return Ok(());
    }
    if args.path.is_none() && out.format == Format::Ndjson {
        return lines(app, pieces).await;
    }
    let found = match result_text::begin(Some(pieces)).await? {
        ResultText::Whole(found) => found,
        ResultText::Large(text, rest) if args.path.is_none() && out.format == Format::Json => {
            result_text::pass_on(out, &text, rest).await?;
            out.bytes(b"\n");
            return Ok(());
        }
        ResultText::Large(text, _) if args.path.is_none() && out.stdout.columns.is_some() => {
            result_text::show_beginning(out, &text, &args.id);
            return Ok(());
        }
        ResultText::Large(mut text, mut rest) => {
            while let Some(piece) = next(&mut rest).await? {
                text.extend_from_slice(&piece);
            }
            result_text::read(&text)
        }
    };
    let part = match &args.path {
        Some(path) => value::at(&found, path)?,
        None => &found,
    };
    show(app, args, part);
    Ok(())
}

fn show(app: &App, args: &ResultArgs, part: &Value) {
    let out = &app.out;
    if out.is_machine() {
        out.json(part);
        return;
    }
    let is_watched = out.stdout.columns.is_some();
    let is_simple = !(part.is_object() || part.is_array());
    let laid_out = (is_watched && !args.tree).then(|| tree::as_table(part, out.stdout));
    let text = match laid_out.flatten() {
        Some(table) => table,
        None if (is_watched || args.tree) && !is_simple => tree::tree(part, out.stdout),
        None => value::plain(part),
    };
    out.data(&text);
}

/// Prints one element of a list per line while reading the stream.
async fn lines(app: &App, mut pieces: Pieces) -> Result<(), Problem> {
    let mut elements = Elements::default();
    let print = |element: &[u8]| {
        app.out.bytes(element);
        app.out.bytes(b"\n");
    };
    while let Some(piece) = next(&mut pieces).await? {
        for element in elements.take(&piece) {
            print(&element);
        }
    }
    if let Some(rest) = elements.rest() {
        print(&rest);
    }
    Ok(())
}

/// Prints the matching results and their locations.
async fn list(app: &App, runs: &dyn Runs, id: ExecutionId, address: &ResultAddress) -> Ended {
    let mut after = Seq(0);
    let mut all: Vec<ReferenceEntry> = Vec::new();
    loop {
        let listed = runs.results(id, address, after).await?;
        all.extend(listed.entries);
        match listed.next {
            Some(next) => after = next,
            None => break,
        }
    }
    if app.out.is_machine() {
        app.out.records(&all);
        return Ok(Exit::Done);
    }
    let number = |number: Option<String>| number.unwrap_or_default();
    let row = |entry: &ReferenceEntry| {
        let reference = entry.reference.as_ref().map(model::raw::Raw::value);
        let uri = reference.and_then(|reference| Some(reference.get("ref")?.as_str()?.to_owned()));
        vec![
            entry.step.to_string(),
            number(entry.iteration.map(|index| index.to_string())),
            entry
                .task
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default(),
            number(entry.page.map(|page| page.to_string())),
            number((entry.attempt > 0).then(|| entry.attempt.to_string())),
            serde_json::to_value(entry.status)
                .ok()
                .and_then(|word| Some(word.as_str()?.to_owned()))
                .unwrap_or_default(),
            entry.bytes.to_string(),
            uri.unwrap_or_else(|| "inline".to_owned()),
        ]
    };
    let headings = [
        "STEP",
        "ITERATION",
        "TASK",
        "PAGE",
        "ATTEMPT",
        "STATUS",
        "BYTES",
        "LOCATION",
    ];
    let rows = all.iter().map(row).collect();
    app.out.data(&table(&headings, rows, app.out.stdout));
    Ok(Exit::Done)
}

/// Returns the error for a missing result, with the available ones as help.
async fn not_there(
    runs: &dyn Runs,
    id: ExecutionId,
    address: &ResultAddress,
) -> Result<Problem, Problem> {
    let view = find::view(runs, id).await?;
    let step = address.step.as_ref().map_or("", Name::as_str);
    if !view.steps.iter().any(|known| known.step == *step) {
        return Ok(not_run(step, &view));
    }
    let message = format!("step `{step}` has no such result");
    Ok(
        Problem::new(Exit::NotFound, "RESULT_NOT_FOUND", message).help(format!(
            "list its results with `noetl result {id}/{step} --list`"
        )),
    )
}

fn not_run(name: &str, view: &RunView) -> Problem {
    let mut known: Vec<&str> = view.steps.iter().map(|step| step.step.as_str()).collect();
    known.dedup();
    let message = format!("step `{name}` has not run");
    Problem::new(Exit::NotFound, "STEP_NOT_FOUND", message)
        .help(format!("steps that have run: {}", known.join(", ")))
}

/// Returns the error for a run that did not complete.
fn unfinished(status: RunStatus, id: &str) -> Option<Problem> {
    let (exit, says) = match status {
        RunStatus::Completed => return None,
        RunStatus::Failed => (Exit::RunFailed, "failed"),
        RunStatus::Cancelled => (Exit::Cancelled, "was cancelled"),
        RunStatus::Paused => (Exit::Paused, "is paused"),
        RunStatus::Running => (Exit::NotFound, "is still running"),
    };
    let problem = Problem::new(
        exit,
        "NO_RESULT",
        format!("run {id} {says} and has no result"),
    );
    Some(problem.help(format!(
        "see `noetl show {id}`, or specify a step that has finished"
    )))
}
