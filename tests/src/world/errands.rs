//! Background work of a server: assigning commands, delivering messages, firing timers, and lost claims.

use std::sync::Arc;
use std::time::Duration;

use engine::{Input, MessageBody, State, Submit};
use model::event::Event;
use model::id::{CommandId, ExecutionId, PlaybookHash, Seq, WorkerId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::time::Time;
use store::{Ask, Message, Store as _};

use crate::world::hand::{Hand, Order};
use crate::world::load::now;
use crate::world::server::{Broken, Posted, Server};

impl Server {
    /// Assigns pending commands to a worker.
    pub fn claim(
        &mut self,
        server: usize,
        worker: &WorkerId,
        max: u32,
    ) -> Result<Vec<Hand>, Broken> {
        let mut hands = Vec::new();
        for pool in self.pools.clone() {
            let ask = Ask {
                worker: worker.clone(),
                pool,
                max,
                owner: None,
                kinds: None,
            };
            for mut claim in now(self.store.claim(&ask))? {
                self.tamper.claim(&claim.command, &mut claim.lease_epoch);
                let execution = claim.command.id.execution;
                if self.is_stale(server, execution)? {
                    self.states[server].remove(&execution);
                }
                let Some(state) = self.state(server, execution)?.cloned() else {
                    continue;
                };
                let playbook = self.net(&state.hash)?.playbook.clone();
                let mut hand = Hand::new(claim, worker, playbook, &state, &self.store);
                hand.jumps_max = self.jumps_max;
                hands.push(hand);
            }
        }
        Ok(hands)
    }

    /// How the holder of a command must continue.
    pub fn verdict(&mut self, server: usize, command: CommandId) -> Result<Order, Broken> {
        let Some(state) = self.state(server, command.execution)? else {
            return Ok(Order::Stop);
        };
        let Some(live) = state.commands.get(&command.seq) else {
            return Ok(Order::Stop);
        };
        if state.stop.is_some() || state.is_ended() {
            return Ok(Order::Stop);
        }
        let loop_ = state.run(&live.run).and_then(|run| run.loop_.as_ref());
        let stopped = loop_.is_some_and(engine::LoopRun::is_stopped);
        Ok(if state.paused || stopped {
            Order::Yield
        } else {
            Order::Proceed
        })
    }

    /// Unconsumed messages between executions, oldest first.
    pub fn inbox(&self) -> Result<Vec<Message>, Broken> {
        Ok(now(self.store.inbox(None, usize::MAX))?)
    }

    /// Delivers one message.
    pub fn deliver(&mut self, server: usize, message: &Message) -> Result<Posted, Broken> {
        let body: MessageBody = message
            .body
            .read()
            .expect("the world created all of its messages");
        let key = Some(message.key);
        let input = match body {
            MessageBody::Start {
                path,
                version,
                input,
                parent,
                depth,
                ..
            } => {
                let Some(entry) = now(self.store.latest(&path, version))? else {
                    let input = Input::ChildEnded {
                        child: message.to,
                        seq: parent.seq,
                        outcome: Box::new(Outcome::error(not_found(&path))),
                    };
                    return self.post(server, parent.execution_id, input, key);
                };
                if let Err(refusal) = self.net(&entry.hash)?.must_fit(Some(&input)) {
                    let input = Input::ChildEnded {
                        child: message.to,
                        seq: parent.seq,
                        outcome: Box::new(Outcome::error(refusal.failure())),
                    };
                    return self.post(server, parent.execution_id, input, key);
                }
                Input::Submit(Box::new(Submit {
                    execution: message.to,
                    path: entry.path,
                    version: entry.version,
                    hash: entry.hash,
                    payload: Some(input),
                    parent: Some(parent),
                    depth,
                    trace_id: None,
                    reuse: None,
                    env: None,
                }))
            }
            MessageBody::ChildEnded { seq, outcome } => Input::ChildEnded {
                child: message.key.from,
                seq,
                outcome,
            },
            MessageBody::Cancel(request) => Input::Cancel(request),
            MessageBody::Retry { version } => Input::Retry {
                switch: self.switch(message.to, version)?,
            },
            MessageBody::Patch { patch } => Input::Patch(patch),
            MessageBody::Pause { reason } => Input::Pause { reason },
            MessageBody::Resume => Input::Resume,
            MessageBody::Signal { name, payload } => Input::Signal { name, payload },
        };
        self.post(server, message.to, input, key)
    }

    /// Timers that are due.
    pub fn due_timers(&mut self) -> Result<Vec<(ExecutionId, Seq)>, Broken> {
        Ok(now(self.store.due_timers(None, usize::MAX))?)
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Result<Option<Time>, Broken> {
        Ok(now(self.store.next_timer(None, Time(i64::MAX)))?)
    }

    /// Extends a worker's session.
    pub fn renew(&self, worker: &WorkerId, ttl: Duration) -> Result<(), Broken> {
        // A worker in the simulator never restarts under the same name.
        let holder = store::SessionHolder(worker.0.clone());
        now(self.store.renew(worker, &holder, ttl))?;
        Ok(())
    }

    /// The text of a playbook in the catalog.
    pub fn text(&self, hash: &PlaybookHash) -> Arc<str> {
        let entry = now(self.store.playbook(hash)).expect("a store in memory can be read");
        entry
            .expect("the catalog has the playbook of every execution")
            .text
    }

    /// The cached state of a server, which may be stale.
    pub fn known(&self, server: usize, execution: ExecutionId) -> Option<&State> {
        self.states.get(server)?.get(&execution)
    }

    /// Releases a claimed command.
    pub fn release(&self, command: CommandId, epoch: model::id::LeaseEpoch) -> Result<(), Broken> {
        Ok(now(self.store.release(command, epoch))?)
    }

    /// An execution as it appears in lists.
    pub fn row(&self, execution: ExecutionId) -> Result<Option<store::ExecutionRow>, Broken> {
        Ok(now(self.store.execution(execution))?)
    }

    /// Claims of dead workers.
    pub fn lost_claims(&self) -> Result<Vec<store::LostClaim>, Broken> {
        Ok(now(self.store.lost_claims(None))?)
    }

    /// Whether another worker holds the command.
    pub fn has_stray_claims(&self, worker: &WorkerId) -> Result<bool, Broken> {
        let open = self.open_commands()?;
        Ok(open
            .iter()
            .any(|open| open.worker.as_ref().is_some_and(|held| held != worker)))
    }

    /// Every command that has not ended.
    pub fn open_commands(&self) -> Result<Vec<store::OpenCommand>, Broken> {
        let filter = store::Filter {
            limit: usize::MAX,
            ..store::Filter::default()
        };
        let mut open = Vec::new();
        for row in now(self.store.executions(&filter))? {
            open.extend(now(self.store.open_commands(row.id))?);
        }
        Ok(open)
    }

    /// When the first unclaimed command is overdue.
    pub fn next_overdue(&self) -> Result<Option<Time>, Broken> {
        let pending = self
            .open_commands()?
            .into_iter()
            .filter(|open| open.worker.is_none());
        Ok(pending
            .map(|open| open.issued_at.after(self.limits.schedule_to_start))
            .min())
    }

    /// Fails commands that no worker claimed in time.
    pub fn sweep_overdue(&mut self, server: usize) -> Result<(), Broken> {
        for command in now(self.store.overdue_commands(None))? {
            self.post(
                server,
                command.execution,
                Input::Unclaimed(command.seq),
                None,
            )?;
        }
        Ok(())
    }

    /// Registers a playbook.
    pub fn register(&self, path: &str, text: &str) -> Result<(), Broken> {
        now(self.store.put_playbook(path, text))?;
        Ok(())
    }

    /// Returns what happened since the last call.
    pub fn take_fresh(&mut self) -> Vec<(ExecutionId, Vec<Event>)> {
        std::mem::take(&mut self.fresh)
    }
}

fn not_found(path: &str) -> TaskError {
    TaskError {
        retryable: false,
        ..TaskError::new(
            ErrorKind::NotFound,
            "PLAYBOOK_NOT_FOUND",
            format!("playbook `{path}` is not in the catalog"),
        )
    }
}
