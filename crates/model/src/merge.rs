//! Deep merge of maps: a request's payload into a workload, a part of a result into the earlier parts.

use serde_json::{Map, Value};

/// Merges `overlay` into `base`: maps merge deeply, lists and scalars replace.
pub fn merge_into(base: &mut Map<String, Value>, overlay: Map<String, Value>) {
    for (key, value) in overlay {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(overlay)) => merge_into(base, overlay),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
