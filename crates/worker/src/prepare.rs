//! Determines the elements of a loop. For a list inside a body only the offsets are recorded, in constant memory; for a
//! number range only the rule is stored; any other value is rendered and stored.

use language::playbook::{Loop, Step};
use language::template::{BodyPath, Scope, Tree};
use model::command::ReportEnd;
use model::event::{EventBody, ReportedEvent, ResultStored};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::playbook::ResultControl;
use model::result_ref::{BodyScope, RefKind, ResolvedRef, ResultRef, SCHEME};
use results::{BodySource, ElementOffsets, LocatedValue, ResultOrigin};
use serde_json::{Map, Value, json};
use tokio_util::io::StreamReader;

use crate::command_context::{CommandContext, WorkError};
use crate::elements::ELEMENT_OFFSETS_KEY;
use crate::load::{self, ResolveError};
use crate::{lookup, store_results};

/// Bodies up to this size are rendered like any other value.
const RENDERED_BYTES_MAX: u64 = 1024 * 1024;

/// A step with its loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopStep<'a> {
    pub(crate) step: &'a Step,
    pub(crate) loop_: &'a Loop,
}

/// Determines the elements of a loop and reports their location.
pub(crate) async fn prepare_elements(
    context: &CommandContext,
    loop_step: LoopStep<'_>,
    tree: &Tree,
) -> Result<ReportEnd, WorkError> {
    let mut scope: Scope = context.scope();
    scope.now = Some(context.now());
    let reference = locate_elements(context, &mut scope, loop_step, tree).await?;
    context.lease.push(&mut vec![elements_event(context, reference)]);
    Ok(ReportEnd::Finished)
}

/// Returns a reference to the elements of a loop. The number of elements is in `extracted`.
pub(crate) async fn locate_elements(
    context: &CommandContext,
    scope: &mut Scope,
    loop_step: LoopStep<'_>,
    tree: &Tree,
) -> Result<ResultRef, WorkError> {
    let range = load::render_with_loading(context, scope, |scope| tree.number_range(scope)).await;
    if let Some(range) = step_result(range, loop_step.step)? {
        return store_range(context, range).await;
    }
    match locate_in_body(context, scope, tree, loop_step.step).await? {
        Some(reference) => Ok(reference),
        None => store_rendered_elements(context, scope, loop_step, tree).await,
    }
}

/// Stores the rule of a number range. The server reads it from `extracted`.
async fn store_range(context: &CommandContext, range: NumberRange) -> Result<ResultRef, WorkError> {
    let rule = serde_json::to_value(range).expect("a range is plain data");
    let control = ResultControl::default();
    let mut reference = store_results::store_body(context, &context.location(), rule.clone(), &control).await?;
    reference.extracted = Map::from_iter([
        ("total".to_owned(), range.len().into()),
        (NumberRange::EXTRACTED_KEY.to_owned(), rule),
    ]);
    Ok(reference)
}

/// Builds the event that reports the location of the elements.
pub(crate) fn elements_event(context: &CommandContext, reference: ResultRef) -> ReportedEvent {
    let reference = ResultRef {
        preview: None,
        ..reference
    };
    let body = EventBody::ResultStored(ResultStored {
        result_ref: Box::new(reference),
    });
    context.event(context.location(), body)
}

/// Locates the elements as a list inside a body; `None` if they are not one. A manifest is first copied to one body.
async fn locate_in_body(
    context: &CommandContext,
    scope: &mut Scope,
    tree: &Tree,
    step: &Step,
) -> Result<Option<ResultRef>, WorkError> {
    let body_path = load::render_with_loading(context, scope, |scope| tree.body_path(scope)).await;
    let body_path = match step_result(body_path, step)? {
        Some(body_path) => Some(body_path),
        None => find_addressed_body(context, scope, tree, step).await?,
    };
    let Some(body_path) = body_path else {
        return Ok(None);
    };
    if body_path.reference.meta.bytes <= RENDERED_BYTES_MAX {
        return Ok(None);
    }
    let body_path = match body_path.reference.kind {
        RefKind::Result => body_path,
        // The parts of a manifest are in several bodies; the loop needs them in one.
        RefKind::Manifest => BodyPath {
            reference: {
                let copy = || copy_body(context, &body_path.reference, 0..u64::MAX);
                load::retry_read(context, &body_path.reference, copy).await?
            },
            ..body_path
        },
    };
    let reference = &body_path.reference;
    let bodies = &context.shared.config.bodies;
    let locate = || results::locate_value(&**bodies, reference, &body_path.paths);
    match load::retry_read(context, reference, locate).await? {
        Some(LocatedValue {
            range,
            list: Some(offsets),
            ..
        }) => build_elements_reference(context, reference, range, offsets)
            .await
            .map(Some),
        _ => Ok(None),
    }
}

/// Resolves the body if the loop value is an address.
async fn find_addressed_body(
    context: &CommandContext,
    scope: &mut Scope,
    tree: &Tree,
    step: &Step,
) -> Result<Option<BodyPath>, WorkError> {
    let is_address = |value: &Value| value.as_str().is_some_and(|text| text.starts_with(SCHEME));
    let rendered = load::render_with_loading(context, scope, |scope| tree.render(scope)).await;
    let value = step_result(rendered, step)?.value;
    if !is_address(&value) {
        return Ok(None);
    }
    let uri = value.as_str().unwrap_or_default();
    Ok(match lookup::look_up(context, uri).await? {
        ResolvedRef::Body(reference) => Some(BodyPath::whole_body(*reference)),
        ResolvedRef::Value(_) => None,
    })
}

/// Returns the reference to the elements for the log. Copies a body that may expire before the execution ends, that
/// belongs to another execution, or that is compressed: each range read would decompress it from the start.
async fn build_elements_reference(
    context: &CommandContext,
    source: &ResultRef,
    range: std::ops::Range<u64>,
    offsets: ElementOffsets,
) -> Result<ResultRef, WorkError> {
    let own_prefix = format!("noetl://execution/{}/", context.execution());
    let is_short_lived = source.scope == BodyScope::Step || source.expires_at.is_some();
    let is_plain = source.meta.compression.is_none();
    let (mut reference, offsets) = if source.uri.starts_with(&own_prefix) && !is_short_lived && is_plain {
        (source.clone(), offsets)
    } else {
        let copy = || copy_body(context, source, range.clone());
        let copy = load::retry_read(context, source, copy).await?;
        (copy, shift_offsets(&offsets, range.start))
    };
    reference.scope = BodyScope::Execution;
    reference.extracted = Map::from_iter([("total".to_owned(), offsets.total.into())]);
    let offsets = serde_json::to_value(offsets).expect("offsets are plain data");
    reference.meta.location.insert(ELEMENT_OFFSETS_KEY.to_owned(), offsets);
    Ok(reference)
}

fn shift_offsets(offsets: &ElementOffsets, by: u64) -> ElementOffsets {
    ElementOffsets {
        offsets: offsets.offsets.iter().map(|offset| offset - by).collect(),
        end: offsets.end - by,
        ..*offsets
    }
}

async fn copy_body(
    context: &CommandContext,
    source: &ResultRef,
    range: std::ops::Range<u64>,
) -> Result<ResultRef, results::Error> {
    let bodies = &context.shared.config.bodies;
    let body_read = bodies.read(source, Some(range)).await?;
    let mut reader = StreamReader::new(body_read.chunks);
    let stored = bodies.put(BodySource::Stream(&mut reader)).await?;
    let location = context.location();
    let origin = ResultOrigin {
        execution: context.execution(),
        location: &location,
        now: context.now(),
    };
    Ok(stored.into_reference(origin.uri(), BodyScope::Execution))
}

/// Renders the elements and stores them.
async fn store_rendered_elements(
    context: &CommandContext,
    scope: &mut Scope,
    loop_step: LoopStep<'_>,
    tree: &Tree,
) -> Result<ResultRef, WorkError> {
    let LoopStep { step, loop_ } = loop_step;
    let rendered = load::render_with_loading(context, scope, |scope| tree.render(scope)).await;
    let mut value = step_result(rendered, step)?.value;
    if let Some(uri) = value.as_str().filter(|text| text.starts_with(SCHEME)) {
        value = match lookup::look_up(context, uri).await? {
            ResolvedRef::Body(reference) => load::load_body(context, &reference).await?,
            ResolvedRef::Value(value) => value.to_value(),
        };
    }
    let items = match value {
        Value::Array(items) => items,
        Value::Object(map) => {
            let pairs = map.into_iter();
            pairs.map(|(key, value)| json!({"key": key, "value": value})).collect()
        }
        _ => {
            let message = format!("`loop.in` of step `{}` is not a list", step.name);
            let error = TaskError::new(ErrorKind::Schema, "LOOP_NOT_A_LIST", message);
            return Err(error.with_detail("line", loop_.span.line).into());
        }
    };
    let total = items.len() as u64;
    let control = ResultControl::default();
    let mut reference = store_results::store_body(context, &context.location(), Value::Array(items), &control).await?;
    reference.extracted.insert("total".to_owned(), total.into());
    Ok(reference)
}

/// Returns the rendered value, or the error that fails the step.
pub(crate) fn step_result<T>(resolved: load::ResolveResult<T>, step: &Step) -> Result<T, WorkError> {
    resolved.map_err(|unresolved| match unresolved {
        ResolveError::Interrupted => WorkError::Interrupted,
        ResolveError::Missing(error) => WorkError::Failed(error),
        ResolveError::Template(error) => {
            let mut error = pipeline::render_failure(&error, step, &step.name);
            error.details.shift_remove("task");
            error.into()
        }
    })
}
