//! Moves values that are too large for the log to the body store; the log contains references to them.

use std::sync::Arc;

use language::template::LazyValue;
use model::raw::RawJson;
use model::result_ref::{BodyMeta, BodyScope, RefKind, ResultRef};
use serde_json::{Map, Value};

use crate::decide::decision_builder::DecisionBuilder;
use crate::decision::BodyToStore;

impl DecisionBuilder<'_> {
    /// Stores a text as a body of this execution. `path` is unique within the execution.
    pub(super) fn store_body(&mut self, path: &str, text: RawJson) -> ResultRef {
        let reference = ResultRef {
            kind: RefKind::Result,
            uri: format!("noetl://execution/{}/{path}", self.state.execution),
            store: "disk".to_owned(),
            scope: BodyScope::Execution,
            expires_at: None,
            meta: BodyMeta {
                content_type: "application/json".to_owned(),
                bytes: text.text().len() as u64,
                sha256: sha256(text.text().as_bytes()),
                compression: None,
                location: Map::new(),
            },
            extracted: Map::new(),
            keys: Vec::new(),
            preview: None,
        };
        self.bodies.push(BodyToStore {
            reference: reference.clone(),
            text,
        });
        reference
    }

    /// Replaces the large values of a patch by references. Later templates of this turn still see the values.
    pub(super) fn store_large_values(&mut self, patch: &mut Map<String, Value>) {
        let seq = self.state.seq.next();
        for (key, value) in model::ctx::large_values(patch) {
            let large_value = std::mem::take(value);
            let reference = self.store_body(&format!("ctx/{seq}/{key}"), RawJson::from_serializable(&large_value));
            let loaded = Arc::make_mut(&mut self.loaded);
            loaded.bodies.insert(reference.uri.clone(), LazyValue::new(large_value));
            *value = serde_json::to_value(&reference).expect("a reference serializes to JSON");
        }
    }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex::encode(sha2::Sha256::digest(bytes))
}
