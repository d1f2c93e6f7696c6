//! The sections of a playbook: maps with a fixed set of keys, with the tables by which the parser reads them.

use crate::playbook::read::key_tables as tables;
use crate::reference::{KeyDoc, section_docs as docs};

/// The keys that a map may have at one position of the language.
#[derive(Debug, Clone, Copy)]
pub struct SectionDoc {
    /// Its name, as in messages: `step spec`.
    pub name: &'static str,
    /// The path of its map, as it is written.
    pub path: &'static str,
    /// Its keys with their other spellings, from the parser's table; `None` where the parser reads keys one by one.
    pub(crate) table: Option<&'static [(&'static str, &'static [&'static str])]>,
    /// The descriptions of its keys, in the order in which authors write them.
    pub keys: &'static [KeyDoc],
}

impl SectionDoc {
    /// Other spellings of a key.
    pub fn aliases(&self, key: &str) -> &'static [&'static str] {
        let mut table = self.table.unwrap_or_default().iter();
        let entry = table.find(|(name, _)| *name == key);
        entry.map_or(&[], |(_, aliases)| *aliases)
    }

    /// Finds a key by name or alias.
    pub fn find_key(&self, name: &str) -> Option<&'static KeyDoc> {
        let mut keys = self.keys.iter();
        keys.find(|doc| doc.key == name || self.aliases(doc.key).contains(&name))
    }
}

/// Finds a section by name.
pub fn find_section(name: &str) -> Option<&'static SectionDoc> {
    SECTIONS.iter().find(|section| section.name == name)
}

macro_rules! sections {
    ($($name:literal $path:literal $table:expr => $keys:expr;)*) => {
        /// Every section, from the root inwards.
        pub const SECTIONS: &[SectionDoc] = &[
            $(SectionDoc { name: $name, path: $path, table: $table, keys: $keys }),*
        ];
    };
}

sections! {
    "playbook" "" Some(tables::ROOT.keys) => docs::ROOT;
    "metadata" "metadata" None => docs::METADATA;
    "keychain entry" "keychain[]" None => docs::KEYCHAIN_ENTRY;
    "executor" "executor" Some(tables::EXECUTOR.keys) => docs::EXECUTOR;
    "executor spec" "executor.spec" Some(tables::EXECUTOR_SPEC.keys) => docs::EXECUTOR_SPEC;
    "executor policy" "executor.spec.policy" Some(tables::EXECUTOR_POLICY.keys) => docs::EXECUTOR_POLICY;
    "results" "executor.spec.policy.results" Some(tables::RESULTS.keys) => docs::RESULTS;
    "limits" "executor.spec.policy.limits" Some(tables::LIMITS.keys) => docs::LIMITS;
    "failure" "spec.policy.failure" Some(tables::FAILURE.keys) => docs::FAILURE;
    "defaults" "executor.spec.policy.defaults" Some(tables::DEFAULTS.keys) => docs::TASK_SPEC;
    "step" "workflow[]" Some(tables::STEP.keys) => docs::STEP;
    "step spec" "workflow[].spec" Some(tables::STEP_SPEC.keys) => docs::STEP_SPEC;
    "step policy" "workflow[].spec.policy" Some(tables::STEP_POLICY.keys) => docs::STEP_POLICY;
    "lifecycle" "workflow[].spec.policy.lifecycle" Some(tables::LIFECYCLE.keys) => docs::LIFECYCLE;
    "admit" "workflow[].spec.policy.admit" Some(tables::ADMIT.keys) => docs::ADMIT;
    "admission rule" "workflow[].spec.policy.admit.rules[]" Some(tables::ADMIT_RULE.keys) => docs::ADMIT_RULE;
    "admission" "workflow[].spec.policy.admit.rules[].then" Some(tables::ADMIT_THEN.keys) => docs::ADMIT_THEN;
    "loop" "workflow[].loop" Some(tables::LOOP.keys) => docs::LOOP;
    "loop spec" "workflow[].loop.spec" Some(tables::LOOP_SPEC.keys) => docs::LOOP_SPEC;
    "frame" "workflow[].loop.spec.frame" Some(tables::LOOP_FRAME.keys) => docs::LOOP_FRAME;
    "loop policy" "workflow[].loop.spec.policy" Some(tables::LOOP_POLICY.keys) => docs::LOOP_POLICY;
    "loop results" "workflow[].loop.spec.policy.results" Some(tables::LOOP_RESULTS.keys) => docs::LOOP_RESULTS;
    "cursor" "workflow[].loop.cursor" None => docs::CURSOR;
    "task" "workflow[].tool[]" Some(tables::TASK) => docs::TASK;
    "task spec" "workflow[].tool[].spec" Some(tables::TASK_SPEC) => docs::TASK_SPEC;
    "sandbox" "spec.sandbox" Some(tables::SANDBOX.keys) => docs::SANDBOX;
    "resources" "spec.resources" Some(tables::RESOURCES.keys) => docs::RESOURCES;
    "task policy" "workflow[].tool[].spec.policy" Some(tables::POLICY.keys) => docs::POLICY;
    "rule" "spec.policy.rules[]" Some(tables::RULE.keys) => docs::RULE;
    "then" "spec.policy.rules[].then" Some(tables::THEN.keys) => docs::THEN;
    "else" "spec.policy.rules[].else" Some(tables::ELSE.keys) => docs::ELSE;
    "result" "spec.result" Some(tables::RESULT.keys) => docs::RESULT;
    "result store" "spec.result.store" Some(tables::RESULT_STORE.keys) => docs::RESULT_STORE;
    "select" "spec.result.select[]" Some(tables::SELECT.keys) => docs::SELECT;
    "accumulate" "spec.result.accumulate" Some(tables::ACCUMULATE.keys) => docs::ACCUMULATE;
    "next" "workflow[].next" Some(tables::NEXT.keys) => docs::NEXT;
    "next spec" "workflow[].next.spec" Some(tables::NEXT_SPEC.keys) => docs::NEXT_SPEC;
    "arc" "workflow[].next.arcs[]" Some(tables::ARC.keys) => docs::ARC;
}
