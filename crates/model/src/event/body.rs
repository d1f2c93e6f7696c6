//! Payloads of events, one type per kind. User data is [`RawJson`] text, so folding a log never parses it.

use serde::{Deserialize, Serialize};

use crate::command::CommandWork;
use crate::event::reuse::{InitialToken, RerunOrigin};
use crate::id::{ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, TokenId, WorkerId};
use crate::labels::Labels;
use crate::number_range::NumberRange;
use crate::outcome::TaskError;
use crate::playbook::{Backoff, Directive, FailureMode, LoopMode, RouteMode};
use crate::raw::RawJson;
use crate::result_ref::ResultRef;
use crate::time::Time;

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
    };
}

/// An empty payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EmptyPayload {}

payload!(
    /// A run was requested.
    ExecutionRequested {
        /// The catalog path, or the file's path for local runs.
        path: Name,
        /// The catalog version, or 0 for a local run.
        version: u32,
        /// The hash of the playbook's text.
        hash: PlaybookHash,
        /// The playbook's workload with the request's payload merged over it.
        workload: RawJson,
        /// The execution and task that started this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<ParentTask>,
        /// The depth in the tree of sub-playbooks.
        #[serde(default)]
        depth: u32,
        /// The trace id from the request; `None` means one derived from the execution id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<Name>,
        /// The run that this one reruns, and its first step that runs again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rerun: Option<Box<RerunOrigin>>,
        /// The labels of the playbook, with those of the request over them.
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        labels: Labels,
    }
);
payload!(
    /// The task that started a child execution.
    ParentTask {
        /// The parent.
        execution_id: ExecutionId,
        /// Its `task.started` event.
        seq: Seq,
        /// Whether the parent waits for the child to end.
        wait: bool,
        /// The step whose result the parent uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        return_step: Option<Name>,
        /// The parent's loop iteration, read-only, as `iter.parent`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iter: Option<RawJson>,
    }
);
payload!(
    /// The request was checked.
    RequestEvaluated {
        /// Whether the run may start. A rejected request leaves no log.
        accepted: bool,
    }
);
payload!(
    /// The first tokens were created.
    WorkflowStarted {
        /// The step of the entry token.
        entry: Name,
        /// The tokens of a rerun that starts from a step; `None` means one token at `entry`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<Vec<InitialToken>>,
    }
);
payload!(
    /// A workflow or playbook ended.
    ExecutionFinished {
        /// The generation that ended; 1 unless the run was retried.
        generation: u32,
        /// The step whose result is the run's result, and its boundary event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<ResultPointer>,
        /// The error of a failed run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
        /// How it ended.
        ended: EndStatus,
    }
);
/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EndStatus {
    /// It succeeded.
    Success,
    /// It failed with an error that no arc handled.
    Error,
    /// It was cancelled.
    Cancelled,
}
payload!(
    /// Location of a run's result.
    ResultPointer {
        /// The step.
        step: Name,
        /// Its boundary event.
        seq: Seq,
    }
);
payload!(
    /// A control request by a user or a parent run.
    ControlNote {
        /// The reason given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
);
payload!(
    /// A failed or cancelled run was retried.
    ExecutionRetried {
        /// The generation that starts.
        generation: u32,
    }
);
payload!(
    /// A signal or the end of a child run arrived.
    SignalReceived {
        /// Its name; `$child` for the end of a child run.
        name: Name,
        /// Its data; for a child run, the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<RawJson>,
        /// For a child run: the child and the task that waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<ChildEnd>,
    }
);
payload!(
    /// A child run that ended, and the task that waits for it.
    ChildEnd {
        /// The child.
        execution_id: ExecutionId,
        /// The `task.started` event that waits for it.
        seq: Seq,
    }
);
payload!(
    /// A timer was set.
    TimerSet {
        /// When it fires.
        due: Time,
        /// The purpose of the timer.
        purpose: TimerPurpose,
    }
);
/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerPurpose {
    /// Ends the delay of a retry.
    Retry,
    /// Ends a `wait` task.
    Wait,
    /// Ends a step that exceeds its timeout.
    StepTimeout,
    /// Ends the grace period in which workers stop their tasks.
    StopGrace,
}
payload!(
    /// A timer fired.
    TimerFired {
        /// The `timer.set` event.
        timer: Seq,
    }
);
payload!(
    /// The admission rules of a step gave another result than before.
    AdmitEvaluated {
        /// Whether the token may enter.
        allow: bool,
        /// The rule that matched, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matched_rule_index: Option<u32>,
        /// The tokens that wait for admission.
        tokens: Vec<TokenId>,
        /// Whether the tokens are discarded because nothing can change the result any more.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discarded: bool,
        /// Why the rules could not be evaluated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
payload!(
    /// A step consumed its tokens and will run.
    StepScheduled {
        /// The consumed tokens, oldest first.
        tokens: Vec<TokenId>,
        /// Their arguments, merged in order of arrival.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<RawJson>,
        /// The arguments of each token, if there are several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args_from: Option<RawJson>,
        /// Whether this is the run of `final_step`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_final: bool,
    }
);
payload!(
    /// A step ended and its arcs were evaluated.
    NextEvaluated {
        /// Whether one or all matching arcs are selected.
        mode: RouteMode,
        /// The arcs whose conditions are true.
        matched: Vec<MatchedArc>,
        /// The selected arcs; each creates one token.
        selected: Vec<SelectedArc>,
        /// The value of each condition in YAML order; null if it was not evaluated.
        guards: Vec<Option<bool>>,
        /// Whether this is a failure that no arc handles.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
        /// The error, if evaluating the arcs failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
payload!(
    /// An arc whose condition is true.
    MatchedArc {
        /// Its target step.
        step: Name,
        /// The condition as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<String>,
    }
);
payload!(
    /// A selected arc.
    SelectedArc {
        /// Its target step.
        step: Name,
        /// The token's arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<RawJson>,
    }
);
payload!(
    /// `ctx` changed.
    CtxPatched {
        /// The written keys, with values or reducers.
        patch: RawJson,
    }
);
payload!(
    /// Work was offered to workers.
    CommandIssued {
        /// The work to do.
        work: CommandWork,
        /// Counts the offers of the same work from 1.
        dispatch: u32,
        /// The pool whose workers may claim it.
        pool: Name,
    }
);
payload!(
    /// A worker claimed a command.
    CommandClaimed {
        /// The `command.issued` event.
        command: Seq,
        /// The worker.
        worker: WorkerId,
        /// The number of claims of this command so far.
        lease_epoch: LeaseEpoch,
    }
);
payload!(
    /// A worker's claim on a command ended before the work did.
    CommandExpired {
        /// The `command.issued` event.
        command: Seq,
        /// The claim that ended.
        lease_epoch: LeaseEpoch,
        /// The number of workers that died while they ran its current task; for several iterations, 1 if one died.
        strikes: u32,
        /// Whether the worker released the command, rather than died.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        released: bool,
    }
);
payload!(
    /// A command failed permanently.
    CommandFailed {
        /// The `command.issued` event.
        command: Seq,
        /// The error.
        error: TaskError,
    }
);
/// A step succeeded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDone {
    /// The addresses of the manifests that list the results its tasks accumulated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
}
payload!(
    /// A step or iteration failed.
    FailurePayload {
        /// The error.
        error: TaskError,
        /// Writes to `ctx` made before an iteration failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<RawJson>,
    }
);
payload!(
    /// A task started.
    #[derive(Default)]
    TaskStarted {
        /// The rendered input, shortened, with secrets masked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<RawJson>,
        /// The request the task makes (URL, parameters, command, statement), shortened, with secrets masked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RawJson>,
        /// What a suspended task waits for; its slot is free meanwhile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaits: Option<Box<AwaitTarget>>,
        /// The rendered `approval` of a task that waits for one: what a person decides, with secrets masked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approval: Option<RawJson>,
    }
);
/// What a suspended task waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AwaitTarget {
    /// The end of a child run.
    Child(ChildStart),
    /// A time, a signal, or the earlier of both.
    Wait(WaitFor),
}
payload!(
    /// A child run to start.
    ChildStart {
        /// The playbook's path, or a file next to the parent's.
        path: String,
        /// The catalog version; `None` means the latest.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
        /// The child's payload.
        input: RawJson,
        /// The step whose result the parent uses.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        return_step: Option<Name>,
        /// Whether the task waits for the child to end.
        wait: bool,
        /// The iteration that starts it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iter: Option<RawJson>,
    }
);
payload!(
    /// What a `wait` task waits for.
    WaitFor {
        /// The time at which it ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// The signal that ends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<Name>,
        /// Whether reaching `until` is a timeout, not the purpose of the wait.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        times_out: bool,
    }
);
payload!(
    /// An attempt of a task ended.
    AttemptEnded {
        /// The outcome.
        outcome: RawJson,
        /// Location of its body, if stored outside the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_ref: Option<Box<ResultRef>>,
    }
);
payload!(
    /// A task ended: its outcome and the action of its policy.
    TaskEnded {
        /// The outcome.
        outcome: RawJson,
        /// Location of its body, if stored outside the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_ref: Option<Box<ResultRef>>,
        /// The policy rule that matched, if any.
        matched_rule_index: Option<u32>,
        /// The action that the pipeline takes next.
        #[serde(rename = "do")]
        directive: Directive,
        /// The label to jump to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Name>,
        /// Writes to the iteration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_iter: Option<RawJson>,
        /// Writes to the execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<RawJson>,
        /// Writes to the pipeline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<RawJson>,
    }
);
impl TaskEnded {
    /// Returns the end of a task without writes and without a body outside the log.
    pub fn new(outcome: RawJson, directive: Directive) -> Self {
        Self {
            outcome,
            result_ref: None,
            matched_rule_index: None,
            directive,
            to: None,
            set_iter: None,
            set_ctx: None,
            set: None,
        }
    }
}
payload!(
    /// A policy rule chose another action than to continue with the next task.
    PolicyEvaluated {
        /// The rule that matched, if any.
        matched_rule_index: Option<u32>,
        /// The action of the rule.
        action: PolicyAction,
        /// Writes to the iteration, by a rule that retries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_iter: Option<RawJson>,
        /// Writes to the execution, by a rule that retries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<RawJson>,
        /// Writes to the pipeline, by a rule that retries.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<RawJson>,
    }
);
payload!(
    /// A policy's action with its values.
    PolicyAction {
        /// The directive.
        #[serde(rename = "do")]
        directive: Directive,
        /// The maximum number of attempts, including the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
        /// How the delay grows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backoff: Option<Backoff>,
        /// Seconds before the next attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<f64>,
        /// The label to jump to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Name>,
        /// Whether the worker's slot is freed during the delay.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        suspend: bool,
    }
);
payload!(
    /// A loop started over a fixed collection.
    LoopStarted {
        /// The number of items.
        total: u64,
        /// Sequential or parallel.
        mode: LoopMode,
        /// The maximum number of iterations at once.
        max_in_flight: u32,
        /// What happens when an iteration fails.
        failure: FailureMode,
        /// Whether one worker runs the whole loop.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        local: bool,
        /// The items.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        collection: Option<RawJson>,
        /// Location of the items, if they are too large for the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        collection_ref: Option<Box<ResultRef>>,
        /// The range, if the items are the numbers of one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<NumberRange>,
        /// The sha256 of the items' JSON text; for a range, of the JSON text of the range.
        sha256: String,
        /// The `step.reused` event of this log that lists the reused iterations.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reused: Option<Seq>,
        /// Whether the loop claims more rows after these.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    }
);
payload!(
    /// A cursor loop claimed its next rows; if there are none, the cursor is exhausted.
    FrameClaimed {
        /// The index of the first row.
        from: u64,
        /// The number of rows.
        rows: u64,
        /// Location of the rows.
        collection_ref: Box<ResultRef>,
    }
);
payload!(
    /// A range of iterations was offered to workers.
    IterationScheduled {
        /// The first index.
        from: u64,
        /// One past the last index.
        to: u64,
        /// The maximum number of them at once.
        width: u32,
    }
);
payload!(
    /// An iteration succeeded.
    IterationDone {
        /// Writes to `ctx`; they are applied together when the loop is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<RawJson>,
    }
);
payload!(
    /// All iterations of a loop ended.
    LoopDone {
        /// The number of iterations by result.
        stats: LoopStats,
        /// The results in index order, if they fit into the event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<RawJson>,
        /// The address of the manifest that lists the results; `step.done` has those of the step's tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        manifests: Vec<String>,
    }
);
/// The number of iterations of a loop, by result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStats {
    /// All iterations.
    pub total: u64,
    /// Iterations that succeeded.
    pub succeeded: u64,
    /// Iterations that failed.
    pub failed: u64,
}
payload!(
    /// A body was stored.
    ResultStored {
        /// Location of the body.
        result_ref: Box<ResultRef>,
    }
);
payload!(
    /// An asynchronous batch of events changed its state.
    BatchProgress {
        /// The request id of the batch.
        request_id: Name,
        /// The number of events in it.
        events: u32,
        /// The error of a failed batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
