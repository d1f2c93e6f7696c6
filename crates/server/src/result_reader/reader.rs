//! Reads results of runs in one store, with their bodies.

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

/// Maximum size of a result that the description of its run contains.
const SMALL_BYTES_MAX: u64 = 1024 * 1024;

/// A loop with more iterations has no small result, whatever its size.
const SMALL_PARTS_MAX: u64 = 1_000;

/// Reads results. Clones are cheap.
#[derive(Clone)]
pub struct ResultReader {
    pub(super) store: Arc<dyn Store>,
    pub(super) bodies: Arc<dyn BodyStore>,
}

impl ResultReader {
    /// Creates a reader for a store.
    pub fn new(store: Arc<dyn Store>, bodies: Arc<dyn BodyStore>) -> Self {
        Self { store, bodies }
    }

    /// Finds the selected result: a step's own, or the latest successful match, otherwise the latest match.
    pub async fn find(&self, id: ExecutionId, address: &ResultAddress) -> Result<Option<LocatedResult>, Error> {
        if let Some(step) = address.step.as_ref().filter(|_| address.is_whole()) {
            return self.find_step_result(id, step).await;
        }
        self.find_best_match(id, address).await
    }

    async fn find_step_result(&self, id: ExecutionId, step: &Name) -> Result<Option<LocatedResult>, Error> {
        let state = loading::load_state(&*self.store, id).await?;
        let state = state.ok_or(Error::NotFound(id))?;
        let live = state.runs.iter().rev().find(|(run, _)| run.step == *step);
        let summary = state.steps.get(step);
        match (summary.and_then(|summary| summary.latest.as_ref()), live) {
            (Some(latest), _) => self.load_latest(id, latest).await.map(Some),
            (None, Some((_, run))) if run.loop_.is_none() => {
                self.find_best_match(id, &ResultAddress::for_step(step.clone())).await
            }
            _ => Ok(None),
        }
    }

    /// Loads a step's latest result.
    pub(crate) async fn load_latest(&self, id: ExecutionId, latest: &StepPointer) -> Result<LocatedResult, Error> {
        Ok(match Envelope::from(latest).content {
            EnvelopeContent::Event(seq) => {
                let events = loading::load_events(&*self.store, id, &[seq]).await?;
                let located = events.first().and_then(LocatedResult::from_event);
                located.unwrap_or(LocatedResult::Value(Value::Null))
            }
            EnvelopeContent::Loop(pointer) => {
                let (log, pointer) = loading::locate_loop_results(&*self.store, id, &pointer).await?;
                LocatedResult::Loop(log, pointer)
            }
            EnvelopeContent::Error(error) => LocatedResult::Value((*error).clone()),
            EnvelopeContent::Outcome(_) | EnvelopeContent::Parts(_) | EnvelopeContent::Empty => {
                LocatedResult::Value(Value::Null)
            }
        })
    }

    /// Finds the best match in the log.
    pub(super) async fn find_best_match(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<LocatedResult>, Error> {
        if address.selector.iteration.is_some() {
            let events = self.iteration_events(id, address).await?;
            let mut best = BestMatch::default();
            let candidates = events.iter().filter(|event| address.may_select(event));
            candidates.for_each(|event| best.consider(event));
            let mut events = events.iter();
            let matching = events.find(|event| Some(event.seq) == best.seq());
            return Ok(matching.and_then(LocatedResult::from_event));
        }
        if let Some((step, task)) = address.task_of_step()
            && let Some(ends) = self.store.loop_task(id, step, address.selector.run, task).await?
        {
            // Every result of a loop's task belongs to an iteration, so no other event needs to be searched.
            return self.load_from_log(id, ends.succeeded.or(ends.failed)).await;
        }
        let mut best = BestMatch::default();
        let add_candidate = |event: &Event| {
            if address.matches(event) && address.may_select(event) {
                best.consider(event);
            }
        };
        let is_part_of_loop = address.task_of_step().is_none() && !self.loop_runs(id, address).await?.is_empty();
        if is_part_of_loop {
            parts::for_each_event(&*self.store, id, Seq(0), Seq(u64::MAX), add_candidate).await?;
        } else {
            parts::for_each_outline_event(&*self.store, id, add_candidate).await?;
        }
        self.load_from_log(id, best.seq()).await
    }

    /// Loads the result that an event of the log records.
    async fn load_from_log(&self, id: ExecutionId, seq: Option<Seq>) -> Result<Option<LocatedResult>, Error> {
        let Some(seq) = seq else {
            return Ok(None);
        };
        let events = self.store.events_at(id, &[seq]).await?;
        Ok(events.first().and_then(LocatedResult::from_event))
    }

    /// The results that match an address with an iteration, by seq.
    pub(super) async fn iteration_events(&self, id: ExecutionId, address: &ResultAddress) -> Result<Vec<Event>, Error> {
        let Some(index) = address.selector.iteration else {
            return Ok(Vec::new());
        };
        let mut events = Vec::new();
        for run in self.loop_runs(id, address).await? {
            let ends = self.store.iteration_events(id, &run, index..index + 1);
            events.extend(ends.await?);
        }
        events.retain(|event| address.matches(event));
        events.sort_by_key(|event| event.seq);
        Ok(events)
    }

    /// The runs of loops that an address may select.
    pub(super) async fn loop_runs(&self, id: ExecutionId, address: &ResultAddress) -> Result<Vec<StepRunId>, Error> {
        let step = address.step.as_ref();
        let runs = self.store.loops(id).await?.into_iter();
        let runs = runs.map(|progress| progress.run);
        let runs = runs.filter(|run| step.is_none_or(|step| run.step == *step));
        let number = address.selector.run;
        Ok(runs
            .filter(|run| number.is_none_or(|number| run.run == number))
            .collect())
    }

    /// Streams a result unchanged: JSON text, or the bytes of a body that is not JSON.
    pub async fn stream(&self, located: LocatedResult) -> Result<ByteStream, Error> {
        match located {
            LocatedResult::Body(reference) => Ok(self.bodies.read(&reference, None).await?.chunks),
            LocatedResult::Manifest(reference, rule) if rule.strategy == CombineStrategy::Append => {
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
            located => Ok(part_stream::single_chunk(self.load_value(located).await?.to_string())),
        }
    }

    /// Streams a result as JSON text. A body that is not JSON is text that a task stored, and is quoted.
    pub async fn stream_json(&self, located: LocatedResult) -> Result<ByteStream, Error> {
        let is_json = located.content_type() == "application/json";
        let pieces = self.stream(located).await?;
        Ok(if is_json { pieces } else { quote_stream(pieces) })
    }

    /// Returns a small result as JSON text; `None` for a large one, of which only the start is read.
    pub(crate) async fn small_text(&self, located: LocatedResult) -> Result<Option<Vec<u8>>, Error> {
        if self.is_large(&located).await? {
            return Ok(None);
        }
        let mut pieces = self.stream_json(located).await?;
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.map_err(Error::from_read_error)?);
            if text.len() as u64 > SMALL_BYTES_MAX {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }

    async fn is_large(&self, located: &LocatedResult) -> Result<bool, Error> {
        match located {
            LocatedResult::Value(_) => Ok(false),
            LocatedResult::Body(reference) | LocatedResult::Manifest(reference, _) => {
                Ok(reference.meta.bytes > SMALL_BYTES_MAX)
            }
            LocatedResult::Loop(log, pointer) => {
                let done = self.store.events_at(*log, &[pointer.done]).await?;
                let done = done.into_iter().next().map(|event| event.body);
                Ok(matches!(done, Some(EventBody::LoopDone(done)) if done.stats.total > SMALL_PARTS_MAX))
            }
        }
    }

    /// Streams a manifest with the address of each part.
    pub async fn stream_manifest(&self, reference: &ResultRef, rule: &ManifestRule) -> Result<ByteStream, Error> {
        let parts = self.index_parts(reference, rule).await?;
        Ok(part_stream::stream_manifest(self, parts, rule))
    }

    async fn index_parts(&self, reference: &ResultRef, rule: &ManifestRule) -> Result<PartIndex, Error> {
        let Some(execution) = execution_of_uri(&reference.uri) else {
            return Ok(PartIndex::empty());
        };
        if rule.is_loop {
            return PartIndex::from_loop(&*self.store, execution, rule.first, rule.seq).await;
        }
        PartIndex::from_task(&*self.store, execution, rule).await
    }

    /// Loads a whole result.
    pub fn load_value(&self, located: LocatedResult) -> BoxFuture<'_, Result<Value, Error>> {
        Box::pin(async move {
            match located {
                LocatedResult::Value(value) => Ok(value),
                LocatedResult::Body(reference) => {
                    let bytes = self.bodies.get(&reference).await?;
                    Ok(::results::decode_body(&reference, &bytes))
                }
                LocatedResult::Manifest(reference, rule) => self.combine_parts(&reference, &rule).await,
                located @ LocatedResult::Loop(..) => {
                    collect_elements(self.stream(located).await?).await.map(Value::Array)
                }
            }
        })
    }

    /// Loads the combined value of the parts of a manifest.
    async fn combine_parts(&self, reference: &ResultRef, rule: &ManifestRule) -> Result<Value, Error> {
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

    /// Loads a whole result as JSON text.
    pub(super) async fn load_text(&self, located: LocatedResult) -> Result<Bytes, Error> {
        if let LocatedResult::Body(reference) = &located
            && reference.meta.content_type == "application/json"
        {
            return Ok(self.bodies.get(reference).await?);
        }
        Ok(self.load_value(located).await?.to_string().into())
    }
}

/// Parses the elements of a list that arrives as a stream.
async fn collect_elements(mut pieces: ByteStream) -> Result<Vec<Value>, Error> {
    let mut text = Vec::new();
    while let Some(piece) = pieces.next().await {
        text.extend_from_slice(&piece.map_err(Error::from_read_error)?);
    }
    let read = serde_json::from_slice(&text);
    read.map_err(|error| Error::from_read_error(std::io::Error::other(error)))
}
