//! Finds a run by its ID, by `last` or `-1`, or by a unique prefix or suffix of its ID.

use model::id::{ExecutionId, Seq};
use server::ExecutionOutline;
use store::{ExecutionFilter, ExecutionRow};

use crate::cli_error::{CliError, Exit};
use crate::runs::RunBackend;
use crate::view::RunView;

/// Number of latest runs that are searched for a prefix or suffix.
const RUNS_SEARCHED_MAX: usize = 2_000;

/// Returns the run that `text` identifies.
pub(crate) async fn find_run(backend: &dyn RunBackend, text: &str) -> Result<ExecutionRow, CliError> {
    if matches!(text, "last" | "-1") {
        return find_latest_run(backend).await;
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CliError::usage(format!("invalid run ID `{text}`"))
            .help("use a run ID, a unique prefix or suffix of one, or `last`"));
    }
    if let Ok(id) = text.parse::<ExecutionId>()
        && let Some(row) = backend.find_row(id).await?
    {
        return Ok(row);
    }
    let filter = ExecutionFilter {
        limit: RUNS_SEARCHED_MAX,
        ..ExecutionFilter::default()
    };
    let runs = backend.list_runs(&filter).await?;
    let id = match_id(runs.iter().map(|run| run.row.id), text)?;
    let matching_run = runs.into_iter().find(|run| run.row.id == id);
    Ok(matching_run
        .expect("`matching` returns the ID of one of these rows")
        .row)
}

async fn find_latest_run(backend: &dyn RunBackend) -> Result<ExecutionRow, CliError> {
    let filter = ExecutionFilter {
        limit: 50,
        ..ExecutionFilter::default()
    };
    let rows = backend.list_runs(&filter).await?.into_iter().map(|run| run.row);
    let rows: Vec<ExecutionRow> = rows.collect();
    // The user means the run they started, not its child runs.
    let newest_own = rows.iter().position(|row| row.parent.is_none()).unwrap_or(0);
    rows.into_iter().nth(newest_own).ok_or_else(|| {
        CliError::new(Exit::NotFound, "RUN_NOT_FOUND", "no runs found").help("start a run with `noetl run FILE`")
    })
}

/// Builds the view of a run from its current event log.
pub(crate) async fn load_view(backend: &dyn RunBackend, id: ExecutionId) -> Result<RunView, CliError> {
    let mut view = RunView::default();
    let ExecutionOutline {
        seq,
        loops,
        mut events,
        mut next,
    } = backend.outline(id, Seq(0)).await?;
    loop {
        for event in events.iter().filter(|event| event.seq <= seq) {
            view.fold(event);
        }
        let Some(after) = next else { break };
        let page = backend.outline(id, after).await?;
        (events, next) = (page.events, page.next);
    }
    view.complete_outline(&loops, seq);
    Ok(view)
}

/// Returns the only ID that starts or ends with `part`.
fn match_id(ids: impl Iterator<Item = ExecutionId>, part: &str) -> Result<ExecutionId, CliError> {
    let matches_part = |id: &ExecutionId| {
        let id = id.to_string();
        id.starts_with(part) || id.ends_with(part)
    };
    let matching_ids: Vec<ExecutionId> = ids.filter(matches_part).take(6).collect();
    match &matching_ids[..] {
        [one] => Ok(*one),
        [] => Err(CliError::new(
            Exit::NotFound,
            "RUN_NOT_FOUND",
            format!("no run ID starts or ends with `{part}`"),
        )
        .help("list runs with `noetl runs`")),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("ambiguous run ID `{part}`: matches {}", names.join(", "));
            Err(CliError::new(Exit::Usage, "RUN_AMBIGUOUS", message).help("enter more digits"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(part: &str) -> Result<i64, Exit> {
        let ids = [120_045, 120_046, 340_045].map(ExecutionId);
        match_id(ids.into_iter(), part)
            .map(|id| id.0)
            .map_err(|problem| problem.exit)
    }

    #[test]
    fn a_unique_beginning_or_end_names_a_run() {
        assert_eq!(find("34"), Ok(340_045));
        assert_eq!(find("046"), Ok(120_046));
        assert_eq!(find("120045"), Ok(120_045));
    }

    #[test]
    fn a_part_of_several_ids_or_of_none_names_nothing() {
        assert_eq!(find("12"), Err(Exit::Usage));
        assert_eq!(find("045"), Err(Exit::Usage));
        assert_eq!(find("999"), Err(Exit::NotFound));
    }
}
