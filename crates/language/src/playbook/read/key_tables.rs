//! Tables of keys: accepted keys with their aliases, and rejected keys with their replacements.

use crate::playbook::read::reader::KeyTable;

type KeyAliases = &'static [(&'static str, &'static [&'static str])];
type RefusedKeys = &'static [(&'static str, &'static str)];

const fn key_table(noun: &'static str, keys: KeyAliases, refused: RefusedKeys) -> KeyTable<'static> {
    KeyTable {
        noun,
        keys,
        refused,
        ignored: &[],
    }
}

/// Adds keys that only another runtime uses.
const fn with_ignored_keys(shape: KeyTable<'static>, ignored: &'static [&'static str]) -> KeyTable<'static> {
    KeyTable { ignored, ..shape }
}

pub(crate) const ROOT: KeyTable<'static> = with_ignored_keys(ROOT_KEYS, &["tracing"]);

const ROOT_KEYS: KeyTable<'static> = key_table(
    "playbook",
    &[
        ("apiVersion", &[]),
        ("kind", &[]),
        ("metadata", &[]),
        ("keychain", &[]),
        ("executor", &[]),
        ("workload", &[]),
        ("ctx", &[]),
        ("workflow", &[]),
        ("workbook", &[]),
    ],
    &[
        (
            "vars",
            "put inputs under `workload` and initial state under `ctx`; write state in steps with `set: {ctx.x: …}`",
        ),
        ("jobs", "put steps under `workflow: [{step: …}]`"),
        ("steps", "put steps under `workflow: [{step: …}]`"),
        (
            "tasks",
            "put steps under `workflow` and reusable tasks under `workbook`",
        ),
        (
            "on",
            "triggers are not supported; start the playbook with `noetl run` or POST /api/execute",
        ),
        (
            "needs",
            "define the order with arcs: put `next: {arcs: [{step: …}]}` into the preceding step",
        ),
        (
            "depends_on",
            "define the order with arcs: put `next: {arcs: [{step: …}]}` into the preceding step",
        ),
        (
            "env",
            "put inputs under `workload`; variables of a program go under `env` of its task",
        ),
        ("name", "put the name under `metadata: {name: …}`"),
    ],
);

pub(crate) const STEP: KeyTable<'static> = with_ignored_keys(STEP_KEYS, &["tracing"]);

const STEP_KEYS: KeyTable<'static> = key_table(
    "step",
    &[
        ("step", &[]),
        ("desc", &[]),
        ("spec", &[]),
        ("loop", &[]),
        ("tool", &[]),
        ("next", &[]),
        ("set", &[]),
        ("set_ctx", &[]),
        ("input", &["args"]),
        ("output", &["result"]),
    ],
    &[
        (
            "when",
            "use `spec.policy.admit.rules`, or put `when` on the arc to this step",
        ),
        (
            "case",
            "route with `next.arcs` and their `when`; react to an outcome with `spec.policy.rules` of the task",
        ),
        ("pipe", "list the tasks under `tool`: `tool: [{label: {kind: …}}]`"),
        ("eval", "react to an outcome with `spec.policy.rules` of the task"),
        ("expr", "use `when` for conditions"),
        (
            "retry",
            "retry in a task: `spec.policy.rules: [{when: …, then: {do: retry, attempts: 3}}]`",
        ),
        ("sink", "add a task that writes to storage and returns a reference"),
        ("vars", "write state with `set: {ctx.x: …}`"),
        ("type", "set the tool with `tool: {kind: …}`"),
        ("kind", "set the tool with `tool: {kind: …}`"),
        ("name", "name the step with `step: …`"),
        (
            "needs",
            "define the order with arcs: put `next: {arcs: [{step: …}]}` into the preceding step",
        ),
        (
            "depends_on",
            "define the order with arcs: put `next: {arcs: [{step: …}]}` into the preceding step",
        ),
        (
            "on",
            "route on events with a condition: `next: {arcs: [{step: …, when: \"{{ event.name == 'step.failed' }}\"}]}`",
        ),
        ("run", "run a command with `tool: {kind: shell, command: …}`"),
        ("uses", "start another playbook with `tool: {kind: playbook, path: …}`"),
        ("register", "read results by the step's name or the task's label"),
        ("tools", "list the tasks under `tool`"),
        ("tasks", "list the tasks under `tool`"),
    ],
);

pub(crate) const STEP_SPEC: KeyTable<'static> = with_ignored_keys(STEP_SPEC_KEYS, &["tracing"]);

const STEP_SPEC_KEYS: KeyTable<'static> = key_table(
    "step spec",
    &[
        ("policy", &[]),
        ("timeout", &[]),
        ("join", &[]),
        ("schedule_to_start", &[]),
        ("result", &[]),
        ("retry", &[]),
        ("pool", &[]),
        ("sandbox", &[]),
        ("resources", &[]),
        ("effect", &[]),
        ("isolate", &[]),
    ],
    &[("admit", "put admission rules under `spec.policy.admit`")],
);

pub(crate) const STEP_POLICY: KeyTable<'static> = key_table(
    "step policy",
    &[
        ("admit", &[]),
        ("failure", &[]),
        ("lifecycle", &[]),
        ("rules", &[]),
        ("on_unmatched", &[]),
    ],
    &[],
);

pub(crate) const LIFECYCLE: KeyTable<'static> = key_table("lifecycle", &[("timeout_s", &[]), ("deadline_s", &[])], &[]);

pub(crate) const FAILURE: KeyTable<'static> = key_table("failure", &[("mode", &[])], &[]);

pub(crate) const ADMIT: KeyTable<'static> = key_table("admit", &[("mode", &[]), ("rules", &[])], &[]);

pub(crate) const ADMIT_RULE: KeyTable<'static> = key_table(
    "admission rule",
    &[("when", &[]), ("then", &[]), ("else", &[])],
    &[
        ("expr", "use `when` for conditions"),
        ("if", "use `when` for conditions"),
        ("allow", "put it under `then: {allow: …}`"),
    ],
);

pub(crate) const ADMIT_THEN: KeyTable<'static> = key_table(
    "admission",
    &[("allow", &[])],
    &[("do", "admission rules decide with `allow: true` or `allow: false`")],
);

pub(crate) const LOOP: KeyTable<'static> = key_table(
    "loop",
    &[("in", &[]), ("iterator", &[]), ("spec", &[]), ("cursor", &[])],
    &[
        ("mode", "put it under `spec`: `spec: {mode: parallel}`"),
        ("max_in_flight", "put it under `spec`: `spec: {max_in_flight: 8}`"),
        ("collection", "use `in` for the list"),
        ("items", "use `in` for the list"),
        ("over", "use `in` for the list"),
        ("element", "use `iterator` for the name of an item"),
        ("item", "use `iterator` for the name of an item"),
        ("as", "use `iterator` for the name of an item"),
        (
            "when",
            "use `spec.policy.admit` for the step, or a rule with `do: break` for an iteration",
        ),
    ],
);

pub(crate) const LOOP_SPEC: KeyTable<'static> = with_ignored_keys(LOOP_SPEC_KEYS, &["tracing"]);

const LOOP_SPEC_KEYS: KeyTable<'static> = key_table(
    "loop spec",
    &[
        ("mode", &[]),
        ("max_in_flight", &[]),
        ("policy", &[]),
        ("frame", &[]),
        ("result", &[]),
        ("retry", &[]),
        ("pool", &[]),
        ("sandbox", &[]),
        ("resources", &[]),
        ("effect", &[]),
        ("isolate", &[]),
    ],
    &[],
);

pub(crate) const LOOP_FRAME: KeyTable<'static> = with_ignored_keys(
    key_table(
        "frame",
        &[("max_rows", &[]), ("row_concurrency", &[]), ("process", &[])],
        &[],
    ),
    &["max_seconds", "max_bytes", "lease_seconds", "heartbeat_seconds"],
);

pub(crate) const LOOP_POLICY: KeyTable<'static> = key_table(
    "loop policy",
    &[("exec", &[]), ("results", &[]), ("rules", &[]), ("on_unmatched", &[])],
    &[("failure", "put it under `spec.policy.failure` of the step")],
);

pub(crate) const LOOP_RESULTS: KeyTable<'static> = key_table("loop results", &[("preserve_order", &[])], &[]);

/// The keys of a task, besides those of its kind.
pub(crate) const TASK: KeyAliases = &[
    ("kind", &[]),
    ("desc", &[]),
    ("spec", &[]),
    ("input", &["args"]),
    ("set", &[]),
    ("output", &[]),
    ("output_select", &[]),
    ("auth", &["credential"]),
    ("timeout", &["timeout_seconds", "timeout_s", "timeout_ms"]),
];

pub(crate) const TASK_REFUSED: RefusedKeys = &[
    (
        "when",
        "tasks run in order; skip a task with a rule of the preceding task, or route with arcs",
    ),
    ("case", "react to the outcome with `spec.policy.rules`"),
    ("pipe", "list the tasks under the step's `tool`"),
    ("eval", "react to the outcome with `spec.policy.rules`"),
    ("expr", "use `when` for conditions, in `spec.policy.rules`"),
    (
        "retry",
        "retry with `spec.policy.rules: [{when: …, then: {do: retry, attempts: 3}}]`; for retries inside the tool, use `spec.retry`",
    ),
    ("sink", "add a task that writes to storage and returns a reference"),
    ("vars", "write with `set: {ctx.x: …}`"),
    ("type", "use `kind` for the tool kind"),
    ("policy", "put it under `spec`: `spec: {policy: {rules: […]}}`"),
    ("rules", "put them under `spec.policy.rules`"),
    ("loop", "put the loop into the step"),
    (
        "next",
        "put arcs into the step; within a step, use a rule with `do: jump`",
    ),
    ("set_ctx", "write with `set: {ctx.x: …}`"),
    ("set_iter", "write with `set: {iter.x: …}`"),
    ("register", "read results by the task's label"),
    ("label", "write `- <label>: {kind: …}` or `- name: <label>`"),
];

/// Keys of all tasks and of their `spec` that only another runtime uses.
pub(crate) const TASK_IGNORED: &[&str] = &["tracing"];

/// The keys of a task's `spec`, besides those of its kind.
pub(crate) const TASK_SPEC: KeyAliases = &[
    ("timeout", &["timeout_seconds", "timeout_s", "timeout_ms"]),
    ("policy", &[]),
    ("result", &[]),
    ("retry", &[]),
    ("pool", &[]),
    ("sandbox", &[]),
    ("resources", &[]),
    ("effect", &[]),
    ("isolate", &[]),
];

/// The sandbox of a program that a task starts.
pub(crate) const SANDBOX: KeyTable<'static> = key_table(
    "sandbox",
    &[("level", &[]), ("read", &[]), ("write", &[]), ("network", &[])],
    &[],
);

/// Limits of a program that a task starts.
pub(crate) const RESOURCES: KeyTable<'static> = key_table(
    "resources",
    &[
        ("cpu", &[]),
        ("memory", &[]),
        ("file_size", &[]),
        ("open_files", &[]),
        ("processes", &[]),
    ],
    &[],
);

pub(crate) const DEFAULTS: KeyTable<'static> = key_table("defaults", TASK_SPEC, &[]);

pub(crate) const POLICY: KeyTable<'static> = key_table(
    "task policy",
    &[("rules", &[]), ("on_unmatched", &[])],
    &[
        ("admit", "put admission rules under `spec.policy.admit` of the step"),
        (
            "retry",
            "retry with a rule: `rules: [{when: …, then: {do: retry, attempts: 3}}]`",
        ),
    ],
);

pub(crate) const RULE: KeyTable<'static> = key_table(
    "rule",
    &[("when", &[]), ("then", &[]), ("else", &[]), ("set", &[])],
    &[
        ("expr", "use `when` for conditions"),
        ("if", "use `when` for conditions"),
        ("do", "put it under `then: {do: …}`"),
    ],
);

pub(crate) const THEN: KeyTable<'static> = key_table(
    "then",
    &[
        ("do", &[]),
        ("attempts", &[]),
        ("backoff", &[]),
        ("delay", &[]),
        ("to", &[]),
        ("set_iter", &[]),
        ("set_ctx", &[]),
        ("set", &[]),
    ],
    &[("goto", "write `do: jump` with `to: <label>`")],
);

/// `else` accepts the keys of `then`, or a `then` of its own.
pub(crate) const ELSE: KeyTable<'static> = key_table(
    "else",
    &[
        ("then", &[]),
        ("do", &[]),
        ("attempts", &[]),
        ("backoff", &[]),
        ("delay", &[]),
        ("to", &[]),
        ("set_iter", &[]),
        ("set_ctx", &[]),
        ("set", &[]),
    ],
    &[],
);

pub(crate) const RESULT: KeyTable<'static> = key_table(
    "result",
    &[
        ("inline_max_bytes", &[]),
        ("preview_max_bytes", &[]),
        ("store", &[]),
        ("scope", &[]),
        ("ttl", &[]),
        ("compression", &[]),
        ("select", &["output_select"]),
        ("accumulate", &[]),
    ],
    &[],
);

pub(crate) const RESULT_STORE: KeyTable<'static> = key_table(
    "result store",
    &[("kind", &[]), ("scope", &[]), ("ttl", &[]), ("compression", &[])],
    &[],
);

pub(crate) const SELECT: KeyTable<'static> = key_table("select", &[("path", &[]), ("as", &["name"])], &[]);

pub(crate) const ACCUMULATE: KeyTable<'static> =
    key_table("accumulate", &[("strategy", &[]), ("merge_path", &[])], &[]);

pub(crate) const NEXT: KeyTable<'static> = key_table(
    "next",
    &[("spec", &[]), ("arcs", &[])],
    &[
        (
            "mode",
            "put it under `spec`: `next: {spec: {mode: inclusive}, arcs: […]}`",
        ),
        ("step", "write `next: {arcs: [{step: …}]}`"),
        ("when", "put conditions on arcs: `arcs: [{step: …, when: …}]`"),
    ],
);

pub(crate) const NEXT_SPEC: KeyTable<'static> = key_table(
    "next spec",
    &[("mode", &[]), ("policy", &[]), ("on_no_match", &[])],
    &[],
);

pub(crate) const ARC: KeyTable<'static> = key_table(
    "arc",
    &[("step", &[]), ("when", &["cond"]), ("args", &[]), ("set", &[])],
    &[
        ("if", "use `when` for conditions"),
        ("expr", "use `when` for conditions"),
        ("condition", "use `when` for conditions"),
        ("then", "an arc has one target step: `{step: …, when: …}`"),
        ("input", "use `args` for the arguments of an arc"),
        ("with", "use `args` for the arguments of an arc"),
        ("name", "use `step` for the target of an arc"),
        ("vars", "write state with `set: {ctx.x: …}`"),
        ("set_ctx", "write state with `set: {ctx.x: …}`"),
    ],
);

pub(crate) const EXECUTOR: KeyTable<'static> = with_ignored_keys(
    key_table("executor", &[("kind", &["profile"]), ("spec", &[])], &[]),
    &["version", "requires", "tracing"],
);

pub(crate) const EXECUTOR_SPEC: KeyTable<'static> = with_ignored_keys(EXECUTOR_SPEC_KEYS, &["tracing"]);

const EXECUTOR_SPEC_KEYS: KeyTable<'static> = key_table(
    "executor spec",
    &[
        ("pool", &[]),
        ("policy", &[]),
        ("entry_step", &[]),
        ("final_step", &[]),
        ("no_next_is_error", &[]),
    ],
    &[],
);

pub(crate) const EXECUTOR_POLICY: KeyTable<'static> = key_table(
    "executor policy",
    &[("results", &[]), ("limits", &[]), ("failure", &[]), ("defaults", &[])],
    &[],
);

pub(crate) const RESULTS: KeyTable<'static> = key_table("results", &[("reference_first", &[])], &[]);

pub(crate) const LIMITS: KeyTable<'static> =
    key_table("limits", &[("max_payload_bytes", &[]), ("max_step_runs", &[])], &[]);
