//! Sees every commit of a simulation and every claim, and runs the checkers over them.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use engine::ExecutionState;
use futures_util::FutureExt;
use model::event::{Event, EventBody};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, PlaybookHash};
use model::time::Time;
use serde_json::Value;
use store::{MemoryStore, Store};
use wire::ClaimedCommand;

use crate::sim::checks::{CheckResult, ExecutionChecks, StoredRows};
use crate::sim::simulation::Violation;
use crate::stack::CommitObserver;

/// Later than any timer of a simulation.
const FAR_FUTURE: Time = Time(i64::MAX);

/// What a simulation has seen so far.
pub(crate) struct SimObserver {
    store: MemoryStore,
    seen: Mutex<SeenCommits>,
}

#[derive(Default)]
struct SeenCommits {
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
            seen: Mutex::default(),
        }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, SeenCommits> {
        self.seen.lock().expect("no holder panics")
    }

    /// Executions of this playbook are checked against this text.
    pub(crate) fn add_playbook(&self, hash: PlaybookHash, text: &str) {
        self.seen().checks.add_playbook(hash, text);
    }

    /// Records the first violation.
    pub(crate) fn fail(&self, number: u32, what: String) {
        self.seen().fail(Violation { number, what });
    }

    /// The first violation.
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.seen().violation.clone()
    }

    /// Adds a line to the trace.
    pub(crate) fn add_trace(&self, line: String) {
        self.seen().trace.push(line);
    }

    pub(crate) fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.seen().trace)
    }

    pub(crate) fn event_count(&self) -> usize {
        self.seen().checks.event_count()
    }

    /// A driver has decided; this is the state in its memory after the decision.
    pub(crate) fn add_decided(&self, last_event: EventId, state: ExecutionState) {
        self.seen().decided.insert(last_event, state);
    }

    /// A worker received a command.
    pub(crate) fn check_claim(&self, claimed: &ClaimedCommand, worker: &str) {
        let mut seen = self.seen();
        let result = seen.checks.check_claim(claimed, worker);
        seen.apply(result);
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
        self.seen().written.contains(&event)
    }

    /// How often a numbered signal is in a log.
    pub(crate) fn signal_count(&self, number: u64) -> u32 {
        self.seen().signals.get(&number).copied().unwrap_or(0)
    }

    pub(crate) fn executions(&self) -> Vec<ExecutionId> {
        self.seen().checks.executions()
    }

    pub(crate) fn paused(&self) -> Vec<ExecutionId> {
        self.seen().checks.paused()
    }

    /// The executions that have not ended; empty if all have.
    pub(crate) fn unfinished(&self) -> String {
        self.seen().checks.unfinished()
    }

    /// Checks that something can move each unfinished execution forward.
    pub(crate) fn check_stuck(&self) {
        let mut seen = self.seen();
        let result = seen.checks.check_stuck();
        seen.apply(result);
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
        let mut seen = self.seen();
        let result = seen.checks.check_end(&logs);
        seen.apply(result);
    }

    fn rows(&self, execution: ExecutionId) -> StoredRows {
        const READY: &str = "a store in memory does not wait";
        const READABLE: &str = "a store in memory can be read";
        let row = self.store.execution(execution).now_or_never();
        let open = self.store.open_commands(execution).now_or_never();
        let next_timer = self.store.next_timer(None, FAR_FUTURE).now_or_never();
        StoredRows {
            row: row.expect(READY).expect(READABLE),
            open_commands: open.expect(READY).expect(READABLE),
            next_timer: next_timer.expect(READY).expect(READABLE),
        }
    }
}

impl SeenCommits {
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
        let mut seen = self.seen();
        if seen.violation.is_none()
            && let Err(violation) = seen.check_commits(commits, &rows, now)
        {
            seen.fail(violation);
        }
    }

    fn on_rejected(&self, execution: ExecutionId, error: &store::Error) {
        if let store::Error::Malformed(why) = error {
            let number = if why.contains("cause") { 7 } else { 2 };
            self.fail(number, format!("a commit of {execution} is malformed: {why}"));
        }
    }
}
