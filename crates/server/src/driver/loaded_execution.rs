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
use tokio::sync::oneshot;
use wire::{ExecutionContext, Verdict};

use crate::driver::handle::{InputAttachments, InputError, InputReply, input_priority};
use crate::driver::pending_commit::PendingCommit;
use crate::loading::{EventPosition, UnconfirmedCommit};

/// How many recent events stay in memory for templates.
const RECENT_EVENTS_MAX: usize = 512;

/// Steps with more arcs are decided on a thread of their own, because evaluating their conditions would delay other
/// executions.
const WIDE_STEP_ARCS: usize = 64;

/// One execution in memory.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is independent of the others"
)]
pub(super) struct LoadedExecution {
    /// Net of the playbook; `None` until it is loaded.
    pub(super) net: Option<Arc<PlaybookNet>>,
    pub(super) state: Option<ExecutionState>,
    /// Inputs not decided yet.
    pub(super) queue: VecDeque<QueuedInput>,
    /// Data loaded for the first input in the queue.
    pub(super) loaded: LoadedValues,
    /// Whether data is being loaded for the first input or for the slot itself.
    pub(super) is_loading: bool,
    /// Incremented when the execution is loaded again; results of earlier loads are then ignored.
    pub(super) load_number: u64,
    /// Whether the first input must wait for the commit being written, because it may need data of that commit or
    /// continues it.
    pub(super) is_waiting_for_commit: bool,
    /// The decision about the first input, if a thread of its own is making it.
    pub(super) decision_in_progress: Option<DecisionId>,
    /// Whether the latest decision was so slow that the next one gets a thread of its own.
    pub(super) is_slow: bool,
    /// Decisions that were not passed to the store yet.
    pub(super) pending_commit: Option<PendingCommit>,
    /// Inputs of the commit that the store is writing; they are queued again if it fails.
    pub(super) committing: Option<Vec<DecidedInput>>,
    /// Whether a commit was rejected because a claim it depends on had expired.
    pub(super) is_fenced: bool,
    /// Commits whose outcome is unknown.
    pub(super) unconfirmed: Vec<UnconfirmedCommit>,
    /// Whether to check for offered commands after the next load, because a failed commit had assigned some.
    pub(super) needs_reoffer: bool,
    /// Last seq that a snapshot covers.
    pub(super) snapshot_seq: Seq,
    recent_events: VecDeque<Event>,
    /// The latest context, and the latest context of a loop that sees an older `ctx`.
    contexts: [Option<(ContextKey, Arc<ExecutionContext>)>; 2],
}

/// ID of a decision on a thread of its own. The result is ignored if the slot no longer waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecisionId(pub(super) u64);

/// Everything that a context depends on.
#[derive(PartialEq)]
struct ContextKey {
    ctx_seq: Seq,
    boundary: Option<Seq>,
    run: Option<StepRunId>,
}

/// A queued input.
pub(super) struct QueuedInput {
    pub(super) input: Input,
    pub(super) attachments: InputAttachments,
    pub(super) reply: Option<oneshot::Sender<Result<InputReply, InputError>>>,
    /// First events of the commits that contained the input and whose outcome is unknown.
    pub(super) unconfirmed: Vec<EventPosition>,
    /// Whether the state was loaded after the input arrived.
    pub(super) is_checked: bool,
}

/// An input that is decided but not durable yet.
pub(super) struct DecidedInput {
    pub(super) queued_input: QueuedInput,
    /// Commands for the reporting worker; they are sent in the reply.
    pub(super) assigned: Vec<Fence>,
    /// The reported command, needed for the verdict.
    pub(super) command: Option<Seq>,
    /// Seqs of its events whose IDs came from a client.
    pub(super) recorded: Vec<(EventId, Seq)>,
}

impl QueuedInput {
    /// Priority of the input: `Control` for a control request, or for an input that a control request depends on.
    fn priority(&self) -> Priority {
        match self.attachments.priority {
            Priority::Control => Priority::Control,
            Priority::Normal => input_priority(&self.input),
        }
    }

    /// Replies to an input that had no effect.
    pub(super) fn reply_unchanged(self) {
        if let Some(reply) = self.reply {
            // The caller may have stopped waiting.
            let _ = reply.send(Ok(InputReply {
                verdict: Verdict::Proceed,
                next_commands: Vec::new(),
                recorded: Vec::new(),
            }));
        }
    }

    /// An input with a caller that waits for the reply.
    pub(super) fn with_reply(
        input: Input,
        attachments: InputAttachments,
        reply: oneshot::Sender<Result<InputReply, InputError>>,
    ) -> Self {
        Self {
            attachments,
            reply: Some(reply),
            ..Self::new(input)
        }
    }

    /// An input without a caller.
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            attachments: InputAttachments::default(),
            reply: None,
            unconfirmed: Vec::new(),
            is_checked: false,
        }
    }
}

impl LoadedExecution {
    pub(super) fn new(
        net: Option<Arc<PlaybookNet>>,
        state: Option<ExecutionState>,
        tail: Vec<Event>,
        snapshot_seq: Seq,
    ) -> Self {
        let skip = tail.len().saturating_sub(RECENT_EVENTS_MAX);
        Self {
            net,
            state,
            queue: VecDeque::new(),
            loaded: LoadedValues::default(),
            is_loading: false,
            load_number: 0,
            is_waiting_for_commit: false,
            decision_in_progress: None,
            is_slow: false,
            pending_commit: None,
            committing: None,
            is_fenced: false,
            unconfirmed: Vec::new(),
            needs_reoffer: false,
            snapshot_seq,
            recent_events: tail.into_iter().skip(skip).collect(),
            contexts: [None, None],
        }
    }

    /// Whether nothing is queued, loading or being committed.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.has_pending_commit() && !self.is_loading
    }

    /// Whether the next decision may be slow enough to delay other executions.
    pub(super) fn needs_thread(&self) -> bool {
        let is_wide = |net: &Arc<PlaybookNet>| net.step_arcs_max() > WIDE_STEP_ARCS;
        self.is_slow || self.net.as_ref().is_some_and(is_wide)
    }

    /// Queues an input. A cancellation is queued before the continuation of a long decision, which may repeat without
    /// end.
    pub(super) fn enqueue(&mut self, waiting: QueuedInput) {
        let decided = usize::from(self.decision_in_progress.is_some());
        let mut undecided = self.queue.iter().skip(decided);
        let continuation = undecided.position(|other| matches!(other.input, Input::Continue));
        match continuation {
            Some(place) if matches!(waiting.input, Input::Cancel(_)) => {
                self.queue.insert(decided + place, waiting);
            }
            _ => self.queue.push_back(waiting),
        }
    }

    /// Queues the continuation of a decision before all other inputs except cancellations.
    pub(super) fn enqueue_continuation(&mut self) {
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (stops, others): (Vec<_>, Vec<_>) =
            inputs.partition(|waiting| matches!(waiting.input, Input::Cancel(_)));
        self.queue.extend(stops);
        self.queue.push_back(QueuedInput::new(Input::Continue));
        self.queue.extend(others);
    }

    /// Moves control requests to the front of the queue: on a full disk, only they can be committed. The submission of
    /// an execution stays first.
    pub(super) fn put_control_first(&mut self) {
        if self.is_new() {
            return;
        }
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (control, others): (Vec<_>, Vec<_>) =
            inputs.partition(|waiting| waiting.priority() == Priority::Control);
        self.queue.extend(control);
        self.queue.extend(others);
    }

    /// Whether the commit of an input may use the space that is reserved for control requests: a control request may,
    /// and so may every input of an execution that was cancelled or finalized.
    pub(super) fn priority(&self, waiting: &QueuedInput) -> Priority {
        let stop = self.state.as_ref().and_then(|state| state.stop.as_ref());
        match stop.map(|stop| stop.reason) {
            Some(StopReason::Cancelled | StopReason::Finalized(_)) => Priority::Control,
            Some(StopReason::Failed) | None => waiting.priority(),
        }
    }

    /// Whether an input may be added to the pending commit: both must have the same priority, because the priority of
    /// a commit decides which space it may use.
    pub(super) fn may_join_pending_commit(&self, waiting: &QueuedInput) -> bool {
        let gathered = self.pending_commit.as_ref();
        gathered.is_none_or(|gathered| gathered.commit.priority == self.priority(waiting))
    }

    /// Whether decisions in the state are not durable yet.
    pub(super) fn has_pending_commit(&self) -> bool {
        self.committing.is_some() || self.pending_commit.is_some()
    }

    /// Whether the execution is still being submitted.
    pub(super) fn is_new(&self) -> bool {
        let first = self.queue.front().map(|waiting| &waiting.input);
        matches!(first, Some(Input::Submit(_)))
    }

    /// Returns the net and the input for a decision. A submission carries its own net; a retry may switch to another
    /// one.
    pub(super) fn decision_input(
        &self,
        waiting: &QueuedInput,
    ) -> Option<(Arc<PlaybookNet>, Input)> {
        let input = waiting.input.clone();
        if let Input::Submit(_) = &input {
            return Some((waiting.attachments.net.clone()?, input));
        }
        let net = self.net.clone()?;
        Some(match (&input, &waiting.attachments.switch) {
            (Input::Retry { .. }, Some(to)) => {
                let switch = Box::new(PlaybookSwitch {
                    version: to.entry.version,
                    hash: to.entry.hash.clone(),
                    previous: net.playbook.clone(),
                });
                let switch = Some(switch);
                (to.net.clone(), Input::Retry { switch })
            }
            _ => (net, input),
        })
    }

    /// Handles a repeated submission: its reply is sent when the first one is durable.
    pub(super) fn join_submission(&mut self, waiting: QueuedInput) {
        let decided = DecidedInput {
            queued_input: waiting,
            assigned: Vec::new(),
            command: None,
            recorded: Vec::new(),
        };
        match (&mut self.pending_commit, &mut self.committing) {
            (Some(gathered), _) => gathered.decided_inputs.push(decided),
            (None, Some(under_way)) => under_way.push(decided),
            (None, None) => decided.queued_input.reply_unchanged(),
        }
    }

    /// Keeps the events of a decision in memory, because the store does not have them yet.
    pub(super) fn add_recent_events(&mut self, decision: &Decision) {
        self.recent_events.extend(decision.events.iter().cloned());
        while self.recent_events.len() > RECENT_EVENTS_MAX && self.committing.is_none() {
            self.recent_events.pop_front();
        }
    }

    /// Removes and returns the queued inputs whose claims have expired.
    pub(super) fn take_fenced(&mut self, claims: &[Fence]) -> Vec<QueuedInput> {
        let is_expired = |command, lease_epoch| {
            !claims.contains(&Fence {
                command,
                lease_epoch,
            })
        };
        let is_fenced = |waiting: &QueuedInput| match &waiting.input {
            Input::Report(report) => is_expired(report.command, report.lease_epoch),
            Input::ClaimLost {
                command,
                lease_epoch,
                ..
            } => is_expired(*command, *lease_epoch),
            _ => false,
        };
        let mut fenced = Vec::new();
        for waiting in std::mem::take(&mut self.queue) {
            if is_fenced(&waiting) {
                fenced.push(waiting);
            } else {
                self.queue.push_back(waiting);
            }
        }
        fenced
    }

    /// Returns a recent event.
    pub(super) fn recent_event(&self, seq: Seq) -> Option<&Event> {
        let first = self.recent_events.front()?.seq;
        let index = usize::try_from(seq.0.checked_sub(first.0)?).ok()?;
        self.recent_events.get(index)
    }

    /// Returns the seq of a recent event.
    pub(super) fn seq_of(&self, id: EventId) -> Option<Seq> {
        let found = self.recent_events.iter().find(|event| event.event_id == id);
        found.map(|event| event.seq)
    }

    /// Returns the execution's data for the workers of a step run. The value is shared until `ctx` or a step's result
    /// changes.
    pub(super) fn context(&mut self, run: &StepRunId) -> Option<Arc<ExecutionContext>> {
        let state = self.state.as_ref()?;
        let ctx = state.ctx_of(run);
        // A parallel loop keeps the `ctx` of its start.
        let is_fixed = !Arc::ptr_eq(ctx, &state.ctx);
        let key = ContextKey {
            ctx_seq: state.ctx_seq,
            boundary: state.last_boundary.as_ref().map(|pointer| pointer.seq),
            run: is_fixed.then(|| run.clone()),
        };
        let contexts = &mut self.contexts[usize::from(is_fixed)];
        if let Some((known, context)) = contexts
            && *known == key
        {
            return Some(context.clone());
        }
        let context = Arc::new(build_context(state, ctx));
        *contexts = Some((key, context.clone()));
        Some(context)
    }

    /// What the holder of a command must do next.
    pub(super) fn verdict(&self, command: Seq) -> Verdict {
        let Some(state) = &self.state else {
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
        let live = self.state.iter().flat_map(|state| state.commands.keys());
        live.map(|seq| CommandId {
            execution,
            seq: *seq,
        })
        .collect()
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
