//! Finds a run by its ID, by `last` or `-1`, or by a unique prefix or suffix of its ID.

use model::id::{ExecutionId, Seq};
use server::RunOutline;
use store::{ExecutionRow, Filter};

use crate::problem::{Exit, Problem};
use crate::runs::Runs;
use crate::view::RunView;

/// Number of latest runs that are searched for a prefix or suffix.
const SEARCHED: usize = 2_000;

/// Returns the run that `text` identifies.
pub(crate) async fn run(runs: &dyn Runs, text: &str) -> Result<ExecutionRow, Problem> {
    if matches!(text, "last" | "-1") {
        return latest(runs).await;
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::usage(format!("invalid run ID `{text}`"))
            .help("use a run ID, a unique prefix or suffix of one, or `last`"));
    }
    if let Ok(id) = text.parse::<ExecutionId>()
        && let Some(row) = runs.get(id).await?
    {
        return Ok(row);
    }
    let filter = Filter {
        limit: SEARCHED,
        ..Filter::default()
    };
    let rows = runs.list(&filter).await?;
    let id = matching(rows.iter().map(|row| row.id), text)?;
    let found = rows.into_iter().find(|row| row.id == id);
    Ok(found.expect("`matching` returns the ID of one of these rows"))
}

async fn latest(runs: &dyn Runs) -> Result<ExecutionRow, Problem> {
    let filter = Filter {
        limit: 50,
        ..Filter::default()
    };
    let rows = runs.list(&filter).await?;
    // The user means the run they started, not its child runs.
    let own = rows
        .iter()
        .position(|row| row.parent.is_none())
        .unwrap_or(0);
    rows.into_iter().nth(own).ok_or_else(|| {
        Problem::new(Exit::NotFound, "RUN_NOT_FOUND", "no runs found")
            .help("start a run with `noetl run FILE`")
    })
}

/// Builds the view of a run from its current event log.
pub(crate) async fn view(runs: &dyn Runs, id: ExecutionId) -> Result<RunView, Problem> {
    let mut view = RunView::default();
    let RunOutline {
        seq,
        loops,
        mut events,
        mut next,
    } = runs.outline(id, Seq(0)).await?;
    loop {
        for event in events.iter().filter(|event| event.seq <= seq) {
            view.fold(event);
        }
        let Some(after) = next else { break };
        let page = runs.outline(id, after).await?;
        (events, next) = (page.events, page.next);
    }
    view.complete_outline(&loops, seq);
    Ok(view)
}

/// Returns the only ID that starts or ends with `part`.
fn matching(ids: impl Iterator<Item = ExecutionId>, part: &str) -> Result<ExecutionId, Problem> {
    let fits = |id: &ExecutionId| {
        let id = id.to_string();
        id.starts_with(part) || id.ends_with(part)
    };
    let found: Vec<ExecutionId> = ids.filter(fits).take(6).collect();
    match &found[..] {
        [one] => Ok(*one),
        [] => Err(Problem::new(
            Exit::NotFound,
            "RUN_NOT_FOUND",
            format!("no run ID starts or ends with `{part}`"),
        )
        .help("list runs with `noetl runs`")),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("ambiguous run ID `{part}`: matches {}", names.join(", "));
            Err(Problem::new(Exit::Usage, "RUN_AMBIGUOUS", message).help("enter more digits"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(part: &str) -> Result<i64, Exit> {
        let ids = [120_045, 120_046, 340_045].map(ExecutionId);
        matching(ids.into_iter(), part)
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
