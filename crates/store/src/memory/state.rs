//! The data of a store in memory, and its operations as plain code.

mod sessions;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use model::command::TimerChange;
use model::event::{Body, Event};
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, WorkerId};
use model::raw::Raw;
use model::status::RunStatus;
use model::time::Time;

use crate::access::{Held as InHand, Peer};
use crate::commit::{CommandChange, Commit, Committed, Foreign, Issue, Key, Message, MessageKey};
use crate::error::Error;
use crate::memory::access::Access;
use crate::memory::safe::Kept;
use crate::projections::Delta;
use crate::rows::{
    Adoption, Ask, CatalogEntry, Claim, ExecutionRow, Filter, LostClaim, OpenCommand, OwnerId,
    Rebuilt, ResultRow, Snapshot, StepState,
};

pub(super) use sessions::SessionRow;

#[derive(Default)]
pub(super) struct State {
    pub(super) runs: BTreeMap<ExecutionId, Run>,
    pub(super) sessions: BTreeMap<WorkerId, SessionRow>,
    pub(super) catalog: Vec<CatalogEntry>,
    pub(super) living: BTreeSet<OwnerId>,
    pub(super) access: Access,
    pub(super) safe: Kept,
    /// In order of arrival; the key of a consumed message remains in `mail_keys`.
    mail: Vec<Mail>,
    pub(super) mail_keys: BTreeMap<MessageKey, MailState>,
    /// Counts issued commands, so that the oldest one is claimed first.
    issued: u64,
}

/// Whether a message is pending or consumed.
pub(super) enum MailState {
    Pending,
    Consumed(Time),
}

/// The `claimed_at` of a claim whose session was replaced.
const REPLACED: Time = Time(i64::MIN);

struct Mail {
    key: MessageKey,
    to: ExecutionId,
    body: Raw,
}

/// All data of one execution.
pub(super) struct Run {
    pub(super) row: ExecutionRow,
    pub(super) snapshot: Option<Snapshot>,
    pub(super) steps: BTreeMap<Name, StepState>,
    pub(super) results: Vec<ResultRow>,
    log: Vec<Event>,
    keys: BTreeMap<Key, Option<Foreign>>,
    commands: BTreeMap<Seq, Held>,
    timers: BTreeMap<Seq, Time>,
}

/// A command and its claim.
pub(super) struct Held {
    issue: Issue,
    pub(super) worker: Option<WorkerId>,
    lease_epoch: LeaseEpoch,
    issued_at: Time,
    claimed_at: Time,
    place: u64,
}

impl Run {
    fn new(row: ExecutionRow) -> Self {
        Self {
            row,
            snapshot: None,
            steps: BTreeMap::new(),
            results: Vec::new(),
            log: Vec::new(),
            keys: BTreeMap::new(),
            commands: BTreeMap::new(),
            timers: BTreeMap::new(),
        }
    }

    pub(super) fn after(&self, seq: Seq, limit: usize) -> Vec<Event> {
        let from = usize::try_from(seq.0).unwrap_or(usize::MAX);
        self.log.iter().skip(from).take(limit).cloned().collect()
    }

    pub(super) fn at(&self, seq: Seq) -> Option<&Event> {
        self.log
            .get(usize::try_from(seq.0.checked_sub(1)?).unwrap_or(usize::MAX))
    }

    fn is_of(&self, owner: Option<&OwnerId>) -> bool {
        owner.is_none() || self.row.owner.as_ref() == owner
    }

    fn project(&mut self, events: &[Event], version: Seq) {
        let delta = Delta::of(events);
        self.row.apply(&delta, version);
        for change in &delta.steps {
            let after = StepState::after(self.steps.get(&change.step), change);
            self.steps.insert(change.step.clone(), after);
        }
        self.results.extend(delta.results);
    }

    fn refuses(&self, commit: &Commit) -> Result<Option<Committed>, Error> {
        for fence in &commit.fences {
            let current = self.commands.get(&fence.command);
            if !current
                .is_some_and(|held| held.worker.is_some() && held.lease_epoch == fence.lease_epoch)
            {
                return Ok(Some(Committed::Fenced));
            }
        }
        let on_offer = |seq: &Seq| {
            self.commands
                .get(seq)
                .is_some_and(|held| held.worker.is_none())
        };
        let taken = |change: &CommandChange| matches!(change, CommandChange::Hand { seq, .. } if !on_offer(seq));
        if commit.commands.iter().any(taken) {
            return Ok(Some(Committed::Fenced));
        }
        if self.row.version != commit.expected {
            return Ok(Some(Committed::Moved {
                version: self.row.version,
            }));
        }
        for (key, _) in commit.claimed_keys() {
            if self.keys.contains_key(&key) {
                return Err(Error::Invariant(key));
            }
        }
        self.repeated_work(commit)
    }

    /// Checks the changes in the order in which the store applies them.
    fn repeated_work(&self, commit: &Commit) -> Result<Option<Committed>, Error> {
        let mut units: BTreeMap<Seq, String> = self
            .commands
            .iter()
            .map(|(seq, held)| (*seq, held.issue.unit()))
            .collect();
        for change in &commit.commands {
            match change {
                CommandChange::Hand { .. } => {}
                CommandChange::Close { seq } => {
                    units.remove(seq);
                }
                CommandChange::Issue(issue) => {
                    let unit = issue.unit();
                    if units.values().any(|other| *other == unit) {
                        return Err(Error::Invariant(Key::Work(issue.command.id)));
                    }
                    units.insert(issue.command.id.seq, unit);
                }
            }
        }
        Ok(None)
    }
}

impl State {
    pub(super) fn commit(&mut self, commit: Commit, now: Time) -> Result<Committed, Error> {
        match self.runs.get(&commit.execution) {
            Some(run) => {
                if let Some(refused) = run.refuses(&commit)? {
                    return Ok(refused);
                }
            }
            None if !commit.fences.is_empty() => return Ok(Committed::Fenced),
            None if commit.expected != Seq(0) => {
                return Ok(Committed::Moved { version: Seq(0) });
            }
            None => {
                let first = &commit.events[0];
                let Body::ExecutionRequested(request) = &first.body else {
                    return Err(Error::Malformed(
                        "a log must start with one `execution.requested` event",
                    ));
                };
                let run = Run::new(ExecutionRow::new(first, request, &commit.creation));
                run.repeated_work(&commit)?;
                self.runs.insert(commit.execution, run);
            }
        }
        self.write(commit, now);
        Ok(Committed::Done)
    }

    fn write(&mut self, commit: Commit, now: Time) {
        let run = self
            .runs
            .get_mut(&commit.execution)
            .expect("the execution exists or was just created");
        run.project(&commit.events, commit.version());
        for (key, foreign) in commit.claimed_keys() {
            run.keys.insert(key, foreign.copied());
        }
        for change in commit.commands {
            match change {
                CommandChange::Hand {
                    seq,
                    worker,
                    lease_epoch,
                } => {
                    if let Some(held) = run.commands.get_mut(&seq) {
                        held.worker = Some(worker);
                        held.lease_epoch = lease_epoch;
                        held.claimed_at = now;
                    }
                }
                CommandChange::Close { seq } => {
                    run.commands.remove(&seq);
                }
                CommandChange::Issue(issue) => {
                    self.issued += 1;
                    let (worker, lease_epoch) = issue
                        .claimed
                        .clone()
                        .map_or((None, LeaseEpoch(0)), |(worker, epoch)| {
                            (Some(worker), epoch)
                        });
                    let held = Held {
                        worker,
                        lease_epoch,
                        issued_at: now,
                        claimed_at: now,
                        place: self.issued,
                        issue: *issue,
                    };
                    run.commands.insert(held.issue.command.id.seq, held);
                }
            }
        }
        for change in commit.timers {
            match change {
                TimerChange::Set { seq, due } => run.timers.insert(seq, due),
                TimerChange::Clear { seq } => run.timers.remove(&seq),
            };
        }
        run.log.extend(commit.events);
        run.snapshot = commit.snapshot.or(run.snapshot.take());
        for message in commit.messages {
            self.post(message);
        }
        for key in commit.consumed {
            self.take_back(key, now);
        }
    }

    pub(super) fn foreign(&self, id: ExecutionId, event_ids: &[EventId]) -> Vec<Foreign> {
        let Some(run) = self.runs.get(&id) else {
            return Vec::new();
        };
        event_ids
            .iter()
            .filter_map(|event_id| *run.keys.get(&Key::Event(*event_id))?)
            .collect()
    }

    pub(super) fn executions(&self, filter: &Filter) -> Vec<ExecutionRow> {
        self.runs
            .values()
            .rev()
            .map(|run| &run.row)
            .filter(|row| filter.status.is_none_or(|status| row.status == status))
            .filter(|row| filter.path.as_ref().is_none_or(|path| row.path == *path))
            .filter(|row| filter.since.is_none_or(|since| row.started_at >= since))
            .filter(|row| filter.until.is_none_or(|until| row.started_at < until))
            .filter(|row| filter.parent.is_none() || row.parent == filter.parent)
            .filter(|row| filter.before.is_none_or(|before| row.id < before))
            .take(filter.limit)
            .cloned()
            .collect()
    }

    pub(super) fn claim(&mut self, ask: &Ask, now: Time) -> Vec<Claim> {
        let mut pending: Vec<&mut Held> = self
            .runs
            .values_mut()
            .filter(|run| run.row.status == RunStatus::Running && !run.row.cancelling)
            .filter(|run| run.is_of(ask.owner.as_ref()))
            .flat_map(|run| run.commands.values_mut())
            .filter(|held| held.worker.is_none() && held.issue.command.pool == ask.pool)
            .filter(|held| ask.serves(&held.issue.kinds))
            .collect();
        pending.sort_by_key(|held| held.place);
        pending
            .into_iter()
            .take(ask.max as usize)
            .map(|held| {
                held.worker = Some(ask.worker.clone());
                held.claimed_at = now;
                held.lease_epoch.0 += 1;
                Claim {
                    command: held.issue.command.clone(),
                    lease_epoch: held.lease_epoch,
                }
            })
            .collect()
    }

    pub(super) fn release(&mut self, command: CommandId, lease_epoch: LeaseEpoch) {
        let run = self.runs.get_mut(&command.execution);
        if let Some(held) = run.and_then(|run| run.commands.get_mut(&command.seq))
            && held.lease_epoch == lease_epoch
        {
            held.worker = None;
        }
    }

    pub(super) fn commands(&self, owner: Option<&OwnerId>) -> impl Iterator<Item = &Held> {
        self.runs
            .values()
            .filter(move |run| run.is_of(owner))
            .flat_map(|run| run.commands.values())
    }

    pub(super) fn lost_claims(&self, owner: Option<&OwnerId>, now: Time) -> Vec<LostClaim> {
        self.commands(owner)
            .filter_map(|held| {
                let worker = held.worker.as_ref()?;
                let session = self.sessions.get(worker);
                let is_alive = session.is_some_and(|session| session.expires_at > now);
                (!is_alive || held.claimed_at == REPLACED).then(|| LostClaim {
                    command: held.issue.command.id,
                    worker: worker.clone(),
                    lease_epoch: held.lease_epoch,
                })
            })
            .collect()
    }

    pub(super) fn overdue_commands(&self, owner: Option<&OwnerId>, now: Time) -> Vec<CommandId> {
        self.commands(owner)
            .filter(|held| held.worker.is_none())
            .filter(|held| held.issue.start_by.is_some_and(|by| by <= now))
            .map(|held| held.issue.command.id)
            .collect()
    }

    pub(super) fn held(&self, worker: &WorkerId) -> Vec<InHand> {
        let mut found: Vec<InHand> = Vec::new();
        for run in self.runs.values() {
            let mine = run
                .commands
                .values()
                .filter(|held| held.worker.as_ref() == Some(worker))
                .filter(|held| held.claimed_at != REPLACED);
            found.extend(mine.map(|held| InHand {
                command: held.issue.command.id,
                lease_epoch: held.lease_epoch,
                paused: run.row.status == RunStatus::Paused,
                cancelling: run.row.cancelling || run.row.status.is_terminal(),
                claimed_at: held.claimed_at,
            }));
        }
        found.sort_by_key(|held| (held.claimed_at, held.command));
        found
    }

    pub(super) fn peer(&self, owner: &OwnerId) -> Peer {
        Peer {
            alive: self.living.contains(owner),
            address: None,
            owner: owner.clone(),
        }
    }

    pub(super) fn open_commands(&self, id: ExecutionId) -> Vec<OpenCommand> {
        let commands = self.runs.get(&id).map(|run| run.commands.values());
        commands
            .into_iter()
            .flatten()
            .map(|held| OpenCommand {
                command: held.issue.command.clone(),
                worker: held.worker.clone(),
                lease_epoch: held.lease_epoch,
                issued_at: held.issued_at,
            })
            .collect()
    }

    fn timers(&self, owner: Option<&OwnerId>) -> BTreeSet<(Time, ExecutionId, Seq)> {
        self.runs
            .iter()
            .filter(|(_, run)| run.is_of(owner))
            .flat_map(|(id, run)| run.timers.iter().map(|(seq, due)| (*due, *id, *seq)))
            .collect()
    }

    pub(super) fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
        now: Time,
    ) -> Vec<(ExecutionId, Seq)> {
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

    pub(super) fn post(&mut self, message: Message) {
        if let Entry::Vacant(key) = self.mail_keys.entry(message.key) {
            key.insert(MailState::Pending);
            self.mail.push(Mail {
                key: message.key,
                to: message.to,
                body: message.body,
            });
        }
    }

    pub(super) fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Vec<Message> {
        self.mail
            .iter()
            .filter(|mail| owner.is_none_or(|owner| self.is_for(mail, owner)))
            .take(limit)
            .map(|mail| Message {
                key: mail.key,
                to: mail.to,
                body: mail.body.clone(),
            })
            .collect()
    }

    /// Consumes a message. Returns whether it was pending.
    pub(super) fn take_back(&mut self, key: MessageKey, now: Time) -> bool {
        let Some(state @ MailState::Pending) = self.mail_keys.get_mut(&key) else {
            return false;
        };
        *state = MailState::Consumed(now);
        self.mail.retain(|mail| mail.key != key);
        true
    }

    pub(super) fn is_pending(&self, key: MessageKey) -> bool {
        self.mail.iter().any(|mail| mail.key == key)
    }

    fn is_for(&self, mail: &Mail, owner: &OwnerId) -> bool {
        let driver = |id| self.runs.get(&id).and_then(|run| run.row.owner.as_ref());
        let is_new = !self.runs.contains_key(&mail.to);
        let driver = driver(if is_new { mail.key.from } else { mail.to });
        driver.is_none_or(|driver| driver == owner || !self.living.contains(driver))
    }

    pub(super) fn put_playbook(&mut self, path: &str, text: &str, now: Time) -> CatalogEntry {
        let hash = PlaybookHash::of(text);
        let latest = self.latest(path, None);
        if let Some(same) = latest.filter(|entry| entry.hash == hash) {
            return same.clone();
        }
        let entry = CatalogEntry {
            path: path.into(),
            version: latest.map_or(1, |entry| entry.version + 1),
            hash,
            text: text.into(),
            registered_at: now,
        };
        self.catalog.push(entry.clone());
        entry
    }

    pub(super) fn latest(&self, path: &str, version: Option<u32>) -> Option<&CatalogEntry> {
        self.catalog
            .iter()
            .rev()
            .filter(|entry| entry.path == *path)
            .find(|entry| version.is_none_or(|version| entry.version == version))
    }

    /// The log of an execution; empty if there is none.
    pub(super) fn log(&self, id: ExecutionId) -> &[Event] {
        self.runs.get(&id).map_or(&[], |run| &run.log)
    }

    pub(super) fn latest_of_each_path(&self) -> Vec<CatalogEntry> {
        let latest: BTreeMap<&Name, &CatalogEntry> = self
            .catalog
            .iter()
            .map(|entry| (&entry.path, entry))
            .collect();
        latest.into_values().cloned().collect()
    }

    pub(super) fn adopt(&mut self, id: ExecutionId, me: &OwnerId) -> Adoption {
        let Some(run) = self.runs.get_mut(&id) else {
            return Adoption::Unknown;
        };
        match &run.row.owner {
            Some(owner) if owner != me && self.living.contains(owner) => {
                Adoption::HeldBy(owner.clone())
            }
            _ => {
                run.row.owner = Some(me.clone());
                Adoption::Mine
            }
        }
    }

    pub(super) fn abandoned(&self) -> Vec<ExecutionId> {
        self.runs
            .values()
            .map(|run| &run.row)
            .filter(|row| !row.status.is_terminal())
            .filter(|row| {
                row.owner
                    .as_ref()
                    .is_none_or(|owner| !self.living.contains(owner))
            })
            .map(|row| row.id)
            .collect()
    }

    pub(super) fn rebuild(&mut self) -> Rebuilt {
        let mut rebuilt = Rebuilt::default();
        for run in self.runs.values_mut() {
            let creation = crate::commit::Creation {
                name: Some(run.row.name.clone()),
                owner: run.row.owner.clone(),
            };
            let Some(Body::ExecutionRequested(request)) = run.log.first().map(|first| &first.body)
            else {
                continue;
            };
            run.row = ExecutionRow::new(&run.log[0], request, &creation);
            run.steps.clear();
            run.results.clear();
            let log = std::mem::take(&mut run.log);
            run.project(&log, Seq(log.len() as u64));
            rebuilt.executions += 1;
            rebuilt.events += log.len() as u64;
            run.log = log;
        }
        rebuilt
    }
}
