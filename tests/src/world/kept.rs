//! What a world keeps: the store in memory, and bodies beside it.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use model::raw::Raw;
use model::result_ref::{BodyMeta, RefKind, ResultRef, Scope};
use serde_json::{Map, Value};
use store::Memory;

/// The store, which is what it derefs to, and the bodies that its logs refer to.
pub struct Kept {
    store: Memory,
    bodies: Mutex<BTreeMap<String, Raw>>,
}

impl Deref for Kept {
    type Target = Memory;

    fn deref(&self) -> &Memory {
        &self.store
    }
}

impl Kept {
    /// Nothing yet.
    pub fn new(store: Memory) -> Self {
        Self {
            store,
            bodies: Mutex::default(),
        }
    }

    /// Keeps a body.
    pub fn put(&self, reference: &ResultRef, text: Raw) {
        let mut bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.insert(reference.uri.clone(), text);
    }

    /// A body that was kept.
    pub fn body(&self, uri: &str) -> Option<Raw> {
        let bodies = self.bodies.lock().unwrap_or_else(PoisonError::into_inner);
        bodies.get(uri).cloned()
    }

    /// Keeps a value as a worker does.
    pub fn keep(&self, uri: String, value: &Value) -> ResultRef {
        let text = Raw::of(value);
        let reference = ResultRef {
            kind: RefKind::Result,
            uri,
            store: "disk".to_owned(),
            scope: Scope::Execution,
            expires_at: None,
            meta: BodyMeta {
                content_type: "application/json".to_owned(),
                bytes: text.text().len() as u64,
                sha256: String::new(),
                compression: None,
                location: Map::new(),
            },
            extracted: Map::new(),
            preview: None,
        };
        self.put(&reference, text);
        reference
    }
}
