//! What each event says: one payload type per kind, and the enum over them.
//!
//! User data is carried as [`Raw`] text, so folding a log never parses it.

use serde::{Deserialize, Serialize};

use crate::command::Work;
use crate::event::reuse::{PlacedToken, Rerun};
use crate::id::{ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, TokenId, WorkerId};
use crate::number_range::NumberRange;
use crate::outcome::TaskError;
use crate::playbook::{Backoff, Directive, FailureMode, LoopMode, RouteMode};
use crate::raw::Raw;
use crate::result_ref::ResultRef;
use crate::time::Time;

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
    };
}

/// Nothing beyond the envelope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

payload!(
    /// Someone asked for a run.
    Requested {
        /// The catalog path, or the file's path for local runs.
        path: Name,
        /// The catalog version, 0 where there is none.
        version: u32,
        /// The playbook's text.
        hash: PlaybookHash,
        /// The playbook's workload with the request's payload merged over it.
        workload: Raw,
        /// The execution and task that started this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent: Option<Parent>,
        /// How deep in a tree of sub-playbooks this is.
        #[serde(default)]
        depth: u32,
        /// What was given in place of a random trace id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<Name>,
        /// The run that this one does again, and from where on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rerun: Option<Box<Rerun>>,
    }
);
payload!(
    /// The task that started a child execution.
    Parent {
        /// The parent.
        execution_id: ExecutionId,
        /// Its `task.started` event.
        seq: Seq,
        /// Whether the parent waits for the child's end.
        wait: bool,
        /// The step whose result the parent wants.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        return_step: Option<Name>,
        /// The parent's loop iteration, read-only, as `iter.parent`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iter: Option<Raw>,
    }
);
payload!(
    /// The request was looked at.
    RequestEvaluated {
        /// Whether the run may start. A refused request leaves no log.
        accepted: bool,
    }
);
payload!(
    /// The net has its first tokens.
    WorkflowStarted {
        /// Where the entry token stands.
        entry: Name,
        /// The tokens of a run that begins in the middle; none: one at `entry`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokens: Option<Vec<PlacedToken>>,
    }
);
payload!(
    /// A workflow or playbook came to its end.
    Finished {
        /// Which life of the execution ended.
        generation: u32,
        /// The step whose result is the run's result, and its boundary event.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<ResultPointer>,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
        /// How it ended.
        ended: Ending,
    }
);
/// How an execution ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// As hoped.
    Success,
    /// A failure nothing handled.
    Error,
    /// Someone stopped it.
    Cancelled,
}
payload!(
    /// Where a run's result is found.
    ResultPointer {
        /// The step.
        step: Name,
        /// Its boundary event.
        seq: Seq,
    }
);
payload!(
    /// A request by a person or a parent.
    Note {
        /// Their words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    }
);
payload!(
    /// A new generation of a failed or cancelled run.
    Retried {
        /// The generation that begins.
        generation: u32,
    }
);
payload!(
    /// Something arrived from outside the execution.
    Signal {
        /// Its name. A child's end is named `$child`.
        name: Name,
        /// What it carries; for a child's end, the outcome.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payload: Option<Raw>,
        /// For a child's end: the child, and the task that waits for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        child: Option<ChildEnd>,
    }
);
payload!(
    /// Which child ended, and for whom.
    ChildEnd {
        /// The child.
        execution_id: ExecutionId,
        /// The `task.started` event that waits for it.
        seq: Seq,
    }
);
payload!(
    /// A timer runs.
    TimerSet {
        /// When it fires.
        due: Time,
        /// What it is for.
        purpose: TimerPurpose,
    }
);
/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimerPurpose {
    /// A retry's delay is over.
    Retry,
    /// A `wait` task is over.
    Wait,
    /// A step has had its time.
    StepTimeout,
    /// Workers have had time enough to stop.
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
    /// A step's admission rules gave another answer than before.
    AdmitEvaluated {
        /// Whether the token may enter.
        allow: bool,
        /// The rule that decided; none where no rule matched.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        matched_rule_index: Option<u32>,
        /// The tokens that asked.
        tokens: Vec<TokenId>,
        /// Whether they are given up: nothing is left that could change the answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        discarded: bool,
        /// Why the rules could not be evaluated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
payload!(
    /// A step's tokens are taken: the step will run.
    StepScheduled {
        /// The tokens taken, oldest first.
        tokens: Vec<TokenId>,
        /// Their arguments, merged in order of arrival.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Raw>,
        /// Each token's own arguments, where several met.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args_from: Option<Raw>,
        /// Whether this is the run of `final_step`.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_final: bool,
    }
);
payload!(
    /// A step ended and its arcs were looked at.
    NextEvaluated {
        /// How many arcs may fire.
        mode: RouteMode,
        /// The arcs whose guards held.
        matched: Vec<MatchedArc>,
        /// The tokens made, one each.
        selected: Vec<SelectedArc>,
        /// Each guard in YAML order: its value, or null where it was not evaluated.
        guards: Vec<Option<bool>>,
        /// Whether this is a failure that no arc handles.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
        /// Why routing itself failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
payload!(
    /// An arc whose guard held.
    MatchedArc {
        /// Where it leads.
        step: Name,
        /// The guard as written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<String>,
    }
);
payload!(
    /// An arc that fired.
    SelectedArc {
        /// Where it leads.
        step: Name,
        /// The token's arguments.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        args: Option<Raw>,
    }
);
payload!(
    /// Execution state changed.
    CtxPatched {
        /// The keys written, with values or reducers.
        patch: Raw,
    }
);
payload!(
    /// Work is offered.
    CommandIssued {
        /// What to run.
        work: Work,
        /// Counts the offers of the same work from 1.
        dispatch: u32,
        /// Who may take it.
        pool: Name,
    }
);
payload!(
    /// A worker took a command.
    CommandClaimed {
        /// The `command.issued` event.
        command: Seq,
        /// Who took it.
        worker: WorkerId,
        /// How often it has been taken.
        lease_epoch: LeaseEpoch,
    }
);
payload!(
    /// A command's holder is gone.
    CommandExpired {
        /// The `command.issued` event.
        command: Seq,
        /// The claim that ended.
        lease_epoch: LeaseEpoch,
        /// How many workers died while they ran its current task; of several iterations, whether one did.
        strikes: u32,
        /// Whether the holder gave it back, rather than died.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        released: bool,
    }
);
payload!(
    /// A command is given up.
    CommandFailed {
        /// The `command.issued` event.
        command: Seq,
        /// Why.
        error: TaskError,
    }
);
/// A step ended well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepDone {
    /// The addresses of the manifests that list what its tasks collected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<String>,
}
payload!(
    /// A step or iteration failed.
    Failed {
        /// Why.
        error: TaskError,
        /// Writes to `ctx` made before the failure, where they ride with the iteration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<Raw>,
    }
);
payload!(
    /// A task began.
    TaskStarted {
        /// The rendered input, capped, secrets masked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        inputs: Option<Raw>,
        /// What the call asks of whom (url, parameters, command, statement), capped, secrets masked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Raw>,
        /// What the task waits for with its slot freed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        awaits: Option<Box<Awaits>>,
    }
);
/// What an event of a task writes, by target.
#[derive(Debug, Clone, Copy, Default)]
pub struct Written<'e> {
    /// To the iteration.
    pub iter: Option<&'e Raw>,
    /// To the execution.
    pub ctx: Option<&'e Raw>,
    /// To the pipeline.
    pub local: Option<&'e Raw>,
}

/// What a suspended task waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Awaits {
    /// The end of a child execution.
    Child(ChildStart),
    /// A time, a signal, or whichever comes first.
    Wait(WaitFor),
}
payload!(
    /// A child execution to start.
    ChildStart {
        /// The playbook's path, or a file beside the parent's.
        path: String,
        /// The catalog version; the latest if none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<u32>,
        /// The child's payload.
        input: Raw,
        /// The step whose result is wanted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        return_step: Option<Name>,
        /// Whether the task ends with the child.
        wait: bool,
        /// The iteration it is started from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        iter: Option<Raw>,
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
        /// Whether reaching `until` is a failure (a timeout) or the purpose.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        times_out: bool,
    }
);
payload!(
    /// One try of a task ended.
    AttemptEnded {
        /// How.
        outcome: Raw,
        /// Where its body lives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_ref: Option<Box<ResultRef>>,
    }
);
payload!(
    /// A task ended: its outcome, and what its policy made of it.
    TaskEnded {
        /// How it ended.
        outcome: Raw,
        /// Where its body lives.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result_ref: Option<Box<ResultRef>>,
        /// The policy rule that matched, if one did.
        matched_rule_index: Option<u32>,
        /// Where the pipeline goes now.
        #[serde(rename = "do")]
        directive: Directive,
        /// The label jumped to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Name>,
        /// Writes to the iteration.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_iter: Option<Raw>,
        /// Writes to the execution.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<Raw>,
        /// Writes to the pipeline.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<Raw>,
    }
);
payload!(
    /// A policy rule sent the pipeline elsewhere than to the next task.
    PolicyEvaluated {
        /// The rule that matched, if one did.
        matched_rule_index: Option<u32>,
        /// What it says.
        action: Action,
        /// Writes to the iteration, by a rule that asks for another try.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_iter: Option<Raw>,
        /// Writes to the execution, by such a rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<Raw>,
        /// Writes to the pipeline, by such a rule.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<Raw>,
    }
);
payload!(
    /// A policy's action with its values filled in.
    Action {
        /// The directive.
        #[serde(rename = "do")]
        directive: Directive,
        /// How many tries there are in all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempts: Option<u32>,
        /// How the delay grows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backoff: Option<Backoff>,
        /// Seconds before the next try.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        delay: Option<f64>,
        /// The label jumped to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Name>,
        /// Whether the slot is freed for the delay.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        suspend: bool,
    }
);
payload!(
    /// A loop's collection is fixed.
    LoopStarted {
        /// How many elements.
        total: u64,
        /// One after the other, or several at once.
        mode: LoopMode,
        /// How many at once.
        max_in_flight: u32,
        /// What a failed iteration means.
        failure: FailureMode,
        /// Whether one worker takes the whole loop.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        local: bool,
        /// The elements.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        collection: Option<Raw>,
        /// Where the elements live when they are too large for the log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        collection_ref: Option<Box<ResultRef>>,
        /// The elements as a rule, where they are the numbers of a range.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<NumberRange>,
        /// The sha256 of the elements' JSON text; of a range, the sha256 of its rule's JSON text.
        sha256: String,
        /// The `step.reused` event of this log that says which iterations were taken over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reused: Option<Seq>,
        /// Whether more rows are claimed when these are through.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    }
);
payload!(
    /// A cursor loop goes on over the next rows; none were left if it claimed none.
    FrameClaimed {
        /// The index of the first row.
        from: u64,
        /// How many rows.
        rows: u64,
        /// Where the rows live.
        collection_ref: Box<ResultRef>,
    }
);
payload!(
    /// A range of iterations is offered.
    IterationScheduled {
        /// The first index.
        from: u64,
        /// One past the last index.
        to: u64,
        /// How many of them may run at once.
        width: u32,
    }
);
payload!(
    /// An iteration ended well.
    IterationDone {
        /// Writes to `ctx`, which apply together when the loop is done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set_ctx: Option<Raw>,
    }
);
payload!(
    /// Every iteration of a loop is accounted for.
    LoopDone {
        /// The counts.
        stats: LoopStats,
        /// The results in index order, where they fit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        results: Option<Raw>,
        /// The address of the manifest that lists the results, as `step.done` names those of its tasks.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        manifests: Vec<String>,
    }
);
/// How a loop's iterations ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoopStats {
    /// All of them.
    pub total: u64,
    /// Those that ended well.
    pub succeeded: u64,
    /// Those that failed.
    pub failed: u64,
}
payload!(
    /// A body was stored.
    ResultStored {
        /// Where.
        result_ref: Box<ResultRef>,
    }
);
payload!(
    /// An asynchronous batch moved on.
    Batch {
        /// The request.
        request_id: Name,
        /// How many events it holds.
        events: u32,
        /// Why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TaskError>,
    }
);
