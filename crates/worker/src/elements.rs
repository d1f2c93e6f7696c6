//! A loop's elements: read once for all the ranges of the loop.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use model::event::Body;
use model::id::{ExecutionId, Seq};
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::hand::{Hand, Trouble};
use crate::load;

/// Lists kept at once.
const KEPT_MAX: usize = 8;

type Key = (ExecutionId, Seq);
type List = Arc<Vec<Value>>;

/// The lists read so far.
#[derive(Default)]
pub(crate) struct Elements {
    kept: Mutex<VecDeque<(Key, Arc<OnceCell<List>>)>>,
}

impl Elements {
    /// The elements that a `loop.started` event fixed.
    pub(crate) async fn get(&self, hand: &Hand, started: Seq) -> Result<List, Trouble> {
        let cell = self.cell((hand.execution(), started));
        let list = cell.get_or_try_init(|| read(hand, started)).await?;
        Ok(list.clone())
    }

    /// The list's place; the one not asked for longest makes room.
    fn cell(&self, key: Key) -> Arc<OnceCell<List>> {
        let mut kept = self.kept.lock().expect("no holder of the lists panics");
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

async fn read(hand: &Hand, started: Seq) -> Result<List, Trouble> {
    let events = load::events(hand, &[started]).await?;
    let Some(Body::LoopStarted(found)) = events.first().map(|event| &event.body) else {
        return Err(not_there(started).into());
    };
    let value = match (&found.collection, &found.collection_ref) {
        (Some(raw), _) => raw.value(),
        (None, Some(reference)) => load::body(hand, reference).await?,
        (None, None) => return Err(not_there(started).into()),
    };
    match value {
        Value::Array(list) => Ok(Arc::new(list)),
        _ => Err(not_there(started).into()),
    }
}

fn not_there(started: Seq) -> TaskError {
    let message = format!("event {started} does not hold a loop's elements");
    TaskError::new(ErrorKind::Storage, "REFERENCE_NOT_AVAILABLE", message)
}
