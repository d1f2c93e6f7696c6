//! Pieces: a list of parts on its way out, one part at a time.

use std::collections::VecDeque;
use std::io;

use ::results::{Located, Pieces};
use bytes::Bytes;
use futures_util::stream;
use model::event::Event;
use model::manifest::{Collect, Rule, inline_result, outcome_of};
use model::outcome::Outcome;
use model::result_ref::ResultRef;
use model::template::Segment;
use serde_json::{Map, Value, json};

use crate::error::Error;
use crate::reading::parts::{PARTS_AT_ONCE, Parts};
use crate::reading::{Found, Reader};

/// A smaller part is read whole.
const WHOLE_BYTES_MAX: u64 = 256 * 1024;

/// Small parts leave together, in pieces of about this size.
const PIECE_BYTES: usize = 64 * 1024;

/// What becomes of each part.
enum Form {
    /// Its value, as one element; null where there is none.
    Each,
    /// The elements that it adds, and the way to them if no search is needed.
    Elements(Collect, Option<Vec<Segment>>),
    /// Where it is.
    Listed,
}

/// Parts on their way out.
struct Out {
    reader: Reader,
    parts: Parts,
    form: Form,
    /// What comes before the first part, and after the last.
    frame: (String, &'static str),
    next: usize,
    ready: VecDeque<Option<Box<Event>>>,
    /// How many parts are read at once.
    batch: usize,
    /// A large part on its way.
    passing: Option<Pieces>,
    is_first: bool,
    is_over: bool,
}

/// The results of a loop as a list, by index.
pub(super) fn each(reader: &Reader, parts: Parts) -> Pieces {
    framed(reader, parts, Form::Each, ("[".to_owned(), "]"))
}

/// What parts add to a list, one after the other.
pub(super) fn appended(reader: &Reader, parts: Parts, rule: &Rule) -> Pieces {
    let path = rule.merge_path.as_deref().unwrap_or("$");
    let form = Form::Elements(rule.collect(), ::results::plain(path));
    framed(reader, parts, form, ("[".to_owned(), "]"))
}

/// The manifest itself, with the address of each part.
pub(super) fn listed(reader: &Reader, parts: Parts, rule: &Rule) -> Pieces {
    let path = rule.merge_path.as_ref();
    let path = path.map_or_else(String::new, |path| {
        format!("\"merge_path\":{},", json!(path))
    });
    let strategy = rule.strategy.name();
    let head = format!("{{\"kind\":\"manifest\",\"strategy\":\"{strategy}\",{path}\"parts\":[");
    framed(reader, parts, Form::Listed, (head, "]}"))
}

/// One piece that is at hand.
pub(super) fn one(text: impl Into<Bytes>) -> Pieces {
    Box::pin(stream::iter([Ok(text.into())]))
}

/// Pieces with others before and behind them.
pub(crate) fn between(before: String, pieces: Pieces, behind: &'static str) -> Pieces {
    use futures_util::StreamExt as _;
    let pieces = one(before).chain(pieces);
    Box::pin(pieces.chain(one(behind.as_bytes())))
}

fn framed(reader: &Reader, parts: Parts, form: Form, frame: (String, &'static str)) -> Pieces {
    let out = Out {
        reader: reader.clone(),
        parts,
        form,
        frame,
        next: 0,
        ready: VecDeque::new(),
        batch: PARTS_AT_ONCE,
        passing: None,
        is_first: true,
        is_over: false,
    };
    Box::pin(stream::try_unfold(out, |mut out| async move {
        let piece = out.piece().await.map_err(io::Error::other)?;
        Ok(piece.map(|piece| (piece, out)))
    }))
}

impl Out {
    /// The next piece; none when all are out.
    async fn piece(&mut self) -> Result<Option<Bytes>, Error> {
        if self.is_over {
            return Ok(None);
        }
        if let Some(passing) = &mut self.passing {
            let piece = ::results::next(passing).await?;
            if piece.is_some() {
                return Ok(piece);
            }
            self.passing = None;
        }
        let mut text = std::mem::take(&mut self.frame.0).into_bytes();
        while text.len() < PIECE_BYTES && self.passing.is_none() && !self.is_over {
            self.add_part(&mut text).await?;
        }
        Ok(Some(text.into()))
    }

    /// Adds the next part to the text, or what comes after the last.
    async fn add_part(&mut self, text: &mut Vec<u8>) -> Result<(), Error> {
        if self.ready.is_empty() {
            let store = &*self.reader.store;
            self.ready = self.parts.events(store, self.next, self.batch).await?;
            self.next += self.ready.len();
            // Where fewer fit, the next ones are as large.
            self.batch = self.batch.min(self.ready.len().max(1));
        }
        let Some(event) = self.ready.pop_front() else {
            self.is_over = true;
            text.extend_from_slice(self.frame.1.as_bytes());
            return Ok(());
        };
        let index = self.next - self.ready.len() - 1;
        let part = self.part(index, event).await?;
        let mut add = |element: &[u8]| {
            if !std::mem::replace(&mut self.is_first, false) {
                text.push(b',');
            }
            text.extend_from_slice(element);
        };
        match part {
            Part::Elements(elements) => elements.iter().for_each(|element| add(element)),
            Part::Passing(pieces) => {
                add(b"");
                self.passing = Some(pieces);
            }
        }
        Ok(())
    }

    /// What a part adds, as JSON text.
    async fn part(&mut self, index: usize, event: Option<Box<Event>>) -> Result<Part, Error> {
        if let Form::Listed = self.form {
            let page = self.parts.page(index);
            let place = event.as_deref().map(|event| entry(event, page));
            return Ok(Part::Elements(place.iter().map(text).collect()));
        }
        if let Form::Each = self.form
            && let Some(text) = event.as_deref().and_then(inline_result)
        {
            return Ok(Part::Elements(vec![Bytes::copy_from_slice(
                text.as_bytes(),
            )]));
        }
        let outcome = event.as_deref().and_then(outcome_of);
        let Some(outcome) = outcome.filter(Outcome::is_ok) else {
            return Ok(Part::Elements(match self.form {
                Form::Each => vec![Bytes::from_static(b"null")],
                _ => Vec::new(),
            }));
        };
        let found = Found::of(outcome);
        let large = match &found {
            Found::Body(reference) if is_large_json(reference) => Some(reference),
            _ => None,
        };
        match (&self.form, large) {
            (Form::Elements(_, Some(path)), Some(reference)) => {
                elements_within(&self.reader, reference, path).await
            }
            (Form::Elements(collect, _), _) => {
                let value = self.reader.value(found).await?;
                let elements = collect.elements(value);
                Ok(Part::Elements(elements.iter().map(text).collect()))
            }
            (_, Some(reference)) => {
                let reading = self.reader.bodies.read(reference, None).await?;
                Ok(Part::Passing(reading.pieces))
            }
            _ => Ok(Part::Elements(vec![self.reader.text(found).await?])),
        }
    }
}

/// The elements of the list at this place of a large body, or what else is there, as they stand in its text.
async fn elements_within(
    reader: &Reader,
    reference: &ResultRef,
    path: &[Segment],
) -> Result<Part, Error> {
    let bodies = &*reader.bodies;
    let located = ::results::locate(bodies, reference, &[path.to_vec()]).await?;
    let range = match located {
        None => return Ok(Part::Elements(Vec::new())),
        Some(Located {
            list: Some(list), ..
        }) if list.total == 0 => {
            return Ok(Part::Elements(Vec::new()));
        }
        // Between its brackets.
        Some(Located {
            range,
            list: Some(_),
            ..
        }) => range.start + 1..range.end - 1,
        Some(Located { range, .. }) => range,
    };
    let reading = bodies.read(reference, Some(range)).await?;
    Ok(Part::Passing(reading.pieces))
}

/// What a part adds.
enum Part {
    /// Elements at hand.
    Elements(Vec<Bytes>),
    /// One element or more with commas between them, as they are read.
    Passing(Pieces),
}

fn is_large_json(reference: &ResultRef) -> bool {
    reference.meta.bytes > WHOLE_BYTES_MAX && reference.meta.content_type == "application/json"
}

/// A part as the manifest lists it.
fn entry(event: &Event, page: Option<i64>) -> Value {
    let place = ::results::Place {
        execution: event.execution_id,
        at: &event.at,
        now: event.timestamp,
    };
    let outcome = outcome_of(event);
    let reference = match &outcome {
        Some(Outcome::Ok(success)) => success.reference.as_ref(),
        _ => None,
    };
    let uri = reference.map_or_else(|| place.uri(), |reference| reference.uri.clone());
    let mut entry = Map::from_iter([("ref".to_owned(), uri.into())]);
    if let Some(index) = event.at.iteration {
        entry.insert("iteration".to_owned(), index.into());
    }
    if let Some(page) = page.or(event.at.page) {
        entry.insert("page".to_owned(), page.into());
    }
    Value::Object(entry)
}

fn text(value: &Value) -> Bytes {
    value.to_string().into()
}
