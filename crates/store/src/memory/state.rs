//! The data of a store in memory, and its operations as plain code.

mod monitoring;
mod sessions;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use model::command::{ClaimId, TimerChange, serves_kinds};
use model::event::{Event, EventBody, EventStatus};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::labels::Labels;
use model::raw::RawJson;
use model::status::RunStatus;
use model::time::Time;

use crate::access::{StoreProcess, WorkerClaim};
use crate::commit::{CommandChange, Commit, CommitStatus, ExternalEventKey, IssuedCommand, Message, MessageKey};
use crate::error::Error;
use crate::execution_filter::ExecutionFilter;
use crate::memory::access::AdminTables;
use crate::memory::sealed::SealedTables;
use crate::memory::waits::WaitTables;
use crate::projections::{ProjectionDelta, StepChange};
use crate::rows::{
    Adoption, CatalogEntry, ClaimQuery, CommandClaim, ExecutionRow, LostClaim, OpenCommand, OwnerId, RebuildStats,
    ResultRow, Snapshot, StepState,
};
use model::event::UniqueKey;

pub(super) use sessions::SessionRow;

#[derive(Default)]
pub(super) struct MemoryState {
    pub(super) executions: BTreeMap<ExecutionId, ExecutionRecord>,
    pub(super) sessions: BTreeMap<WorkerId, SessionRow>,
    pub(super) catalog: Vec<CatalogEntry>,
    pub(super) live_owners: BTreeSet<OwnerId>,
    pub(super) publishers: BTreeSet<OwnerId>,
    pub(super) admin: AdminTables,
    pub(super) sealed: SealedTables,
    /// In order of arrival; the key of a consumed message remains in `message_states`.
    messages: Vec<PendingMessage>,
    pub(super) message_states: BTreeMap<MessageKey, MessageState>,
    /// Counts issued commands, so that the oldest one is claimed first.
    issued_count: u64,
}

/// Whether a message is pending or consumed.
pub(super) enum MessageState {
    Pending,
    Consumed(Time),
}

/// The `claimed_at` of a claim whose session was replaced.
const REPLACED_CLAIM_TIME: Time = Time(i64::MIN);

struct PendingMessage {
    key: MessageKey,
    to: ExecutionId,
    body: RawJson,
}

/// All data of one execution.
pub(super) struct ExecutionRecord {
    pub(super) row: ExecutionRow,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) steps: BTreeMap<Name, StepState>,
    pub(super) results: Vec<ResultRow>,
    labels: Labels,
    pub(super) waits: WaitTables,
    log: Vec<Event>,
    keys: BTreeMap<UniqueKey, Option<ExternalEventKey>>,
    commands: BTreeMap<Seq, CommandRecord>,
    timers: BTreeMap<Seq, Time>,
}

/// A command and its claim.
pub(super) struct CommandRecord {
    issue: IssuedCommand,
    pub(super) worker: Option<WorkerId>,
    lease_epoch: LeaseEpoch,
    issued_at: Time,
    claimed_at: Time,
    issue_order: u64,
}

impl ExecutionRecord {
    fn new(row: ExecutionRow, labels: Labels) -> Self {
        Self {
            row,
            labels,
            snapshot: None,
            steps: BTreeMap::new(),
            results: Vec::new(),
            waits: WaitTables::default(),
            log: Vec::new(),
            keys: BTreeMap::new(),
            commands: BTreeMap::new(),
            timers: BTreeMap::new(),
        }
    }

    pub(super) fn events_after(&self, seq: Seq, limit: usize) -> Vec<Event> {
        let from = usize::try_from(seq.0).unwrap_or(usize::MAX);
        self.log.iter().skip(from).take(limit).cloned().collect()
    }

    /// The labels that the request recorded.
    pub(super) fn labels(&self) -> &Labels {
        &self.labels
    }

    pub(super) fn event_at(&self, seq: Seq) -> Option<&Event> {
        self.log
            .get(usize::try_from(seq.0.checked_sub(1)?).unwrap_or(usize::MAX))
    }

    fn is_owned_by(&self, owner: Option<&OwnerId>) -> bool {
        owner.is_none() || self.row.owner.as_ref() == owner
    }

    fn apply_projection(&mut self, events: &[Event], version: Seq) {
        let delta = ProjectionDelta::from_events(events);
        self.row.apply(&delta, version);
        for change in &delta.steps {
            let after = apply_step_change(self.steps.get(&change.step), change);
            self.steps.insert(change.step.clone(), after);
        }
        self.results.extend(delta.results);
        for change in delta.waits {
            self.waits.apply(change);
        }
    }

    fn check_commit(&self, commit: &Commit) -> Result<Option<CommitStatus>, Error> {
        for fence in &commit.fences {
            let current = self.commands.get(&fence.command);
            if !current.is_some_and(|record| record.worker.is_some() && record.lease_epoch == fence.lease_epoch) {
                return Ok(Some(CommitStatus::Fenced));
            }
        }
        let is_offered = |seq: &Seq| self.commands.get(seq).is_some_and(|record| record.worker.is_none());
        let is_not_offered =
            |change: &CommandChange| matches!(change, CommandChange::Assign { seq, .. } if !is_offered(seq));
        if commit.commands.iter().any(is_not_offered) {
            return Ok(Some(CommitStatus::Fenced));
        }
        if self.row.version != commit.expected {
            return Ok(Some(CommitStatus::VersionConflict {
                version: self.row.version,
            }));
        }
        for (key, _) in commit.claimed_keys() {
            if self.keys.contains_key(&key) {
                return Err(Error::Invariant(key));
            }
        }
        self.check_work_units(commit)?;
        Ok(None)
    }

    /// Checks that no work is offered twice, in the order in which the store applies the changes.
    fn check_work_units(&self, commit: &Commit) -> Result<(), Error> {
        let units = self
            .commands
            .iter()
            .map(|(seq, record)| (*seq, record.issue.work_unit()))
            .collect();
        commit.check_work_units(units)
    }
}

impl MemoryState {
    pub(super) fn commit(&mut self, commit: Commit, now: Time) -> Result<CommitStatus, Error> {
        match self.executions.get(&commit.execution) {
            Some(execution) => {
                if let Some(refused) = execution.check_commit(&commit)? {
                    return Ok(refused);
                }
            }
            None if !commit.fences.is_empty() => return Ok(CommitStatus::Fenced),
            None if commit.expected != Seq(0) => {
                return Ok(CommitStatus::VersionConflict { version: Seq(0) });
            }
            None => {
                let first = &commit.events[0];
                let EventBody::ExecutionRequested(request) = &first.body else {
                    return Err(Error::Malformed(
                        "a log must start with one `execution.requested` event",
                    ));
                };
                let row = ExecutionRow::new(first, request, &commit.creation);
                let execution = ExecutionRecord::new(row, request.labels.clone());
                execution.check_work_units(&commit)?;
                self.executions.insert(commit.execution, execution);
            }
        }
        self.write(commit, now);
        Ok(CommitStatus::Committed)
    }

    fn write(&mut self, commit: Commit, now: Time) {
        let execution = self
            .executions
            .get_mut(&commit.execution)
            .expect("the execution exists or was just created");
        execution.apply_projection(&commit.events, commit.version());
        for (key, foreign) in commit.claimed_keys() {
            execution.keys.insert(key, foreign.copied());
        }
        for change in commit.commands {
            match change {
                CommandChange::Assign {
                    seq,
                    worker,
                    lease_epoch,
                } => {
                    if let Some(record) = execution.commands.get_mut(&seq) {
                        record.worker = Some(worker);
                        record.lease_epoch = lease_epoch;
                        record.claimed_at = now;
                    }
                }
                CommandChange::Close { seq } => {
                    execution.commands.remove(&seq);
                }
                CommandChange::Issue(issue) => {
                    self.issued_count += 1;
                    let (worker, lease_epoch) = issue
                        .claimed
                        .clone()
                        .map_or((None, LeaseEpoch(0)), |(worker, epoch)| (Some(worker), epoch));
                    let record = CommandRecord {
                        worker,
                        lease_epoch,
                        issued_at: now,
                        claimed_at: now,
                        issue_order: self.issued_count,
                        issue: *issue,
                    };
                    execution.commands.insert(record.issue.command.id.seq, record);
                }
            }
        }
        for change in commit.timers {
            match change {
                TimerChange::Set { seq, due } => execution.timers.insert(seq, due),
                TimerChange::Clear { seq } => execution.timers.remove(&seq),
            };
        }
        execution.log.extend(commit.events);
        execution.snapshot = commit.snapshot.or(execution.snapshot.take());
        for message in commit.messages {
            self.add_message(message);
        }
        for key in commit.consumed {
            self.withdraw_message(key, now);
        }
    }

    pub(super) fn external_events(&self, id: ExecutionId, event_ids: &[EventId]) -> Vec<ExternalEventKey> {
        let Some(execution) = self.executions.get(&id) else {
            return Vec::new();
        };
        event_ids
            .iter()
            .filter_map(|event_id| *execution.keys.get(&UniqueKey::Event(*event_id))?)
            .collect()
    }

    pub(super) fn executions(&self, filter: &ExecutionFilter, now: Time) -> Vec<ExecutionRow> {
        let executions = self.executions.values().rev();
        executions
            .filter(|execution| execution.labels.contains_all(&filter.labels))
            .map(|execution| &execution.row)
            .filter(|row| filter.before.is_none_or(|before| row.id < before))
            .filter(|row| filter.matches(row, now))
            .take(filter.limit)
            .cloned()
            .collect()
    }

    pub(super) fn claim(&mut self, query: &ClaimQuery, now: Time) -> Vec<CommandClaim> {
        let mut pending: Vec<&mut CommandRecord> = self
            .executions
            .values_mut()
            .filter(|execution| execution.row.status == RunStatus::Running && !execution.row.cancelling)
            .filter(|execution| execution.is_owned_by(query.owner.as_ref()))
            .flat_map(|execution| execution.commands.values_mut())
            .filter(|record| record.worker.is_none() && record.issue.command.pool == query.pool)
            .filter(|record| serves_kinds(query.kinds.as_deref(), &record.issue.kinds))
            .collect();
        pending.sort_by_key(|record| record.issue_order);
        pending
            .into_iter()
            .take(query.max as usize)
            .map(|record| {
                record.worker = Some(query.worker.clone());
                record.claimed_at = now;
                record.lease_epoch.0 += 1;
                CommandClaim {
                    command: record.issue.command.clone(),
                    lease_epoch: record.lease_epoch,
                }
            })
            .collect()
    }

    pub(super) fn release(&mut self, command: CommandId, lease_epoch: LeaseEpoch) {
        let execution = self.executions.get_mut(&command.execution);
        if let Some(record) = execution.and_then(|execution| execution.commands.get_mut(&command.seq))
            && record.lease_epoch == lease_epoch
        {
            record.worker = None;
        }
    }

    pub(super) fn commands(&self, owner: Option<&OwnerId>) -> impl Iterator<Item = &CommandRecord> {
        self.executions
            .values()
            .filter(move |execution| execution.is_owned_by(owner))
            .flat_map(|execution| execution.commands.values())
    }

    pub(super) fn lost_claims(&self, owner: Option<&OwnerId>, now: Time) -> Vec<LostClaim> {
        self.commands(owner)
            .filter_map(|record| {
                let worker = record.worker.as_ref()?;
                let session = self.sessions.get(worker);
                let is_alive = session.is_some_and(|session| session.expires_at > now);
                (!is_alive || record.claimed_at == REPLACED_CLAIM_TIME).then(|| LostClaim {
                    command: record.issue.command.id,
                    worker: worker.clone(),
                    lease_epoch: record.lease_epoch,
                })
            })
            .collect()
    }

    pub(super) fn overdue_commands(&self, owner: Option<&OwnerId>, now: Time) -> Vec<CommandId> {
        self.commands(owner)
            .filter(|record| record.worker.is_none())
            .filter(|record| record.issue.start_by.is_some_and(|by| by <= now))
            .map(|record| record.issue.command.id)
            .collect()
    }

    pub(super) fn worker_claims(&self, worker: &WorkerId) -> Vec<WorkerClaim> {
        let mut claims: Vec<WorkerClaim> = Vec::new();
        for execution in self.executions.values() {
            let mine = execution
                .commands
                .values()
                .filter(|record| record.worker.as_ref() == Some(worker))
                .filter(|record| record.claimed_at != REPLACED_CLAIM_TIME);
            claims.extend(mine.map(|record| WorkerClaim {
                claim: ClaimId {
                    command: record.issue.command.id,
                    lease_epoch: record.lease_epoch,
                },
                is_paused: execution.row.status == RunStatus::Paused,
                is_cancelling: execution.row.cancelling || execution.row.status.is_terminal(),
                claimed_at: record.claimed_at,
            }));
        }
        claims.sort_by_key(|record| (record.claimed_at, record.claim.command));
        claims
    }

    pub(super) fn process_of(&self, owner: &OwnerId) -> StoreProcess {
        StoreProcess {
            is_alive: self.live_owners.contains(owner),
            publishes: self.publishers.contains(owner),
            address: None,
            heartbeat_at: None,
            owner: owner.clone(),
        }
    }

    pub(super) fn open_commands(&self, id: ExecutionId) -> Vec<OpenCommand> {
        let commands = self.executions.get(&id).map(|execution| execution.commands.values());
        commands
            .into_iter()
            .flatten()
            .map(|record| OpenCommand {
                command: record.issue.command.clone(),
                worker: record.worker.clone(),
                lease_epoch: record.lease_epoch,
                issued_at: record.issued_at,
            })
            .collect()
    }

    fn timers(&self, owner: Option<&OwnerId>) -> BTreeSet<(Time, ExecutionId, Seq)> {
        self.executions
            .iter()
            .filter(|(_, execution)| execution.is_owned_by(owner))
            .flat_map(|(id, execution)| execution.timers.iter().map(|(seq, due)| (*due, *id, *seq)))
            .collect()
    }

    pub(super) fn due_timers(&self, owner: Option<&OwnerId>, limit: usize, now: Time) -> Vec<(ExecutionId, Seq)> {
        self.timers(owner)
            .into_iter()
            .take_while(|(due, ..)| *due <= now)
            .take(limit)
            .map(|(_, id, seq)| (id, seq))
            .collect()
    }

    pub(super) fn next_timer(&self, owner: Option<&OwnerId>) -> Option<Time> {
        self.timers(owner).first().map(|(due, ..)| *due)
    }

    pub(super) fn add_message(&mut self, message: Message) {
        if let Entry::Vacant(key) = self.message_states.entry(message.key) {
            key.insert(MessageState::Pending);
            self.messages.push(PendingMessage {
                key: message.key,
                to: message.to,
                body: message.body,
            });
        }
    }

    pub(super) fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Vec<Message> {
        self.messages
            .iter()
            .filter(|pending| owner.is_none_or(|owner| self.is_addressed_to(pending, owner)))
            .take(limit)
            .map(|pending| Message {
                key: pending.key,
                to: pending.to,
                body: pending.body.clone(),
            })
            .collect()
    }

    /// Consumes a message. Returns whether it was pending.
    pub(super) fn withdraw_message(&mut self, key: MessageKey, now: Time) -> bool {
        let Some(state @ MessageState::Pending) = self.message_states.get_mut(&key) else {
            return false;
        };
        *state = MessageState::Consumed(now);
        self.messages.retain(|pending| pending.key != key);
        true
    }

    pub(super) fn is_pending(&self, key: MessageKey) -> bool {
        self.messages.iter().any(|pending| pending.key == key)
    }

    fn is_addressed_to(&self, pending: &PendingMessage, owner: &OwnerId) -> bool {
        let driver = |id| {
            self.executions
                .get(&id)
                .and_then(|execution| execution.row.owner.as_ref())
        };
        let is_new = !self.executions.contains_key(&pending.to);
        let driver = driver(if is_new { pending.key.from } else { pending.to });
        driver.is_none_or(|driver| driver == owner || !self.live_owners.contains(driver))
    }

    pub(super) fn put_playbook(&mut self, path: &str, text: &str, now: Time) -> CatalogEntry {
        let hash = PlaybookHash::from_text(text);
        let latest = self.catalog_entry(path, None);
        if let Some(same) = latest.filter(|entry| entry.hash == hash) {
            return same.clone();
        }
        let entry = CatalogEntry::new_version(latest, path, text, now);
        self.catalog.push(entry.clone());
        entry
    }

    pub(super) fn catalog_entry(&self, path: &str, version: Option<u32>) -> Option<&CatalogEntry> {
        self.catalog
            .iter()
            .rev()
            .filter(|entry| entry.path == *path)
            .find(|entry| version.is_none_or(|version| entry.version == version))
    }

    /// The log of an execution; empty if there is none.
    pub(super) fn log(&self, id: ExecutionId) -> &[Event] {
        self.executions.get(&id).map_or(&[], |execution| &execution.log)
    }

    pub(super) fn latest_of_each_path(&self) -> Vec<CatalogEntry> {
        let latest: BTreeMap<&Name, &CatalogEntry> = self.catalog.iter().map(|entry| (&entry.path, entry)).collect();
        latest.into_values().cloned().collect()
    }

    pub(super) fn adopt(&mut self, id: ExecutionId, new_owner: &OwnerId) -> Adoption {
        let Some(execution) = self.executions.get_mut(&id) else {
            return Adoption::NotFound;
        };
        match &execution.row.owner {
            Some(owner) if owner != new_owner && self.live_owners.contains(owner) => Adoption::OwnedBy(owner.clone()),
            _ => {
                execution.row.owner = Some(new_owner.clone());
                Adoption::Owned
            }
        }
    }

    pub(super) fn abandoned_executions(&self) -> Vec<ExecutionId> {
        self.executions
            .values()
            .map(|execution| &execution.row)
            .filter(|row| !row.status.is_terminal())
            .filter(|row| row.owner.as_ref().is_none_or(|owner| !self.live_owners.contains(owner)))
            .map(|row| row.id)
            .collect()
    }

    pub(super) fn rebuild(&mut self) -> RebuildStats {
        let mut rebuilt = RebuildStats::default();
        for execution in self.executions.values_mut() {
            let creation = crate::commit::ExecutionCreation {
                name: Some(execution.row.name.clone()),
                owner: execution.row.owner.clone(),
            };
            let Some(EventBody::ExecutionRequested(request)) = execution.log.first().map(|first| &first.body) else {
                continue;
            };
            execution.row = ExecutionRow::new(&execution.log[0], request, &creation);
            execution.steps.clear();
            execution.results.clear();
            execution.waits.clear();
            let log = std::mem::take(&mut execution.log);
            execution.apply_projection(&log, Seq(log.len() as u64));
            rebuilt.executions += 1;
            rebuilt.events += log.len() as u64;
            execution.log = log;
        }
        rebuilt
    }
}

/// The row after this change, given the row before it, if any.
fn apply_step_change(before: Option<&StepState>, change: &StepChange) -> StepState {
    let was = |field: fn(&StepState) -> Option<RawJson>| before.and_then(field);
    StepState {
        step: change.step.clone(),
        run: change.run.or(before.map(|before| before.run)).unwrap_or_default(),
        status: change
            .status
            .or(before.map(|before| before.status))
            .unwrap_or(EventStatus::InProgress),
        last_result_ref: change
            .last_result_ref
            .clone()
            .or_else(|| was(|before| before.last_result_ref.clone())),
        aggregate_result_ref: change
            .aggregate_result_ref
            .clone()
            .or_else(|| was(|before| before.aggregate_result_ref.clone())),
        seq: change.seq,
    }
}
