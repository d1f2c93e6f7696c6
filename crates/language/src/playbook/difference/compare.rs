//! Compares two playbooks part by part.

use std::collections::{BTreeMap, BTreeSet};

use crate::playbook::Playbook;
use crate::playbook::difference::change::{
    ChangeKind, ChangedText, PlaybookChange, PlaybookDifference, PlaybookSection,
};
use crate::playbook::difference::key_index::KeyIndex;
use crate::playbook::difference::outline::{PartList, PartValue, PlaybookPart, outline_playbook};

/// Maximum number of changes that are reported.
const CHANGES_MAX: usize = 500;

/// Compares two playbooks. Their comments, layout and accepted spellings make no difference.
///
/// The cost grows with the size of both texts. Only the first 500 changes are returned; `is_complete` is then false.
pub fn compare_playbooks(before: &Playbook, after: &Playbook) -> PlaybookDifference {
    if before.source.text == after.source.text {
        return PlaybookDifference {
            changes: Vec::new(),
            is_complete: true,
        };
    }
    let mut comparison = PlaybookComparison {
        before_keys: KeyIndex::from_source(&before.source),
        after_keys: KeyIndex::from_source(&after.source),
        changes: Vec::new(),
        is_complete: true,
    };
    comparison.compare_parts(&outline_playbook(before), &outline_playbook(after));
    PlaybookDifference {
        changes: comparison.changes,
        is_complete: comparison.is_complete,
    }
}

struct PlaybookComparison {
    before_keys: KeyIndex,
    after_keys: KeyIndex,
    changes: Vec<PlaybookChange>,
    is_complete: bool,
}

/// Which of the two playbooks a text is from.
#[derive(Clone, Copy)]
enum ComparedSide {
    Before,
    After,
}

/// A part of both playbooks.
#[derive(Clone, Copy)]
struct PartPair<'p> {
    before: &'p PlaybookPart,
    after: &'p PlaybookPart,
}

impl PlaybookComparison {
    fn compare_parts(&mut self, before: &PlaybookPart, after: &PlaybookPart) {
        let old_values = index_values(before);
        let new_values = index_values(after);
        for value in unique_values(after) {
            let old = old_values.get(&*value.path).copied();
            if old.is_none_or(|old| old.value != value.value) {
                self.add_value_change(PartPair { before, after }, old, Some(value));
            }
        }
        for value in unique_values(before) {
            if !new_values.contains_key(&*value.path) {
                self.add_value_change(PartPair { before, after }, Some(value), None);
            }
        }
        for list in &after.lists {
            let old_list = before.lists.iter().find(|old| old.path == list.path);
            self.compare_lists(after, old_list, Some(list));
        }
        for old in &before.lists {
            if !after.lists.iter().any(|list| list.path == old.path) {
                self.compare_lists(after, Some(old), None);
            }
        }
    }

    fn compare_lists(&mut self, owner: &PlaybookPart, before: Option<&PartList>, after: Option<&PartList>) {
        let old_parts = before.map_or(&[][..], |list| &list.parts);
        let new_parts = after.map_or(&[][..], |list| &list.parts);
        let pairs_by_index = after.is_some_and(|list| list.pairs_by_index);
        let counterparts = match_parts(old_parts, new_parts, pairs_by_index);
        for (part, counterpart) in new_parts.iter().zip(&counterparts) {
            match counterpart {
                Some(old) => self.compare_parts(&old_parts[*old], part),
                None => self.add_part_change(ChangeKind::Added, part),
            }
        }
        let matched: BTreeSet<usize> = counterparts.iter().flatten().copied().collect();
        for (index, part) in old_parts.iter().enumerate() {
            if !matched.contains(&index) {
                self.add_part_change(ChangeKind::Removed, part);
            }
        }
        let is_reordered = !counterparts.iter().flatten().is_sorted();
        if let (true, Some(before), Some(after)) = (is_reordered, before, after)
            && after.is_ordered
        {
            self.add_order_change(owner, before, after);
        }
    }

    fn add_value_change(&mut self, parts: PartPair<'_>, before: Option<&PartValue>, after: Option<&PartValue>) {
        let Some(value) = after.or(before) else {
            return;
        };
        let (part, kind) = match (before, after) {
            (Some(_), Some(_)) => (parts.after, ChangeKind::Changed),
            (None, _) => (parts.after, ChangeKind::Added),
            (_, None) => (parts.before, ChangeKind::Removed),
        };
        let separator = if part.path.is_empty() { "" } else { "." };
        let path = format!("{}{separator}{}", part.path, join_path(&value.path));
        let old_text = before.map(|value| self.value_text(ComparedSide::Before, parts.before, value));
        let new_text = after.map(|value| self.value_text(ComparedSide::After, parts.after, value));
        self.add(PlaybookChange {
            path,
            section: value.section,
            kind,
            step: part.step.clone(),
            task: part.task.clone(),
            before: old_text,
            after: new_text,
        });
    }

    /// Adds a part that has no counterpart, with all its values.
    fn add_part_change(&mut self, kind: ChangeKind, part: &PlaybookPart) {
        let side = if kind == ChangeKind::Added {
            ComparedSide::After
        } else {
            ComparedSide::Before
        };
        let mut lines = Vec::new();
        list_values(part, "", &mut lines);
        let text = ChangedText {
            text: lines.join("\n"),
            line: self.keys(side).line_of(&part.range, &[]),
        };
        let (before, after) = match side {
            ComparedSide::Before => (Some(text), None),
            ComparedSide::After => (None, Some(text)),
        };
        self.add(PlaybookChange {
            path: part.path.clone(),
            section: part.section,
            kind,
            step: part.step.clone(),
            task: part.task.clone(),
            before,
            after,
        });
    }

    fn add_order_change(&mut self, owner: &PlaybookPart, before: &PartList, after: &PartList) {
        let list_keys = |list: &PartList| {
            let keys: Vec<&str> = list.parts.iter().map(|part| &*part.key).collect();
            keys.join("\n")
        };
        let first_line =
            |keys: &KeyIndex, list: &PartList| list.parts.first().map_or(1, |part| keys.line_of(&part.range, &[]));
        let before_line = first_line(&self.before_keys, before);
        let after_line = first_line(&self.after_keys, after);
        self.add(PlaybookChange {
            path: format!("{}.{}", owner.path, after.path),
            section: after.section,
            kind: ChangeKind::Reordered,
            step: owner.step.clone(),
            task: owner.task.clone(),
            before: Some(ChangedText {
                text: list_keys(before),
                line: before_line,
            }),
            after: Some(ChangedText {
                text: list_keys(after),
                line: after_line,
            }),
        });
    }

    fn value_text(&self, side: ComparedSide, part: &PlaybookPart, value: &PartValue) -> ChangedText {
        ChangedText {
            text: value.value.to_text(),
            line: self.keys(side).line_of(&part.range, &value.path),
        }
    }

    fn keys(&self, side: ComparedSide) -> &KeyIndex {
        match side {
            ComparedSide::Before => &self.before_keys,
            ComparedSide::After => &self.after_keys,
        }
    }

    fn add(&mut self, change: PlaybookChange) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push(change);
        } else {
            self.is_complete = false;
        }
    }
}

/// The values by path. A later write to a key replaces an earlier one.
fn index_values(part: &PlaybookPart) -> BTreeMap<&[String], &PartValue> {
    part.values.iter().map(|value| (&*value.path, value)).collect()
}

/// The values that no later value with the same path replaces.
fn unique_values(part: &PlaybookPart) -> impl Iterator<Item = &PartValue> {
    let last = index_values(part);
    part.values
        .iter()
        .filter(move |value| last.get(&*value.path).is_some_and(|last| std::ptr::eq(*last, *value)))
}

/// By new part: the index of the old part that it is compared with.
fn match_parts(before: &[PlaybookPart], after: &[PlaybookPart], pairs_by_index: bool) -> Vec<Option<usize>> {
    let old_keys: BTreeMap<&str, usize> = before
        .iter()
        .enumerate()
        .map(|(index, part)| (&*part.key, index))
        .collect();
    let mut counterparts: Vec<Option<usize>> = after.iter().map(|part| old_keys.get(&*part.key).copied()).collect();
    if pairs_by_index {
        let mut matched: BTreeSet<usize> = counterparts.iter().flatten().copied().collect();
        for (index, counterpart) in counterparts.iter_mut().enumerate() {
            if counterpart.is_none() && index < before.len() && matched.insert(index) {
                *counterpart = Some(index);
            }
        }
    }
    counterparts
}

fn list_values(part: &PlaybookPart, prefix: &str, lines: &mut Vec<String>) {
    for value in unique_values(part) {
        let path = join_path(&value.path);
        let text = value.value.to_text();
        if text.contains('\n') {
            lines.push(format!("{prefix}{path}:"));
            lines.extend(text.lines().map(|line| format!("  {line}")));
        } else {
            lines.push(format!("{prefix}{path}: {text}"));
        }
    }
    for list in &part.lists {
        for inner in &list.parts {
            let own = inner.path.strip_prefix(&*part.path).unwrap_or(&inner.path);
            let own = own.trim_start_matches(['.', '/']);
            if inner.values.is_empty() && inner.lists.iter().all(|list| list.parts.is_empty()) {
                lines.push(format!("{prefix}{own}"));
            }
            list_values(inner, &format!("{prefix}{own}."), lines);
        }
    }
}

/// Joins keys by dots; a key with other characters than those of names is quoted.
fn join_path(path: &[String]) -> String {
    let mut joined = String::new();
    for key in path {
        let is_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.');
        if !key.is_empty() && key.chars().all(is_name) {
            if !joined.is_empty() {
                joined.push('.');
            }
            joined.push_str(key);
        } else {
            joined.push_str(&format!("[{}]", serde_json::Value::from(key.as_str())));
        }
    }
    joined
}

impl PlaybookSection {
    /// The name in responses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Executor => "executor",
            Self::Keychain => "keychain",
            Self::Workload => "workload",
            Self::Ctx => "ctx",
            Self::Step => "step",
            Self::Admission => "admission",
            Self::Loop => "loop",
            Self::Task => "task",
            Self::Policy => "policy",
            Self::Next => "next",
        }
    }
}
