//! Deep merge of maps: a request's payload into a workload, a part of a result into the earlier parts.

use serde_json::{Map, Value};

/// Merges `over` into `base`: maps merge deeply, lists and scalars replace.
pub fn merge_into(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_into(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}
