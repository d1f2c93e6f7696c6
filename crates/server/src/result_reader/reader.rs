//! The reader: results of runs in one store, with their bodies.

use std::sync::Arc;

use ::results::{BodyStore, ByteStream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use language::template::Envelope;
use language::template::EnvelopeContent;
use model::event::{Event, EventBody};
use model::id::{ExecutionId, Name, Seq, StepRunId};
use model::manifest::{CombineStrategy, ManifestRule, execution_of_uri};
use model::result_ref::{IN_MEMORY_BYTES_MAX, ResultRef};
use model::step_pointer::StepPointer;
use serde_json::Value;
use store::Store;

use crate::error::Error;
use crate::loading;
use crate::result_reader::address::BestMatch;
use crate::result_reader::parts::{self, PartIndex};
use crate::result_reader::quoting::quote_stream;
use crate::result_reader::{LocatedResult, ResultAddress, part_stream};

/// A result up to this size stands in the description of its run.
const SMALL_BYTES_MAX: u64 = 1024 * 1024;

/// The results of a loop with more iterations are not small, whatever their size.
const SMALL_PARTS_MAX: u64 = 1_000;

/// Reads results. Cheap to clone.
#[derive(Clone)]
pub struct ResultReader {
    pub(super) store: Arc<dyn Store>,
    pub(super) bodies: Arc<dyn BodyStore>,
}

impl ResultReader {
    /// A reader of runs in a store.
    pub fn new(store: Arc<dyn Store>, bodies: Arc<dyn BodyStore>) -> Self {
        Self { store, bodies }
    }

    /// The result that is meant: a step's own, or the latest of those that fit which ended well, else the latest.
    pub async fn find(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Option<LocatedResult>, Error> {
        if let Some(step) = wanted.step.as_ref().filter(|_| wanted.is_whole()) {
            return self.find_step_result(id, step).await;
        }
        self.find_best_match(id, wanted).await
    }

    async fn find_step_result(
        &self,
        id: ExecutionId,
        step: &Name,
    ) -> Result<Option<LocatedResult>, Error> {
        let state = loading::load_state(&*self.store, id).await?;
        let state = state.ok_or(Error::NotFound(id))?;
        let live = state.runs.iter().rev().find(|(run, _)| run.step == *step);
        let summary = state.steps.get(step);
        match (summary.and_then(|summary| summary.latest.as_ref()), live) {
            (Some(latest), _) => self.load_latest(id, latest).await.map(Some),
            (None, Some((_, run))) if run.loop_.is_none() => {
                self.find_best_match(id, &ResultAddress::for_step(step.clone()))
                    .await
            }
            _ => Ok(None),
        }
    }

    /// A step's latest result.
    pub(crate) async fn load_latest(
        &self,
        id: ExecutionId,
        latest: &StepPointer,
    ) -> Result<LocatedResult, Error> {
        Ok(match Envelope::from(latest).content {
            EnvelopeContent::Event(seq) => {
                let events = loading::load_events(&*self.store, id, &[seq]).await?;
                let found = events.first().and_then(LocatedResult::from_event);
                found.unwrap_or(LocatedResult::Value(Value::Null))
            }
            EnvelopeContent::Loop(pointer) => {
                let (log, pointer) = loading::loop_source(&*self.store, id, &pointer).await?;
                LocatedResult::Loop(log, pointer)
            }
            EnvelopeContent::Error(error) => LocatedResult::Value((*error).clone()),
            EnvelopeContent::Outcome(_) | EnvelopeContent::Parts(_) | EnvelopeContent::Empty => {
                LocatedResult::Value(Value::Null)
            }
        })
    }

    /// Looks for the result that fits best.
    pub(super) async fn find_best_match(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Option<LocatedResult>, Error> {
        if wanted.selector.iteration.is_some() {
            let events = self.iteration_events(id, wanted).await?;
            let mut best = BestMatch::default();
            let meant = events.iter().filter(|event| wanted.may_select(event));
            meant.for_each(|event| best.consider(event));
            let mut events = events.iter();
            let found = events.find(|event| Some(event.seq) == best.seq());
            return Ok(found.and_then(LocatedResult::from_event));
        }
        if let Some((step, task)) = wanted.task_of_step()
            && let Some(ends) = self
                .store
                .loop_task(id, step, wanted.selector.run, task)
                .await?
        {
            // Every result of a loop's task is one of an iteration, so there is none to look for elsewhere.
            return self.in_log(id, ends.succeeded.or(ends.failed)).await;
        }
        let mut best = BestMatch::default();
        let meet = |event: &Event| {
            if wanted.matches(event) && wanted.may_select(event) {
                best.consider(event);
            }
        };
        let is_part_of_loop =
            wanted.task_of_step().is_none() && !self.loop_runs(id, wanted).await?.is_empty();
        if is_part_of_loop {
            parts::for_each_event(&*self.store, id, Seq(0), Seq(u64::MAX), meet).await?;
        } else {
            parts::for_each_outline_event(&*self.store, id, meet).await?;
        }
        self.in_log(id, best.seq()).await
    }

    /// The result that an event of the log records.
    async fn in_log(
        &self,
        id: ExecutionId,
        seq: Option<Seq>,
    ) -> Result<Option<LocatedResult>, Error> {
        let Some(seq) = seq else {
            return Ok(None);
        };
        let events = self.store.events_at(id, &[seq]).await?;
        Ok(events.first().and_then(LocatedResult::from_event))
    }

    /// The results that fit an address with an iteration, by seq.
    pub(super) async fn iteration_events(
        &self,
        id: ExecutionId,
        wanted: &ResultAddress,
    ) -> Result<Vec<Event>, Error> {
        let Some(index) = wanted.selector.iteration else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for run in self.loop_runs(id, wanted).await? {
            let found = self.store.iteration_events(id, &run, index..index + 1);
            events.extend(found.await?);
        }
        events.retain(|event| wanted.matches(event));
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
        let number = wanted.selector.run;
        Ok(runs
            .filter(|run| number.is_none_or(|number| run.run == number))
            .collect())
    }

    /// A result as it is, piece by piece: JSON text, or the bytes of a body that is none.
    pub async fn stream(&self, found: LocatedResult) -> Result<ByteStream, Error> {
        match found {
            LocatedResult::Body(reference) => Ok(self.bodies.read(&reference, None).await?.chunks),
            LocatedResult::Manifest(reference, rule)
                if rule.strategy == CombineStrategy::Append =>
            {
                let parts = self.index_parts(&reference, &rule).await?;
                Ok(if rule.is_loop {
                    part_stream::stream_values(self, parts)
                } else {
                    part_stream::stream_appended(self, parts, &rule)
                })
            }
            LocatedResult::Loop(log, pointer) => {
                let (started, done) = (pointer.started, pointer.done);
                let parts = PartIndex::from_loop(&*self.store, log, started, done).await?;
                Ok(part_stream::stream_values(self, parts))
            }
            found => Ok(part_stream::single_chunk(
                self.load_value(found).await?.to_string(),
            )),
        }
    }

    /// A result as JSON text even where its body is none: then it is text that a task stored.
    pub async fn stream_json(&self, found: LocatedResult) -> Result<ByteStream, Error> {
        let is_json = found.content_type() == "application/json";
        let pieces = self.stream(found).await?;
        Ok(if is_json {
            pieces
        } else {
            quote_stream(pieces)
        })
    }

    /// A result as JSON text if it is small, without reading the rest of one that is not.
    pub(crate) async fn small_text(&self, found: LocatedResult) -> Result<Option<Vec<u8>>, Error> {
        if self.is_large(&found).await? {
            return Ok(None);
        }
        let mut pieces = self.stream_json(found).await?;
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.map_err(Error::from_read_error)?);
            if text.len() as u64 > SMALL_BYTES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }

    async fn is_large(&self, found: &LocatedResult) -> Result<bool, Error> {
        match found {
            LocatedResult::Value(_) => Ok(false),
            LocatedResult::Body(reference) | LocatedResult::Manifest(reference, _) => {
                Ok(reference.meta.bytes > SMALL_BYTES_MAX)
            }
            LocatedResult::Loop(log, pointer) => {
                let done = self.store.events_at(*log, &[pointer.done]).await?;
                let done = done.into_iter().next().map(|event| event.body);
                Ok(
                    matches!(done, Some(EventBody::LoopDone(done)) if done.stats.total > SMALL_PARTS_MAX),
                )
            }
        }
    }

    /// A manifest with the address of each part, piece by piece.
    pub async fn stream_manifest(
        &self,
        reference: &ResultRef,
        rule: &ManifestRule,
    ) -> Result<ByteStream, Error> {
        let parts = self.index_parts(reference, rule).await?;
        Ok(part_stream::stream_manifest(self, parts, rule))
    }

    async fn index_parts(
        &self,
        reference: &ResultRef,
        rule: &ManifestRule,
    ) -> Result<PartIndex, Error> {
        let Some(execution) = execution_of_uri(&reference.uri) else {
            return Ok(PartIndex::empty());
        };
        if rule.is_loop {
            return PartIndex::from_loop(&*self.store, execution, rule.first, rule.seq).await;
        }
        PartIndex::from_task(&*self.store, execution, rule).await
    }

    /// A result, all of it.
    pub fn load_value(&self, found: LocatedResult) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(async move {
            match found {
                LocatedResult::Value(value) => Ok(value),
                LocatedResult::Body(reference) => {
                    let bytes = self.bodies.get(&reference).await?;
                    Ok(::results::decode_body(&reference, &bytes))
                }
                LocatedResult::Manifest(reference, rule) => {
                    self.combine_parts(&reference, &rule).await
                }
                found @ LocatedResult::Loop(..) => collect_elements(self.stream(found).await?)
                    .await
                    .map(Value::Array),
            }
        })
    }

    /// What the parts of a manifest come to.
    async fn combine_parts(
        &self,
        reference: &ResultRef,
        rule: &ManifestRule,
    ) -> Result<Value, Error> {
        if reference.meta.bytes > IN_MEMORY_BYTES_MAX {
            let uri = reference.uri.clone();
            return Err(Error::TooLarge(uri, IN_MEMORY_BYTES_MAX));
        }
        let parts = self.index_parts(reference, rule).await?;
        let bodies = collect_elements(part_stream::stream_values(self, parts)).await?;
        Ok(if rule.is_loop {
            Value::Array(bodies)
        } else {
            rule.combiner().combine(bodies)
        })
    }

    /// A result as JSON text, all of it.
    pub(super) async fn load_text(&self, found: LocatedResult) -> Result<Bytes, Error> {
        if let LocatedResult::Body(reference) = &found
            && reference.meta.content_type == "application/json"
        {
            return Ok(self.bodies.get(reference).await?);
        }
        Ok(self.load_value(found).await?.to_string().into())
    }
}

/// The elements of a list that comes piece by piece.
async fn collect_elements(mut pieces: ByteStream) -> Result<Vec<Value>, Error> {
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.map_err(Error::from_read_error)?);
    }
    let read = serde_json::from_slice(&text);
    read.map_err(|error| Error::from_read_error(std::io::Error::other(error)))
}
