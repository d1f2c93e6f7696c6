//! Determines the elements of a loop. For a list inside a body only the offsets are recorded, in constant memory; for a
//! number range only the rule is stored; any other value is rendered and stored.

use model::command::ReportEnd;
use model::event::{Body, Event, ResultStored};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::{Loop, ResultControl, Step};
use model::result_ref::{BodyMeta, RefKind, Resolved, ResultRef, SCHEME, Scope as Life};
use model::template::{Bound, Scope, Tree};
use results::{Located, Place, Places, Source};
use serde_json::{Map, Value, json};
use tokio_util::io::StreamReader;

use crate::elements::PLACES;
use crate::hand::{Hand, Trouble};
use crate::load::{self, Unresolved};
use crate::{keep, lookup};

/// Bodies up to this size are rendered like any other value.
const RENDERED_BYTES_MAX: u64 = 1024 * 1024;

/// Determines the elements of a loop and reports their location.
pub(crate) async fn elements(
    hand: &Hand,
    found: (&Step, &Loop),
    tree: &Tree,
) -> Result<ReportEnd, Trouble> {
    let mut scope: Scope = hand.scope();
    scope.now = Some(hand.now());
    let reference = fix(hand, &mut scope, found, tree).await?;
    hand.lease.push(&mut vec![told(hand, reference)]);
    Ok(ReportEnd::Finished)
}

/// Returns a reference to the elements of a loop. The number of elements is in `extracted`.
pub(crate) async fn fix(
    hand: &Hand,
    scope: &mut Scope,
    found: (&Step, &Loop),
    tree: &Tree,
) -> Result<ResultRef, Trouble> {
    let range = load::resolve(hand, scope, |scope| tree.number_range(scope)).await;
    if let Some(range) = settled(range, found.0)? {
        return store_range(hand, range).await;
    }
    match counted(hand, scope, tree, found.0).await? {
        Some(reference) => Ok(reference),
        None => rendered(hand, scope, found, tree).await,
    }
}

/// Stores the rule of a number range. The server reads it from `extracted`.
async fn store_range(hand: &Hand, range: NumberRange) -> Result<ResultRef, Trouble> {
    let rule = serde_json::to_value(range).expect("a range is plain data");
    let control = ResultControl::default();
    let mut reference = keep::store(hand, &hand.at(), rule.clone(), &control).await?;
    reference.extracted = Map::from_iter([
        ("total".to_owned(), range.len().into()),
        (NumberRange::EXTRACTED_KEY.to_owned(), rule),
    ]);
    Ok(reference)
}

/// Builds the event that reports the location of the elements.
pub(crate) fn told(hand: &Hand, reference: ResultRef) -> Event {
    let reference = ResultRef {
        preview: None,
        ..reference
    };
    let body = Body::ResultStored(ResultStored {
        result_ref: Box::new(reference),
    });
    hand.event(hand.at(), body)
}

/// Locates the elements as a list inside a body; `None` if they are not one. A manifest is first copied to one body.
async fn counted(
    hand: &Hand,
    scope: &mut Scope,
    tree: &Tree,
    step: &Step,
) -> Result<Option<ResultRef>, Trouble> {
    let bound = load::resolve(hand, scope, |scope| tree.bound(scope)).await;
    let bound = match settled(bound, step)? {
        Some(bound) => Some(bound),
        None => addressed(hand, scope, tree, step).await?,
    };
    let Some(bound) = bound else {
        return Ok(None);
    };
    if bound.reference.meta.bytes <= RENDERED_BYTES_MAX {
        return Ok(None);
    }
    let bound = match bound.reference.kind {
        RefKind::Result => bound,
        // The parts of a manifest are in several bodies; the loop needs them in one.
        RefKind::Manifest => Bound {
            reference: {
                let copy = || copied(hand, &bound.reference, 0..u64::MAX);
                load::reading(hand, &bound.reference, copy).await?
            },
            ..bound
        },
    };
    let reference = &bound.reference;
    let bodies = &hand.shared.config.bodies;
    let locate = || results::locate(&**bodies, reference, &bound.paths);
    match load::reading(hand, reference, locate).await? {
        Some(Located {
            range,
            list: Some(places),
            ..
        }) => fixed(hand, reference, range, places).await.map(Some),
        _ => Ok(None),
    }
}

/// Resolves the body if the loop value is an address.
async fn addressed(
    hand: &Hand,
    scope: &mut Scope,
    tree: &Tree,
    step: &Step,
) -> Result<Option<Bound>, Trouble> {
    let is_address = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(SCHEME));
    let rendered = load::resolve(hand, scope, |scope| tree.render(scope)).await;
    let value = settled(rendered, step)?.value;
    if !is_address(&value) {
        return Ok(None);
    }
    let uri = value.as_str().unwrap_or_default();
    Ok(match lookup::found(hand, uri).await? {
        Resolved::Body(reference) => Some(Bound::whole(*reference)),
        Resolved::Value(_) => None,
    })
}

/// Returns the reference to the elements for the log. Copies a body that may expire before the execution ends, that
/// belongs to another execution, or that is compressed: each range read would decompress it from the start.
async fn fixed(
    hand: &Hand,
    source: &ResultRef,
    range: std::ops::Range<u64>,
    places: Places,
) -> Result<ResultRef, Trouble> {
    let own = format!("noetl://execution/{}/", hand.execution());
    let is_short = source.scope == Life::Step || source.expires_at.is_some();
    let is_plain = source.meta.compression.is_none();
    let (mut reference, places) = if source.uri.starts_with(&own) && !is_short && is_plain {
        (source.clone(), places)
    } else {
        let copy = || copied(hand, source, range.clone());
        let copy = load::reading(hand, source, copy).await?;
        (copy, moved(&places, range.start))
    };
    reference.scope = Life::Execution;
    reference.extracted = Map::from_iter([("total".to_owned(), places.total.into())]);
    let places = serde_json::to_value(places).expect("places are plain data");
    reference.meta.location.insert(PLACES.to_owned(), places);
    Ok(reference)
}

fn moved(places: &Places, by: u64) -> Places {
    Places {
        offsets: places.offsets.iter().map(|offset| offset - by).collect(),
        end: places.end - by,
        ..*places
    }
}

async fn copied(
    hand: &Hand,
    source: &ResultRef,
    range: std::ops::Range<u64>,
) -> Result<ResultRef, results::Error> {
    let bodies = &hand.shared.config.bodies;
    let reading = bodies.read(source, Some(range)).await?;
    let mut reader = StreamReader::new(reading.pieces);
    let stored = bodies.put(Source::Stream(&mut reader)).await?;
    let at = hand.at();
    let place = Place {
        execution: hand.execution(),
        at: &at,
        now: hand.now(),
    };
    Ok(ResultRef {
        kind: RefKind::Result,
        uri: place.uri(),
        store: stored.store.to_owned(),
        scope: Life::Execution,
        expires_at: None,
        meta: BodyMeta {
            content_type: "application/json".to_owned(),
            bytes: stored.bytes,
            sha256: stored.sha256,
            compression: None,
            location: stored.location,
        },
        extracted: Map::new(),
        keys: Vec::new(),
        preview: None,
    })
}

/// Renders the elements and stores them.
async fn rendered(
    hand: &Hand,
    scope: &mut Scope,
    (step, loop_): (&Step, &Loop),
    tree: &Tree,
) -> Result<ResultRef, Trouble> {
    let rendered = load::resolve(hand, scope, |scope| tree.render(scope)).await;
    let mut value = settled(rendered, step)?.value;
    if let Some(uri) = value.as_str().filter(|text| text.starts_with(SCHEME)) {
        value = match lookup::found(hand, uri).await? {
            Resolved::Body(reference) => load::body(hand, &reference).await?,
            Resolved::Value(value) => value.value(),
        };
    }
    let items = match value {
        Value::Array(items) => items,
        Value::Object(map) => {
            let pairs = map.into_iter();
            pairs
                .map(|(key, value)| json!({"key": key, "value": value}))
                .collect()
        }
        _ => {
            let message = format!("`loop.in` of step `{}` is not a list", step.name);
            let error = TaskError::new(ErrorKind::Schema, "LOOP_NOT_A_LIST", message);
            return Err(error.with("line", loop_.span.line).into());
        }
    };
    let total = items.len() as u64;
    let control = ResultControl::default();
    let mut reference = keep::store(hand, &hand.at(), Value::Array(items), &control).await?;
    reference.extracted.insert("total".to_owned(), total.into());
    Ok(reference)
}

/// Returns the rendered value, or the error that fails the step.
pub(crate) fn settled<T>(resolved: load::Resolved<T>, step: &Step) -> Result<T, Trouble> {
    resolved.map_err(|unresolved| match unresolved {
        Unresolved::Interrupted => Trouble::Interrupted,
        Unresolved::Missing(error) => Trouble::Failed(error),
        Unresolved::Template(error) => {
            let mut error = pipeline::render_failure(&error, step, &step.name);
            error.details.shift_remove("task");
            error.into()
        }
    })
}
