//! Receives every commit and every claim of a simulation, and runs the checkers on them.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use engine::ExecutionState;
use futures_util::FutureExt;
use model::event::{Event, EventBody};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, PlaybookHash};
use model::time::Time;
use serde_json::Value;
use store::{MemoryStore, Store, WaitFilter};
use wire::ClaimedCommand;

use crate::sim::checks::{CheckResult, ExecutionChecks, StoredRows};
use crate::sim::simulation::Violation;
use crate::stack::CommitObserver;

/// Later than any timer of a simulation.
const FAR_FUTURE: Time = Time(i64::MAX);

/// Observes a simulation and checks what it observes.
pub(crate) struct SimObserver {
    store: MemoryStore,
    state: Mutex<ObserverState>,
}

#[derive(Default)]
struct ObserverState {
    checks: ExecutionChecks,
    /// States that drivers decided on top of, by the last event of the decision.
    decided: HashMap<EventId, ExecutionState>,
    written: HashSet<EventId>,
    /// How often each numbered signal is in a log.
    signals: HashMap<u64, u32>,
    violation: Option<Violation>,
    trace: Vec<String>,
}

impl SimObserver {
    /// An observer with a handle of its own on the store.
    pub(crate) fn new(store: MemoryStore) -> Self {
        Self {
            store,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, ObserverState> {
        self.state.lock().expect("no holder panics")
    }

    /// Executions of this playbook are checked against this text.
    pub(crate) fn add_playbook(&self, hash: PlaybookHash, text: &str) {
        self.state().checks.add_playbook(hash, text);
    }

    /// Records the first violation.
    pub(crate) fn fail(&self, number: u32, description: String) {
        self.state().fail(Violation { number, description });
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.state().violation.clone()
    }

    /// Adds a line to the trace.
    pub(crate) fn add_trace(&self, line: String) {
        self.state().trace.push(line);
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.state().trace)
    }

    pub(crate) fn event_count(&self) -> usize {
        self.state().checks.event_count()
    }

    /// A driver has decided; this is the state in its memory after the decision.
    pub(crate) fn add_decided(&self, last_event: EventId, state: ExecutionState) {
        self.state().decided.insert(last_event, state);
    }

    /// A worker received a command.
    pub(crate) fn check_claim(&self, claimed: &ClaimedCommand, worker: &str) {
        let mut state = self.state();
        let result = state.checks.check_claim(claimed, worker);
        state.apply(result);
    }

    /// The epoch of the current claim on a command, if it is claimed.
    pub(crate) fn current_epoch(&self, command: CommandId) -> Option<LeaseEpoch> {
        let rows = self.rows(command.execution);
        let mut open = rows.open_commands.into_iter();
        let row = open.find(|open| open.command.id == command)?;
        row.worker.and(Some(row.lease_epoch))
    }

    /// Whether an event is in a log.
    pub(crate) fn is_written(&self, event: EventId) -> bool {
        self.state().written.contains(&event)
    }

    /// How often a numbered signal is in a log.
    pub(crate) fn signal_count(&self, number: u64) -> u32 {
        self.state().signals.get(&number).copied().unwrap_or(0)
    }

    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        self.state().checks.executions()
    }

    pub(crate) fn paused(&self) -> Vec<ExecutionId> {
        self.state().checks.paused()
    }

    /// The executions that have not ended; empty if all have.
    pub(crate) fn unfinished(&self) -> String {
        self.state().checks.unfinished()
    }

    /// Checks that something can move each unfinished execution forward.
    pub(crate) fn check_stuck(&self) {
        let mut state = self.state();
        let result = state.checks.check_stuck();
        state.apply(result);
    }

    /// Checks ended executions.
    pub(crate) fn check_end(&self) {
        let executions = self.executions();
        let logs = executions.into_iter().map(|execution| {
            let events = self.store.events(execution, model::id::Seq(0), usize::MAX);
            let events = events.now_or_never().expect("a store in memory does not wait");
            (execution, events.expect("a store in memory can be read"))
        });
        let logs: Vec<_> = logs.collect();
        let mut state = self.state();
        let result = state.checks.check_end(&logs);
        state.apply(result);
    }

    fn rows(&self, execution: ExecutionId) -> StoredRows {
        const READY: &str = "a store in memory does not wait";
        const READABLE: &str = "a store in memory can be read";
        let row = self.store.execution(execution).now_or_never();
        let open = self.store.open_commands(execution).now_or_never();
        let next_timer = self.store.next_timer(None, FAR_FUTURE).now_or_never();
        let filter = WaitFilter {
            execution: Some(execution),
            limit: usize::MAX,
            ..WaitFilter::default()
        };
        let waits = self.store.waits(&filter).now_or_never();
        StoredRows {
            waits: waits.expect(READY).expect(READABLE),
            row: row.expect(READY).expect(READABLE),
            open_commands: open.expect(READY).expect(READABLE),
            next_timer: next_timer.expect(READY).expect(READABLE),
        }
    }
}

impl ObserverState {
    fn fail(&mut self, violation: Violation) {
        self.trace.push(format!("{violation:?}"));
        self.violation.get_or_insert(violation);
    }

    fn apply(&mut self, result: CheckResult) {
        if let Err(violation) = result {
            self.fail(violation);
        }
    }

    fn check_commits(&mut self, commits: &[(ExecutionId, Vec<Event>)], rows: &[StoredRows], now: Time) -> CheckResult {
        for (_, events) in commits {
            for event in events {
                self.check_event(event, now)?;
            }
            self.checks.check_children(events)?;
        }
        for ((execution, _), rows) in commits.iter().zip(rows) {
            self.checks.check_rows(*execution, rows)?;
        }
        Ok(())
    }

    fn check_event(&mut self, event: &Event, now: Time) -> CheckResult {
        self.trace.push(format!(
            "  {} {} {} {:?}",
            event.execution_id,
            event.seq,
            event.kind(),
            event.location.step_run_id().map(|run| run.to_string())
        ));
        self.written.insert(event.event_id);
        if let EventBody::SignalReceived(signal) = &event.body
            && let Some(payload) = &signal.payload
            && let Ok(Value::Number(number)) = payload.parse_as::<Value>()
            && let Some(number) = number.as_u64()
        {
            *self.signals.entry(number).or_default() += 1;
        }
        self.checks.check_event(event, now)?;
        match self.decided.remove(&event.event_id) {
            Some(state) => self.checks.check_decided(&state),
            None => Ok(()),
        }
    }
}

impl CommitObserver for SimObserver {
    fn on_written(&self, commits: &[(ExecutionId, Vec<Event>)], now: Time) {
        let rows = commits.iter().map(|(execution, _)| self.rows(*execution));
        let rows: Vec<StoredRows> = rows.collect();
        let mut state = self.state();
        if state.violation.is_none()
            && let Err(violation) = state.check_commits(commits, &rows, now)
        {
            state.fail(violation);
        }
    }

    fn on_rejected(&self, execution: ExecutionId, error: &store::Error) {
        if let store::Error::Malformed(why) = error {
            let number = if why.contains("cause") { 7 } else { 2 };
            self.fail(number, format!("a commit of {execution} is malformed: {why}"));
        }
    }
}
