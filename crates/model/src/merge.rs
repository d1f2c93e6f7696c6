//! Maps over maps: how a request's payload lies over a workload, and one part of a result over the one before.

use serde_json::{Map, Value};

/// Puts `over` over `base`: maps merge deeply, lists and scalars replace.
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
