//! A run read from its log: the view, the playbook, the result. Nothing here writes.

use std::sync::Arc;

use model::event::{Body, Event};
use model::id::{ExecutionId, PlaybookHash, Seq};
use model::outcome::Outcome;
use model::playbook::Playbook;
use model::result_ref::ResultRef;
use results::{Bodies as _, Stores};
use serde_json::Value;
use store::Store;

use crate::problem::{Exit, Problem};
use crate::view::{RunView, Standing, StepView};

/// How many events are read at once.
pub(crate) const PAGE: usize = 5_000;

/// What runs are read from.
#[derive(Clone)]
pub(crate) struct Log {
    /// The store.
    pub(crate) store: Arc<dyn Store>,
    /// Bodies too large for it.
    pub(crate) bodies: Arc<Stores>,
}

impl Log {
    /// The playbook of a run, where it can be read; `name` is what places in it are called by.
    pub(crate) async fn playbook(
        &self,
        hash: &PlaybookHash,
        name: &str,
    ) -> Result<Option<Playbook>, Problem> {
        let Some(entry) = self.store.playbook(hash).await? else {
            return Ok(None);
        };
        Ok(model::playbook::parse(name, entry.text.as_bytes()).playbook)
    }

    /// The result of a run; null if it has none, or has not ended well.
    pub(crate) async fn result(&self, id: ExecutionId, view: &RunView) -> Result<Value, Problem> {
        let pointer = view.result.as_ref().filter(|_| view.error.is_none());
        let step = pointer.and_then(|pointer| {
            let is_it = |step: &&StepView| step.boundary == Some(pointer.seq);
            view.steps.iter().find(is_it)
        });
        match step {
            Some(step) => self.step_result(id, step).await,
            None => Ok(Value::Null),
        }
    }

    /// The result of one run of a step; of a step that failed, its error.
    pub(crate) async fn step_result(
        &self,
        id: ExecutionId,
        step: &StepView,
    ) -> Result<Value, Problem> {
        if step.lap.is_some() && step.standing == Standing::Done {
            return self.loop_result(id, step).await;
        }
        if let Some((_, failure)) = step.failure().filter(|_| step.standing == Standing::Failed) {
            return Ok(serde_json::to_value(&failure.error).unwrap_or_default());
        }
        match step
            .outcome
            .as_ref()
            .and_then(|raw| raw.read::<Outcome>().ok())
        {
            Some(outcome) => self.value(outcome).await,
            None => Ok(Value::Null),
        }
    }

    /// A loop's results in index order: as its end recorded them, else each found through the log.
    async fn loop_result(&self, id: ExecutionId, step: &StepView) -> Result<Value, Problem> {
        let is_of_step =
            |event: &&Event| event.at.run == step.run && event.at.step.as_ref() == Some(&step.step);
        let end = step.boundary.unwrap_or_default();
        let boundary = self.store.events_at(id, &[end]).await?;
        if let Some(Body::LoopDone(done)) = boundary.first().map(|event| &event.body)
            && let Some(results) = &done.results
        {
            return Ok(results.value());
        }
        let total = step.lap.as_ref().map_or(0, |lap| lap.total);
        let mut results = vec![Value::Null; usize::try_from(total).unwrap_or(0)];
        let mut after = Seq(0);
        while after < end {
            let page = self.store.events(id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.seq;
            for event in page.iter().filter(is_of_step) {
                let index = event
                    .at
                    .iteration
                    .and_then(|index| usize::try_from(index).ok());
                let place = index.and_then(|index| results.get_mut(index));
                if let (Some(place), Body::TaskDone(ended)) = (place, &event.body)
                    && let Ok(outcome) = ended.outcome.read::<Outcome>()
                {
                    *place = self.value(outcome).await?;
                }
            }
        }
        Ok(Value::Array(results))
    }

    async fn value(&self, outcome: Outcome) -> Result<Value, Problem> {
        match outcome {
            Outcome::Ok(success) => match success.reference {
                Some(reference) => self.body(&reference).await,
                None => Ok(success.result),
            },
            Outcome::Error(failure) => Ok(serde_json::to_value(failure.error).unwrap_or_default()),
        }
    }

    async fn body(&self, reference: &ResultRef) -> Result<Value, Problem> {
        let bytes = self.bodies.get(reference).await.map_err(|error| {
            let message = format!("{}: {error}", reference.uri);
            Problem::coded(Exit::NotFound, error.code(), message)
        })?;
        // A body that is no JSON is text that a task stored.
        Ok(serde_json::from_slice(&bytes)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&bytes).into_owned())))
    }
}
