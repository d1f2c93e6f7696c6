//! Streams a list of parts, one part at a time.

use std::collections::VecDeque;
use std::io;

use ::results::{ByteStream, LocatedValue};
use bytes::Bytes;
use futures_util::stream;
use model::event::Event;
use model::manifest::{ManifestRule, PartCombiner, inline_result, outcome_from_event};
use model::outcome::Outcome;
use model::result_ref::PathSegment;
use model::result_ref::ResultRef;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::result_reader::parts::{PARTS_AT_ONCE, PartIndex};
use crate::result_reader::{LocatedResult, ResultReader};

/// Smaller parts are read whole.
const WHOLE_BYTES_MAX: u64 = 256 * 1024;

/// Small parts are joined into chunks of about this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// How a part is written.
enum PartForm {
    /// Its value as one element; null if it has none.
    Value,
    /// The elements that it adds, and the path to them if no search is needed.
    Elements(PartCombiner, Option<Vec<PathSegment>>),
    /// Its location.
    Location,
}

/// The text before the first part and after the last one.
struct PartFrame {
    head: String,
    tail: &'static str,
}

impl PartFrame {
    /// The brackets of a JSON list.
    fn list() -> Self {
        Self {
            head: "[".to_owned(),
            tail: "]",
        }
    }
}

/// The parts that remain to be streamed.
struct PartStream {
    reader: ResultReader,
    parts: PartIndex,
    form: PartForm,
    frame: PartFrame,
    next_index: usize,
    ready_events: VecDeque<Option<Box<Event>>>,
    /// Maximum number of parts per read.
    batch: usize,
    /// Stream of a large part that is being written.
    current_stream: Option<ByteStream>,
    is_first: bool,
    is_ended: bool,
}

/// The results of a loop as a list, by index.
pub(super) fn stream_values(reader: &ResultReader, parts: PartIndex) -> ByteStream {
    stream_parts(reader, parts, PartForm::Value, PartFrame::list())
}

/// Streams the elements that the parts add to a list, in order.
pub(super) fn stream_appended(reader: &ResultReader, parts: PartIndex, rule: &ManifestRule) -> ByteStream {
    let path = rule.merge_path.as_deref().unwrap_or("$");
    let form = PartForm::Elements(rule.combiner(), ::results::parse_plain_path(path));
    stream_parts(reader, parts, form, PartFrame::list())
}

/// The manifest itself, with the address of each part.
pub(super) fn stream_manifest(reader: &ResultReader, parts: PartIndex, rule: &ManifestRule) -> ByteStream {
    let path = rule.merge_path.as_ref();
    let path = path.map_or_else(String::new, |path| format!("\"merge_path\":{},", json!(path)));
    let strategy = rule.strategy.name();
    let head = format!("{{\"kind\":\"manifest\",\"strategy\":\"{strategy}\",{path}\"parts\":[");
    let frame = PartFrame { head, tail: "]}" };
    stream_parts(reader, parts, PartForm::Location, frame)
}

/// A stream of one available chunk.
pub(super) fn single_chunk(text: impl Into<Bytes>) -> ByteStream {
    Box::pin(stream::iter([Ok(text.into())]))
}

/// A stream with a text before it and a text after it.
pub(crate) fn wrap_stream(before: String, pieces: ByteStream, behind: &'static str) -> ByteStream {
    use futures_util::StreamExt as _;
    let pieces = single_chunk(before).chain(pieces);
    Box::pin(pieces.chain(single_chunk(behind.as_bytes())))
}

fn stream_parts(reader: &ResultReader, parts: PartIndex, form: PartForm, frame: PartFrame) -> ByteStream {
    let out = PartStream {
        reader: reader.clone(),
        parts,
        form,
        frame,
        next_index: 0,
        ready_events: VecDeque::new(),
        batch: PARTS_AT_ONCE,
        current_stream: None,
        is_first: true,
        is_ended: false,
    };
    Box::pin(stream::try_unfold(out, |mut out| async move {
        let piece = out.next_chunk().await.map_err(io::Error::other)?;
        Ok(piece.map(|piece| (piece, out)))
    }))
}

impl PartStream {
    /// Returns the next chunk; `None` at the end.
    async fn next_chunk(&mut self) -> Result<Option<Bytes>, Error> {
        if self.is_ended {
            return Ok(None);
        }
        if let Some(stream) = &mut self.current_stream {
            let piece = ::results::next_chunk(stream).await?;
            if piece.is_some() {
                return Ok(piece);
            }
            self.current_stream = None;
        }
        let mut text = std::mem::take(&mut self.frame.head).into_bytes();
        while text.len() < CHUNK_BYTES && self.current_stream.is_none() && !self.is_ended {
            self.add_part(&mut text).await?;
        }
        Ok(Some(text.into()))
    }

    /// Adds the next part to the text, or the closing text after the last part.
    async fn add_part(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        if self.ready_events.is_empty() {
            let store = &*self.reader.store;
            self.ready_events = self.parts.load_events(store, self.next_index, self.batch).await?;
            self.next_index += self.ready_events.len();
            // If a read returned fewer parts than allowed, the next parts are similar in size.
            self.batch = self.batch.min(self.ready_events.len().max(1));
        }
        let Some(event) = self.ready_events.pop_front() else {
            self.is_ended = true;
            text.extend_from_slice(self.frame.tail.as_bytes());
            return Ok(());
        };
        let index = self.next_index - self.ready_events.len() - 1;
        let part = self.load_part_content(index, event).await?;
        let mut add = |element: &[u8]| {
            if !std::mem::replace(&mut self.is_first, false) {
                text.push(b',');
            }
            text.extend_from_slice(element);
        };
        match part {
            PartContent::Elements(elements) => elements.iter().for_each(|element| add(element)),
            PartContent::Stream(pieces) => {
                add(b"");
                self.current_stream = Some(pieces);
            }
        }
        Ok(())
    }

    /// The JSON text that a part adds.
    async fn load_part_content(&mut self, index: usize, event: Option<Box<Event>>) -> Result<PartContent, Error> {
        if let PartForm::Location = self.form {
            let page = self.parts.page(index);
            let origin = event.as_deref().map(|event| manifest_entry(event, page));
            return Ok(PartContent::Elements(origin.iter().map(to_json_bytes).collect()));
        }
        if let PartForm::Value = self.form
            && let Some(text) = event.as_deref().and_then(inline_result)
        {
            return Ok(PartContent::Elements(vec![Bytes::copy_from_slice(text.as_bytes())]));
        }
        let outcome = event.as_deref().and_then(outcome_from_event);
        let Some(outcome) = outcome.filter(Outcome::is_ok) else {
            return Ok(PartContent::Elements(match self.form {
                PartForm::Value => vec![Bytes::from_static(b"null")],
                _ => Vec::new(),
            }));
        };
        let located = LocatedResult::from_outcome(outcome);
        let large = match &located {
            LocatedResult::Body(reference) if is_large_json(reference) => Some(reference),
            _ => None,
        };
        match (&self.form, large) {
            (PartForm::Elements(_, Some(path)), Some(reference)) => {
                stream_elements(&self.reader, reference, path).await
            }
            (PartForm::Elements(collect, _), _) => {
                let value = self.reader.load_value(located).await?;
                let elements = collect.part_elements(value);
                Ok(PartContent::Elements(elements.iter().map(to_json_bytes).collect()))
            }
            (_, Some(reference)) => {
                let body = self.reader.bodies.read(reference, None).await?;
                Ok(PartContent::Stream(body.chunks))
            }
            _ => Ok(PartContent::Elements(vec![self.reader.load_text(located).await?])),
        }
    }
}

/// The elements of the list at this position of a large body, or any other value there, as text.
async fn stream_elements(
    reader: &ResultReader,
    reference: &ResultRef,
    path: &[PathSegment],
) -> Result<PartContent, Error> {
    let bodies = &*reader.bodies;
    let located = ::results::locate_value(bodies, reference, &[path.to_vec()]).await?;
    let range = match located {
        None => return Ok(PartContent::Elements(Vec::new())),
        Some(LocatedValue { list: Some(list), .. }) if list.total == 0 => {
            return Ok(PartContent::Elements(Vec::new()));
        }
        // The text between the brackets.
        Some(LocatedValue {
            range, list: Some(_), ..
        }) => range.start + 1..range.end - 1,
        Some(LocatedValue { range, .. }) => range,
    };
    let body = bodies.read(reference, Some(range)).await?;
    Ok(PartContent::Stream(body.chunks))
}

/// The content that a part adds.
enum PartContent {
    /// Elements that are in memory.
    Elements(Vec<Bytes>),
    /// One or more elements, separated by commas, as a stream.
    Stream(ByteStream),
}

fn is_large_json(reference: &ResultRef) -> bool {
    reference.meta.bytes > WHOLE_BYTES_MAX && reference.meta.content_type == "application/json"
}

/// The entry of a part in the list of a manifest.
fn manifest_entry(event: &Event, page: Option<i64>) -> Value {
    let origin = ::results::ResultOrigin {
        execution: event.execution_id,
        location: &event.location,
        now: event.timestamp,
    };
    let outcome = outcome_from_event(event);
    let reference = match &outcome {
        Some(Outcome::Ok(success)) => success.reference.as_ref(),
        _ => None,
    };
    let uri = reference.map_or_else(|| origin.uri(), |reference| reference.uri.clone());
    let mut entry = Map::from_iter([("ref".to_owned(), uri.into())]);
    if let Some(index) = event.location.iteration {
        entry.insert("iteration".to_owned(), index.into());
    }
    if let Some(page) = page.or(event.location.page) {
        entry.insert("page".to_owned(), page.into());
    }
    Value::Object(entry)
}

fn to_json_bytes(value: &Value) -> Bytes {
    value.to_string().into()
}
