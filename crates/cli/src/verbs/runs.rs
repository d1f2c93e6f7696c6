//! `noetl runs`: lists runs, newest first.

use model::id::Name;
use model::status::RunStatus;
use model::time::Time;
use serde_json::{Value, json};
use store::{ExecutionFilter, ExecutionRow, ExecutionSearch};

use crate::app::{App, VerbResult};
use crate::args::{self, RunsArgs};
use crate::cli_error::{CliError, Exit};
use crate::clock;
use crate::render::{human, table};
use crate::runs::{self, ListedRun, RunBackend};
use crate::terminal_style::TerminalStyle;

/// Lists runs.
pub(crate) async fn runs(app: &App, args: &RunsArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let now = clock::now();
    let listed = find_runs(&*backend, args, now).await?;
    let out = &app.output;
    if out.is_machine() {
        out.print_records(&listed.iter().map(to_json).collect::<Vec<_>>());
    } else if listed.is_empty() {
        out.info("no runs found");
    } else {
        let headings = ["RUN", "PLAYBOOK", "VER", "STATUS", "STARTED", "TOOK", "STEP/ERROR"];
        let lines = listed.iter().map(|run| run_row(run, now, out.stdout)).collect();
        out.print_data(&table::render_table(&headings, lines, out.stdout));
    }
    Ok(Exit::Done)
}

async fn find_runs(backend: &dyn RunBackend, args: &RunsArgs, now: Time) -> Result<Vec<ListedRun>, CliError> {
    let since = args.since.map(|since| {
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(micros))
    });
    let filter = ExecutionFilter {
        statuses: args.status.clone(),
        since,
        labels: args::parse_labels(&args.labels)?,
        paths: args.path.as_deref().map(Name::from).into_iter().collect(),
        search: ExecutionSearch {
            text: args.search.clone(),
            error_code: args.error_code.clone(),
            min_duration: args.min_duration,
            max_duration: args.max_duration,
        },
        limit: args.limit,
        ..ExecutionFilter::default()
    };
    backend.list_runs(&filter).await
}

fn run_row(run: &ListedRun, now: Time, style: TerminalStyle) -> Vec<String> {
    let row = &run.row;
    let took = row.finished_at.unwrap_or(now).since(row.started_at);
    let took = human::format_duration_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let detail = match (&row.error, &row.current, &run.waits_for) {
        (Some(error), ..) => human::truncate(&human::escape_controls(error).replace('\n', " "), 60),
        (None, Some(step), Some(signal)) => format!("{step}, waits for signal {signal}"),
        (None, Some(step), None) => step.to_string(),
        (None, None, _) => String::new(),
    };
    vec![
        row.id.to_string(),
        row.name.to_string(),
        row.playbook_version.to_string(),
        status_text(row, style),
        human::format_age(row.started_at, now),
        took,
        detail,
    ]
}

/// Returns the status of a run in its color.
pub(crate) fn status_text(row: &ExecutionRow, style: TerminalStyle) -> String {
    let name = row.status.name().to_ascii_lowercase();
    match row.status {
        RunStatus::Completed => style.good(&name),
        RunStatus::Failed => style.bad(&name),
        RunStatus::Running if row.cancelling => style.warn("cancelling"),
        RunStatus::Cancelled | RunStatus::Paused => style.warn(&name),
        RunStatus::Running => name,
    }
}

fn to_json(run: &ListedRun) -> Value {
    let row = &run.row;
    json!({
        "execution_id": row.id,
        "name": row.name,
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "cancelling": row.cancelling,
        "generation": row.generation,
        "parent_execution_id": row.parent,
        "started_at": row.started_at,
        "finished_at": row.finished_at,
        "step": row.current,
        "waits_for": run.waits_for,
        "error": row.error,
        "events": row.version,
    })
}
