//! Actions on many runs: which of them an action applies to, and the action on one run.

use std::collections::BTreeMap;

use engine::{ControlRequest, Refusal};
use model::event::StopRequest;
use model::id::ExecutionId;
use model::status::RunStatus;
use store::{DEDUP_PREFIX, ExecutionRow};
use wire::api::{BulkAction, BulkPreview, BulkRefusal, FacetCount, RerunRequest};

use crate::Server;
use crate::control::{ControlError, control_refusal};
use crate::error::Error;
use crate::submit::SubmitError;

/// Why an action on a run failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkActionError {
    /// The request to the run failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The new run did not start.
    #[error(transparent)]
    Submit(#[from] SubmitError),
}

impl From<Error> for BulkActionError {
    fn from(error: Error) -> Self {
        Self::Control(error.into())
    }
}

/// Counts the selected runs by status, and finds those to which an action applies.
pub(crate) fn preview_action(action: BulkAction, rows: &[ExecutionRow], is_complete: bool) -> BulkPreview {
    let mut statuses: BTreeMap<&str, u64> = BTreeMap::new();
    let mut refusals: BTreeMap<&str, BulkRefusal> = BTreeMap::new();
    let mut execution_ids = Vec::new();
    for row in rows {
        *statuses.entry(row.status.name()).or_default() += 1;
        let Some(refusal) = find_refusal(action, row) else {
            execution_ids.push(row.id);
            continue;
        };
        let entry = refusals.entry(refusal.code()).or_insert_with(|| BulkRefusal {
            code: refusal.code().to_owned(),
            detail: refusal.to_string(),
            count: 0,
        });
        entry.count += 1;
    }
    let mut statuses: Vec<FacetCount> = statuses
        .into_iter()
        .map(|(status, count)| FacetCount {
            value: status.to_owned(),
            count,
        })
        .collect();
    statuses.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    BulkPreview {
        action,
        total: rows.len() as u64,
        is_complete,
        statuses,
        refusals: refusals.into_values().collect(),
        execution_ids,
    }
}

/// Why an action does not apply to a run in its current status.
fn find_refusal(action: BulkAction, row: &ExecutionRow) -> Option<Refusal> {
    match action {
        BulkAction::Rerun => (!row.status.is_terminal()).then_some(Refusal::StillRunning),
        BulkAction::Retry => control_refusal(row.status, &ControlRequest::Retry { version: None }),
        // A run that is being cancelled is not cancelled twice.
        BulkAction::Cancel if row.cancelling => Some(Refusal::ExecutionEnded),
        BulkAction::Cancel => control_refusal(row.status, &cancellation(None)),
    }
}

fn cancellation(reason: Option<String>) -> ControlRequest {
    ControlRequest::Cancel(StopRequest {
        reason,
        cascade: true,
        ending: None,
    })
}

impl Server {
    /// Applies an action to a run, once per key. Returns the new run of a rerun.
    pub(crate) async fn apply_bulk_action(
        &self,
        id: ExecutionId,
        action: BulkAction,
        key: &str,
        reason: Option<String>,
    ) -> Result<Option<ExecutionId>, BulkActionError> {
        let row = self.shared.store.execution(id).await.map_err(Error::from)?;
        let row = row.ok_or(Error::NotFound(id))?;
        let setting = format!("{DEDUP_PREFIX}bulk:{key}:{id}");
        match action {
            BulkAction::Cancel if row.cancelling || row.status == RunStatus::Cancelled => Ok(None),
            BulkAction::Cancel => Ok(self.control(id, cancellation(reason)).await.map(|()| None)?),
            BulkAction::Retry => {
                // A higher generation than that of the first request shows that this request was carried out.
                let first = self.set_once(&setting, &row.generation.to_string()).await?;
                if first.parse().is_ok_and(|first: u32| first < row.generation) {
                    return Ok(None);
                }
                let retry = ControlRequest::Retry { version: None };
                Ok(self.control(id, retry).await.map(|()| None)?)
            }
            BulkAction::Rerun => {
                let proposed = self.new_execution_id();
                let first = self.set_once(&setting, &proposed.to_string()).await?;
                let execution: ExecutionId = first.parse().unwrap_or(proposed);
                if self
                    .shared
                    .store
                    .execution(execution)
                    .await
                    .map_err(Error::from)?
                    .is_none()
                {
                    let request = RerunRequest::default();
                    self.rerun_as(execution, id, request).await?;
                }
                Ok(Some(execution))
            }
        }
    }

    async fn set_once(&self, key: &str, value: &str) -> Result<String, Error> {
        Ok(self.shared.store.set_setting_once(key, value).await?)
    }
}

#[cfg(test)]
mod tests {
    use model::id::{Name, PlaybookHash, Seq};
    use model::time::Time;

    use super::*;

    fn row(id: i64, status: RunStatus) -> ExecutionRow {
        ExecutionRow {
            id: ExecutionId(id),
            version: Seq(1),
            status,
            cancelling: false,
            generation: 1,
            name: Name::from("a"),
            path: Name::from("a"),
            playbook_version: 1,
            hash: PlaybookHash::from_text(""),
            parent: None,
            owner: None,
            started_at: Time(0),
            finished_at: None,
            current: None,
            error: None,
        }
    }

    #[test]
    fn a_preview_has_the_runs_to_which_the_action_applies() {
        let rows = [
            row(4, RunStatus::Running),
            row(3, RunStatus::Failed),
            row(2, RunStatus::Failed),
            row(1, RunStatus::Completed),
        ];
        let applicable = |action| {
            let preview = preview_action(action, &rows, true);
            let refused: u64 = preview.refusals.iter().map(|refusal| refusal.count).sum();
            assert_eq!(preview.total, preview.execution_ids.len() as u64 + refused);
            let ids: Vec<i64> = preview.execution_ids.iter().map(|id| id.0).collect();
            ids
        };
        assert_eq!(applicable(BulkAction::Retry), [3, 2]);
        assert_eq!(applicable(BulkAction::Rerun), [3, 2, 1]);
        assert_eq!(applicable(BulkAction::Cancel), [4]);
        let preview = preview_action(BulkAction::Retry, &rows, true);
        assert_eq!(
            (preview.statuses[0].value.as_str(), preview.statuses[0].count),
            ("FAILED", 2)
        );
        assert_eq!(
            (preview.refusals[0].code.as_str(), preview.refusals[0].count),
            ("NOT_RETRYABLE", 2)
        );
    }

    #[test]
    fn a_run_that_is_being_cancelled_is_not_cancelled_again() {
        let mut cancelling = row(1, RunStatus::Running);
        cancelling.cancelling = true;
        assert!(
            preview_action(BulkAction::Cancel, &[cancelling], true)
                .execution_ids
                .is_empty()
        );
    }
}
