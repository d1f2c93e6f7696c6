//! The reader: results of runs in one store, with their bodies.

use std::sync::Arc;

use ::results::{Bodies, Pieces};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use model::event::{Body, Event};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::manifest::{Rule, Strategy, execution_of};
use model::result_ref::{HELD_BYTES_MAX, ResultRef};
use model::template::{Content, Latest};
use serde_json::Value;
use store::Store;

use crate::error::Error;
use crate::loading;
use crate::reading::address::Best;
use crate::reading::parts::{self, Parts};
use crate::reading::quoted::quoted;
use crate::reading::{Found, ResultAddress, pieces};

/// A result up to this size stands in the description of its run.
const SMALL_BYTES_MAX: u64 = 1024 * 1024;

/// The results of a loop with more iterations are not small, whatever their size.
const SMALL_PARTS_MAX: u64 = 1_000;

/// Reads results. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(super) store: Arc<dyn Store>,
    pub(super) bodies: Arc<dyn Bodies>,
}

impl Reader {
    /// A reader of runs in a store.
    pub fn new(store: Arc<dyn Store>, bodies: Arc<dyn Bodies>) -> Self {
        Self { store, bodies }
    }

    /// The result that is meant: a step's own, or the latest of those that fit which ended well, else the latest.
    pub async fn find(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Option<Found>, Error> {
        if let Some(step) = wanted.step.as_ref().filter(|_| wanted.is_whole()) {
            return self.of_step(id, step).await;
        }
        self.search(id, wanted).await
    }

    async fn of_step(&self, id: ExecutionId, step: &Name) -> Result<Option<Found>, Error> {
        let state = loading::state(&*self.store, id).await?;
        let state = state.ok_or(Error::NotFound(id))?;
        let live = state.runs.iter().rev().find(|(run, _)| run.step == *step);
        let summary = state.steps.get(step);
        match (summary.and_then(|summary| summary.latest.as_ref()), live) {
            (Some(latest), _) => self.latest(id, latest).await.map(Some),
            (None, Some((_, run))) if run.loop_.is_none() => {
                self.search(id, &ResultAddress::of_step(step.clone())).await
            }
            _ => Ok(None),
        }
    }

    /// A step's latest result.
    pub(crate) async fn latest(&self, id: ExecutionId, latest: &Latest) -> Result<Found, Error> {
        Ok(match latest.envelope().content {
            Content::Event(seq) => {
                let events = loading::events_at(&*self.store, id, &[seq]).await?;
                let found = events.first().and_then(Found::in_event);
                found.unwrap_or(Found::Value(Value::Null))
            }
            Content::Loop(pointer) => {
                let (log, pointer) = loading::loop_source(&*self.store, id, &pointer).await?;
                Found::Loop(log, pointer)
            }
            Content::Error(error) => Found::Value((*error).clone()),
            Content::Outcome(_) | Content::Parts(_) | Content::Empty => Found::Value(Value::Null),
        })
    }

    /// Looks for the result that fits best.
    pub(super) async fn search(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Option<Found>, Error> {
        if wanted.place.iteration.is_some() {
            let events = self.events_of_iteration(id, wanted).await?;
            let mut best = Best::default();
            let meant = events.iter().filter(|event| wanted.may_mean(event));
            meant.for_each(|event| best.meet(event));
            let mut events = events.iter();
            let found = events.find(|event| Some(event.seq) == best.seq());
            return Ok(found.and_then(Found::in_event));
        }
        if let Some((step, task)) = wanted.task_of_step()
            && let Some(ends) = self
                .store
                .loop_task(id, step, wanted.place.run, task)
                .await?
        {
            // Every result of a loop's task is one of an iteration, so there is none to look for elsewhere.
            return self.in_log(id, ends.succeeded.or(ends.failed)).await;
        }
        let mut best = Best::default();
        let meet = |event: &Event| {
            if wanted.fits(event) && wanted.may_mean(event) {
                best.meet(event);
            }
        };
        let is_part_of_loop =
            wanted.task_of_step().is_none() && !self.loop_runs(id, wanted).await?.is_empty();
        if is_part_of_loop {
            parts::each(&*self.store, id, (Seq(0), Seq(u64::MAX)), meet).await?;
        } else {
            parts::each_of_outline(&*self.store, id, meet).await?;
        }
        self.in_log(id, best.seq()).await
    }

    /// The result that an event of the log records.
    async fn in_log(&self, id: ExecutionId, seq: Option<Seq>) -> Result<Option<Found>, Error> {
        let Some(seq) = seq else {
            return Ok(None);
        };
        let events = self.store.events_at(id, &[seq]).await?;
        Ok(events.first().and_then(Found::in_event))
    }

    /// The results that fit an address with an iteration, by seq.
    pub(super) async fn events_of_iteration(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Vec<Event>, Error> {
        let Some(index) = wanted.place.iteration else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for run in self.loop_runs(id, wanted).await? {
            let found = self.store.iteration_events(id, &run, index..index + 1);
            events.extend(found.await?);
        }
        events.retain(|event| wanted.fits(event));
        events.sort_by_key(|event| event.seq);
        Ok(events)
    }

    /// The runs of loops that an address may mean.
    pub(super) async fn loop_runs(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Vec<StepRunId>, Error> {
        let step = wanted.step.as_ref();
        let runs = self.store.loops(id).await?.into_iter();
        let runs = runs.map(|progress| progress.run);
        let runs = runs.filter(|run| step.is_none_or(|step| run.step == *step));
        let number = wanted.place.run;
        Ok(runs
            .filter(|run| number.is_none_or(|number| run.run == number))
            .collect())
    }

    /// A result as it is, piece by piece: JSON text, or the bytes of a body that is none.
    pub async fn pieces(&self, found: Found) -> Result<Pieces, Error> {
        match found {
            Found::Body(reference) => Ok(self.bodies.read(&reference, None).await?.pieces),
            Found::Manifest(reference, rule) if rule.strategy == Strategy::Append => {
                let parts = self.parts(&reference, &rule).await?;
                Ok(if rule.is_loop {
                    pieces::each(self, parts)
                } else {
                    pieces::appended(self, parts, &rule)
                })
            }
            Found::Loop(log, pointer) => {
                let ends = (pointer.started, pointer.done);
                let parts = Parts::of_loop(&*self.store, log, ends).await?;
                Ok(pieces::each(self, parts))
            }
            found => Ok(pieces::one(self.value(found).await?.to_string())),
        }
    }

    /// A result as JSON text even where its body is none: then it is text that a task stored.
    pub async fn json_pieces(&self, found: Found) -> Result<Pieces, Error> {
        let is_json = found.content_type() == "application/json";
        let pieces = self.pieces(found).await?;
        Ok(if is_json { pieces } else { quoted(pieces) })
    }

    /// A result as JSON text if it is small, without reading the rest of one that is not.
    pub(crate) async fn small_text(&self, found: Found) -> Result<Option<Vec<u8>>, Error> {
        if self.is_known_to_be_large(&found).await? {
            return Ok(None);
        }
        let mut pieces = self.json_pieces(found).await?;
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.map_err(Error::broken_off)?);
            if text.len() as u64 > SMALL_BYTES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }

    async fn is_known_to_be_large(&self, found: &Found) -> Result<bool, Error> {
        match found {
            Found::Value(_) => Ok(false),
            Found::Body(reference) | Found::Manifest(reference, _) => {
                Ok(reference.meta.bytes > SMALL_BYTES_MAX)
            }
            Found::Loop(log, pointer) => {
                let done = self.store.events_at(*log, &[pointer.done]).await?;
                let done = done.into_iter().next().map(|event| event.body);
                Ok(matches!(done, Some(Body::LoopDone(done)) if done.stats.total > SMALL_PARTS_MAX))
            }
        }
    }

    /// A manifest with the address of each part, piece by piece.
    pub async fn listed(&self, reference: &ResultRef, rule: &Rule) -> Result<Pieces, Error> {
        let parts = self.parts(reference, rule).await?;
        Ok(pieces::listed(self, parts, rule))
    }

    async fn parts(&self, reference: &ResultRef, rule: &Rule) -> Result<Parts, Error> {
        let Some(execution) = execution_of(&reference.uri) else {
            return Ok(Parts::none());
        };
        if rule.is_loop {
            let ends = (rule.first, rule.seq);
            return Parts::of_loop(&*self.store, execution, ends).await;
        }
        Parts::of_task(&*self.store, execution, rule).await
    }

    /// A result, all of it.
    pub fn value(&self, found: Found) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(async move {
            match found {
                Found::Value(value) => Ok(value),
                Found::Body(reference) => {
                    let bytes = self.bodies.get(&reference).await?;
                    Ok(::results::value(&reference, &bytes))
                }
                Found::Manifest(reference, rule) => self.collected(&reference, &rule).await,
                found @ Found::Loop(..) => list(self.pieces(found).await?).await.map(Value::Array),
            }
        })
    }

    /// What the parts of a manifest come to.
    async fn collected(&self, reference: &ResultRef, rule: &Rule) -> Result<Value, Error> {
        if reference.meta.bytes > HELD_BYTES_MAX {
            let uri = reference.uri.clone();
            return Err(Error::TooLarge(uri, HELD_BYTES_MAX));
        }
        let parts = self.parts(reference, rule).await?;
        let bodies = list(pieces::each(self, parts)).await?;
        Ok(if rule.is_loop {
            Value::Array(bodies)
        } else {
            rule.collect().all(bodies)
        })
    }

    /// A result as JSON text, all of it.
    pub(super) async fn text(&self, found: Found) -> Result<Bytes, Error> {
        if let Found::Body(reference) = &found
            && reference.meta.content_type == "application/json"
        {
            return Ok(self.bodies.get(reference).await?);
        }
        Ok(self.value(found).await?.to_string().into())
    }
}

/// The elements of a list that comes piece by piece.
async fn list(mut pieces: Pieces) -> Result<Vec<Value>, Error> {
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.map_err(Error::broken_off)?);
    }
    let read = serde_json::from_slice(&text);
    read.map_err(|error| Error::broken_off(std::io::Error::other(error)))
}
