//! The end of a run, and its result with all references resolved.

use language::template::Envelope;
use language::template::EnvelopeContent;
use model::event::{EventBody, ExecutionFinished, ResultPointer, failed_result};
use model::id::{ExecutionId, Name, Seq};
use model::outcome::TaskError;
use model::status::RunStatus;
use serde_json::{Value, json};

use crate::error::Error;
use crate::result_reader::{ResultAddress, ResultReader};
use crate::{Server, loading};

/// Number of last events of a run that are searched for its end.
const LAST_EVENTS_MAX: u64 = 8;

/// Maximum number of failed iterations that are listed.
const FAILED_LISTED_MAX: usize = 100;

/// Status and result of a run.
#[derive(Debug, Clone)]
pub struct ExecutionResult {
    /// Its status.
    pub status: RunStatus,
    /// Its result; null while it is running.
    pub result: Value,
    /// Why it failed.
    pub error: Option<TaskError>,
}

/// Status and result of a run, unless the result is large.
#[derive(Debug)]
pub(crate) struct SmallResult {
    pub(crate) status: RunStatus,
    pub(crate) result: Value,
    /// The step whose result this is, if the result is too large to be included.
    pub(crate) omitted_step: Option<Name>,
    pub(crate) error: Option<TaskError>,
}

/// The end of a run, with the location of its result.
struct EndedExecution {
    status: RunStatus,
    result: Option<ResultPointer>,
    error: Option<TaskError>,
}

impl Server {
    /// Waits until a run has ended or is paused.
    pub async fn wait_until_settled(&self, id: ExecutionId) -> Result<RunStatus, Error> {
        let mut published = self.subscribe_commits();
        let mut changes = store::ChangeWatch::default();
        loop {
            let row = self.shared.store.execution(id).await?.ok_or(Error::NotFound(id))?;
            if row.status != RunStatus::Running {
                return Ok(row.status);
            }
            // Commits of this process notify here; commits of other processes are noticed by the change of the store.
            loop {
                tokio::select! {
                    event = published.recv() => match event {
                        Ok(event) if event.execution == id && event.status != RunStatus::Running => break,
                        Ok(_) => {}
                        Err(_) => break,
                    },
                    () = changes.wait_for_change(&*self.shared.store) => break,
                }
            }
        }
    }

    /// Loads a run's result, with all references resolved.
    pub async fn result(&self, id: ExecutionId) -> Result<ExecutionResult, Error> {
        let end = self.load_end(id).await?;
        let result = match &end.result {
            Some(pointer) => self.step_result(id, pointer).await?,
            None => Value::Null,
        };
        Ok(ExecutionResult {
            status: end.status,
            result,
            error: end.error,
        })
    }

    /// Returns a run's end, with its result if that is small, or with its error in the form of a result. The cost does
    /// not depend on the size of the run.
    pub(crate) async fn small_result(&self, id: ExecutionId) -> Result<SmallResult, Error> {
        let end = self.load_end(id).await?;
        let failure = end.error.as_ref();
        let failure = failure.filter(|_| end.status == RunStatus::Failed);
        let mut small = SmallResult {
            status: end.status,
            result: failure.map_or(Value::Null, failed_result),
            omitted_step: None,
            error: end.error,
        };
        let Some(pointer) = end.result else {
            return Ok(small);
        };
        let reader = self.shared.reader();
        let address = ResultAddress::for_step(pointer.step.clone());
        if let Some(located) = reader.find(id, &address).await? {
            match reader.small_text(located).await? {
                Some(text) => small.result = serde_json::from_slice(&text).unwrap_or_default(),
                None => small.omitted_step = Some(pointer.step),
            }
        }
        Ok(small)
    }

    /// How a run ended, according to the last events of its log.
    async fn load_end(&self, id: ExecutionId) -> Result<EndedExecution, Error> {
        let shared = &self.shared;
        let row = shared.store.execution(id).await?.ok_or(Error::NotFound(id))?;
        let after = Seq(row.version.0.saturating_sub(LAST_EVENTS_MAX));
        let tail = shared.store.events(id, after, usize::MAX).await?;
        let finished = tail.into_iter().rev().find_map(|event| match event.body {
            EventBody::PlaybookFinished(finished) => Some(*finished),
            _ => None,
        });
        let finished = finished.filter(|_| row.status != RunStatus::Running && row.status != RunStatus::Paused);
        let (result, error) = match finished {
            Some(ExecutionFinished { result, error, .. }) => (result.filter(|_| error.is_none()), error),
            None => (None, None),
        };
        Ok(EndedExecution {
            status: row.status,
            result,
            error,
        })
    }

    /// Progress of the latest run of a loop: counts and failed iterations.
    pub(crate) async fn loop_status(&self, id: ExecutionId, step: &Name) -> Result<Option<Value>, Error> {
        let state = self.load_state(id).await?;
        let live = state.runs.iter().rev().find(|(run, _)| run.step == *step);
        if let Some(progress) = live.and_then(|(_, run)| run.loop_.as_ref()) {
            return Ok(Some(json!({
                "execution_id": id, "step": step, "done": false,
                "total": progress.total, "ended": progress.ended_count(),
                "failed": progress.failed.len(), "failed_indices": progress.failed.iter().take(FAILED_LISTED_MAX).collect::<Vec<_>>(),
            })));
        }
        let summary = state.steps.get(step);
        let latest = summary.and_then(|summary| summary.latest.as_ref());
        let Some(EnvelopeContent::Loop(pointer)) = latest.map(|latest| Envelope::from(latest).content) else {
            return Ok(None);
        };
        let (source, pointer) = loading::locate_loop_results(&*self.shared.store, id, &pointer).await?;
        let done_seq = [pointer.done];
        let events = self.shared.store.events_at(source, &done_seq).await?;
        let counts = events.first().and_then(|event| match &event.body {
            EventBody::LoopDone(done) => Some(done.stats),
            _ => None,
        });
        Ok(counts.map(|counts| {
            json!({
                "execution_id": id, "step": step, "done": true,
                "total": counts.total, "ended": counts.succeeded + counts.failed, "failed": counts.failed,
            })
        }))
    }

    /// Loads the current state of a run.
    pub(crate) async fn load_state(&self, id: ExecutionId) -> Result<engine::ExecutionState, Error> {
        let state = loading::load_state(&*self.shared.store, id).await?;
        state.ok_or(Error::NotFound(id))
    }

    /// Loads the current result of the step that a pointer names.
    pub async fn step_result(&self, id: ExecutionId, pointer: &ResultPointer) -> Result<Value, Error> {
        let reader = self.shared.reader();
        let address = ResultAddress::for_step(pointer.step.clone());
        match reader.find(id, &address).await? {
            Some(located) => reader.load_value(located).await,
            None => Ok(Value::Null),
        }
    }

    /// The reader of results in this server's store.
    pub fn reader(&self) -> ResultReader {
        self.shared.reader()
    }
}
