//! Writes a batch of commits: first the bodies that its events refer to, then the events.

use model::command::Fence;
use model::id::{ExecutionId, Seq, WorkerId};
use model::status::RunStatus;
use store::{Commit, CommitStatus};
use tokio::time::Instant;

use crate::ServerShared;
use crate::driver::pending_commit::OfferedCommand;
use crate::error::Error;

/// A finished commit with the actions that follow from it.
pub(super) struct FinishedCommit {
    pub(super) result: Result<CommitStatus, Error>,
    pub(super) post_commit: PostCommit,
}

/// Actions after a commit.
pub(super) struct PostCommit {
    pub(super) events: Vec<model::event::Event>,
    pub(super) commands_to_stop: Vec<(Seq, Option<WorkerId>)>,
    pub(super) assigned: Vec<(WorkerId, Fence)>,
    pub(super) offers: Vec<OfferedCommand>,
    pub(super) status: RunStatus,
    pub(super) has_messages: bool,
    pub(super) has_timers: bool,
}

/// A commit, the bodies it refers to, and the actions that follow it.
pub(super) type BatchEntry = (Commit, Vec<engine::BodyToStore>, PostCommit);

/// Stores the bodies first, then the events that refer to them.
pub(super) async fn write_batch(shared: &ServerShared, batch: Vec<BatchEntry>) -> Vec<(ExecutionId, FinishedCommit)> {
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut commits = Vec::with_capacity(batch.len());
    let mut remainders = Vec::with_capacity(batch.len());
    for (commit, bodies, remainder) in batch {
        match store_bodies(shared, bodies).await {
            Ok(()) => {
                remainders.push((commit.execution, remainder));
                commits.push(commit);
            }
            Err(error) => {
                let result = Err(error);
                outcomes.push((
                    commit.execution,
                    FinishedCommit {
                        result,
                        post_commit: remainder,
                    },
                ));
            }
        }
    }
    let started_at = Instant::now();
    let committed = shared.store.commit_all(commits).await;
    metrics::histogram!(crate::metrics::COMMIT_SECONDS).record(started_at.elapsed().as_secs_f64());
    for ((execution, remainder), result) in remainders.into_iter().zip(committed) {
        let result = result.map_err(Error::from);
        outcomes.push((
            execution,
            FinishedCommit {
                result,
                post_commit: remainder,
            },
        ));
    }
    outcomes
}

async fn store_bodies(shared: &ServerShared, bodies: Vec<engine::BodyToStore>) -> Result<(), Error> {
    for body in bodies {
        let bytes = Vec::from(body.text.text()).into();
        shared.bodies.put(::results::BodySource::Bytes(bytes)).await?;
    }
    Ok(())
}

/// Counts the result of a commit in the metrics.
pub(super) fn record_metrics(outcome: &FinishedCommit) {
    use crate::metrics::{COMMITS, COMMITS_MOVED, EVENTS, REPORTS_FENCED, STORE_FAILURES};
    let name = match &outcome.result {
        Ok(CommitStatus::Committed) => {
            metrics::counter!(EVENTS).increment(outcome.post_commit.events.len() as u64);
            COMMITS
        }
        Ok(CommitStatus::VersionConflict { .. }) => COMMITS_MOVED,
        Ok(CommitStatus::Fenced) => REPORTS_FENCED,
        Err(_) => STORE_FAILURES,
    };
    metrics::counter!(name).increment(1);
}
