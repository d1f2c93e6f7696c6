//! Elements of loops: their location is read once for all ranges of a loop, the elements when an iteration needs them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use model::event::EventBody;
use model::id::{ExecutionId, Seq};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::ResultRef;
use results::ElementOffsets;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::command_context::{CommandContext, WorkError};
use crate::load;

/// Maximum number of cached lists.
const CACHED_LISTS_MAX: usize = 8;

/// Key in the location of a stored list under which the offsets of its elements are.
pub(crate) const ELEMENT_OFFSETS_KEY: &str = "elements";

/// Maximum number of bytes to read from a stored list at once.
const WINDOW_BYTES: usize = 1024 * 1024;

/// Maximum number of elements to read from a stored list at once.
const WINDOW_ELEMENTS: u64 = 1_000;

type ElementsCell = Arc<OnceCell<Arc<LoopElements>>>;

/// Elements that one event defines.
pub(crate) struct LoopElements {
    /// Index of the first element.
    first_index: u64,
    storage: ElementStorage,
}

enum ElementStorage {
    /// All elements, in memory.
    Inline(Vec<Value>),
    /// Elements in a body that is read in parts.
    Stored(Box<ResultRef>, ElementOffsets),
    /// Numbers of a range, computed on demand.
    Range(NumberRange),
}

/// Elements of a list that were read together.
#[derive(Default)]
pub(crate) struct ElementWindow {
    first_index: u64,
    values: Vec<Value>,
}

/// Cache of lists.
#[derive(Default)]
pub(crate) struct ElementCache {
    entries: Mutex<VecDeque<((ExecutionId, Seq), ElementsCell)>>,
}

impl ElementCache {
    /// Returns the elements that a `loop.started` or `loop.frame.claimed` event defines.
    pub(crate) async fn get(&self, context: &CommandContext, started: Seq) -> Result<Arc<LoopElements>, WorkError> {
        let cell = self.cell(context.execution(), started);
        let list = cell.get_or_try_init(|| load_elements(context, started)).await?;
        Ok(list.clone())
    }

    /// Returns the cache entry of a list; evicts the least recently used entry if the cache is full.
    fn cell(&self, execution: ExecutionId, started: Seq) -> ElementsCell {
        let key = (execution, started);
        let mut entries = self.entries.lock().expect("the lock is not poisoned");
        let position = entries.iter().position(|(entry_key, _)| *entry_key == key);
        let entry = position.and_then(|index| entries.remove(index));
        let entry = entry.unwrap_or_else(|| (key, Arc::default()));
        if entries.len() >= CACHED_LISTS_MAX {
            entries.pop_front();
        }
        let cell = entry.1.clone();
        entries.push_back(entry);
        cell
    }
}

impl LoopElements {
    /// Index after the last of these elements.
    pub(crate) fn len(&self) -> u64 {
        self.first_index
            + match &self.storage {
                ElementStorage::Inline(values) => values.len() as u64,
                ElementStorage::Stored(_, offsets) => offsets.total,
                ElementStorage::Range(range) => range.len(),
            }
    }

    /// Returns one element. Stored lists are read ahead: the window keeps the following elements for later calls.
    pub(crate) async fn element(
        &self,
        context: &CommandContext,
        window: &tokio::sync::Mutex<ElementWindow>,
        index: u64,
    ) -> Result<Value, WorkError> {
        let index = (index.checked_sub(self.first_index)).ok_or_else(|| no_element_error(index))?;
        let (reference, offsets) = match &self.storage {
            ElementStorage::Inline(values) => {
                return element_at(values, index).ok_or_else(|| no_element_error(index));
            }
            ElementStorage::Range(range) => {
                let item = range.item(index).map(Value::from);
                return item.ok_or_else(|| no_element_error(index));
            }
            ElementStorage::Stored(reference, offsets) => (reference, offsets),
        };
        let mut window = window.lock().await;
        let within = index.checked_sub(window.first_index);
        if let Some(value) = within.and_then(|index| element_at(&window.values, index)) {
            return Ok(value);
        }
        let bodies = &context.shared.config.bodies;
        let indices = index..index.saturating_add(WINDOW_ELEMENTS);
        let read = || results::read_elements(&**bodies, reference, offsets, indices.clone(), WINDOW_BYTES);
        window.values = load::retry_read(context, reference, read).await?;
        window.first_index = index;
        element_at(&window.values, 0).ok_or_else(|| no_element_error(index))
    }
}

fn element_at(values: &[Value], index: u64) -> Option<Value> {
    values.get(usize::try_from(index).ok()?).cloned()
}

async fn load_elements(context: &CommandContext, started: Seq) -> Result<Arc<LoopElements>, WorkError> {
    let events = load::load_events(context, &[started]).await?;
    let (first, inline, reference) = match events.first().map(|event| &event.body) {
        Some(EventBody::LoopStarted(started)) => {
            if let Some(range) = started.range {
                let storage = ElementStorage::Range(range);
                return Ok(Arc::new(LoopElements {
                    first_index: 0,
                    storage,
                }));
            }
            let reference = started.collection_ref.as_ref();
            (0, started.collection.as_ref(), reference)
        }
        Some(EventBody::FrameClaimed(frame)) => (frame.from, None, Some(&frame.collection_ref)),
        _ => return Err(no_elements_error(started).into()),
    };
    let storage = match (inline, reference) {
        (Some(raw), _) => inline_elements(raw.to_value()),
        (None, Some(reference)) => {
            let offsets = reference.meta.location.get(ELEMENT_OFFSETS_KEY).cloned();
            match offsets.and_then(|offsets| serde_json::from_value(offsets).ok()) {
                Some(offsets) => Some(ElementStorage::Stored(reference.clone(), offsets)),
                None => inline_elements(load::load_body(context, reference).await?),
            }
        }
        (None, None) => None,
    };
    let storage = storage.ok_or_else(|| no_elements_error(started))?;
    Ok(Arc::new(LoopElements {
        first_index: first,
        storage,
    }))
}

fn inline_elements(value: Value) -> Option<ElementStorage> {
    match value {
        Value::Array(values) => Some(ElementStorage::Inline(values)),
        _ => None,
    }
}

fn no_elements_error(started: Seq) -> TaskError {
    let message = format!("event {started} contains no loop elements");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}

fn no_element_error(index: u64) -> WorkError {
    let message = format!("the loop has no element at index {index}");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message).into()
}
