//! The parts that an accumulating task has collected so far, by page; combined on first use.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use minijinja::value::Value as Native;
use serde_json::Value;

use crate::id::Seq;
use crate::manifest::{Accumulate, Collect, Strategy};
use crate::outcome::Outcome;
use crate::template::Data;
use crate::template::reference::{pending, unavailable};
use crate::template::scope::{Loaded, Need};
use crate::template::session;

/// The parts of an accumulating task so far.
#[derive(Debug)]
pub struct Gathered {
    accumulate: Accumulate,
    by_page: BTreeMap<i64, Part>,
    latest: Option<Part>,
    all: OnceLock<Data>,
}

/// One part.
#[derive(Debug, Clone)]
pub enum Part {
    /// In memory.
    Outcome(Arc<Outcome>),
    /// In the `task.done` event with this seq.
    Event(Seq),
}

/// The body of a part, if it is loaded.
enum Body {
    Loaded(Value),
    Pending(Native),
    Gone,
}

impl Clone for Gathered {
    fn clone(&self) -> Self {
        Self {
            accumulate: self.accumulate.clone(),
            by_page: self.by_page.clone(),
            latest: self.latest.clone(),
            all: OnceLock::new(),
        }
    }
}

impl Gathered {
    /// Creates an empty collection.
    pub fn new(accumulate: Accumulate) -> Self {
        Self {
            accumulate,
            by_page: BTreeMap::new(),
            latest: None,
            all: OnceLock::new(),
        }
    }

    /// Adds a part; a repeated page replaces the earlier one.
    pub fn add(&mut self, page: i64, part: Part) {
        self.latest = Some(part.clone());
        self.by_page.insert(page, part);
        self.all = OnceLock::new();
    }

    /// The part added last.
    pub(crate) fn latest(&self) -> Option<&Part> {
        self.latest.as_ref()
    }

    /// Whether the combined parts are a list; this is known without loading them.
    pub(crate) fn is_list(&self) -> bool {
        self.accumulate.strategy == Strategy::Append
    }

    /// Combines the parts. Requests all parts that are not loaded at once.
    pub(crate) fn native(&self) -> Native {
        if let Some(all) = self.all.get() {
            return all.native().clone();
        }
        let loaded = session::with(|session| session.loaded.clone());
        let mut bodies = Vec::with_capacity(self.by_page.len());
        let mut waits = None;
        for part in self.by_page.values() {
            match part.body(&loaded) {
                Body::Loaded(body) => bodies.push(body),
                Body::Pending(pending) => waits = Some(pending),
                Body::Gone => return Native::UNDEFINED,
            }
        }
        if let Some(pending) = waits {
            return pending;
        }
        let Accumulate {
            strategy,
            merge_path,
        } = &self.accumulate;
        let collect = Collect::new(*strategy, merge_path.as_deref());
        let all = self.all.get_or_init(|| Data::new(collect.all(bodies)));
        all.native().clone()
    }
}

impl Part {
    fn body(&self, loaded: &Loaded) -> Body {
        let outcome = match self {
            Self::Outcome(outcome) => outcome,
            Self::Event(seq) => match loaded.outcomes.get(seq) {
                Some(outcome) => outcome,
                None => return Body::Pending(pending(Need::Outcome(*seq))),
            },
        };
        let Outcome::Ok(success) = outcome.as_ref() else {
            return Body::Loaded(Value::Null);
        };
        let Some(reference) = &success.reference else {
            return Body::Loaded(success.result.clone());
        };
        match loaded.bodies.get(&reference.uri) {
            Some(body) => Body::Loaded(body.json().clone()),
            None if unavailable(reference, loaded) => Body::Gone,
            None => Body::Pending(pending(Need::Body(reference.clone()))),
        }
    }
}
