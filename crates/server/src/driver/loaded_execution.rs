//! One execution in memory, with its queued inputs and the data that is not durable yet.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Decision, ExecutionState, Input, PlaybookNet, PlaybookSwitch, StopReason};
use language::template::LoadedValues;
use model::command::Fence;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, Seq, StepRunId};
use serde_json::{Map, Value};
use store::Priority;
use wire::{ExecutionContext, Verdict};

use crate::driver::commit_stage::CommitStage;
use crate::driver::effect::Ticket;
use crate::driver::queued_input::{DecidedInput, QueuedInput};
use crate::loading::{FoldedExecution, UnconfirmedCommit};

/// How many recent events stay in memory for templates.
const RECENT_EVENTS_MAX: usize = 512;

/// Steps with more arcs are decided on a thread of their own, because evaluating their conditions would delay other
/// executions.
const WIDE_STEP_ARCS: usize = 64;

/// One execution that the driver works on.
pub(super) struct LoadedExecution {
    /// Inputs not decided yet.
    pub(super) queue: VecDeque<QueuedInput>,
    pub(super) stage: Stage,
}

/// What the driver has of an execution.
pub(super) enum Stage {
    /// Its log is being loaded, or will be after a pause. Until then, nothing may be decided, assigned or built.
    Loading(Ticket, Recovery),
    /// Its inputs can be decided.
    Open(Box<OpenExecution>),
}

/// What a load must find out because of commits that failed.
#[derive(Default)]
pub(super) struct Recovery {
    /// Whether a commit was rejected because a claim it depends on had expired.
    pub(super) is_fenced: bool,
    /// Commits whose outcome is unknown.
    pub(super) unconfirmed: Vec<UnconfirmedCommit>,
    /// Whether to check for offered commands after the load, because a failed commit had assigned some.
    pub(super) needs_reoffer: bool,
}

/// An execution whose inputs can be decided.
#[derive(Default)]
pub(super) struct OpenExecution {
    /// `None` until its submission is decided.
    pub(super) progress: Option<ExecutionProgress>,
    pub(super) decision: DecisionStage,
    pub(super) commit: CommitStage,
    /// Whether the latest decision was so slow that the next one gets a thread of its own.
    pub(super) is_slow: bool,
    /// Last seq that a snapshot covers.
    pub(super) snapshot_seq: Seq,
    recent_events: VecDeque<Event>,
    /// The latest context, and the latest context of a loop that sees an older `ctx`.
    contexts: [Option<(ContextKey, Arc<ExecutionContext>)>; 2],
}

/// Net and state of an execution, including decisions that are not durable yet.
pub(super) struct ExecutionProgress {
    pub(super) net: Arc<PlaybookNet>,
    pub(super) state: ExecutionState,
}

/// What happens to the first input in the queue.
pub(super) enum DecisionStage {
    /// It can be decided, with these values.
    Ready(LoadedValues),
    /// Values for it are being loaded, or will be after a pause.
    LoadingNeeds(Ticket),
    /// It waits for the commit that is collected or written, because it may need data of that commit or continues it.
    WaitingForCommit(LoadedValues),
    /// A thread of its own decides it, with these values.
    OnThread(Ticket, LoadedValues),
}

impl Default for DecisionStage {
    fn default() -> Self {
        Self::Ready(LoadedValues::default())
    }
}

impl DecisionStage {
    /// Makes the first input wait for a commit.
    pub(super) fn wait_for_commit(&mut self) {
        *self = Self::WaitingForCommit(self.take_values());
    }

    /// Lets the first input be decided if it waits for a commit.
    pub(super) fn resume_after_commit(&mut self) {
        if matches!(self, Self::WaitingForCommit(_)) {
            *self = Self::Ready(self.take_values());
        }
    }

    /// Takes the values loaded for the first input.
    pub(super) fn take_values(&mut self) -> LoadedValues {
        match self {
            Self::Ready(values) | Self::WaitingForCommit(values) | Self::OnThread(_, values) => std::mem::take(values),
            Self::LoadingNeeds(_) => LoadedValues::default(),
        }
    }
}

/// Everything that a context depends on.
#[derive(PartialEq)]
struct ContextKey {
    ctx_seq: Seq,
    boundary: Option<Seq>,
    run: Option<StepRunId>,
}

impl LoadedExecution {
    /// An execution that is submitted for the first time.
    pub(super) fn unsubmitted(queue: VecDeque<QueuedInput>) -> Self {
        Self {
            queue,
            stage: Stage::Open(Box::default()),
        }
    }

    /// The open execution, unless its log is being loaded.
    pub(super) fn open(&self) -> Option<&OpenExecution> {
        match &self.stage {
            Stage::Open(open) => Some(open),
            Stage::Loading(..) => None,
        }
    }

    pub(super) fn open_mut(&mut self) -> Option<&mut OpenExecution> {
        match &mut self.stage {
            Stage::Open(open) => Some(open),
            Stage::Loading(..) => None,
        }
    }

    /// State of the execution, if it is in memory.
    pub(super) fn state(&self) -> Option<&ExecutionState> {
        self.open()?.state()
    }

    /// Whether the execution waits for this load or decision.
    pub(super) fn waits_for(&self, ticket: Ticket) -> bool {
        match &self.stage {
            Stage::Loading(current, _) => *current == ticket,
            Stage::Open(open) => match &open.decision {
                DecisionStage::LoadingNeeds(current) | DecisionStage::OnThread(current, _) => *current == ticket,
                DecisionStage::Ready(_) | DecisionStage::WaitingForCommit(_) => false,
            },
        }
    }

    /// Whether nothing is queued, loading or being committed.
    pub(super) fn is_idle(&self) -> bool {
        let is_durable = |open: &OpenExecution| open.commit.is_clean();
        self.queue.is_empty() && self.open().is_some_and(is_durable)
    }

    /// Whether a thread of its own decides the first input.
    fn is_deciding_on_thread(&self) -> bool {
        self.open()
            .is_some_and(|open| matches!(open.decision, DecisionStage::OnThread(..)))
    }

    /// Queues an input. A cancellation is queued before the continuation of a long decision, which may repeat without
    /// end.
    pub(super) fn enqueue(&mut self, queued: QueuedInput) {
        let in_decision = usize::from(self.is_deciding_on_thread());
        let mut undecided = self.queue.iter().skip(in_decision);
        let continuation = undecided.position(|other| matches!(other.input, Input::Continue));
        match continuation {
            Some(position) if matches!(queued.input, Input::Cancel(_)) => {
                self.queue.insert(in_decision + position, queued);
            }
            _ => self.queue.push_back(queued),
        }
    }

    /// Queues the continuation of a decision before all other inputs except cancellations.
    pub(super) fn enqueue_continuation(&mut self) {
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (cancellations, other_inputs): (Vec<_>, Vec<_>) =
            inputs.partition(|queued| matches!(queued.input, Input::Cancel(_)));
        self.queue.extend(cancellations);
        self.queue.push_back(QueuedInput::new(Input::Continue));
        self.queue.extend(other_inputs);
    }

    /// Moves control requests to the front of the queue: on a full disk, only they can be committed. The submission of
    /// an execution stays first.
    pub(super) fn put_control_first(&mut self) {
        if self.is_new() {
            return;
        }
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (control, other_inputs): (Vec<_>, Vec<_>) =
            inputs.partition(|queued| queued.priority() == Priority::Control);
        self.queue.extend(control);
        self.queue.extend(other_inputs);
    }

    /// Whether the execution is still being submitted.
    pub(super) fn is_new(&self) -> bool {
        let first = self.queue.front().map(|queued| &queued.input);
        matches!(first, Some(Input::Submit(_)))
    }

    /// Removes and returns the queued inputs whose claims have expired.
    pub(super) fn take_fenced(&mut self, claims: &[Fence]) -> Vec<QueuedInput> {
        let is_expired = |command, lease_epoch| !claims.contains(&Fence { command, lease_epoch });
        let is_fenced = |queued: &QueuedInput| match &queued.input {
            Input::Report(report) => is_expired(report.command, report.lease_epoch),
            Input::ClaimLost {
                command, lease_epoch, ..
            } => is_expired(*command, *lease_epoch),
            _ => false,
        };
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (fenced, other_inputs): (Vec<_>, Vec<_>) = inputs.partition(is_fenced);
        self.queue.extend(other_inputs);
        fenced
    }
}

impl OpenExecution {
    /// An execution that was loaded from its log.
    pub(super) fn from_log(folded: FoldedExecution) -> Self {
        let skip = folded.recent_events.len().saturating_sub(RECENT_EVENTS_MAX);
        Self {
            progress: Some(ExecutionProgress {
                net: folded.net,
                state: folded.state,
            }),
            snapshot_seq: folded.snapshot_seq,
            recent_events: folded.recent_events.into_iter().skip(skip).collect(),
            ..Self::default()
        }
    }

    pub(super) fn state(&self) -> Option<&ExecutionState> {
        Some(&self.progress.as_ref()?.state)
    }

    /// Whether the next decision may be slow enough to delay other executions.
    pub(super) fn needs_thread(&self) -> bool {
        let is_wide = |progress: &ExecutionProgress| progress.net.step_arcs_max() > WIDE_STEP_ARCS;
        self.is_slow || self.progress.as_ref().is_some_and(is_wide)
    }

    /// Whether the commit of an input may use the space that is reserved for control requests: a control request may,
    /// and so may every input of an execution that was cancelled or finalized.
    pub(super) fn priority(&self, queued: &QueuedInput) -> Priority {
        let stop = self.state().and_then(|state| state.stop.as_ref());
        match stop.map(|stop| stop.reason) {
            Some(StopReason::Cancelled | StopReason::Finalized(_)) => Priority::Control,
            Some(StopReason::Failed) | None => queued.priority(),
        }
    }

    /// Whether an input may be added to the collected commit: both must have the same priority, because the priority
    /// of a commit decides which space it may use.
    pub(super) fn may_join_commit(&self, queued: &QueuedInput) -> bool {
        let collected = self.commit.collected();
        collected.is_none_or(|collected| collected.commit.priority == self.priority(queued))
    }

    /// The net that an input is decided with. A submission carries its own net; a retry may switch to another one.
    pub(super) fn decision_net(&self, queued: &QueuedInput) -> Option<Arc<PlaybookNet>> {
        let attachments = &queued.attachments;
        match (&queued.input, &attachments.switch) {
            (Input::Submit(_), _) => attachments.net.clone(),
            (Input::Retry { .. }, Some(to)) => Some(to.net.clone()),
            _ => Some(self.progress.as_ref()?.net.clone()),
        }
    }

    /// The input as the engine decides it: a retry with another playbook version names the present one.
    pub(super) fn decision_input(&self, queued: &QueuedInput) -> Input {
        let attachments = &queued.attachments;
        match (&queued.input, &attachments.switch, &self.progress) {
            (Input::Retry { .. }, Some(to), Some(progress)) => Input::Retry {
                switch: Some(Box::new(PlaybookSwitch {
                    version: to.entry.version,
                    hash: to.entry.hash.clone(),
                    previous: progress.net.playbook.clone(),
                })),
            },
            (input, ..) => input.clone(),
        }
    }

    /// Adds a repeated submission to the commit of the first one. Returns the submission if that commit is durable.
    pub(super) fn join_submission(&mut self, queued: QueuedInput) -> Option<QueuedInput> {
        let decided: DecidedInput = queued.into_decided();
        self.commit.join_latest(decided).map(|decided| decided.queued_input)
    }

    /// Retains the events of a decision in memory, because the store does not have them yet.
    pub(super) fn add_recent_events(&mut self, decision: &Decision) {
        self.recent_events.extend(decision.events.iter().cloned());
        while self.recent_events.len() > RECENT_EVENTS_MAX && !self.commit.is_writing() {
            self.recent_events.pop_front();
        }
    }

    /// Returns a recent event.
    pub(super) fn recent_event(&self, seq: Seq) -> Option<&Event> {
        let first = self.recent_events.front()?.seq;
        let index = usize::try_from(seq.0.checked_sub(first.0)?).ok()?;
        self.recent_events.get(index)
    }

    /// Returns the seq of a recent event.
    pub(super) fn seq_of(&self, id: EventId) -> Option<Seq> {
        let recent = self.recent_events.iter().find(|event| event.event_id == id);
        recent.map(|event| event.seq)
    }

    /// Returns the execution's data for the workers of a step run. The value is shared until `ctx` or a step's result
    /// changes.
    pub(super) fn context(&mut self, run: &StepRunId) -> Option<Arc<ExecutionContext>> {
        let state = &self.progress.as_ref()?.state;
        let ctx = state.ctx_of(run);
        // A parallel loop keeps the `ctx` of its start.
        let is_fixed = !Arc::ptr_eq(ctx, &state.ctx);
        let key = ContextKey {
            ctx_seq: state.ctx_seq,
            boundary: state.last_boundary.as_ref().map(|pointer| pointer.seq),
            run: is_fixed.then(|| run.clone()),
        };
        let contexts = &mut self.contexts[usize::from(is_fixed)];
        if let Some((cached_key, context)) = contexts
            && *cached_key == key
        {
            return Some(context.clone());
        }
        let context = Arc::new(build_context(state, ctx));
        *contexts = Some((key, context.clone()));
        Some(context)
    }

    /// What the holder of a command must do next.
    pub(super) fn verdict(&self, command: Seq) -> Verdict {
        let Some(state) = self.state() else {
            return Verdict::Stop;
        };
        if state.stop.is_some() || state.is_ended() {
            return Verdict::Stop;
        }
        let Some(live) = state.commands.get(&command) else {
            return Verdict::Stop;
        };
        let run = state.run(&live.run);
        let stopped = run
            .and_then(|run| run.loop_.as_ref())
            .is_some_and(engine::LoopRun::is_stopped);
        if state.paused || stopped {
            Verdict::Yield
        } else {
            Verdict::Proceed
        }
    }

    /// The live commands of this execution.
    pub(super) fn live_commands(&self, execution: ExecutionId) -> Vec<CommandId> {
        let live = self.state().into_iter().flat_map(|state| state.commands.keys());
        live.map(|seq| CommandId { execution, seq: *seq }).collect()
    }
}

fn build_context(state: &ExecutionState, ctx: &Map<String, Value>) -> ExecutionContext {
    let workload = state.workload.clone();
    let mut context = ExecutionContext::new(state.execution, state.path.clone(), workload);
    context.ctx_seq = state.ctx_seq;
    context.version = state.version;
    context.parent_execution_id = state.parent.as_ref().map(|parent| parent.execution_id);
    context.parent_iter = state.parent.as_ref().and_then(|parent| parent.iter.clone());
    context.ctx = model::raw::RawJson::from_serializable(ctx);
    let latest = state
        .steps
        .iter()
        .filter_map(|(name, step)| Some((name.clone(), step.latest.clone()?)));
    context.steps = latest.collect();
    context
}
