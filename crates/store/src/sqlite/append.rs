//! One commit as statements of a shared transaction.
//!
//! The version check is the first write: a commit that is fenced or whose version has moved writes nothing.

use model::command::TimerChange;
use model::event::{Body, Packed, pack};
use model::id::Seq;
use model::time::Time;
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::sync::oneshot;

use crate::commit::{
    CommandChange, Commit, Committed, Fence, Issue, Key, Message, MessageKey, Priority,
};
use crate::error::Error;
use crate::iterations::IterationDelta;
use crate::projections::{Delta, Place};
use crate::rows::{ExecutionRow, Snapshot};
use crate::sqlite::change::take_back;
use crate::sqlite::iterations;
use crate::sqlite::rows::{execution_row, integer, project, text_of};
use crate::sqlite::writer::{Job, Refused};

/// A commit in the write queue. All values are computed in advance, outside the writer thread.
pub(super) struct Append {
    commit: Commit,
    packed: Option<Packed>,
    delta: Delta,
    iterations: IterationDelta,
    /// The JSON of each issued command, in order.
    commands: Vec<String>,
    now: Time,
    publishes: bool,
    outcome: Committed,
    answer: oneshot::Sender<Result<Committed, Error>>,
}

impl Append {
    pub(super) fn new(
        commit: Commit,
        (now, publishes): (Time, bool),
        answer: oneshot::Sender<Result<Committed, Error>>,
    ) -> Self {
        let commands = commit.commands.iter().filter_map(|change| match change {
            CommandChange::Issue(issue) => Some(text_of(&issue.command)),
            CommandChange::Hand { .. } | CommandChange::Close { .. } => None,
        });
        Self {
            packed: (!commit.events.is_empty()).then(|| pack(&commit.events)),
            delta: Delta::of(&commit.events),
            iterations: IterationDelta::of(&commit.events),
            commands: commands.collect(),
            now,
            publishes,
            outcome: Committed::Done,
            commit,
            answer,
        }
    }
}

impl Job for Append {
    fn run(&mut self, db: &Connection) -> Result<(), Refused> {
        self.outcome = self.write(db)?;
        Ok(())
    }

    fn priority(&self) -> Priority {
        self.commit.priority
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        // The caller may have gone away; the commit is durable anyway.
        let _ = self.answer.send(outcome.map(|()| self.outcome));
    }
}

impl Append {
    fn write(&self, db: &Connection) -> Result<Committed, Refused> {
        let commit = &self.commit;
        for fence in &commit.fences {
            if !is_current(db, commit, *fence)? {
                return Ok(Committed::Fenced);
            }
        }
        for change in &commit.commands {
            if let CommandChange::Hand { seq, .. } = change
                && !is_on_offer(db, commit, *seq)?
            {
                return Ok(Committed::Fenced);
            }
        }
        if !self.advance(db)? {
            let version = version(db, commit)?;
            return Ok(Committed::Moved { version });
        }
        if let Some(packed) = &self.packed {
            self.write_log(db, packed)?;
            if self.publishes {
                self.publish(db)?;
            }
        }
        self.write_keys(db)?;
        self.write_commands(db)?;
        for change in &commit.timers {
            write_timer(db, commit, change)?;
        }
        for message in &commit.messages {
            post(db, message)?;
        }
        for key in &commit.consumed {
            take_back(db, *key, self.now)?;
        }
        if let Some(snapshot) = &commit.snapshot {
            write_snapshot(db, commit, snapshot)?;
        }
        project(db, commit.execution, &self.delta)?;
        iterations::write(db, commit.execution, &self.iterations)?;
        Ok(Committed::Done)
    }

    /// Advances the execution's version. Returns false if the version is not the expected one.
    fn advance(&self, db: &Connection) -> Result<bool, Refused> {
        let commit = &self.commit;
        if commit.expected == Seq(0) {
            return self.create(db);
        }
        if !self.delta.patch.is_plain() {
            return self.turn(db);
        }
        let current = self.delta.patch.current.as_ref().and_then(Place::name);
        let current = current.map(model::id::Name::as_str);
        let changed = db
            .prepare_cached(
                "UPDATE execution SET version = ?3, current = coalesce(?4, current)
                 WHERE execution_id = ?1 AND version = ?2",
            )?
            .execute(params![
                commit.execution.0,
                integer(commit.expected.0),
                integer(commit.version().0),
                current
            ])?;
        Ok(changed == 1)
    }

    fn create(&self, db: &Connection) -> Result<bool, Refused> {
        let first = &self.commit.events[0];
        let Body::ExecutionRequested(request) = &first.body else {
            let error = Error::Malformed("a log must start with one `execution.requested` event");
            return Err(Refused::Alone(error));
        };
        let mut row = ExecutionRow::new(first, request, &self.commit.creation);
        row.apply(&self.delta, self.commit.version());
        Ok(crate::sqlite::rows::insert_execution(db, &row)?)
    }

    /// Updates the whole row, because the new values depend on the current ones.
    fn turn(&self, db: &Connection) -> Result<bool, Refused> {
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

    fn write_log(&self, db: &Connection, packed: &Packed) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO log (execution_id, seq_first, seq_last, types, body) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            self.commit.execution.0,
            integer(self.commit.expected.next().0),
            integer(self.commit.version().0),
            packed.types,
            packed.body,
        ])?;
        Ok(())
    }

    fn publish(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached(
            "INSERT INTO outbox (execution_id, seq_first, seq_last) VALUES (?1, ?2, ?3)",
        )?
        .execute(params![
            self.commit.execution.0,
            integer(self.commit.expected.next().0),
            integer(self.commit.version().0),
        ])?;
        Ok(())
    }

    fn write_keys(&self, db: &Connection) -> Result<(), Refused> {
        for (key, foreign) in self.commit.claimed_keys() {
            let changed = db
                .prepare_cached(
                    "INSERT INTO event_key (execution_id, key, seq, hash) VALUES (?1, ?2, ?3, ?4)
                     ON CONFLICT DO NOTHING",
                )?
                .execute(params![
                    self.commit.execution.0,
                    key.to_string(),
                    foreign.map(|event| integer(event.seq.0)),
                    foreign.map(|event| event.hash),
                ])?;
            if changed == 0 {
                return Err(Refused::Alone(Error::Invariant(key)));
            }
        }
        Ok(())
    }

    fn write_commands(&self, db: &Connection) -> Result<(), Refused> {
        let mut bodies = self.commands.iter();
        for change in &self.commit.commands {
            match change {
                CommandChange::Issue(issue) => {
                    let body = bodies.next().expect("each issued command has its JSON");
                    if !insert_command(db, issue, body, self.now)? {
                        let key = Key::Work(issue.command.id);
                        return Err(Refused::Alone(Error::Invariant(key)));
                    }
                }
                CommandChange::Hand {
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
                        integer(seq.0),
                        &*worker.0,
                        integer(lease_epoch.0),
                        self.now.0
                    ])?;
                }
                CommandChange::Close { seq } => {
                    db.prepare_cached("DELETE FROM command WHERE execution_id = ?1 AND seq = ?2")?
                        .execute(params![self.commit.execution.0, integer(seq.0)])?;
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
        integer(fence.command.0),
        integer(fence.lease_epoch.0)
    ])
}

fn is_on_offer(db: &Connection, commit: &Commit, seq: Seq) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM command WHERE execution_id = ?1 AND seq = ?2 AND worker IS NULL",
    )?
    .exists(params![commit.execution.0, integer(seq.0)])
}

fn version(db: &Connection, commit: &Commit) -> rusqlite::Result<Seq> {
    let version: Option<i64> = db
        .prepare_cached("SELECT version FROM execution WHERE execution_id = ?1")?
        .query_row([commit.execution.0], |row| row.get(0))
        .optional()?;
    Ok(Seq(u64::try_from(version.unwrap_or(0)).unwrap_or(0)))
}

fn insert_command(db: &Connection, issue: &Issue, body: &str, now: Time) -> rusqlite::Result<bool> {
    let id = issue.command.id;
    let (worker, epoch) = match &issue.claimed {
        Some((worker, epoch)) => (Some(&*worker.0), integer(epoch.0)),
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
            integer(id.seq.0),
            issue.unit(),
            issue.command.pool.as_str(),
            worker,
            epoch,
            now.0,
            issue.start_by.map(|by| by.0),
            body,
            worker.map(|_| now.0),
            text_of(&issue.kinds),
        ])?;
    Ok(changed == 1)
}

fn write_timer(db: &Connection, commit: &Commit, change: &TimerChange) -> rusqlite::Result<()> {
    let id = commit.execution.0;
    match change {
        TimerChange::Set { seq, due } => db
            .prepare_cached(
                "INSERT OR REPLACE INTO timer (execution_id, seq, due) VALUES (?1, ?2, ?3)",
            )?
            .execute(params![id, integer(seq.0), due.0])?,
        TimerChange::Clear { seq } => db
            .prepare_cached("DELETE FROM timer WHERE execution_id = ?1 AND seq = ?2")?
            .execute(params![id, integer(seq.0)])?,
    };
    Ok(())
}

/// Adds a message, once.
pub(super) fn post(db: &Connection, message: &Message) -> rusqlite::Result<()> {
    let MessageKey { from, seq, n } = message.key;
    db.prepare_cached(
        "INSERT INTO message (from_id, seq, n, to_id, body) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
    )?
    .execute(params![from.0, integer(seq.0), n, message.to.0, message.body.text()])?;
    Ok(())
}

fn write_snapshot(db: &Connection, commit: &Commit, snapshot: &Snapshot) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO snapshot (execution_id, version, seq, sha256, bytes) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute(params![
        commit.execution.0,
        snapshot.version,
        integer(snapshot.seq.0),
        crate::sqlite::rows::checksum(&snapshot.bytes),
        snapshot.bytes,
    ])?;
    Ok(())
}
