//! One commit as statements of a shared transaction.
//!
//! The version check is the first write: a commit that is fenced or whose version has moved writes nothing.

use model::command::{Fence, TimerChange};
use model::event::{EventBody, PackedAppend, UniqueKey, pack};
use model::id::Seq;
use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::oneshot;

use crate::commit::{CommandChange, Commit, CommitStatus, IssuedCommand, Message, MessageKey, Priority};
use crate::error::Error;
use crate::iterations::IterationDelta;
use crate::projections::{CurrentStep, ProjectionDelta};
use crate::rows::{ExecutionRow, Snapshot};
use crate::sqlite::iterations;
use crate::sqlite::rows::{execution_row, to_i64, to_json_text, write_projection};
use crate::sqlite::writer::{WriteError, WriteJob};
use crate::sqlite::writes::withdraw_message;

/// A commit in the write queue. All values are computed in advance, outside the writer thread.
pub(super) struct CommitJob {
    commit: Commit,
    packed: Option<PackedAppend>,
    delta: ProjectionDelta,
    iterations: IterationDelta,
    /// The JSON of each issued command, in order.
    commands: Vec<String>,
    now: Time,
    publishes: bool,
    status: CommitStatus,
    reply: oneshot::Sender<Result<CommitStatus, Error>>,
}

impl CommitJob {
    pub(super) fn new(
        commit: Commit,
        now: Time,
        publishes: bool,
        reply: oneshot::Sender<Result<CommitStatus, Error>>,
    ) -> Self {
        let commands = commit.commands.iter().filter_map(|change| match change {
            CommandChange::Issue(issue) => Some(to_json_text(&issue.command)),
            CommandChange::Assign { .. } | CommandChange::Close { .. } => None,
        });
        Self {
            packed: (!commit.events.is_empty()).then(|| pack(&commit.events)),
            delta: ProjectionDelta::from_events(&commit.events),
            iterations: IterationDelta::from_events(&commit.events),
            commands: commands.collect(),
            now,
            publishes,
            status: CommitStatus::Committed,
            commit,
            reply,
        }
    }
}

impl WriteJob for CommitJob {
    fn run(&mut self, db: &Connection) -> Result<(), WriteError> {
        self.status = self.write(db)?;
        Ok(())
    }

    fn priority(&self) -> Priority {
        self.commit.priority
    }

    fn reply(self: Box<Self>, outcome: Result<(), Error>) {
        // The caller may have gone away; the commit is durable anyway.
        let _ = self.reply.send(outcome.map(|()| self.status));
    }
}

impl CommitJob {
    fn write(&self, db: &Connection) -> Result<CommitStatus, WriteError> {
        let commit = &self.commit;
        for fence in &commit.fences {
            if !is_current(db, commit, *fence)? {
                return Ok(CommitStatus::Fenced);
            }
        }
        for change in &commit.commands {
            if let CommandChange::Assign { seq, .. } = change
                && !is_on_offer(db, commit, *seq)?
            {
                return Ok(CommitStatus::Fenced);
            }
        }
        if !self.advance_version(db)? {
            let version = current_version(db, commit)?;
            return Ok(CommitStatus::VersionConflict { version });
        }
        if let Some(packed) = &self.packed {
            self.write_log(db, packed)?;
            if self.publishes {
                self.add_to_outbox(db)?;
            }
        }
        self.write_keys(db)?;
        self.write_commands(db)?;
        for change in &commit.timers {
            write_timer(db, commit, change)?;
        }
        for message in &commit.messages {
            insert_message(db, message)?;
        }
        for key in &commit.consumed {
            withdraw_message(db, *key, self.now)?;
        }
        if let Some(snapshot) = &commit.snapshot {
            write_snapshot(db, commit, snapshot)?;
        }
        write_projection(db, commit.execution, &self.delta)?;
        iterations::write_iterations(db, commit.execution, &self.iterations)?;
        Ok(CommitStatus::Committed)
    }

    /// Advances the execution's version. Returns false if the version is not the expected one.
    fn advance_version(&self, db: &Connection) -> Result<bool, WriteError> {
        let commit = &self.commit;
        if commit.expected == Seq(0) {
            return self.insert_execution(db);
        }
        if !self.delta.patch.changes_only_current_step() {
            return self.update_execution(db);
        }
        let current = self.delta.patch.current.as_ref().and_then(CurrentStep::name);
        let current = current.map(model::id::Name::as_str);
        let changed = db
            .prepare_cached(
                "UPDATE execution SET version = ?3, current = coalesce(?4, current)
                 WHERE execution_id = ?1 AND version = ?2",
            )?
            .execute(params![
                commit.execution.0,
                to_i64(commit.expected.0),
                to_i64(commit.version().0),
                current
            ])?;
        Ok(changed == 1)
    }

    fn insert_execution(&self, db: &Connection) -> Result<bool, WriteError> {
        let first = &self.commit.events[0];
        let EventBody::ExecutionRequested(request) = &first.body else {
            let error = Error::Malformed("a log must start with one `execution.requested` event");
            return Err(WriteError::Job(error));
        };
        let mut row = ExecutionRow::new(first, request, &self.commit.creation);
        row.apply(&self.delta, self.commit.version());
        Ok(crate::sqlite::rows::insert_execution(db, &row)?)
    }

    /// Updates the whole row, because the new values depend on the current ones.
    fn update_execution(&self, db: &Connection) -> Result<bool, WriteError> {
        let Some(mut row) = execution_row(db, self.commit.execution)? else {
            return Ok(false);
        };
        if row.version != self.commit.expected {
            return Ok(false);
        }
        row.apply(&self.delta, self.commit.version());
        crate::sqlite::rows::update_execution(db, &row)?;
        Ok(true)
    }

    fn write_log(&self, db: &Connection, packed: &PackedAppend) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO log (execution_id, seq_first, seq_last, types, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            self.commit.execution.0,
            to_i64(self.commit.expected.next().0),
            to_i64(self.commit.version().0),
            packed.types,
            packed.body,
        ])?;
        Ok(())
    }

    fn add_to_outbox(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached("INSERT INTO outbox (execution_id, seq_first, seq_last) VALUES (?1, ?2, ?3)")?
            .execute(params![
                self.commit.execution.0,
                to_i64(self.commit.expected.next().0),
                to_i64(self.commit.version().0),
            ])?;
        Ok(())
    }

    fn write_keys(&self, db: &Connection) -> Result<(), WriteError> {
        for (key, foreign) in self.commit.claimed_keys() {
            let changed = db
                .prepare_cached(
                    "INSERT INTO event_key (execution_id, key, seq, hash) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO NOTHING",
                )?
                .execute(params![
                    self.commit.execution.0,
                    key.to_string(),
                    foreign.map(|event| to_i64(event.seq.0)),
                    foreign.map(|event| event.hash),
                ])?;
            if changed == 0 {
                return Err(WriteError::Job(Error::Invariant(key)));
            }
        }
        Ok(())
    }

    fn write_commands(&self, db: &Connection) -> Result<(), WriteError> {
        let mut bodies = self.commands.iter();
        for change in &self.commit.commands {
            match change {
                CommandChange::Issue(issue) => {
                    let body = bodies.next().expect("each issued command has its JSON");
                    if !insert_command(db, issue, body, self.now)? {
                        let key = UniqueKey::Work(issue.command.id);
                        return Err(WriteError::Job(Error::Invariant(key)));
                    }
                }
                CommandChange::Assign {
                    seq,
                    worker,
                    lease_epoch,
                } => {
                    db.prepare_cached(
                        "UPDATE command SET worker = ?3, lease_epoch = ?4, claimed_at = ?5
                         WHERE execution_id = ?1 AND seq = ?2",
                    )?
                    .execute(params![
                        self.commit.execution.0,
                        to_i64(seq.0),
                        &*worker.0,
                        to_i64(lease_epoch.0),
                        self.now.0
                    ])?;
                }
                CommandChange::Close { seq } => {
                    db.prepare_cached("DELETE FROM command WHERE execution_id = ?1 AND seq = ?2")?
                        .execute(params![self.commit.execution.0, to_i64(seq.0)])?;
                }
            }
        }
        Ok(())
    }
}

fn is_current(db: &Connection, commit: &Commit, fence: Fence) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM command
         WHERE execution_id = ?1 AND seq = ?2 AND lease_epoch = ?3 AND worker IS NOT NULL",
    )?
    .exists(params![
        commit.execution.0,
        to_i64(fence.command.0),
        to_i64(fence.lease_epoch.0)
    ])
}

fn is_on_offer(db: &Connection, commit: &Commit, seq: Seq) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM command WHERE execution_id = ?1 AND seq = ?2 AND worker IS NULL")?
        .exists(params![commit.execution.0, to_i64(seq.0)])
}

fn current_version(db: &Connection, commit: &Commit) -> rusqlite::Result<Seq> {
    let version: Option<i64> = db
        .prepare_cached("SELECT version FROM execution WHERE execution_id = ?1")?
        .query_row([commit.execution.0], |row| row.get(0))
        .optional()?;
    Ok(Seq(u64::try_from(version.unwrap_or(0)).unwrap_or(0)))
}

fn insert_command(db: &Connection, issue: &IssuedCommand, body: &str, now: Time) -> rusqlite::Result<bool> {
    let id = issue.command.id;
    let (worker, epoch) = match &issue.claimed {
        Some((worker, epoch)) => (Some(&*worker.0), to_i64(epoch.0)),
        None => (None, 0),
    };
    let changed = db
        .prepare_cached(
            "INSERT INTO command (execution_id, seq, unit, pool, worker, lease_epoch, issued_at, start_by, body,
                 claimed_at, kinds)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            id.execution.0,
            to_i64(id.seq.0),
            issue.work_unit(),
            issue.command.pool.as_str(),
            worker,
            epoch,
            now.0,
            issue.start_by.map(|by| by.0),
            body,
            worker.map(|_| now.0),
            to_json_text(&issue.kinds),
        ])?;
    Ok(changed == 1)
}

fn write_timer(db: &Connection, commit: &Commit, change: &TimerChange) -> rusqlite::Result<()> {
    let id = commit.execution.0;
    match change {
        TimerChange::Set { seq, due } => db
            .prepare_cached("INSERT OR REPLACE INTO timer (execution_id, seq, due) VALUES (?1, ?2, ?3)")?
            .execute(params![id, to_i64(seq.0), due.0])?,
        TimerChange::Clear { seq } => db
            .prepare_cached("DELETE FROM timer WHERE execution_id = ?1 AND seq = ?2")?
            .execute(params![id, to_i64(seq.0)])?,
    };
    Ok(())
}

/// Adds a message, once.
pub(super) fn insert_message(db: &Connection, message: &Message) -> rusqlite::Result<()> {
    let MessageKey { from, seq, n } = message.key;
    db.prepare_cached(
        "INSERT INTO message (from_id, seq, n, to_id, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![from.0, to_i64(seq.0), n, message.to.0, message.body.text()])?;
    Ok(())
}

fn write_snapshot(db: &Connection, commit: &Commit, snapshot: &Snapshot) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO snapshot (execution_id, version, seq, sha256, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        commit.execution.0,
        snapshot.version,
        to_i64(snapshot.seq.0),
        crate::columns::snapshot_checksum(&snapshot.bytes),
        snapshot.bytes,
    ])?;
    Ok(())
}
