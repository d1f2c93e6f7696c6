//! `noetl result`: prints the result of a run, or of one of its steps, tasks, iterations, pages or attempts.

use model::event::EventBody;
use model::id::{ExecutionId, Name, Seq};
use model::status::RunStatus;
use results::ByteStream;
use serde_json::Value;
use server::{ResultAddress, ResultSelector};
use store::ExecutionRow;
use wire::api::ReferenceEntry;

use crate::app::{App, VerbResult};
use crate::args::{OutputFormat, ResultArgs};
use crate::cli_error::{CliError, Exit};
use crate::find;
use crate::render::elements::JsonElements;
use crate::render::result_text::{self, ResultText, next_chunk};
use crate::render::table::render_table;
use crate::render::{tree, value};
use crate::runs::{self, RunBackend};
use crate::view::RunView;

/// Number of last events of a run that are searched for `playbook.finished`.
const LAST_EVENTS: u64 = 8;

/// Prints a result.
pub(crate) async fn result(app: &App, args: &ResultArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let (run, address) = parse_address(args)?;
    let row = find::find_run(&*backend, &run).await?;
    if args.list {
        return list_results(app, &*backend, row.id, &address).await;
    }
    let address = match address.step {
        Some(_) => address,
        None => ResultAddress {
            step: Some(find_last_step(&*backend, &row).await?),
            ..address
        },
    };
    let chunks = if args.raw {
        backend.raw_result(row.id, &address).await?
    } else {
        backend.result(row.id, &address).await?
    };
    let Some(pieces) = chunks else {
        return Err(explain_missing_result(&*backend, row.id, &address).await?);
    };
    print_result(app, args, pieces).await?;
    Ok(Exit::Done)
}

/// Parses `RUN[/STEP[#ITERATION][/TASK]]` and the options of the address.
fn parse_address(args: &ResultArgs) -> Result<(String, ResultAddress), CliError> {
    let mut parts = args.id.splitn(3, '/');
    let run = parts.next().unwrap_or_default().to_owned();
    let (step, task) = (parts.next(), parts.next());
    if step.is_some() && args.step.is_some() {
        return Err(CliError::usage("the step is specified twice"));
    }
    let step = step.or(args.step.as_deref());
    let (step, iteration) = match step.map(|step| step.split_once('#')) {
        Some(Some((step, index))) => {
            let index = index.parse().map_err(|_| {
                CliError::usage(format!("invalid iteration `#{index}`")).help("use a number, for example #7")
            })?;
            (Some(step), Some(index))
        }
        _ => (step, None),
    };
    let result_selector = ResultSelector {
        run: None,
        task: args.task.as_deref().or(task).map(Name::from),
        iteration: args.iteration.or(iteration),
        page: args.page,
        attempt: args.attempt,
    };
    if step.is_none() && result_selector != ResultSelector::default() {
        return Err(CliError::usage("--task, --iteration, --page and --attempt need a step")
            .help("specify the step: `noetl result RUN/STEP#ITERATION/TASK`"));
    }
    let address = ResultAddress {
        step: step.map(Name::from),
        selector: result_selector,
        visit: None,
    };
    Ok((run, address))
}

/// Returns the step whose result is the result of the run.
async fn find_last_step(backend: &dyn RunBackend, row: &ExecutionRow) -> Result<Name, CliError> {
    if let Some(problem) = no_result_error(row.status, &row.id.to_string()) {
        return Err(problem);
    }
    let after = Seq(row.version.0.saturating_sub(LAST_EVENTS));
    let last = backend.events(row.id, after).await?;
    let pointer = last.into_iter().rev().find_map(|event| match event.body {
        EventBody::PlaybookFinished(finished) => finished.result,
        _ => None,
    });
    let pointer = pointer.ok_or_else(|| {
        let message = format!("run {} has no result", row.id);
        CliError::new(Exit::NotFound, "NO_RESULT", message)
    })?;
    Ok(pointer.step)
}

async fn print_result(app: &App, args: &ResultArgs, mut chunks: ByteStream) -> Result<(), CliError> {
    let out = &app.output;
    if args.raw {
        while let Some(piece) = next_chunk(&mut chunks).await? {
            out.write_bytes(&piece);
        }
        return Ok(());
    }
    if args.path.is_none() && out.format == OutputFormat::Ndjson {
        return print_lines(app, chunks).await;
    }
    let result_text = match result_text::read_result_text(Some(chunks)).await? {
        ResultText::Whole(result_text) => result_text,
        ResultText::Large(text, stream) if args.path.is_none() && out.format == OutputFormat::Json => {
            result_text::write_result(out, &text, stream).await?;
            out.write_bytes(b"\n");
            return Ok(());
        }
        ResultText::Large(text, _) if args.path.is_none() && out.stdout.columns.is_some() => {
            result_text::print_head(out, &text, &args.id);
            return Ok(());
        }
        ResultText::Large(mut text, mut stream) => {
            while let Some(piece) = next_chunk(&mut stream).await? {
                text.extend_from_slice(&piece);
            }
            result_text::parse_value(&text)
        }
    };
    let part = match &args.path {
        Some(path) => value::value_at(&result_text, path)?,
        None => &result_text,
    };
    show_part(app, args, part);
    Ok(())
}

fn show_part(app: &App, args: &ResultArgs, part: &Value) {
    let out = &app.output;
    if out.is_machine() {
        out.print_json(part);
        return;
    }
    let is_watched = out.stdout.columns.is_some();
    let is_simple = !(part.is_object() || part.is_array());
    let laid_out = (is_watched && !args.tree).then(|| tree::render_as_table(part, out.stdout));
    let text = match laid_out.flatten() {
        Some(table) => table,
        None if (is_watched || args.tree) && !is_simple => tree::render_tree(part, out.stdout),
        None => value::to_plain_text(part),
    };
    out.print_data(&text);
}

/// Prints one element of a list per line while reading the stream.
async fn print_lines(app: &App, mut chunks: ByteStream) -> Result<(), CliError> {
    let mut elements = JsonElements::default();
    let print = |element: &[u8]| {
        app.output.write_bytes(element);
        app.output.write_bytes(b"\n");
    };
    while let Some(piece) = next_chunk(&mut chunks).await? {
        for element in elements.push(&piece) {
            print(&element);
        }
    }
    if let Some(last_line) = elements.finish() {
        print(&last_line);
    }
    Ok(())
}

/// Prints the matching results and their locations.
async fn list_results(app: &App, backend: &dyn RunBackend, id: ExecutionId, address: &ResultAddress) -> VerbResult {
    let mut after = Seq(0);
    let mut all: Vec<ReferenceEntry> = Vec::new();
    loop {
        let listed = backend.list_results(id, address, after).await?;
        all.extend(listed.entries);
        match listed.next {
            Some(next) => after = next,
            None => break,
        }
    }
    if app.output.is_machine() {
        app.output.print_records(&all);
        return Ok(Exit::Done);
    }
    let number = |number: Option<String>| number.unwrap_or_default();
    let row = |entry: &ReferenceEntry| {
        let reference = entry.reference.as_ref().map(model::raw::RawJson::to_value);
        let uri = reference.and_then(|reference| Some(reference.get("ref")?.as_str()?.to_owned()));
        vec![
            entry.step.to_string(),
            number(entry.iteration.map(|index| index.to_string())),
            entry.task.as_ref().map(ToString::to_string).unwrap_or_default(),
            number(entry.page.map(|page| page.to_string())),
            number((entry.attempt > 0).then(|| entry.attempt.to_string())),
            serde_json::to_value(entry.status)
                .ok()
                .and_then(|name| Some(name.as_str()?.to_owned()))
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
    app.output.print_data(&render_table(&headings, rows, app.output.stdout));
    Ok(Exit::Done)
}

/// Returns the error for a missing result, with the available ones as help.
async fn explain_missing_result(
    backend: &dyn RunBackend,
    id: ExecutionId,
    address: &ResultAddress,
) -> Result<CliError, CliError> {
    let view = find::load_view(backend, id).await?;
    let step = address.step.as_ref().map_or("", Name::as_str);
    if !view.steps.iter().any(|view_step| view_step.step == *step) {
        return Ok(missing_step_error(step, &view));
    }
    let message = format!("step `{step}` has no such result");
    Ok(CliError::new(Exit::NotFound, "RESULT_NOT_FOUND", message)
        .help(format!("list its results with `noetl result {id}/{step} --list`")))
}

fn missing_step_error(name: &str, view: &RunView) -> CliError {
    let mut step_names: Vec<&str> = view.steps.iter().map(|step| step.step.as_str()).collect();
    step_names.dedup();
    let message = format!("step `{name}` has not run");
    CliError::new(Exit::NotFound, "STEP_NOT_FOUND", message)
        .help(format!("steps that have run: {}", step_names.join(", ")))
}

/// Returns the error for a run that did not complete.
fn no_result_error(status: RunStatus, id: &str) -> Option<CliError> {
    let (exit, message) = match status {
        RunStatus::Completed => return None,
        RunStatus::Failed => (Exit::RunFailed, "failed"),
        RunStatus::Cancelled => (Exit::Cancelled, "was cancelled"),
        RunStatus::Paused => (Exit::Paused, "is paused"),
        RunStatus::Running => (Exit::NotFound, "is still running"),
    };
    let problem = CliError::new(exit, "NO_RESULT", format!("run {id} {message} and has no result"));
    Some(problem.help(format!("see `noetl show {id}`, or specify a step that has finished")))
}
