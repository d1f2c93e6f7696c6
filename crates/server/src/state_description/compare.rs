//! The difference of two states of a run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wire::api::{StateChange, StateChangeKind, StateComparison, StateStepChange, StateWriter};

use super::{Description, LISTED_MAX, parse_map, to_entry};

/// Compares a state with another one; the changes lead from the earlier to the later one.
pub(super) fn compare_states(selected: &Description<'_>, other: &Description<'_>) -> StateComparison {
    let is_later = other.replayed.state.seq > selected.replayed.state.seq;
    let (earlier, later) = if is_later { (selected, other) } else { (other, selected) };
    let (before, after) = (&earlier.replayed.state, &later.replayed.state);
    let ctx_writers = |description: &Description<'_>, key: &str| description.replayed.writers.by_key.get(key).cloned();
    let ctx = list_changes(&before.ctx, &after.ctx, |is_after, key| {
        ctx_writers(if is_after { later } else { earlier }, key)
    });
    let inputs = (parse_map(&before.workload), parse_map(&after.workload));
    StateComparison {
        seq: other.replayed.state.seq,
        status: other.replayed.state.status(),
        ctx,
        workload: list_changes(&inputs.0, &inputs.1, |_, _| selected.request.clone()),
        steps: list_step_changes(earlier, later),
    }
}

/// The keys whose values differ, in order, at most 1,000.
fn list_changes(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    find_writer: impl Fn(bool, &str) -> Option<StateWriter>,
) -> Vec<StateChange> {
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let changes = keys.into_iter().filter_map(|key| {
        let (old, new) = (before.get(key), after.get(key));
        let kind = match (old, new) {
            (None, _) => StateChangeKind::Added,
            (_, None) => StateChangeKind::Removed,
            (Some(old), Some(new)) if old == new => return None,
            _ => StateChangeKind::Changed,
        };
        Some(StateChange {
            key: key.clone(),
            kind,
            before: old.map(|value| to_entry(key, value, find_writer(false, key))),
            after: new.map(|value| to_entry(key, value, find_writer(true, key))),
        })
    });
    changes.take(LISTED_MAX).collect()
}

fn list_step_changes(earlier: &Description<'_>, later: &Description<'_>) -> Vec<StateStepChange> {
    let before = earlier.steps().into_iter();
    let mut before: BTreeMap<_, _> = before.map(|step| (step.step.clone(), step)).collect();
    let steps = later.steps().into_iter().filter_map(|after| {
        let before = before.remove(&after.step)?;
        let is_same = before.status == after.status && before.runs == after.runs;
        (!is_same).then(|| StateStepChange {
            step: after.step.clone(),
            before,
            after,
        })
    });
    steps.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_added_removed_changed_or_left_out() {
        let map = |value: Value| value.as_object().cloned().unwrap();
        let before = map(json!({"a": 1, "b": 2, "c": {"x": 1}}));
        let after = map(json!({"b": 2, "c": {"x": 2}, "d": null}));
        let changes = list_changes(&before, &after, |_, _| None);
        let kinds: Vec<_> = changes
            .iter()
            .map(|change| (change.key.as_str(), change.kind))
            .collect();
        let expected = [
            ("a", StateChangeKind::Removed),
            ("c", StateChangeKind::Changed),
            ("d", StateChangeKind::Added),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(changes[1].before.as_ref().unwrap().value, json!({"x": 1}));
        assert_eq!(changes[1].after.as_ref().unwrap().value, json!({"x": 2}));
    }
}
