//! Which run is meant: a whole id, `last` or `-1`, a unique beginning or end of an id.

use model::id::{ExecutionId, Seq};
use server::RunOutline;
use store::{ExecutionRow, Filter};

use crate::problem::{Exit, Problem};
use crate::runs::Runs;
use crate::view::RunView;

/// So many of the latest runs can be called by a part of their id.
const SEARCHED: usize = 2_000;

/// The run that a text names.
pub(crate) async fn run(runs: &dyn Runs, text: &str) -> Result<ExecutionRow, Problem> {
    if matches!(text, "last" | "-1") {
        return latest(runs).await;
    }
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::usage(format!("`{text}` is not the id of a run"))
            .help("an id is a number, the beginning or end of one, or `last`"));
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
    Ok(found.expect("the id comes from these rows"))
}

async fn latest(runs: &dyn Runs) -> Result<ExecutionRow, Problem> {
    let filter = Filter {
        limit: 50,
        ..Filter::default()
    };
    let rows = runs.list(&filter).await?;
    // People mean the run they started, not the children it started.
    let own = rows
        .iter()
        .position(|row| row.parent.is_none())
        .unwrap_or(0);
    rows.into_iter().nth(own).ok_or_else(|| {
        Problem::new(Exit::NotFound, "RUN_NOT_FOUND", "there are no runs")
            .help("start one with `noetl run FILE`")
    })
}

/// The view of a run as its log stands now.
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

/// The one id that begins or ends so.
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
            format!("no run has the id `{part}`, nor one that begins or ends so"),
        )
        .help("`noetl runs` lists them")),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            let message = format!("`{part}` could be {}", names.join(", "));
            Err(Problem::new(Exit::Usage, "RUN_AMBIGUOUS", message).help("give more digits"))
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
