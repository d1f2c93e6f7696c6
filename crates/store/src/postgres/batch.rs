//! Commits as columns: all values of a batch that one statement writes.
//!
//! Input: checked commits, ordered by execution. Output: the parameters of `noetl.append_batch`, whose `*_m` columns
//! refer to members by number, from 1.

use std::collections::BTreeMap;

use model::command::TimerChange;
use model::event::{EventBody, EventStatus, UniqueKey, pack};
use model::id::{Name, Seq};
use model::raw::RawJson;
use tokio_postgres::types::{Json, ToSql};

use crate::columns::snapshot_checksum;
use crate::commit::{CommandChange, Commit, IssuedCommand};
use crate::error::Error;
use crate::iterations::IterationDelta;
use crate::postgres::iterations::IterationChanges;
use crate::postgres::json_params::{AssignRow, ConsumedRow, CreatedRow, IndexRow, MessageRow, PatchRow, TimerRow};
use crate::postgres::rows::{to_i32, to_i64};
use crate::postgres::waits::WaitJson;
use crate::projections::{CurrentStep, ExecutionPatch, ProjectionDelta};
use crate::rows::ExecutionRow;

type Column<T> = Vec<T>;

/// The parameters of one call.
#[derive(Default)]
pub(super) struct AppendBatch {
    pub(super) members: MemberColumns,
    patches: Vec<PatchRow>,
    created: Vec<CreatedRow>,
    pub(super) fences: (Column<i32>, Column<i64>, Column<i32>),
    assignments: Vec<AssignRow>,
    pub(super) closes: (Column<i32>, Column<i64>, Column<i32>),
    pub(super) issues: IssueColumns,
    pub(super) keys: KeyColumns,
    pub(super) steps: StepColumns,
    timers: Vec<TimerRow>,
    messages: Vec<MessageRow>,
    consumed: Vec<ConsumedRow>,
    results: Vec<IndexRow>,
    snapshots: SnapshotColumns,
    pub(super) iterations: IterationChanges,
    pub(super) waits: Column<WaitJson>,
}

#[derive(Default)]
pub(super) struct MemberColumns {
    pub(super) id: Column<i64>,
    pub(super) expected: Column<i64>,
    pub(super) version: Column<i64>,
    pub(super) types: Column<Option<String>>,
    pub(super) body: Column<Option<String>>,
    pub(super) sets_current: Column<bool>,
    pub(super) current: Column<Option<String>>,
}

#[derive(Default)]
pub(super) struct IssueColumns {
    pub(super) member: Column<i32>,
    pub(super) seq: Column<i64>,
    pub(super) position: Column<i32>,
    pub(super) unit: Column<String>,
    pub(super) pool: Column<String>,
    pub(super) worker: Column<Option<String>>,
    pub(super) epoch: Column<i32>,
    pub(super) start_by: Column<Option<i64>>,
    pub(super) kinds: Column<String>,
    pub(super) body: Column<String>,
    /// The key that a conflict is reported with.
    pub(super) key: Column<UniqueKey>,
}

#[derive(Default)]
pub(super) struct KeyColumns {
    pub(super) member: Column<i32>,
    pub(super) text: Column<String>,
    pub(super) seq: Column<Option<i64>>,
    pub(super) hash: Column<Option<Vec<u8>>>,
    /// The key that a conflict is reported with.
    pub(super) key: Column<UniqueKey>,
}

#[derive(Default)]
pub(super) struct StepColumns {
    pub(super) member: Column<i32>,
    pub(super) name: Column<String>,
    pub(super) run: Column<Option<i32>>,
    pub(super) status: Column<Option<&'static str>>,
    pub(super) last: Column<Option<String>>,
    pub(super) aggregate: Column<Option<String>>,
    pub(super) seq: Column<i64>,
}

#[derive(Default)]
struct SnapshotColumns {
    member: Column<i32>,
    version: Column<i32>,
    seq: Column<i64>,
    sha256: Column<Vec<u8>>,
    bytes: Column<Vec<u8>>,
}

impl AppendBatch {
    /// Adds a commit as the next member. An inconsistent commit is refused and leaves the batch unchanged.
    pub(super) fn add(&mut self, commit: &Commit) -> Result<(), Error> {
        check_repeats(commit)?;
        let created = created_row(commit)?;
        let member = to_i32(self.members.id.len() + 1);
        let delta = ProjectionDelta::from_events(&commit.events);
        self.add_member(commit, &delta.patch);
        match created {
            Some(row) => self.created.push(CreatedRow::from_execution(member, row)),
            None if !delta.patch.changes_only_current_step() => {
                self.patches.push(PatchRow::from_patch(member, &delta.patch));
            }
            None => {}
        }
        for fence in &commit.fences {
            self.fences.0.push(member);
            self.fences.1.push(to_i64(fence.command.0));
            self.fences.2.push(to_i32(fence.lease_epoch.0));
        }
        self.add_commands(member, commit);
        self.add_keys(member, commit);
        self.add_projections(member, &delta);
        let waits = delta.waits.iter();
        self.waits
            .extend(waits.map(|change| WaitJson::from_change(member, change)));
        self.iterations
            .add(member, &IterationDelta::from_events(&commit.events));
        self.iterations.add_labels(member, &delta.labels);
        self.add_messages_and_timers(member, commit);
        Ok(())
    }

    /// The key that a verdict of the database refers to.
    pub(super) fn conflicting_key(&self, verdict: i32, nth: i64) -> Option<UniqueKey> {
        let index = usize::try_from(nth).ok()?.checked_sub(1)?;
        match verdict {
            3 => self.keys.key.get(index).cloned(),
            4 => self.issues.key.get(index).cloned(),
            _ => None,
        }
    }

    fn add_member(&mut self, commit: &Commit, patch: &ExecutionPatch) {
        let packed = (!commit.events.is_empty()).then(|| pack(&commit.events));
        let (types, body) = packed.map(|packed| (packed.types, packed.body)).unzip();
        let members = &mut self.members;
        members.id.push(commit.execution.0);
        members.expected.push(to_i64(commit.expected.0));
        members.version.push(to_i64(commit.version().0));
        members.types.push(types);
        members.body.push(body);
        members.sets_current.push(patch.current.is_some());
        let current = patch.current.as_ref().and_then(CurrentStep::name);
        members.current.push(current.map(ToString::to_string));
    }

    fn add_commands(&mut self, member: i32, commit: &Commit) {
        for (index, change) in commit.commands.iter().enumerate() {
            match change {
                CommandChange::Issue(issue) if !is_closed_after(commit, index, issue) => {
                    self.issues.add(member, to_i32(index), issue);
                }
                CommandChange::Issue(_) => {}
                CommandChange::Assign {
                    seq,
                    worker,
                    lease_epoch,
                } => self.assignments.push(AssignRow {
                    m: member,
                    seq: seq.0,
                    worker: worker.0.to_string(),
                    lease_epoch: lease_epoch.0,
                }),
                CommandChange::Close { seq } => {
                    self.closes.0.push(member);
                    self.closes.1.push(to_i64(seq.0));
                    self.closes.2.push(to_i32(index));
                }
            }
        }
    }

    fn add_keys(&mut self, member: i32, commit: &Commit) {
        for (key, foreign) in commit.claimed_keys() {
            self.keys.member.push(member);
            self.keys.text.push(key.to_string());
            self.keys.seq.push(foreign.map(|event| to_i64(event.seq.0)));
            self.keys.hash.push(foreign.map(|event| event.hash.to_vec()));
            self.keys.key.push(key);
        }
    }

    fn add_projections(&mut self, member: i32, delta: &ProjectionDelta) {
        for change in &delta.steps {
            let text = |raw: &Option<RawJson>| raw.as_ref().map(|raw| raw.text().to_owned());
            self.steps.member.push(member);
            self.steps.name.push(change.step.to_string());
            self.steps.run.push(change.run.map(to_i32));
            self.steps.status.push(change.status.map(EventStatus::name));
            self.steps.last.push(text(&change.last_result_ref));
            self.steps.aggregate.push(text(&change.aggregate_result_ref));
            self.steps.seq.push(to_i64(change.seq.0));
        }
        let results = delta.results.iter();
        self.results
            .extend(results.map(|result| IndexRow::from_result(member, result)));
    }

    fn add_messages_and_timers(&mut self, member: i32, commit: &Commit) {
        let mut timers = BTreeMap::new();
        for change in &commit.timers {
            match change {
                TimerChange::Set { seq, due } => timers.insert(*seq, Some(due.0)),
                TimerChange::Clear { seq } => timers.insert(*seq, None),
            };
        }
        self.timers.extend(timers.into_iter().map(|(seq, due)| TimerRow {
            m: member,
            seq: seq.0,
            due,
        }));
        let messages = commit.messages.iter();
        self.messages
            .extend(messages.map(|message| MessageRow::from_message(member, message)));
        self.consumed.extend(commit.consumed.iter().map(|key| ConsumedRow {
            m: member,
            from_id: key.from.0,
            seq: key.seq.0,
            n: key.n,
        }));
        if let Some(snapshot) = &commit.snapshot {
            let snapshots = &mut self.snapshots;
            snapshots.member.push(member);
            snapshots.version.push(to_i32(snapshot.version));
            snapshots.seq.push(to_i64(snapshot.seq.0));
            snapshots.sha256.push(snapshot_checksum(&snapshot.bytes).to_vec());
            snapshots.bytes.push(snapshot.bytes.clone());
        }
    }

    /// The values in the order of the statement's parameters.
    pub(super) fn values<'b>(&'b self, rare: &'b JsonParams<'b>, publishes: &'b bool) -> Vec<&'b (dyn ToSql + Sync)> {
        let Self {
            members,
            fences,
            closes,
            issues,
            keys,
            steps,
            snapshots,
            ..
        } = self;
        vec![
            &members.id,
            &members.expected,
            &members.version,
            &members.types,
            &members.body,
            &members.sets_current,
            &members.current,
            &rare.patches,
            &rare.created,
            &fences.0,
            &fences.1,
            &fences.2,
            &rare.assignments,
            &closes.0,
            &closes.1,
            &closes.2,
            &issues.member,
            &issues.seq,
            &issues.position,
            &issues.unit,
            &issues.pool,
            &issues.worker,
            &issues.epoch,
            &issues.start_by,
            &issues.kinds,
            &issues.body,
            &keys.member,
            &keys.text,
            &keys.seq,
            &keys.hash,
            &steps.member,
            &steps.name,
            &steps.run,
            &steps.status,
            &steps.last,
            &steps.aggregate,
            &steps.seq,
            &rare.timers,
            &rare.messages,
            &rare.consumed,
            &rare.results,
            &snapshots.member,
            &snapshots.version,
            &snapshots.seq,
            &snapshots.sha256,
            &snapshots.bytes,
            publishes,
        ]
    }

    /// Whether the batch has nothing but executions, fences, closed and new commands, keys and steps.
    pub(super) fn changes_only_its_execution(&self) -> bool {
        self.assignments.is_empty()
            && self.timers.is_empty()
            && self.messages.is_empty()
            && self.consumed.is_empty()
            && self.results.is_empty()
            && self.snapshots.member.is_empty()
    }

    pub(super) fn json_params(&self) -> JsonParams<'_> {
        JsonParams {
            patches: non_empty_json(&self.patches),
            created: non_empty_json(&self.created),
            assignments: non_empty_json(&self.assignments),
            timers: non_empty_json(&self.timers),
            messages: non_empty_json(&self.messages),
            consumed: non_empty_json(&self.consumed),
            results: non_empty_json(&self.results),
        }
    }
}

/// Columns that most batches do not have, as JSON.
pub(super) struct JsonParams<'b> {
    pub(super) patches: Option<Json<&'b [PatchRow]>>,
    pub(super) created: Option<Json<&'b [CreatedRow]>>,
    assignments: Option<Json<&'b [AssignRow]>>,
    timers: Option<Json<&'b [TimerRow]>>,
    messages: Option<Json<&'b [MessageRow]>>,
    consumed: Option<Json<&'b [ConsumedRow]>>,
    results: Option<Json<&'b [IndexRow]>>,
}

fn non_empty_json<T>(rows: &[T]) -> Option<Json<&[T]>> {
    (!rows.is_empty()).then_some(Json(rows))
}

/// Refuses a commit that contains the same key or the same work twice.
fn check_repeats(commit: &Commit) -> Result<(), Error> {
    let mut keys = Vec::new();
    for (key, _) in commit.claimed_keys() {
        if keys.contains(&key) {
            return Err(Error::Invariant(key));
        }
        keys.push(key);
    }
    commit.check_work_units(BTreeMap::new())
}

/// Whether the commit itself closes the command again; such a command is never written.
fn is_closed_after(commit: &Commit, index: usize, issue: &IssuedCommand) -> bool {
    let issued = issue.command.id.seq;
    let mut later = commit.commands[index..].iter();
    later.any(|change| matches!(change, CommandChange::Close { seq } if *seq == issued))
}

fn created_row(commit: &Commit) -> Result<Option<ExecutionRow>, Error> {
    if commit.expected != Seq(0) {
        return Ok(None);
    }
    let first = &commit.events[0];
    let EventBody::ExecutionRequested(request) = &first.body else {
        return Err(Error::Malformed(
            "a log must start with one `execution.requested` event",
        ));
    };
    let mut row = ExecutionRow::new(first, request, &commit.creation);
    row.apply(&ProjectionDelta::from_events(&commit.events), commit.version());
    Ok(Some(row))
}

impl IssueColumns {
    fn add(&mut self, member: i32, index: i32, issue: &IssuedCommand) {
        let id = issue.command.id;
        let (worker, epoch) = issue.claimed.clone().unzip();
        self.member.push(member);
        self.seq.push(to_i64(id.seq.0));
        self.position.push(index);
        self.unit.push(issue.work_unit());
        self.pool.push(issue.command.pool.to_string());
        self.worker.push(worker.map(|worker| worker.0.to_string()));
        self.epoch.push(epoch.map_or(0, |epoch| to_i32(epoch.0)));
        self.start_by.push(issue.start_by.map(|by| by.0));
        let kinds: Vec<&str> = issue.kinds.iter().map(Name::as_str).collect();
        self.kinds.push(kinds.join(","));
        self.body
            .push(serde_json::to_string(&issue.command).expect("plain data serializes to JSON"));
        self.key.push(UniqueKey::Work(id));
    }
}
