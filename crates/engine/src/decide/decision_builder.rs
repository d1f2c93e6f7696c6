//! The builder of a decision: the working copy of the state during one turn, in which one input is decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use language::template::LoadedValues;
use model::command::{Fence, TimerChange};
use model::event::{Event, EventBody, EventLocation, ReportedEvent, UniqueKey};
use model::id::{Seq, StepRunId};

use crate::decide::PlaybookNet;
use crate::decide::scope::ScopeCache;
use crate::decision::{BodyToStore, Decision, ExecutionMessage, OutgoingMessage};
use crate::input::Stamp;
use crate::state::{ExecutionState, LiveCommand, LiveTimer, SharedMap, StateIndex, fold};

/// Maximum number of events that one decision adds to those of its input, approximately. The next decision adds the
/// remaining ones.
const EVENTS_DECIDED_MAX: usize = 1_000;

pub(super) struct DecisionBuilder<'n> {
    pub(super) net: &'n PlaybookNet,
    pub(super) state: ExecutionState,
    pub(super) stamp: Stamp,
    pub(super) loaded: Arc<LoadedValues>,
    pub(super) events: Vec<Event>,
    pub(super) unique_keys: Vec<UniqueKey>,
    pub(super) bodies: Vec<BodyToStore>,
    pub(super) fences: Vec<Fence>,
    pub(super) commands_to_stop: Vec<Seq>,
    pub(super) scopes: ScopeCache,
    /// For each step, the length of `events` when the rules for its parked tokens were last evaluated.
    pub(super) parked_checked_at: BTreeMap<model::id::Name, usize>,
    /// Whether parked tokens are evaluated even without changes in this turn, because the previous turn stopped early.
    pub(super) rechecks_parked: bool,
    /// Whether the remaining decisions are left to the next turn, which can read the events of this one.
    pub(super) defers_remaining: bool,
    messages: Vec<OutgoingMessage>,
    cause: Option<Seq>,
    events_reported: usize,
    /// Indices of those `events` that admission rules may read.
    readable_changes: Vec<usize>,
    timers_before: SharedMap<Seq, LiveTimer>,
    commands_before: SharedMap<Seq, LiveCommand>,
}

/// A state of the turn to roll back to.
pub(super) struct Checkpoint {
    state: ExecutionState,
    events: usize,
    keys: usize,
    bodies: usize,
    stamp: Stamp,
    cause: Option<Seq>,
    events_reported: usize,
}

impl<'n> DecisionBuilder<'n> {
    pub(super) fn new(net: &'n PlaybookNet, state: &ExecutionState, stamp: Stamp, loaded: &LoadedValues) -> Self {
        Self {
            net,
            state: state.clone(),
            stamp,
            loaded: Arc::new(loaded.clone()),
            events: Vec::new(),
            unique_keys: Vec::new(),
            bodies: Vec::new(),
            fences: Vec::new(),
            commands_to_stop: Vec::new(),
            scopes: ScopeCache::default(),
            parked_checked_at: BTreeMap::new(),
            rechecks_parked: false,
            defers_remaining: false,
            messages: Vec::new(),
            cause: Some(Seq(1)),
            events_reported: 0,
            readable_changes: Vec::new(),
            timers_before: state.timers.clone(),
            commands_before: state.commands.clone(),
        }
    }

    /// Creates the state from its first event.
    pub(super) fn from_first_event(net: &'n PlaybookNet, root: Event, stamp: Stamp, loaded: &LoadedValues) -> Self {
        let state = fold(None, &root).expect("the first event of a submission is its request");
        let mut turn = Self::new(net, &state, stamp, loaded);
        turn.events.push(root);
        turn
    }

    /// Records an event of the server and folds it.
    pub(super) fn emit(&mut self, location: EventLocation, body: EventBody) -> Seq {
        let id = self.stamp.ids.next_event_id();
        let event = Event {
            seq: self.state.seq.next(),
            cause_seq: self.cause,
            ..Event::new(id, self.state.execution, self.stamp.now, location, body)
        };
        self.record(event)
    }

    /// Records an event that a worker reported, and assigns its sequence number.
    pub(super) fn emit_reported(&mut self, event: ReportedEvent, cause: Seq) -> Seq {
        let id = event.event_id.unwrap_or_else(|| self.stamp.ids.next_event_id());
        let mut event = event.with_id(id);
        event.seq = self.state.seq.next();
        event.execution_id = self.state.execution;
        event.recorded_at = self.stamp.now;
        event.cause_seq = Some(cause);
        self.events_reported += 1;
        self.record(event)
    }

    fn record(&mut self, mut event: Event) -> Seq {
        event.trace_id.clone_from(&self.state.trace_id);
        let seq = event.seq;
        if event.kind().is_boundary()
            && let Some(run) = event.location.step_run_id()
        {
            self.unique_keys.push(UniqueKey::Boundary {
                run,
                generation: self.state.generation,
            });
        }
        if event.kind().is_boundary() || matches!(event.body, EventBody::CtxPatched(_)) {
            self.readable_changes.push(self.events.len());
        }
        self.state.apply(&event);
        self.events.push(event);
        seq
    }

    /// The index of the current state.
    pub(super) fn index(&mut self) -> Arc<StateIndex> {
        if !self.state.index.is_current(&self.state) {
            let mut index = std::mem::take(&mut self.state.index);
            let net = self.net;
            Arc::make_mut(&mut index).refresh(&self.state, |step| net.kind_of(step));
            self.state.index = index;
        }
        self.state.index.clone()
    }

    /// The events from index `from` on that admission rules may read.
    pub(super) fn readable_changes(&self, from: usize) -> impl Iterator<Item = &Event> {
        let first = self.readable_changes.partition_point(|index| *index < from);
        let changes = self.readable_changes[first..].iter();
        changes.map(|index| &self.events[*index])
    }

    /// Returns a checkpoint of the current state of the turn.
    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            state: self.state.clone(),
            events: self.events.len(),
            keys: self.unique_keys.len(),
            bodies: self.bodies.len(),
            stamp: self.stamp,
            cause: self.cause,
            events_reported: self.events_reported,
        }
    }

    /// Rolls back everything since the checkpoint. No message may have been sent since then.
    pub(super) fn roll_back_to(&mut self, checkpoint: Checkpoint) {
        self.state = checkpoint.state;
        self.events.truncate(checkpoint.events);
        self.readable_changes.retain(|index| *index < checkpoint.events);
        self.unique_keys.truncate(checkpoint.keys);
        self.bodies.truncate(checkpoint.bodies);
        self.stamp = checkpoint.stamp;
        self.cause = checkpoint.cause;
        self.events_reported = checkpoint.events_reported;
        self.scopes = ScopeCache::default();
    }

    /// Whether this turn has enough events for one commit. A cycle of steps without tasks would otherwise never stop.
    pub(super) fn is_full(&self) -> bool {
        self.events.len() >= self.events_reported + EVENTS_DECIDED_MAX
    }

    /// Sets `cause_seq` of the events emitted from here on. If the state is behind its log, it may not contain the
    /// event yet; the commit then detects the conflict.
    pub(super) fn set_cause(&mut self, seq: Seq) {
        self.cause = Some(seq.min(self.state.seq));
    }

    pub(super) fn send(&mut self, to: model::id::ExecutionId, body: ExecutionMessage) {
        let seq = self.state.seq;
        let n = self.messages.iter().filter(|message| message.seq == seq).count();
        let n = u32::try_from(n).expect("one event sends few messages");
        self.messages.push(OutgoingMessage { seq, n, to, body });
    }

    /// Sends a message that follows from no event, with a number that no other message has.
    pub(super) fn send_with_new_key(&mut self, to: model::id::ExecutionId, body: ExecutionMessage) {
        let number = self.stamp.ids.next_event_id().0 & i64::from(u32::MAX);
        let n = u32::try_from(number).expect("the mask leaves 32 bits");
        let seq = self.state.seq;
        self.messages.push(OutgoingMessage { seq, n, to, body });
    }

    /// Builds the decision: the events, and the changes of timers and commands.
    pub(super) fn into_decision(self) -> Decision {
        let mut timers = Vec::new();
        let mut timers_set = Vec::new();
        let before = &self.timers_before;
        before.for_each_change(&self.state.timers, |change| {
            let seq = *change.key;
            match (change.before, change.after) {
                (Some(_), None) => timers.push(TimerChange::Clear { seq }),
                (None, Some(timer)) => timers_set.push(TimerChange::Set { seq, due: timer.due }),
                _ => {}
            }
        });
        timers.append(&mut timers_set);
        let closed = self.closed_commands(&self.commands_before);
        let issued = self.issued_commands();
        let has_more = (self.is_full() || self.defers_remaining) && !self.state.is_ended();
        Decision {
            has_more,
            closed,
            issued,
            timers,
            events: self.events,
            messages: self.messages,
            bodies: self.bodies,
            unique_keys: self.unique_keys,
            fences: self.fences,
            commands_to_stop: self.commands_to_stop,
            state: self.state,
        }
    }
}

/// The location of a step run.
pub(super) fn run_location(run: &StepRunId) -> EventLocation {
    EventLocation::of_step_run(run)
}
