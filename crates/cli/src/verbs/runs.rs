//! `noetl runs`: lists runs, newest first.

use model::id::Name;
use model::status::RunStatus;
use model::time::Time;
use serde_json::{Value, json};
use store::{ExecutionRow, Filter};

use crate::app::{App, Ended};
use crate::args::RunsArgs;
use crate::clock;
use crate::problem::{Exit, Problem};
use crate::render::{human, table};
use crate::runs::{self, Runs};
use crate::surface::Surface;

/// Lists runs.
pub(crate) async fn runs(app: &App, args: &RunsArgs) -> Ended {
    let runs = runs::existing(app)?;
    let now = clock::now();
    let rows = find(&*runs, args, now).await?;
    let out = &app.out;
    if out.is_machine() {
        out.records(&rows.iter().map(shown).collect::<Vec<_>>());
    } else if rows.is_empty() {
        out.note("no runs found");
    } else {
        let headings = [
            "RUN",
            "PLAYBOOK",
            "VER",
            "STATUS",
            "STARTED",
            "TOOK",
            "STEP/ERROR",
        ];
        let lines = rows.iter().map(|row| line(row, now, out.stdout)).collect();
        out.data(&table::table(&headings, lines, out.stdout));
    }
    Ok(Exit::Done)
}

async fn find(runs: &dyn Runs, args: &RunsArgs, now: Time) -> Result<Vec<ExecutionRow>, Problem> {
    let since = args.since.map(|since| {
        let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Time(now.0.saturating_sub(micros))
    });
    let wanted: Vec<Option<RunStatus>> = match &args.status[..] {
        [] => vec![None],
        several => several.iter().copied().map(Some).collect(),
    };
    let mut rows = Vec::new();
    for status in wanted {
        let filter = Filter {
            status,
            since,
            path: args.path.as_deref().map(Name::from),
            limit: args.limit,
            ..Filter::default()
        };
        rows.extend(runs.list(&filter).await?);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.id));
    rows.dedup_by_key(|row| row.id);
    rows.truncate(args.limit);
    Ok(rows)
}

fn line(row: &ExecutionRow, now: Time, surface: Surface) -> Vec<String> {
    let took = row.finished_at.unwrap_or(now).since(row.started_at);
    let took = human::span_ms(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    let place = match (&row.error, &row.current) {
        (Some(error), _) => human::cut(&human::tame(error).replace('\n', " "), 60),
        (None, Some(step)) => step.to_string(),
        (None, None) => String::new(),
    };
    vec![
        row.id.to_string(),
        row.name.to_string(),
        row.playbook_version.to_string(),
        status(row, surface),
        human::ago(row.started_at, now),
        took,
        place,
    ]
}

/// Returns the status of a run in its color.
pub(crate) fn status(row: &ExecutionRow, surface: Surface) -> String {
    let word = row.status.name().to_ascii_lowercase();
    match row.status {
        RunStatus::Completed => surface.good(&word),
        RunStatus::Failed => surface.bad(&word),
        RunStatus::Running if row.cancelling => surface.warn("cancelling"),
        RunStatus::Cancelled | RunStatus::Paused => surface.warn(&word),
        RunStatus::Running => word,
    }
}

fn shown(row: &ExecutionRow) -> Value {
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
        "error": row.error,
        "events": row.version,
    })
}
