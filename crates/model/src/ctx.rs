//! Patches of `ctx`: plain values replace, reducers combine.
//!
//! A patch maps keys to values. A map whose only key is one of `$add $append $extend $max $min $merge` is a reducer.
//! Applying the patches of a log in order gives `ctx`; the patches of parallel iterations are combined first (see
//! [`CombinedPatches`]).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};

use crate::size::{WRITE_BYTES_MAX, fits_json_bytes};

/// Maximum size of `ctx` as JSON text; more fails with `LIMIT_CTX`.
pub const CTX_BYTES_MAX: usize = 1024 * 1024;

/// How an operand is combined with the current value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reducer {
    Add,
    Append,
    Extend,
    Max,
    Min,
    Merge,
}

/// A write with a reducer, such as `{$add: 1}`.
#[derive(Debug, Clone, Copy)]
struct Reduction<'a> {
    reducer: Reducer,
    operand: &'a Value,
}

fn parse_reducer(value: &Value) -> Option<Reduction<'_>> {
    let map = value.as_object().filter(|map| map.len() == 1)?;
    let (key, operand) = map.iter().next()?;
    let reducer = match key.as_str() {
        "$add" => Reducer::Add,
        "$append" => Reducer::Append,
        "$extend" => Reducer::Extend,
        "$max" => Reducer::Max,
        "$min" => Reducer::Min,
        "$merge" => Reducer::Merge,
        _ => return None,
    };
    Some(Reduction { reducer, operand })
}

/// Applies a patch.
pub fn apply_patch(ctx: &mut Map<String, Value>, patch: &Map<String, Value>) {
    let next = patched_values(ctx, patch);
    ctx.extend(next);
}

/// Returns the values that the keys of a patch have once it is applied.
pub fn patched_values(ctx: &Map<String, Value>, patch: &Map<String, Value>) -> Map<String, Value> {
    let next = |(key, value): (&String, &Value)| {
        let next = match parse_reducer(value) {
            None => value.clone(),
            Some(write) => reduce(write.reducer, ctx.get(key), write.operand),
        };
        (key.clone(), next)
    };
    patch.iter().map(next).collect()
}

/// Returns the values of a patch that must be stored as bodies: whole values and appended items over
/// [`WRITE_BYTES_MAX`]. Other reducers compute with their operand, so it stays inline.
pub fn large_values(patch: &mut Map<String, Value>) -> Vec<(&str, &mut Value)> {
    let operands = patch.iter_mut().filter_map(|(key, value)| {
        let kind = parse_reducer(value).map(|reduction| reduction.reducer);
        match kind {
            None => Some((key.as_str(), value)),
            Some(Reducer::Append) => Some((key.as_str(), value.get_mut("$append")?)),
            Some(_) => None,
        }
    });
    operands
        .filter(|(_, value)| !fits_json_bytes(value, WRITE_BYTES_MAX) && !is_reference(value))
        .collect()
}

/// Returns the first key that a patch would reduce although its current value is a stored body, which is not loaded
/// here.
pub fn find_reduced_body<'p>(ctx: &Map<String, Value>, patch: &'p Map<String, Value>) -> Option<&'p str> {
    let reduces = patch.iter().filter(|(_, value)| parse_reducer(value).is_some());
    let mut keys = reduces.map(|(key, _)| key.as_str());
    keys.find(|key| ctx.get(*key).is_some_and(is_reference))
}

fn is_reference(value: &Value) -> bool {
    value.get("kind").is_some_and(|kind| kind == "result_ref") && value.get("ref").is_some()
}

fn reduce(reducer: Reducer, current: Option<&Value>, operand: &Value) -> Value {
    let current = current.filter(|value| !value.is_null());
    match reducer {
        Reducer::Add => current.map_or_else(|| operand.clone(), |current| add_numbers(current, operand)),
        Reducer::Append => {
            let mut list = current.map(to_items).unwrap_or_default();
            list.push(operand.clone());
            Value::Array(list)
        }
        Reducer::Extend => {
            let mut list = current.map(to_items).unwrap_or_default();
            list.extend(to_items(operand));
            Value::Array(list)
        }
        Reducer::Max | Reducer::Min => match current {
            Some(current) if is_current_better(reducer, current, operand) => current.clone(),
            _ => operand.clone(),
        },
        Reducer::Merge => {
            let mut map = current.and_then(Value::as_object).cloned().unwrap_or_default();
            map.extend(operand.as_object().cloned().unwrap_or_default());
            Value::Object(map)
        }
    }
}

/// Returns the items of a list; any other value becomes a list of one.
fn to_items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list.clone(),
        other => vec![other.clone()],
    }
}

/// Combines `later` with `patch`, so that applying the result equals applying both in turn.
pub fn append_patch(patch: &mut Map<String, Value>, later: &Map<String, Value>) {
    for (key, value) in later {
        let joined = match (patch.get(key), parse_reducer(value)) {
            (None, _) | (_, None) => value.clone(),
            (Some(before), Some(later)) => match parse_reducer(before) {
                None => reduce(later.reducer, Some(before), later.operand),
                // Two different reducers of one key cannot be combined; the later one wins.
                Some(first) => join_reducers(first, later).unwrap_or_else(|| value.clone()),
            },
        };
        patch.insert(key.clone(), joined);
    }
}

fn join_reducers(first: Reduction<'_>, later: Reduction<'_>) -> Option<Value> {
    let lists = |kind| matches!(kind, Reducer::Append | Reducer::Extend);
    let list = |reduction: Reduction<'_>| match reduction.reducer {
        Reducer::Append => vec![reduction.operand.clone()],
        _ => to_items(reduction.operand),
    };
    let (name, operand) = match (first.reducer, later.reducer) {
        (a, b) if lists(a) && lists(b) => {
            let mut both = list(first);
            both.extend(list(later));
            ("$extend", Value::Array(both))
        }
        (Reducer::Add, Reducer::Add) => ("$add", add_numbers(first.operand, later.operand)),
        (Reducer::Max, Reducer::Max) => ("$max", reduce(Reducer::Max, Some(first.operand), later.operand)),
        (Reducer::Min, Reducer::Min) => ("$min", reduce(Reducer::Min, Some(first.operand), later.operand)),
        (Reducer::Merge, Reducer::Merge) => ("$merge", reduce(Reducer::Merge, Some(first.operand), later.operand)),
        _ => return None,
    };
    Some(Value::Object(Map::from_iter([(name.to_owned(), operand)])))
}

fn add_numbers(a: &Value, b: &Value) -> Value {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) if a.checked_add(b).is_some() => Value::from(a + b),
        _ => {
            let total = a.as_f64().unwrap_or(0.0) + b.as_f64().unwrap_or(0.0);
            Number::from_f64(total).map_or(Value::Null, Value::Number)
        }
    }
}

fn is_current_better(reducer: Reducer, current: &Value, operand: &Value) -> bool {
    let ordering = compare(current, operand);
    match reducer {
        Reducer::Max => ordering != Ordering::Less,
        _ => ordering != Ordering::Greater,
    }
}

fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        _ => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a
                .as_f64()
                .unwrap_or(f64::NAN)
                .total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
        },
    }
}

/// The patches of the iterations of a parallel loop, combined so that their order does not change the result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CombinedPatches {
    keys: BTreeMap<String, BTreeMap<u64, Value>>,
    /// Sums of integers do not depend on order, so only the sum and the lowest index are stored.
    sums: BTreeMap<String, (i64, u64)>,
}

/// Two iterations wrote different values to one key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("iterations {first} and {second} wrote different values to `ctx.{key}`")]
pub struct PatchConflict {
    /// The key.
    pub key: String,
    /// The lowest index that wrote the key.
    pub first: u64,
    /// The lowest index that wrote another value.
    pub second: u64,
}

impl CombinedPatches {
    /// Adds the patch of one iteration.
    pub fn add(&mut self, index: u64, patch: &Map<String, Value>) {
        for (key, value) in patch {
            let reducer = parse_reducer(value)
                .filter(|write| write.reducer == Reducer::Add)
                .and_then(|write| write.operand.as_i64());
            let (sum, lowest) = self.sums.get(key).copied().unwrap_or((0, index));
            let total = reducer.and_then(|n| sum.checked_add(n));
            match total {
                Some(total) if !self.keys.contains_key(key) => {
                    self.sums.insert(key.clone(), (total, lowest.min(index)));
                }
                _ => {
                    self.keys.entry(key.clone()).or_default().insert(index, value.clone());
                }
            }
        }
    }

    /// Whether no iteration wrote anything.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.sums.is_empty()
    }

    /// Returns the patches in index order. Plain writes of a key must agree; reducers always do.
    pub fn resolve(&self) -> Result<Vec<Map<String, Value>>, PatchConflict> {
        let mut patches = Vec::new();
        for (key, (total, _)) in &self.sums {
            let mut add = Map::new();
            add.insert("$add".to_owned(), Value::from(*total));
            patches.push(Map::from_iter([(key.clone(), Value::Object(add))]));
        }
        for (key, writes) in &self.keys {
            self.check_agreement(key, writes)?;
            let is_plain = writes.values().all(|value| parse_reducer(value).is_none());
            let first = if is_plain { 1 } else { writes.len() };
            let single = |value: &Value| Map::from_iter([(key.clone(), value.clone())]);
            patches.extend(writes.values().take(first).map(single));
        }
        Ok(patches)
    }

    /// Checks that plain writes of a key are equal and that all writes of it are of one kind.
    fn check_agreement(&self, key: &str, writes: &BTreeMap<u64, Value>) -> Result<(), PatchConflict> {
        let kind = |value: &Value| {
            parse_reducer(value).map(|reduction| match reduction.reducer {
                // One iteration may append once and another several times.
                Reducer::Extend => Reducer::Append,
                other => other,
            })
        };
        let added = self.sums.get(key).map(|(_, index)| (*index, Some(Reducer::Add), None));
        let earlier_writes = writes.iter().map(|(index, value)| (*index, kind(value), Some(value)));
        // Sorted by index, so that the result does not depend on the order in which iterations ended.
        let mut all_writes: Vec<(u64, Option<Reducer>, Option<&Value>)> =
            added.into_iter().chain(earlier_writes).collect();
        all_writes.sort_by_key(|(index, ..)| *index);
        let (first, expected, value) = all_writes[0];
        let clashes = |(_, kind, other): &&(u64, Option<Reducer>, Option<&Value>)| {
            *kind != expected || (expected.is_none() && *other != value)
        };
        match all_writes.iter().find(clashes) {
            None => Ok(()),
            Some((second, ..)) => Err(PatchConflict {
                key: key.to_owned(),
                first,
                second: *second,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().expect("test patches are maps")
    }

    #[test]
    fn reducers_combine_with_what_is_there() {
        let mut ctx = map(&json!({"n": 1, "list": ["a"], "top": 3, "low": 3, "m": {"a": 1}}));
        let patch = json!({"n": {"$add": 2}, "list": {"$append": "b"}, "top": {"$max": 9}, "low": {"$min": 9}, "m": {"$merge": {"b": 2}}, "new": {"$add": 5}});
        apply_patch(&mut ctx, &map(&patch));
        assert_eq!(
            Value::Object(ctx),
            json!({"n": 3, "list": ["a", "b"], "top": 9, "low": 3, "m": {"a": 1, "b": 2}, "new": 5})
        );
    }

    #[test]
    fn appended_values_stand_in_index_order_whatever_the_arrival() {
        let mut combined = CombinedPatches::default();
        combined.add(2, &map(&json!({"l": {"$append": "c"}})));
        combined.add(0, &map(&json!({"l": {"$append": "a"}})));
        let mut ctx = Map::new();
        for patch in combined.resolve().expect("reducers never conflict") {
            apply_patch(&mut ctx, &patch);
        }
        assert_eq!(Value::Object(ctx), json!({"l": ["a", "c"]}));
    }

    #[test]
    fn joined_patches_do_what_both_do_in_turn() {
        let first = map(&json!({"n": {"$add": 1}, "l": {"$append": "a"}, "p": 1, "m": {"$merge": {"a": 1}}}));
        let later = map(
            &json!({"n": {"$add": 2}, "l": {"$append": "b"}, "p": {"$add": 4}, "m": {"$merge": {"b": 2}}, "x": true}),
        );
        let start = map(&json!({"n": 10, "l": ["z"]}));
        let mut in_turn = start.clone();
        apply_patch(&mut in_turn, &first);
        apply_patch(&mut in_turn, &later);
        let mut joined = first;
        append_patch(&mut joined, &later);
        let mut at_once = start;
        apply_patch(&mut at_once, &joined);
        assert_eq!(at_once, in_turn);
    }

    #[test]
    fn a_conflict_is_the_same_in_every_order() {
        let writes = [
            (0, json!({"k": 1})),
            (1, json!({"k": {"$add": 1}})),
            (3, json!({"k": {"$add": 2}})),
        ];
        for permutation in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
            let mut combined = CombinedPatches::default();
            for position in permutation {
                let (index, patch) = &writes[position];
                combined.add(*index, &map(patch));
            }
            let conflict = combined.resolve().expect_err("a key takes one kind of write");
            assert_eq!((conflict.first, conflict.second), (0, 1), "{permutation:?}");
        }
    }

    #[test]
    fn differing_plain_writes_conflict_by_the_lowest_indices() {
        let mut combined = CombinedPatches::default();
        combined.add(5, &map(&json!({"k": 1})));
        combined.add(3, &map(&json!({"k": 2})));
        let conflict = combined.resolve().expect_err("the writes differ");
        assert_eq!((conflict.first, conflict.second), (3, 5));
    }
}
