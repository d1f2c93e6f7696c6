//! A slot: one execution in memory, its inputs in line, and what is not durable yet.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{Decision, Input, Net, State, StopReason, Switch};
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Seq, StepRunId};
use model::template::Loaded;
use serde_json::{Map, Value};
use store::Priority;
use tokio::sync::oneshot;
use wire::{Context, Verdict};

use crate::drive::gathered::Gathered;
use crate::drive::handle::{Extras, Posted, Reply, priority_of};
use crate::loading::{DoubtfulCommit, Mark};

/// How many recent events are kept at hand for templates.
const TAIL_MAX: usize = 512;

/// A step with more arcs has conditions enough to hold up other executions while they are evaluated.
const WIDE_STEP_ARCS: usize = 64;

/// One execution in memory.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what a slot waits for and how it was fenced are facts of their own"
)]
pub(super) struct Slot {
    /// The playbook; none while the slot is being opened.
    pub(super) net: Option<Arc<Net>>,
    pub(super) state: Option<State>,
    /// Inputs not decided yet.
    pub(super) queue: VecDeque<Waiting>,
    /// What has been loaded for the input in front.
    pub(super) loaded: Loaded,
    /// Whether something is being loaded for the input in front, or for the slot itself.
    pub(super) is_loading: bool,
    /// Goes up whenever the execution is to be loaded anew: what was being loaded before that is not used.
    pub(super) load_number: u64,
    /// Whether the input in front needs something that the commit under way may hold, or continues what it holds.
    pub(super) waits_for_commit: bool,
    /// The decision about the input in front that a thread of its own is making.
    pub(super) deciding: Option<DecisionId>,
    /// Whether the latest decision took so long that the next one gets a thread of its own.
    pub(super) is_slow: bool,
    /// Decided, not handed to the store yet.
    pub(super) gathered: Option<Gathered>,
    /// Handed to the store: the inputs, to be put back in line should the commit not happen.
    pub(super) under_way: Option<Vec<Decided>>,
    /// Whether a commit was refused because a claim that entitled to it is not current.
    pub(super) is_fenced: bool,
    /// Commits of which nobody knows whether they happened.
    pub(super) doubts: Vec<DoubtfulCommit>,
    /// Whether its commands are offered again once it is loaded: some were assigned in a commit that did not happen.
    pub(super) offers_again: bool,
    /// The last seq that a snapshot covers.
    pub(super) snapshot_seq: Seq,
    tail: VecDeque<Event>,
    /// The latest context, and the latest of a loop that sees an older `ctx`.
    contexts: [Option<(ContextKey, Arc<Context>)>; 2],
}

/// One decision that is made on a thread of its own; its result counts only while the slot waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecisionId(pub(super) u64);

/// What a context depends on.
#[derive(PartialEq)]
struct ContextKey {
    ctx_seq: Seq,
    boundary: Option<Seq>,
    run: Option<StepRunId>,
}

/// An input in line.
pub(super) struct Waiting {
    pub(super) input: Input,
    pub(super) extras: Extras,
    pub(super) reply: Option<oneshot::Sender<Result<Reply, Posted>>>,
    /// The first events of commits it was in and of which nobody knows whether they happened.
    pub(super) doubts: Vec<Mark>,
    /// Whether the state it is decided on was loaded after it came.
    pub(super) is_checked: bool,
}

/// An input that is decided and waits to be durable.
pub(super) struct Decided {
    pub(super) waiting: Waiting,
    /// Commands that go to the reporting worker with the answer.
    pub(super) handed: Vec<(Seq, LeaseEpoch)>,
    /// The reported command, for the verdict.
    pub(super) command: Option<Seq>,
    /// Where its events with ids from outside stand.
    pub(super) recorded: Vec<(EventId, Seq)>,
}

impl Waiting {
    /// Whether it is a control request, or is needed for one.
    fn priority(&self) -> Priority {
        match self.extras.priority {
            Priority::Control => Priority::Control,
            Priority::Normal => priority_of(&self.input),
        }
    }

    /// Nothing followed from it, and nothing needs to be written.
    pub(super) fn done(self) {
        if let Some(reply) = self.reply {
            // Nobody waits for the answer any more: nothing to do.
            let _ = reply.send(Ok(Reply {
                verdict: Verdict::Proceed,
                next: Vec::new(),
                recorded: Vec::new(),
            }));
        }
    }

    /// An input whose outcome someone waits for.
    pub(super) fn answering(
        input: Input,
        extras: Extras,
        reply: oneshot::Sender<Result<Reply, Posted>>,
    ) -> Self {
        Self {
            extras,
            reply: Some(reply),
            ..Self::new(input)
        }
    }

    /// An input that nobody waits for.
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            extras: Extras::default(),
            reply: None,
            doubts: Vec::new(),
            is_checked: false,
        }
    }
}

impl Slot {
    pub(super) fn new(
        net: Option<Arc<Net>>,
        state: Option<State>,
        tail: Vec<Event>,
        snapshot_seq: Seq,
    ) -> Self {
        let skip = tail.len().saturating_sub(TAIL_MAX);
        Self {
            net,
            state,
            queue: VecDeque::new(),
            loaded: Loaded::default(),
            is_loading: false,
            load_number: 0,
            waits_for_commit: false,
            deciding: None,
            is_slow: false,
            gathered: None,
            under_way: None,
            is_fenced: false,
            doubts: Vec::new(),
            offers_again: false,
            snapshot_seq,
            tail: tail.into_iter().skip(skip).collect(),
            contexts: [None, None],
        }
    }

    /// Whether nothing is in line or on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.gathered.is_none()
            && self.under_way.is_none()
            && !self.is_loading
    }

    /// Whether the next decision may take so long that other executions would have to wait for it.
    pub(super) fn needs_thread(&self) -> bool {
        let is_wide = |net: &Arc<Net>| net.arcs_of_a_step_max() > WIDE_STEP_ARCS;
        self.is_slow || self.net.as_ref().is_some_and(is_wide)
    }

    /// Puts an input in line. A request to stop goes before the continuation of a long decision, which may follow
    /// itself without end.
    pub(super) fn line_up(&mut self, waiting: Waiting) {
        let decided = usize::from(self.deciding.is_some());
        let mut undecided = self.queue.iter().skip(decided);
        let continuation = undecided.position(|other| matches!(other.input, Input::GoOn));
        match continuation {
            Some(place) if matches!(waiting.input, Input::Cancel(_)) => {
                self.queue.insert(decided + place, waiting);
            }
            _ => self.queue.push_back(waiting),
        }
    }

    /// Puts the continuation of a decision in front of what waits, but behind requests to stop.
    pub(super) fn continue_later(&mut self) {
        let inputs = std::mem::take(&mut self.queue).into_iter();
        let (stops, others): (Vec<_>, Vec<_>) =
            inputs.partition(|waiting| matches!(waiting.input, Input::Cancel(_)));
        self.queue.extend(stops);
        self.queue.push_back(Waiting::new(Input::GoOn));
        self.queue.extend(others);
    }

    /// Puts the control requests in front of what waits: on a full disk they can be carried out, the rest cannot. Nothing
    /// goes before the submission of an execution.
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

    /// Whether the commit of an input may use the space that is reserved for control requests: a control request may, and
    /// whatever ends a run that someone has stopped.
    pub(super) fn priority(&self, waiting: &Waiting) -> Priority {
        let stop = self.state.as_ref().and_then(|state| state.stop.as_ref());
        match stop.map(|stop| stop.reason) {
            Some(StopReason::Cancelled | StopReason::Finalized(_)) => Priority::Control,
            Some(StopReason::Failed) | None => waiting.priority(),
        }
    }

    /// Whether an input may be committed together with what has gathered: what has another priority must not decide
    /// about the space that it gets.
    pub(super) fn may_join_gathered(&self, waiting: &Waiting) -> bool {
        let gathered = self.gathered.as_ref();
        gathered.is_none_or(|gathered| gathered.commit.priority == self.priority(waiting))
    }

    /// Whether the execution is only being submitted.
    pub(super) fn is_new(&self) -> bool {
        let first = self.queue.front().map(|waiting| &waiting.input);
        matches!(first, Some(Input::Submit(_)))
    }

    /// The playbook that an input is decided with, and the input; a submission brings its own, a retry may bring another.
    pub(super) fn decided_with(&self, waiting: &Waiting) -> Option<(Arc<Net>, Input)> {
        let input = waiting.input.clone();
        if let Input::Submit(_) = &input {
            return Some((waiting.extras.net.clone()?, input));
        }
        let net = self.net.clone()?;
        Some(match (&input, &waiting.extras.switch) {
            (Input::Retry { .. }, Some(to)) => {
                let switch = Box::new(Switch {
                    version: to.entry.version,
                    hash: to.entry.hash.clone(),
                    was: net.playbook.clone(),
                });
                let switch = Some(switch);
                (to.net.clone(), Input::Retry { switch })
            }
            _ => (net, input),
        })
    }

    /// A submission of an execution that is here already: it is answered when the first one is durable.
    pub(super) fn join_submission(&mut self, waiting: Waiting) {
        let decided = Decided {
            waiting,
            handed: Vec::new(),
            command: None,
            recorded: Vec::new(),
        };
        match (&mut self.gathered, &mut self.under_way) {
            (Some(gathered), _) => gathered.decided.push(decided),
            (None, Some(under_way)) => under_way.push(decided),
            (None, None) => decided.waiting.done(),
        }
    }

    /// Keeps the events of a decision at hand: the store does not have them yet.
    pub(super) fn remember(&mut self, decision: &Decision) {
        self.tail.extend(decision.events.iter().cloned());
        while self.tail.len() > TAIL_MAX && self.under_way.is_none() {
            self.tail.pop_front();
        }
    }

    /// Takes out of the line what is said under claims that are not current; the rest stays.
    pub(super) fn take_fenced(&mut self, claims: &[(Seq, LeaseEpoch)]) -> Vec<Waiting> {
        let is_fenced = |waiting: &Waiting| match &waiting.input {
            Input::Report(report) => !claims.contains(&(report.command, report.lease_epoch)),
            Input::Lost {
                command,
                lease_epoch,
                ..
            } => !claims.contains(&(*command, *lease_epoch)),
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

    /// A recent event.
    pub(super) fn recent(&self, seq: Seq) -> Option<&Event> {
        let first = self.tail.front()?.seq;
        let index = usize::try_from(seq.0.checked_sub(first.0)?).ok()?;
        self.tail.get(index)
    }

    /// Where a recent event stands.
    pub(super) fn place_of(&self, id: EventId) -> Option<Seq> {
        let found = self.tail.iter().find(|event| event.event_id == id);
        found.map(|event| event.seq)
    }

    /// The execution's data for the workers of a step run; the same value until `ctx` or a step's result changes.
    pub(super) fn context(&mut self, run: &StepRunId) -> Option<Arc<Context>> {
        let state = self.state.as_ref()?;
        let ctx = state.ctx_of(run);
        // A parallel loop goes on seeing `ctx` as it was when it started.
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
        let context = Arc::new(context_of(state, ctx));
        *contexts = Some((key, context.clone()));
        Some(context)
    }

    /// How the holder of a command goes on.
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

    /// The commands of this execution that are live.
    pub(super) fn commands(&self, execution: ExecutionId) -> Vec<CommandId> {
        let live = self.state.iter().flat_map(|state| state.commands.keys());
        live.map(|seq| CommandId {
            execution,
            seq: *seq,
        })
        .collect()
    }
}

fn context_of(state: &State, ctx: &Map<String, Value>) -> Context {
    let workload = state.workload.clone();
    let mut context = Context::new(state.execution, state.path.clone(), workload);
    context.ctx_seq = state.ctx_seq;
    context.version = state.version;
    context.parent_execution_id = state.parent.as_ref().map(|parent| parent.execution_id);
    context.parent_iter = state.parent.as_ref().and_then(|parent| parent.iter.clone());
    context.ctx = model::raw::Raw::of(ctx);
    let latest = state
        .steps
        .iter()
        .filter_map(|(name, step)| Some((name.clone(), step.latest.clone()?)));
    context.steps = latest.collect();
    context
}
