//! Which keys each place of a document takes, which other spellings they have, and what is refused with advice.

use crate::playbook::read::reader::Shape;

type Keys = &'static [(&'static str, &'static [&'static str])];
type Refused = &'static [(&'static str, &'static str)];

const fn shape(noun: &'static str, keys: Keys, refused: Refused) -> Shape<'static> {
    Shape {
        noun,
        keys,
        refused,
        ignored: &[],
    }
}

/// The shape with keys that only another runtime reads.
const fn ignoring(shape: Shape<'static>, ignored: &'static [&'static str]) -> Shape<'static> {
    Shape { ignored, ..shape }
}

pub(crate) const ROOT: Shape<'static> = ignoring(ROOT_KEYS, &["tracing"]);

const ROOT_KEYS: Shape<'static> = shape(
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
            "inputs go under `workload`, first values of state under `ctx`; steps write state with `set: {ctx.x: …}`",
        ),
        ("jobs", "steps go under `workflow: [{step: …}]`"),
        ("steps", "steps go under `workflow: [{step: …}]`"),
        (
            "tasks",
            "steps go under `workflow`, tasks to reuse under `workbook`",
        ),
        (
            "on",
            "a playbook is started by a request, a schedule or a trigger; none stands in it",
        ),
        (
            "needs",
            "order comes from arcs: `next: {arcs: [{step: …}]}` in the step before",
        ),
        (
            "depends_on",
            "order comes from arcs: `next: {arcs: [{step: …}]}` in the step before",
        ),
        (
            "env",
            "inputs go under `workload`; a tool has an `env` of its own",
        ),
        ("name", "the name goes under `metadata: {name: …}`"),
    ],
);

pub(crate) const STEP: Shape<'static> = ignoring(STEP_KEYS, &["tracing"]);

const STEP_KEYS: Shape<'static> = shape(
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
            "gate the step with `spec.policy.admit.rules`, or put `when` on the arc that leads here",
        ),
        (
            "case",
            "route with `next.arcs` and their `when`; react to an outcome with `spec.policy.rules` of the task",
        ),
        (
            "pipe",
            "list the tasks under `tool`: `tool: [{label: {kind: …}}]`",
        ),
        (
            "eval",
            "react to an outcome with `spec.policy.rules` of the task",
        ),
        ("expr", "conditions are written as `when`"),
        (
            "retry",
            "retry in a task: `spec.policy.rules: [{when: …, then: {do: retry, attempts: 3}}]`",
        ),
        (
            "sink",
            "add a task that writes to storage and returns a reference",
        ),
        ("vars", "write state with `set: {ctx.x: …}`"),
        ("type", "name the tool with `tool: {kind: …}`"),
        ("kind", "name the tool with `tool: {kind: …}`"),
        ("name", "name the step with `step: …`"),
        (
            "needs",
            "order comes from arcs: put `next: {arcs: [{step: …}]}` into the step before",
        ),
        (
            "depends_on",
            "order comes from arcs: put `next: {arcs: [{step: …}]}` into the step before",
        ),
        (
            "on",
            "routing on events is a guard: `next: {arcs: [{step: …, when: \"{{ event.name == 'step.failed' }}\"}]}`",
        ),
        (
            "run",
            "run a command with `tool: {kind: shell, command: …}`",
        ),
        (
            "uses",
            "start another playbook with `tool: {kind: playbook, path: …}`",
        ),
        (
            "register",
            "results are read by the step's name or the task's label",
        ),
        ("tools", "list the tasks under `tool`"),
        ("tasks", "list the tasks under `tool`"),
    ],
);

pub(crate) const STEP_SPEC: Shape<'static> = ignoring(STEP_SPEC_KEYS, &["tracing"]);

const STEP_SPEC_KEYS: Shape<'static> = shape(
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
    &[("admit", "admission goes under `spec.policy.admit`")],
);

pub(crate) const STEP_POLICY: Shape<'static> = shape(
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

pub(crate) const LIFECYCLE: Shape<'static> =
    shape("lifecycle", &[("timeout_s", &[]), ("deadline_s", &[])], &[]);

pub(crate) const FAILURE: Shape<'static> = shape("failure", &[("mode", &[])], &[]);

pub(crate) const ADMIT: Shape<'static> = shape("admit", &[("mode", &[]), ("rules", &[])], &[]);

pub(crate) const ADMIT_RULE: Shape<'static> = shape(
    "admission rule",
    &[("when", &[]), ("then", &[]), ("else", &[])],
    &[
        ("expr", "conditions are written as `when`"),
        ("if", "conditions are written as `when`"),
        ("allow", "put it under `then: {allow: …}`"),
    ],
);

pub(crate) const ADMIT_THEN: Shape<'static> = shape(
    "admission",
    &[("allow", &[])],
    &[(
        "do",
        "admission answers with `allow: true` or `allow: false`",
    )],
);

pub(crate) const LOOP: Shape<'static> = shape(
    "loop",
    &[
        ("in", &[]),
        ("iterator", &[]),
        ("spec", &[]),
        ("cursor", &[]),
    ],
    &[
        ("mode", "it goes under `spec`: `spec: {mode: parallel}`"),
        (
            "max_in_flight",
            "it goes under `spec`: `spec: {max_in_flight: 8}`",
        ),
        ("collection", "the list is called `in`"),
        ("items", "the list is called `in`"),
        ("over", "the list is called `in`"),
        ("element", "the name of an element is called `iterator`"),
        ("item", "the name of an element is called `iterator`"),
        ("as", "the name of an element is called `iterator`"),
        (
            "when",
            "gate the step with `spec.policy.admit`, or an iteration with a rule that breaks",
        ),
    ],
);

pub(crate) const LOOP_SPEC: Shape<'static> = ignoring(LOOP_SPEC_KEYS, &["tracing"]);

const LOOP_SPEC_KEYS: Shape<'static> = shape(
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

pub(crate) const LOOP_FRAME: Shape<'static> = ignoring(
    shape(
        "frame",
        &[
            ("max_rows", &[]),
            ("row_concurrency", &[]),
            ("process", &[]),
        ],
        &[],
    ),
    &[
        "max_seconds",
        "max_bytes",
        "lease_seconds",
        "heartbeat_seconds",
    ],
);

pub(crate) const LOOP_POLICY: Shape<'static> = shape(
    "loop policy",
    &[
        ("exec", &[]),
        ("results", &[]),
        ("rules", &[]),
        ("on_unmatched", &[]),
    ],
    &[(
        "failure",
        "what a failed iteration means goes under the step's `spec.policy.failure`",
    )],
);

pub(crate) const LOOP_RESULTS: Shape<'static> =
    shape("loop results", &[("preserve_order", &[])], &[]);

/// The keys of a task besides those of its kind.
pub(crate) const TASK: Keys = &[
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

pub(crate) const TASK_REFUSED: Refused = &[
    (
        "when",
        "a task always runs in its turn; skip it with a rule of the task before, or route with arcs",
    ),
    ("case", "react to the outcome with `spec.policy.rules`"),
    ("pipe", "list the tasks under the step's `tool`"),
    ("eval", "react to the outcome with `spec.policy.rules`"),
    (
        "expr",
        "conditions are written as `when` in `spec.policy.rules`",
    ),
    (
        "retry",
        "retry with `spec.policy.rules: [{when: …, then: {do: retry, attempts: 3}}]`; a retry inside the tool goes under `spec.retry`",
    ),
    (
        "sink",
        "add a task that writes to storage and returns a reference",
    ),
    ("vars", "write with `set: {ctx.x: …}`"),
    ("type", "the kind of tool is called `kind`"),
    (
        "policy",
        "it goes under `spec`: `spec: {policy: {rules: […]}}`",
    ),
    ("rules", "they go under `spec.policy.rules`"),
    ("loop", "a loop belongs to the step"),
    (
        "next",
        "arcs belong to the step; within it a rule may `jump`",
    ),
    ("set_ctx", "write with `set: {ctx.x: …}`"),
    ("set_iter", "write with `set: {iter.x: …}`"),
    ("register", "results are read by the task's label"),
    ("label", "write `- <label>: {kind: …}` or `- name: <label>`"),
];

/// Keys of every task and of its `spec` that only another runtime reads.
pub(crate) const TASK_IGNORED: &[&str] = &["tracing"];

/// The keys of a task's `spec` besides those of its kind.
pub(crate) const TASK_SPEC: Keys = &[
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

/// How far a program that a task starts is shut in.
pub(crate) const SANDBOX: Shape<'static> = shape(
    "sandbox",
    &[
        ("level", &[]),
        ("read", &[]),
        ("write", &[]),
        ("network", &[]),
    ],
    &[],
);

/// Limits of a program that a task starts.
pub(crate) const RESOURCES: Shape<'static> = shape(
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

pub(crate) const DEFAULTS: Shape<'static> = shape("defaults", TASK_SPEC, &[]);

pub(crate) const POLICY: Shape<'static> = shape(
    "task policy",
    &[("rules", &[]), ("on_unmatched", &[])],
    &[
        (
            "admit",
            "admission belongs to the step's `spec.policy.admit`",
        ),
        (
            "retry",
            "retry is a rule: `rules: [{when: …, then: {do: retry, attempts: 3}}]`",
        ),
    ],
);

pub(crate) const RULE: Shape<'static> = shape(
    "rule",
    &[("when", &[]), ("then", &[]), ("else", &[]), ("set", &[])],
    &[
        ("expr", "conditions are written as `when`"),
        ("if", "conditions are written as `when`"),
        ("do", "put it under `then: {do: …}`"),
    ],
);

pub(crate) const THEN: Shape<'static> = shape(
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

/// `else` may hold what `then` holds, or a `then` of its own.
pub(crate) const ELSE: Shape<'static> = shape(
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

pub(crate) const RESULT: Shape<'static> = shape(
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

pub(crate) const RESULT_STORE: Shape<'static> = shape(
    "result store",
    &[
        ("kind", &[]),
        ("scope", &[]),
        ("ttl", &[]),
        ("compression", &[]),
    ],
    &[],
);

pub(crate) const SELECT: Shape<'static> = shape("select", &[("path", &[]), ("as", &["name"])], &[]);

pub(crate) const ACCUMULATE: Shape<'static> =
    shape("accumulate", &[("strategy", &[]), ("merge_path", &[])], &[]);

pub(crate) const NEXT: Shape<'static> = shape(
    "next",
    &[("spec", &[]), ("arcs", &[])],
    &[
        (
            "mode",
            "it goes under `spec`: `next: {spec: {mode: inclusive}, arcs: […]}`",
        ),
        ("step", "write `next: {arcs: [{step: …}]}`"),
        (
            "when",
            "guards belong to arcs: `arcs: [{step: …, when: …}]`",
        ),
    ],
);

pub(crate) const NEXT_SPEC: Shape<'static> = shape(
    "next spec",
    &[("mode", &[]), ("policy", &[]), ("on_no_match", &[])],
    &[],
);

pub(crate) const ARC: Shape<'static> = shape(
    "arc",
    &[
        ("step", &[]),
        ("when", &["cond"]),
        ("args", &[]),
        ("set", &[]),
    ],
    &[
        ("if", "guards are written as `when`"),
        ("expr", "guards are written as `when`"),
        ("condition", "guards are written as `when`"),
        ("then", "an arc leads to one step: `{step: …, when: …}`"),
        ("input", "what an arc passes on is called `args`"),
        ("with", "what an arc passes on is called `args`"),
        ("name", "the step an arc leads to is called `step`"),
        ("vars", "write state with `set: {ctx.x: …}`"),
        ("set_ctx", "write state with `set: {ctx.x: …}`"),
    ],
);

pub(crate) const EXECUTOR: Shape<'static> = ignoring(
    shape("executor", &[("kind", &["profile"]), ("spec", &[])], &[]),
    &["version", "requires", "tracing"],
);

pub(crate) const EXECUTOR_SPEC: Shape<'static> = ignoring(EXECUTOR_SPEC_KEYS, &["tracing"]);

const EXECUTOR_SPEC_KEYS: Shape<'static> = shape(
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

pub(crate) const EXECUTOR_POLICY: Shape<'static> = shape(
    "executor policy",
    &[
        ("results", &[]),
        ("limits", &[]),
        ("failure", &[]),
        ("defaults", &[]),
    ],
    &[],
);

pub(crate) const RESULTS: Shape<'static> = shape("results", &[("reference_first", &[])], &[]);

pub(crate) const LIMITS: Shape<'static> = shape(
    "limits",
    &[("max_payload_bytes", &[]), ("max_step_runs", &[])],
    &[],
);
