//! The parts that an accumulating task has collected so far, by page; combined on first use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use minijinja::value::Value as Native;
use model::id::Seq;
use model::manifest::{Accumulate, CombineStrategy, PartCombiner};
use model::outcome::Outcome;
use serde_json::Value;

use crate::template::LazyValue;
use crate::template::reference::{is_unavailable, pending_value};
use crate::template::scope::{LoadedValues, Need};
use crate::template::session;

/// The parts of an accumulating task so far.
#[derive(Debug)]
pub struct AccumulatedParts {
    accumulate: Accumulate,
    by_page: BTreeMap<i64, AccumulatedPart>,
    latest: Option<AccumulatedPart>,
    combined: OnceLock<LazyValue>,
}

/// One part.
#[derive(Debug, Clone)]
pub enum AccumulatedPart {
    /// In memory.
    Outcome(Arc<Outcome>),
    /// In the `task.done` event with this seq.
    Event(Seq),
}

/// The body of a part, if it is loaded.
enum PartBody {
    Loaded(Value),
    Pending(Native),
    Unavailable,
}

impl Clone for AccumulatedParts {
    fn clone(&self) -> Self {
        Self {
            accumulate: self.accumulate.clone(),
            by_page: self.by_page.clone(),
            latest: self.latest.clone(),
            combined: OnceLock::new(),
        }
    }
}

impl AccumulatedParts {
    /// Creates an empty collection.
    pub fn new(accumulate: Accumulate) -> Self {
        Self {
            accumulate,
            by_page: BTreeMap::new(),
            latest: None,
            combined: OnceLock::new(),
        }
    }

    /// Adds a part; a repeated page replaces the earlier one.
    pub fn add(&mut self, page: i64, part: AccumulatedPart) {
        self.latest = Some(part.clone());
        self.by_page.insert(page, part);
        self.combined = OnceLock::new();
    }

    /// The part added last.
    pub(crate) fn latest(&self) -> Option<&AccumulatedPart> {
        self.latest.as_ref()
    }

    /// Whether the combined parts are a list; this is known without loading them.
    pub(crate) fn is_list(&self) -> bool {
        self.accumulate.strategy == CombineStrategy::Append
    }

    /// Combines the parts. Requests all parts that are not loaded at once.
    pub(crate) fn native(&self) -> Native {
        if let Some(combined) = self.combined.get() {
            return combined.native().clone();
        }
        let loaded = session::with_session(|session| session.loaded.clone());
        let mut bodies = Vec::with_capacity(self.by_page.len());
        let mut waits = None;
        for part in self.by_page.values() {
            match part.load_body(&loaded) {
                PartBody::Loaded(body) => bodies.push(body),
                PartBody::Pending(pending) => waits = Some(pending),
                PartBody::Unavailable => return Native::UNDEFINED,
            }
        }
        if let Some(pending) = waits {
            return pending;
        }
        let Accumulate { strategy, merge_path } = &self.accumulate;
        let collect = PartCombiner::new(*strategy, merge_path.as_deref());
        let combined = self.combined.get_or_init(|| LazyValue::new(collect.combine(bodies)));
        combined.native().clone()
    }
}

impl AccumulatedPart {
    fn load_body(&self, loaded: &LoadedValues) -> PartBody {
        let outcome = match self {
            Self::Outcome(outcome) => outcome,
            Self::Event(seq) => match loaded.outcomes.get(seq) {
                Some(outcome) => outcome,
                None => return PartBody::Pending(pending_value(Need::Outcome(*seq))),
            },
        };
        let Outcome::Ok(success) = outcome.as_ref() else {
            return PartBody::Loaded(Value::Null);
        };
        let Some(reference) = &success.reference else {
            return PartBody::Loaded(success.result.clone());
        };
        match loaded.bodies.get(&reference.uri) {
            Some(body) => PartBody::Loaded(body.json().clone()),
            None if is_unavailable(reference, loaded) => PartBody::Unavailable,
            None => PartBody::Pending(pending_value(Need::Body(reference.clone()))),
        }
    }
}
