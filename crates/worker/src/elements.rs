//! Elements of loops: their location is read once for all ranges of a loop, the elements when an iteration needs them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use model::event::Body;
use model::id::{ExecutionId, Seq};
use model::number_range::NumberRange;
use model::outcome::{ErrorKind, TaskError};
use model::result_ref::ResultRef;
use results::Places;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::hand::{Hand, Trouble};
use crate::load;

/// Maximum number of cached lists.
const KEPT_MAX: usize = 8;

/// Key in the location of a stored list under which the offsets of its elements are.
pub(crate) const PLACES: &str = "elements";

/// Maximum number of bytes to read from a stored list at once.
const WINDOW_BYTES: usize = 1024 * 1024;

/// Maximum number of elements to read from a stored list at once.
const WINDOW_ELEMENTS: u64 = 1_000;

type Key = (ExecutionId, Seq);
type Slot = Arc<OnceCell<Arc<List>>>;

/// Elements that one event defines.
pub(crate) struct List {
    /// Index of the first element.
    first: u64,
    held: Held,
}

enum Held {
    /// All elements, in memory.
    Whole(Vec<Value>),
    /// Elements in a body that is read in parts.
    Stored(Box<ResultRef>, Places),
    /// Numbers of a range, computed on demand.
    Range(NumberRange),
}

/// Elements of a list that were read together.
#[derive(Default)]
pub(crate) struct Window {
    first: u64,
    values: Vec<Value>,
}

/// Cache of lists.
#[derive(Default)]
pub(crate) struct Elements {
    kept: Mutex<VecDeque<(Key, Slot)>>,
}

impl Elements {
    /// Returns the elements that a `loop.started` or `loop.frame.claimed` event defines.
    pub(crate) async fn get(&self, hand: &Hand, started: Seq) -> Result<Arc<List>, Trouble> {
        let cell = self.cell((hand.execution(), started));
        let list = cell.get_or_try_init(|| read(hand, started)).await?;
        Ok(list.clone())
    }

    /// Returns the cache entry of a list; evicts the least recently used entry if the cache is full.
    fn cell(&self, key: Key) -> Slot {
        let mut kept = self.kept.lock().expect("the lock is not poisoned");
        let found = kept.iter().position(|(known, _)| *known == key);
        let entry = found.and_then(|index| kept.remove(index));
        let entry = entry.unwrap_or_else(|| (key, Arc::default()));
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        let cell = entry.1.clone();
        kept.push_back(entry);
        cell
    }
}

impl List {
    /// Index after the last of these elements.
    pub(crate) fn len(&self) -> u64 {
        self.first
            + match &self.held {
                Held::Whole(values) => values.len() as u64,
                Held::Stored(_, places) => places.total,
                Held::Range(range) => range.len(),
            }
    }

    /// Returns one element. Stored lists are read ahead: the window keeps the following elements for later calls.
    pub(crate) async fn element(
        &self,
        hand: &Hand,
        window: &tokio::sync::Mutex<Window>,
        index: u64,
    ) -> Result<Value, Trouble> {
        let index = (index.checked_sub(self.first)).ok_or_else(|| no_element(index))?;
        let (reference, places) = match &self.held {
            Held::Whole(values) => return at(values, index).ok_or_else(|| no_element(index)),
            Held::Range(range) => {
                let item = range.item(index).map(Value::from);
                return item.ok_or_else(|| no_element(index));
            }
            Held::Stored(reference, places) => (reference, places),
        };
        let mut window = window.lock().await;
        let within = index.checked_sub(window.first);
        if let Some(value) = within.and_then(|index| at(&window.values, index)) {
            return Ok(value);
        }
        let bodies = &hand.shared.config.bodies;
        let wanted = index..index.saturating_add(WINDOW_ELEMENTS);
        let read = || results::elements(&**bodies, reference, places, wanted.clone(), WINDOW_BYTES);
        window.values = load::reading(hand, reference, read).await?;
        window.first = index;
        at(&window.values, 0).ok_or_else(|| no_element(index))
    }
}

fn at(values: &[Value], index: u64) -> Option<Value> {
    values.get(usize::try_from(index).ok()?).cloned()
}

async fn read(hand: &Hand, started: Seq) -> Result<Arc<List>, Trouble> {
    let events = load::events(hand, &[started]).await?;
    let (first, inline, reference) = match events.first().map(|event| &event.body) {
        Some(Body::LoopStarted(begun)) => {
            if let Some(range) = begun.range {
                let held = Held::Range(range);
                return Ok(Arc::new(List { first: 0, held }));
            }
            let reference = begun.collection_ref.as_ref();
            (0, begun.collection.as_ref(), reference)
        }
        Some(Body::FrameClaimed(frame)) => (frame.from, None, Some(&frame.collection_ref)),
        _ => return Err(not_there(started).into()),
    };
    let held = match (inline, reference) {
        (Some(raw), _) => whole(raw.value()),
        (None, Some(reference)) => {
            let places = reference.meta.location.get(PLACES).cloned();
            match places.and_then(|places| serde_json::from_value(places).ok()) {
                Some(places) => Some(Held::Stored(reference.clone(), places)),
                None => whole(load::body(hand, reference).await?),
            }
        }
        (None, None) => None,
    };
    let held = held.ok_or_else(|| not_there(started))?;
    Ok(Arc::new(List { first, held }))
}

fn whole(value: Value) -> Option<Held> {
    match value {
        Value::Array(values) => Some(Held::Whole(values)),
        _ => None,
    }
}

fn not_there(started: Seq) -> TaskError {
    let message = format!("event {started} contains no loop elements");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}

fn no_element(index: u64) -> Trouble {
    let message = format!("the loop has no element at index {index}");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message).into()
}
