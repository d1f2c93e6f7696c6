//! The one table of diagnostic codes: what each means and what to do about it.

/// One code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiagnosticCode {
    /// `E0107`: E for the document's shape, N for notes, T for templates, W for warnings.
    pub code: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// The entry of a code.
pub fn find_code(code: &str) -> Option<&'static DiagnosticCode> {
    CODES.iter().find(|entry| entry.code == code)
}

macro_rules! codes {
    ($($code:literal $meaning:literal => $remedy:literal)*) => {
        /// Every code, in order.
        pub const CODES: &[DiagnosticCode] = &[$(DiagnosticCode { code: $code, meaning: $meaning, remedy: $remedy }),*];
    };
}

codes! {
    "E0001" "The file exceeds the maximum size of a playbook (1 MiB)."
        => "Move data out of the playbook: pass it as an input, or read it from a store in a task."
    "E0002" "The file is not valid UTF-8 text, or contains a NUL character."
        => "Save the file as UTF-8."
    "E0003" "The file is not valid YAML."
        => "Check the reported line and the line before it; quote text that contains `: ` or ` #`, or begins with a special character."
    "E0004" "Lists and maps are nested more than 64 levels deep."
        => "Flatten the structure, or pass it as JSON text."
    "E0005" "The playbook is too large after its aliases, defaults and workbook tasks are expanded."
        => "Use fewer or smaller anchors, and keep large values out of defaults that every task inherits."
    "E0006" "A map contains the same key twice."
        => "Remove one of the two."
    "E0007" "Unsupported YAML tag; only `!raw` is allowed."
        => "Remove the tag; quote the value if it must be text."
    "E0008" "Invalid alias or merge key."
        => "Merge only maps, and do not use an alias inside the value that it refers to."
    "E0009" "Map keys must be text, not a list or a map."
        => "Use text as the key."
    "E0010" "Unquoted template: YAML reads `{{ x }}` as a nested mapping."
        => "Quote it: `key: \"{{ x }}\"`."
    "E0011" "The file contains no document of kind Playbook."
        => "Begin the file with `apiVersion: noetl.io/v2` and `kind: Playbook`."
    "E0012" "The file contains more than one playbook."
        => "Put each playbook into a file of its own."
    "E0101" "Wrong type for this key."
        => "Use the type named in the message."
    "E0102" "A required key is missing."
        => "Add the key named in the message."
    "E0103" "A map contains two spellings of the same key."
        => "Remove one of the two."
    "E0104" "Not one of the values this key accepts."
        => "Use one of the values listed in the message."
    "E0105" "A number, duration or size is invalid or out of range."
        => "Write a duration as seconds, `500ms`, `30s`, `1h 30m` or `PT1H`, and a size as bytes, `64KiB` or `1MB`."
    "E0106" "This key belongs to another tool or dialect and is not supported."
        => "Use the replacement named in the message."
    "E0107" "Unknown key."
        => "Correct the spelling, or remove the key; the message lists the accepted keys."
    "E0108" "Unknown tool kind."
        => "Use one of the kinds listed in the message."
    "E0109" "This version does not include this tool kind."
        => "Use another kind, or a version that includes it."
    "E0110" "Two steps have the same name."
        => "Rename one of them."
    "E0111" "Two tasks of one step have the same label."
        => "Rename one of them."
    "E0112" "An arc points to a step that does not exist."
        => "Correct the name, or add the step; an arc to `end` ends the branch even if no step has this name."
    "E0113" "`entry_step` or `final_step` names a step that does not exist."
        => "Correct the name or add the step."
    "E0114" "A jump points to a label that its step does not have."
        => "Jump to a label of the same step, or `previous`."
    "E0115" "A loop needs exactly one of `in` and `cursor`."
        => "Set one of them and remove the other."
    "E0116" "`mode: cursor` and `frame` need a `cursor`."
        => "Add `cursor: {kind: postgres, auth: …, claim: …}`, or loop over a list with `in` and remove the keys for cursors."
    "E0117" "A policy has no `rules`."
        => "Write `policy: {rules: [{when: …, then: {do: …}}]}`, or remove it."
    "E0118" "A task refers to a workbook task that does not exist."
        => "Correct the name, or add the task under `workbook.tasks`."
    "E0119" "Workbook tasks refer to each other in a cycle."
        => "Set a tool kind in one of them."
    "E0120" "A step has neither `tool` nor `next`, so it would do nothing."
        => "Add a tool, or arcs under `next`."
    "E0121" "`next` is a list of step names."
        => "Write arcs: `next: {arcs: [{step: a}, {step: b}]}`."
    "E0122" "A tool is a single word, or a task is not a map."
        => "Write `tool: {kind: …}` or a list of `- label: {kind: …}`."
    "E0123" "A workflow has no steps."
        => "Add at least one step."
    "E0124" "A rule does not have the form `{when, then}` or `{else: {then}}`."
        => "Write `- when: \"{{ … }}\"` with `then: {do: …}`, and `- else: {then: {do: …}}` as the last rule."
    "E0125" "This scope cannot be written here."
        => "Write `iter.x` in a task of the step; write `ctx.x` from steps and arcs."
    "E0126" "Mutually exclusive keys are set, or none of a required group is."
        => "Set exactly one of the keys named in the message."
    "E0127" "A task does not match the manifest of its external tool."
        => "Use the keys and types that the manifest declares."
    "E0128" "`auth` is a template that reads a field of a keychain entry: its value is a secret, not the name of a credential."
        => "Write the name of the entry, `auth: session`, or the credential as a map: `auth: {type: bearer, token: \"{{ keychain.session.access_token }}\"}`."
    "E0130" "An SQL statement consists of a single template, which would be bound as a value."
        => "Write the statement in the playbook, with templates for its values. If the whole text must come from a template, mark it as SQL with the filter `raw_sql`."
    "E0140" "A program consists of a single template: its value is inserted as a literal, so no code runs."
        => "Mark it as a program with the filter `raw_py`, `raw_rhai` or `raw_jq`; anyone who sets the value can then run code on the worker. Write a fixed program in the playbook or under `script`."
    "E0141" "`ctx` or a default of `workload` reads a value that does not exist before the run: steps, loops, outcomes or the keychain."
        => "Read only `workload`, `ctx`, `execution_id`, `job` or `env` there; compute other values in a step with `set`."
    "E0142" "Defaults of `workload` or `ctx` refer to each other in a cycle."
        => "Remove one of the references."
    "N101" "The playbook uses an older `apiVersion` of the same language."
        => "Write `apiVersion: noetl.io/v2`; the behavior stays the same."
    "T0101" "A template has a syntax error."
        => "Correct the expression, or mark text that is not a template with `!raw`."
    "T0201" "`iter` has no such field: neither the loop nor a `set_iter` of this step defines it."
        => "Correct the spelling, set the field with `set_iter` first, or add a `default`."
    "T0202" "`outcome`, `output` or `event` is used where it is not available."
        => "Use `outcome` in rules, `set` and conditions; use `event` in conditions and admission rules."
    "T0203" "`steps.x` refers to a step that does not exist."
        => "Correct the name of the step."
    "W204" "Errors may go unhandled: if no rule matches, the pipeline continues as if the task had succeeded."
        => "Add `- else: {then: {do: fail}}`, or a rule for `outcome.status == 'error'`, or `on_unmatched: fail`."
    "W205" "Unreachable arc: an earlier arc always matches."
        => "Add a `when` to the earlier arc, move it last, or use `mode: inclusive`."
    "W206" "A parallel loop writes to `ctx`: the step fails if iterations write different values."
        => "Use a reducer, `{$add: n}`, `{$append: v}`, `{$max: v}`, `{$min: v}`, `{$merge: {…}}`, or `set_iter`."
    "W207" "A parallel loop has no `max_in_flight`; up to 16 iterations run at once."
        => "Set the limit: `spec: {mode: parallel, max_in_flight: 8}`."
    "W208" "Endless jump: no rule leaves it, so the step fails after 10,000 jumps."
        => "Add a `when` to the jump, and a rule with `do: break` or `do: fail`."
    "W209" "Unreachable step: no path of arcs leads to it from the first step."
        => "Add an arc to it, or remove it."
    "W210" "Undefined name: it has no default and must be passed as an input."
        => "Correct the spelling, or add a default for it under `workload`."
    "W211" "`reference_first: false` has no effect: large results are always stored by reference."
        => "Remove it; to store a part of a large result in the log, name it with `spec.result.select`."
    "W212" "`iter` is written in a step without a loop; the value is lost when the step ends."
        => "Use `set` with a plain name for the pipeline, or `ctx.x` for the whole run."
    "W213" "Templates cannot use this name directly."
        => "Use letters, digits and `_`, and begin with a letter."
    "W214" "This name is reserved in templates, so templates cannot read it."
        => "Choose another name."
    "W218" "The store name `object` is an alias of `disk`."
        => "Write `disk`; to store results in NATS, write `nats_object`."
    "W219" "The manifest of this external tool is not available here, so its keys are not checked."
        => "Set the directory of its manifest with `--tools DIR` or `NOETL_TOOLS_DIR`."
    "W230" "This key configures another runtime and has no effect here."
        => "Remove it."
    "W231" "A program contains text in braces that is not a template; it stays unchanged."
        => "Correct it if it should be a template; mark the whole text with `!raw` if it contains none."
    "W232" "Python code, a rhai script or a jq program contains a template; its value is inserted as a literal."
        => "Pass the value under `input`: it becomes a variable of the code, or a key of the input of jq."
    "W233" "This store is not configured here; the default store is used."
        => "Configure the store, or remove `store` from the task's result."
    "W240" "Endless cycle of arcs: no arc leaves it, so the run fails after 100,000 runs of one step."
        => "Add a `when` to an arc of the cycle, or set `executor.spec.policy.limits.max_step_runs`."
    "W301" "YAML 1.1 reads this word as a boolean; here it is text."
        => "Write `true` or `false`, or quote it."
    "W302" "A number has a leading zero, which is lost."
        => "Quote it to keep it as text, or write `0o755` for octal."
    "W303" "A number ends in a zero that is lost, as in `version: 1.10`; checked under keys with `version` in their name."
        => "Quote it to keep it as text."
    "W304" "The name of this key contains a unit."
        => "Use the plain key with a unit in its value: `timeout: 500ms`."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_sorted() {
        let codes: Vec<_> = CODES.iter().map(|entry| entry.code).collect();
        let mut sorted = codes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(codes, sorted);
    }
}
