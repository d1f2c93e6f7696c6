//! The descriptions of the keys of each section of a playbook, except those of the tool kinds.

use crate::playbook::words;
use crate::reference::ValueType::{
    Any, Bool, Code, Condition, Credential, Duration, FreeMap, List, Map, MapOrList, Name, NamedTasks, Number,
    Pipeline, Size, StepName, TaskLabel, Text, ToolKind, Values, Words,
};
use crate::reference::{KeyDoc, key_docs};

pub(crate) const ROOT: &[KeyDoc] = key_docs! {
    "apiVersion": Words(words::api_versions), "", "The version of the language.";
    "kind": Words(words::document_kinds), "", "The kind of the document.";
    "metadata": Map("metadata"), "", "Name, path and description of the playbook.";
    "keychain": List("keychain entry"), "none", "Secrets that are resolved before the first step starts.";
    "executor": Map("executor"), "", "Settings of the whole run.";
    "workload": FreeMap, "none", "Default inputs. The inputs of a run are merged over them.";
    "ctx": FreeMap, "none", "Initial values of `ctx`, the state of the run.";
    "workflow": List("step"), "", "The steps.";
    "workbook": NamedTasks, "none", "Named tasks, which `kind: workbook` inserts.";
};

pub(crate) const METADATA: &[KeyDoc] = key_docs! {
    "name": Name, "", "Name of the playbook.";
    "path": Name, "the name", "Path in the catalog.";
    "version": Text, "", "Version of the document; the catalog counts its own versions.";
    "description": Text, "", "What the playbook does.";
    "labels": FreeMap, "", "Labels, kept as data.";
    "tags": Values, "", "Tags, kept as data.";
};

pub(crate) const KEYCHAIN_ENTRY: &[KeyDoc] = key_docs! {
    "name": Name, "", "Name of the entry in templates (`keychain.<name>`) and under `auth`.";
    "kind": Words(words::keychain_kinds), "credential", "Source of the value, or the type of a credential.";
    "scope": Words(words::keychain_scopes), "local",
        "Which runs share the value: this run, its child runs too, or all runs of the playbook.";
    "credential": Name, "the name of the entry", "Name of the credential.";
    "data": FreeMap, "", "With `kind: static`: the fields.";
    "map": FreeMap, "", "Fields, each with a variable, a file or a path of the secret manager.";
    "variable": Name, "", "With `kind: env`: the environment variable of the server.";
    "path": Text, "", "With `kind: file` or `vault`: the file or the path of the secret.";
    "mount": Text, "secret", "With `kind: vault`: the mount of the secret engine.";
    "endpoint": Text, "", "URL that issues access tokens.";
    "client_id": Text, "", "Client ID at the token endpoint.";
    "client_secret": Text, "", "Client secret at the token endpoint.";
};

pub(crate) const EXECUTOR: &[KeyDoc] = key_docs! {
    "kind": Words(words::executor_kinds), "", "Accepted without effect.";
    "spec": Map("executor spec"), "", "Settings of the run.";
};

pub(crate) const EXECUTOR_SPEC: &[KeyDoc] = key_docs! {
    "pool": Name, "default", "Pool of the workers that run the steps.";
    "policy": Map("executor policy"), "", "Limits, failure mode and defaults.";
    "entry_step": StepName, "the first step", "Step that starts the run.";
    "final_step": StepName, "none", "Step that runs last, once for each retry of the run. Its `next` is ignored.";
    "no_next_is_error": Bool, "false", "Whether the run fails if no arc of a step matches.";
};

pub(crate) const EXECUTOR_POLICY: &[KeyDoc] = key_docs! {
    "results": Map("results"), "", "Accepted without effect.";
    "limits": Map("limits"), "", "Limits of the run.";
    "failure": Map("failure"), "", "What a failed branch does to the others.";
    "defaults": Map("defaults"), "none", "Default `spec` of all tasks.";
};

pub(crate) const RESULTS: &[KeyDoc] = key_docs! {
    "reference_first": Bool, "true", "Accepted without effect: large results are always stored by reference.";
};

pub(crate) const LIMITS: &[KeyDoc] = key_docs! {
    "max_payload_bytes": Size, "none",
        "Maximum size of the result of a task; beyond it the task fails with `LIMIT_PAYLOAD`.";
    "max_step_runs": Number, "100000",
        "Maximum number of runs of one step; beyond it the run fails with `LIMIT_STEP_RUNS`.";
};

pub(crate) const STEP: &[KeyDoc] = key_docs! {
    "step": Name, "", "Unique name: letters, digits and `_`.";
    "desc": Text, "", "Description.";
    "spec": Map("step spec"), "", "Settings of the step, and defaults for its tasks.";
    "loop": Map("loop"), "none", "Runs the pipeline once for each element of a list or each row of a cursor.";
    "tool": Pipeline, "none",
        "The pipeline: one task, or a list of `- label: {kind: …}`. A step without it only evaluates its arcs.";
    "next": MapOrList("next", "arc"), "none", "The arcs to the steps that follow.";
    "set": FreeMap, "none", "Values to write to `ctx` when the step ends: `ctx.x: …`.";
    "set_ctx": FreeMap, "none", "The same as `set`, without the prefix `ctx.`.";
    "input": FreeMap, "none", "Values that every task can read as `input`.";
    "output": Map("result"), "", "`spec.result` of the last task.";
};

pub(crate) const STEP_SPEC: &[KeyDoc] = key_docs! {
    "policy": Map("step policy"), "",
        "Admission, failure mode and lifecycle of the step; rules are defaults for its tasks.";
    "timeout": Duration, "none",
        "Maximum time of a run of the step; then its tasks are stopped and it fails with `STEP_TIMEOUT`.";
    "join": Words(words::joins), "merge",
        "`merge`: one run for all branches that meet; `each`: one run for each branch.";
    "schedule_to_start": Duration, "1h", "Maximum time that the step waits for a worker.";
    "result": Map("result"), "", "Default of its tasks: how a result is stored.";
    "retry": Any, "none", "Default of its tasks: repeats inside the tool.";
    "pool": Name, "default", "Pool of the workers.";
    "sandbox": Map("sandbox"), "", "Default of its tasks: sandbox of programs.";
    "resources": Map("resources"), "", "Default of its tasks: limits of programs.";
    "effect": Words(words::effects), "at_least_once", "Default of its tasks: what an interrupted attempt means.";
    "isolate": Bool, "false", "Default of its tasks: a new interpreter process for each call.";
};

pub(crate) const STEP_POLICY: &[KeyDoc] = key_docs! {
    "admit": Map("admit"), "always", "Conditions under which an arriving branch may run the step.";
    "failure": Map("failure"), "", "What a failed iteration does to the loop.";
    "lifecycle": Map("lifecycle"), "", "Another spelling of `timeout`.";
    "rules": List("rule"), "none", "Default rules of its tasks.";
    "on_unmatched": Words(words::unmatched_actions), "continue", "What happens after an outcome that no rule matches.";
};

pub(crate) const LIFECYCLE: &[KeyDoc] = key_docs! {
    "timeout_s": Number, "none", "The same as `spec.timeout`, in seconds.";
    "deadline_s": Number, "none", "The same as `spec.timeout`, in seconds.";
};

pub(crate) const FAILURE: &[KeyDoc] = key_docs! {
    "mode": Words(words::failure_modes), "best_effort; in loops fail_fast",
        "`fail_fast` cancels the other branches or iterations after an unhandled failure.";
};

pub(crate) const ADMIT: &[KeyDoc] = key_docs! {
    "mode": Words(words::admission_modes), "exclusive",
        "`exclusive`: the first matching rule decides; `inclusive`: all matching rules must allow.";
    "rules": List("admission rule"), "", "Rules of `when` and `then: {allow: …}`.";
};

pub(crate) const ADMIT_RULE: &[KeyDoc] = key_docs! {
    "when": Condition, "", "Condition of the rule.";
    "then": Map("admission"), "", "What the rule decides.";
    "else": Map("admission"), "", "A rule that always matches.";
};

pub(crate) const ADMIT_THEN: &[KeyDoc] = key_docs! {
    "allow": Bool, "", "Whether the branch may run the step.";
};

pub(crate) const LOOP: &[KeyDoc] = key_docs! {
    "in": Any, "", "A list, a template that returns one, or exactly `{{ range(…) }}`.";
    "iterator": Name, "", "Name of the element: `iter.<iterator>`.";
    "spec": Map("loop spec"), "", "Settings of the loop, and defaults for the tasks.";
    "cursor": Map("cursor"), "", "Instead of `in`: a statement that claims rows until none is left.";
};

pub(crate) const LOOP_SPEC: &[KeyDoc] = key_docs! {
    "mode": Words(words::loop_modes), "sequential; with a cursor parallel",
        "Whether iterations run one after another or at the same time.";
    "max_in_flight": Number, "16", "With `mode: parallel`: maximum number of concurrent iterations; may be a template.";
    "policy": Map("loop policy"), "", "Where the loop runs; rules are defaults for its tasks.";
    "frame": Map("frame"), "", "With a cursor: how many rows are claimed and run at a time.";
    "result": Map("result"), "", "Default of the tasks: how a result is stored.";
    "retry": Any, "none", "Default of the tasks: repeats inside the tool.";
    "pool": Name, "default", "Pool of the workers.";
    "sandbox": Map("sandbox"), "", "Default of the tasks: sandbox of programs.";
    "resources": Map("resources"), "", "Default of the tasks: limits of programs.";
    "effect": Words(words::effects), "at_least_once", "Default of the tasks: what an interrupted attempt means.";
    "isolate": Bool, "false", "Default of the tasks: a new interpreter process for each call.";
};

pub(crate) const LOOP_FRAME: &[KeyDoc] = key_docs! {
    "max_rows": Number, "100", "Value of `__frame_max_rows` in the claiming statement.";
    "row_concurrency": Number, "max_in_flight", "Maximum number of concurrent rows.";
    "process": Words(words::frame_processes), "row", "Only `row`.";
};

pub(crate) const LOOP_POLICY: &[KeyDoc] = key_docs! {
    "exec": Words(words::loop_placements), "distributed", "`local` runs the whole loop on one worker.";
    "results": Map("loop results"), "", "Accepted without effect.";
    "rules": List("rule"), "none", "Default rules of the tasks.";
    "on_unmatched": Words(words::unmatched_actions), "continue", "What happens after an outcome that no rule matches.";
};

pub(crate) const LOOP_RESULTS: &[KeyDoc] = key_docs! {
    "preserve_order": Bool, "true", "Accepted without effect: results are always in index order.";
};

pub(crate) const CURSOR: &[KeyDoc] = key_docs! {
    "kind": Words(words::cursor_kinds), "", "The database.";
    "auth": Credential, "", "Credential of the database.";
    "claim": Code, "", "Statement that claims up to `:__frame_max_rows` rows and returns them.";
    "spec": Map("task spec"), "", "Settings of the claiming task.";
};

pub(crate) const TASK: &[KeyDoc] = key_docs! {
    "kind": ToolKind, "", "The tool.";
    "desc": Text, "", "Description.";
    "spec": Map("task spec"), "", "Timeout, policy, result and placement of the task.";
    "input": FreeMap, "none", "Values for the tool.";
    "set": FreeMap, "none", "Values to write after the outcome: `ctx.x`, `iter.x`, or a bare name for the pipeline.";
    "output": Map("result"), "", "The same as `spec.result`, and overrides it.";
    "output_select": Any, "", "The same as `spec.result.select`.";
    "auth": Credential, "none", "Credential of the task.";
    "timeout": Duration, "none", "Maximum time of the call, or `{connect, read, total}`.";
};

pub(crate) const TASK_SPEC: &[KeyDoc] = key_docs! {
    "timeout": Duration, "none", "Maximum time of the call, or `{connect, read, total}`.";
    "policy": Map("task policy"), "", "What happens after the outcome.";
    "result": Map("result"), "", "How the result is stored.";
    "retry": Any, "none", "Repeats inside the tool; prefer a rule with `do: retry`, which records every attempt.";
    "pool": Name, "default", "Pool of the workers. A step runs as a whole: the first task with a pool decides.";
    "sandbox": Map("sandbox"), "", "Sandbox of programs: a level, or a map.";
    "resources": Map("resources"), "", "Limits of programs.";
    "effect": Words(words::effects), "at_least_once",
        "`at_most_once` fails with `UNKNOWN_OUTCOME` instead of running twice; `transactional` commits exactly once.";
    "isolate": Bool, "false", "A new interpreter process for this call (`python`).";
};

pub(crate) const SANDBOX: &[KeyDoc] = key_docs! {
    "level": Words(words::sandbox_levels), "that of the worker",
        "`none`, `basic` (own temporary directory), or `strict` (restricted files, network and system calls).";
    "read": Values, "none", "Folders that the program may read.";
    "write": Values, "none", "Folders that the program may write.";
    "network": Any, "", "Network access of the program.";
};

pub(crate) const RESOURCES: &[KeyDoc] = key_docs! {
    "cpu": Duration, "no limit", "CPU time of the program, in whole seconds.";
    "memory": Size, "no limit", "Memory of the program.";
    "file_size": Size, "no limit", "Largest file that the program may write.";
    "open_files": Number, "no limit", "Number of open files.";
    "processes": Number, "no limit", "Number of processes.";
};

pub(crate) const POLICY: &[KeyDoc] = key_docs! {
    "rules": List("rule"), "", "Rules in order; the first that matches decides.";
    "on_unmatched": Words(words::unmatched_actions), "continue", "What happens after an error that no rule matches.";
};

pub(crate) const RULE: &[KeyDoc] = key_docs! {
    "when": Condition, "", "Condition, which reads `outcome`.";
    "then": Map("then"), "", "What happens if the condition is true.";
    "else": Map("else"), "", "A rule that always matches: `- else: {then: {do: fail}}`.";
    "set": FreeMap, "none", "Values to write if the rule matches.";
};

pub(crate) const THEN: &[KeyDoc] = key_docs! {
    "do": Words(words::directives), "", "The action: continue, retry, jump to a task, end the pipeline, or fail.";
    "attempts": Number, "3", "With `do: retry`: total number of attempts, including the first.";
    "backoff": Words(words::backoffs), "none", "With `do: retry`: how the delay grows.";
    "delay": Duration, "1s", "With `do: retry`: time before the next attempt. Maximum: 30 days.";
    "to": TaskLabel, "", "With `do: jump`: label of a task of the same step, or `previous`.";
    "set_iter": FreeMap, "none", "Values to write to `iter`.";
    "set_ctx": FreeMap, "none", "Values to write to `ctx`.";
    "set": FreeMap, "none", "Values to write.";
};

pub(crate) const ELSE: &[KeyDoc] = key_docs! {
    "then": Map("then"), "", "What happens.";
    "do": Words(words::directives), "", "The action: continue, retry, jump to a task, end the pipeline, or fail.";
    "attempts": Number, "3", "With `do: retry`: total number of attempts, including the first.";
    "backoff": Words(words::backoffs), "none", "With `do: retry`: how the delay grows.";
    "delay": Duration, "1s", "With `do: retry`: time before the next attempt. Maximum: 30 days.";
    "to": TaskLabel, "", "With `do: jump`: label of a task of the same step, or `previous`.";
    "set_iter": FreeMap, "none", "Values to write to `iter`.";
    "set_ctx": FreeMap, "none", "Values to write to `ctx`.";
    "set": FreeMap, "none", "Values to write.";
};

pub(crate) const RESULT: &[KeyDoc] = key_docs! {
    "inline_max_bytes": Size, "64KiB", "Maximum size of a result inside its event; can only lower the limit.";
    "preview_max_bytes": Size, "2KiB", "Maximum size of the preview of a stored result.";
    "store": Words(words::stores), "auto", "Result store: a name, or `{kind, scope, ttl, compression}`.";
    "scope": Words(words::result_scopes), "execution", "How long the result is retained.";
    "ttl": Duration, "none", "Shorter lifetime of the result.";
    "compression": Words(words::compressions), "auto", "Compression of the stored result.";
    "select": Any, "top-level scalars",
        "Fields to extract: a list of paths or of `{path, as}`, or a map of names to paths.";
    "accumulate": Map("accumulate"), "none", "Combines the pages of the task.";
};

pub(crate) const RESULT_STORE: &[KeyDoc] = key_docs! {
    "kind": Words(words::stores), "auto", "Result store.";
    "scope": Words(words::result_scopes), "execution", "How long the result is retained.";
    "ttl": Duration, "none", "Shorter lifetime of the result.";
    "compression": Words(words::compressions), "auto", "Compression of the stored result.";
};

pub(crate) const SELECT: &[KeyDoc] = key_docs! {
    "path": Text, "", "JSONPath of the field, such as `$.data.id`.";
    "as": Name, "the last part of the path", "Name of the field.";
};

pub(crate) const ACCUMULATE: &[KeyDoc] = key_docs! {
    "strategy": Words(words::strategies), "append", "How pages are combined.";
    "merge_path": Text, "", "Path of the list inside a page.";
};

pub(crate) const NEXT: &[KeyDoc] = key_docs! {
    "spec": Map("next spec"), "", "How arcs are chosen.";
    "arcs": List("arc"), "", "The arcs.";
};

pub(crate) const NEXT_SPEC: &[KeyDoc] = key_docs! {
    "mode": Words(words::route_modes), "exclusive",
        "`exclusive`: the first matching arc; `inclusive`: every matching arc.";
    "policy": FreeMap, "", "Reserved; only `{}` is accepted.";
    "on_no_match": Words(words::no_match_actions), "end", "If no arc matches: end the branch, or fail the run.";
};

pub(crate) const ARC: &[KeyDoc] = key_docs! {
    "step": StepName, "", "Target step.";
    "when": Condition, "always", "Condition, which reads the results, `outcome` and `event` of the step.";
    "args": FreeMap, "none", "Values that the target reads as `args`.";
    "set": FreeMap, "none", "Values to write to `ctx`: `ctx.x: …`.";
};
