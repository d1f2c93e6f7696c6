//! The one table of diagnostic codes: what each means and what to do about it.

/// One code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code {
    /// `E0107`: E for the document's shape, N for notes, T for templates, W for warnings.
    pub code: &'static str,
    /// What it means, in one line.
    pub meaning: &'static str,
    /// What to do about it.
    pub remedy: &'static str,
}

/// The entry of a code.
pub fn explain(code: &str) -> Option<&'static Code> {
    CODES.iter().find(|entry| entry.code == code)
}

macro_rules! codes {
    ($($code:literal $meaning:literal => $remedy:literal)*) => {
        /// Every code, in order.
        pub const CODES: &[Code] = &[$(Code { code: $code, meaning: $meaning, remedy: $remedy }),*];
    };
}

codes! {
    "E0001" "The file is larger than a playbook may be (1 MiB)."
        => "Move data out of the playbook: pass it as workload, or read it from a store in a task."
    "E0002" "The file is not text: it holds bytes that are not UTF-8, or a NUL character."
        => "Save the file as UTF-8."
    "E0003" "The file is not YAML."
        => "Look at the place named and the line before it; quote text that holds `: `, ` #` or begins with a special character."
    "E0004" "Lists and maps are nested more than 64 deep."
        => "Flatten the structure, or pass it as a JSON text."
    "E0005" "The file, with its aliases, defaults and workbook tasks in place, holds more than a playbook may."
        => "Use fewer or smaller anchors, and keep large values out of defaults that every task inherits."
    "E0006" "A key is given twice in the same map."
        => "Keep one of them."
    "E0007" "A YAML tag other than `!raw`."
        => "Remove the tag; quote the value if it must be text."
    "E0008" "An alias or a merge key that cannot be followed."
        => "Merge maps only, and never use an alias inside the value it names."
    "E0009" "A key that is a list or a map."
        => "Use text as the key."
    "E0010" "A template without quotes, which YAML reads as a map in a map."
        => "Quote it: `key: \"{{ x }}\"`."
    "E0011" "The file has no document of kind Playbook."
        => "Begin with `apiVersion: noetl.io/v2` and `kind: Playbook`."
    "E0012" "The file has more than one playbook."
        => "Put each playbook into a file of its own."
    "E0101" "A value of another type than the key takes."
        => "Write the value in the form named."
    "E0102" "A key that must be there is missing."
        => "Add it."
    "E0103" "Two spellings of the same key in one map."
        => "Keep one of them."
    "E0104" "A word that is none of those the key takes."
        => "Use one of the words listed."
    "E0105" "A number, duration or size that cannot be read or is out of range."
        => "Durations are seconds or `500ms`, `30s`, `1h 30m`, `PT1H`; sizes are bytes or `64KiB`, `1MB`."
    "E0106" "A construct of another dialect or tool that this language does not have."
        => "Use the construct named instead."
    "E0107" "A key that is not known in this place."
        => "Correct the spelling, or remove it; the message lists what is accepted."
    "E0108" "A tool kind that does not exist."
        => "Use one of the kinds listed."
    "E0109" "A tool kind of the language that this version does not have built in."
        => "Use another kind, or a version that has it."
    "E0110" "Two steps with the same name."
        => "Rename one of them."
    "E0111" "Two tasks of one step with the same label."
        => "Rename one of them."
    "E0112" "An arc to a step that does not exist."
        => "Correct the name or add the step; an arc to `end` ends the branch even where no such step exists."
    "E0113" "`entry_step` or `final_step` names a step that does not exist."
        => "Correct the name or add the step."
    "E0114" "A jump to a label that its step does not have."
        => "Jump to a label of the same step, or `previous`."
    "E0115" "A loop with neither or both of `in` and `cursor`."
        => "Give it exactly one of them."
    "E0116" "`mode: cursor` or `frame` on a loop that has no `cursor`."
        => "Add `cursor: {kind: postgres, auth: …, claim: …}`, or loop over a list with `in` and remove what belongs to cursors."
    "E0117" "A policy without `rules`."
        => "Write `policy: {rules: [{when: …, then: {do: …}}]}`, or remove it."
    "E0118" "A workbook task that does not exist."
        => "Correct the name or add the task under `workbook.tasks`."
    "E0119" "Workbook tasks that lead to each other in a circle."
        => "Let one of them name a tool kind."
    "E0120" "A step with neither `tool` nor `next`, which would do nothing."
        => "Give it a tool, or arcs to route by."
    "E0121" "A list of bare step names in `next`."
        => "Write arcs: `next: {arcs: [{step: a}, {step: b}]}`."
    "E0122" "A tool that is a bare word or a task that is not a map."
        => "Write `tool: {kind: …}` or a list of `- label: {kind: …}`."
    "E0123" "A workflow without steps."
        => "Add at least one step."
    "E0124" "A rule that is not of the form `{when, then}` or `{else: {then}}`."
        => "Write `- when: \"{{ … }}\"` with `then: {do: …}`, and last `- else: {then: {do: …}}`."
    "E0125" "A write to a place that does not exist there."
        => "Write `iter.x` in a task of the step; write `ctx.x` from steps and arcs."
    "E0126" "A tool whose keys contradict each other, or none of several of which one is needed."
        => "Give exactly one of the keys named."
    "E0127" "A task of a kind that this deployment adds does not fit the kind's manifest."
        => "Write the keys that the manifest names, with values of the types it names."
    "E0128" "`auth` is a template that reads a field of a keychain entry: what it comes to is a secret, not a name."
        => "Name the entry, `auth: session`, or write the credential as a map: `auth: {type: bearer, token: \"{{ keychain.session.access_token }}\"}`."
    "E0130" "An SQL statement is one template and nothing else: it would be bound as a value."
        => "Write the statement in the playbook, with templates for its values. If its text must come from elsewhere, mark it as SQL with the filter `raw_sql`."
    "E0140" "A program that is one template: its value is placed as a literal, which runs nothing."
        => "Mark it as a program with the filter `raw_py`, `raw_rhai` or `raw_jq`; anyone who sets the value can then run code on the worker. A fixed program goes into the playbook or under `script`."
    "E0141" "`ctx` or a default of `workload` reads what does not exist before the run: steps, loops, outcomes, the keychain."
        => "Read `workload`, `ctx`, `execution_id`, `job` or `env` there; compute the rest in a step with `set`."
    "E0142" "Defaults of `workload` or `ctx` that need each other."
        => "Write one of them without the other."
    "N101" "An older `apiVersion` of the same language."
        => "Write `apiVersion: noetl.io/v2`; the playbook means the same."
    "T0101" "A template that does not parse."
        => "Correct the expression; `!raw` marks text that is never a template."
    "T0201" "A name of `iter` that neither the loop nor any write of this step makes."
        => "Correct the spelling, write it with `set_iter` first, or give it a `default`."
    "T0202" "`outcome`, `output` or `event` where there is none."
        => "Use `outcome` in rules, `set` and guards; `event` in guards and admission."
    "T0203" "`steps.x` where no such step exists."
        => "Correct the step's name."
    "W204" "A policy whose rules may all decline an error; the pipeline then goes on as if nothing had failed."
        => "Add `- else: {then: {do: fail}}`, or a rule for `outcome.status == 'error'`, or `on_unmatched: fail`."
    "W205" "An arc that can never fire, because one before it always does."
        => "Give the earlier arc a `when`, move it last, or use `mode: inclusive`."
    "W206" "A write to `ctx` in a parallel loop: iterations that write different values fail the step."
        => "Use a reducer, `{$add: n}`, `{$append: v}`, `{$max: v}`, `{$min: v}`, `{$merge: {…}}`, or `set_iter`."
    "W207" "A parallel loop without `max_in_flight`; 16 run at once."
        => "Say how many: `spec: {mode: parallel, max_in_flight: 8}`."
    "W208" "A jump back that nothing ends; the step fails after 10 000 jumps."
        => "Give the jump a `when`, and let another rule `break` or `fail`."
    "W209" "A step that no arc leads to."
        => "Add an arc to it, or remove it."
    "W210" "A name that nothing in the playbook defines; it must come with the request."
        => "Correct the spelling, or add a default for it under `workload`."
    "W211" "`reference_first: false` has no effect: large results are always kept by reference."
        => "Remove it; raise `inline_max_bytes` of a task's result to keep more in the log."
    "W212" "`iter` is written in a step without a loop; it lives only as long as this pipeline."
        => "Use `set` with a bare name for the pipeline, or `ctx.x` for the execution."
    "W213" "A name that templates cannot use as it is."
        => "Use letters, digits and `_`, beginning with a letter."
    "W214" "A name that is reserved in templates and hides this one."
        => "Choose another name."
    "W218" "A store by the name `object`, which means `disk`."
        => "Write `disk`; to keep bodies in NATS, write `nats_object`."
    "W219" "A kind that a deployment adds, of which nothing is known here."
        => "Name the directory of its manifest with `--tools DIR` or `NOETL_TOOLS_DIR`, and its keys are checked."
    "W230" "A key that tunes another runtime; it has no effect here."
        => "Remove it."
    "W231" "Text between braces in a program that is not a template; it stays as it is."
        => "Correct it if it is meant as a template; mark the whole text with `!raw` if none of it is."
    "W232" "A template in Python code, a rhai script or a jq program; its value is placed as a literal."
        => "Pass the value under `input`, where it is a variable of the code, or a key of the input of jq."
    "W233" "A store that is not configured here; the default store is used."
        => "Configure the store, or remove `store` from the task's result."
    "W240" "A cycle of arcs that nothing ends; the run fails after 100,000 runs of one step."
        => "Give an arc of the cycle a `when`, or set `executor.spec.policy.limits.max_step_runs`."
    "W301" "A word that older YAML reads as a boolean; here it is text."
        => "Write `true` or `false`, or quote it."
    "W302" "A number with a leading zero; the zero is lost."
        => "Quote it to keep it as text, or write `0o755` for octal."
    "W303" "A number whose last zero is lost, as in a version `1.10`."
        => "Quote it to keep it as text."
    "W304" "A key that carries its unit in its name."
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
