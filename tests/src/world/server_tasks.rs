//! Background work of a server: assigning commands, delivering messages, firing timers, and lost claims.

use std::sync::Arc;
use std::time::Duration;

use engine::{ExecutionMessage, ExecutionRequest, ExecutionState, Input};
use model::event::Event;
use model::id::{CommandId, ExecutionId, PlaybookHash, Seq, WorkerId};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::time::Time;
use store::{ClaimQuery, Message, Store as _};

use crate::world::load::block_on_ready;
use crate::world::server::{InputResult, WorldError, WorldServer};
use crate::world::world_command::{Order, WorldCommand};

impl WorldServer {
    /// Assigns pending commands to a worker.
    pub fn claim(
        &mut self,
        server: usize,
        worker: &WorkerId,
        max: u32,
    ) -> Result<Vec<WorldCommand>, WorldError> {
        let mut hands = Vec::new();
        for pool in self.pools.clone() {
            let ask = ClaimQuery {
                worker: worker.clone(),
                pool,
                max,
                owner: None,
                kinds: None,
            };
            for mut claim in block_on_ready(self.store.claim_commands(&ask))? {
                self.tamper.claim(&claim.command, &mut claim.lease_epoch);
                let execution = claim.command.id.execution;
                if self.is_stale(server, execution)? {
                    self.states[server].remove(&execution);
                }
                let Some(state) = self.state(server, execution)?.cloned() else {
                    continue;
                };
                let playbook = self.load_net(&state.hash)?.playbook.clone();
                let mut hand = WorldCommand::new(claim, worker, playbook, &state, &self.store);
                hand.jumps_max = self.jumps_max;
                hands.push(hand);
            }
        }
        Ok(hands)
    }

    /// How the holder of a command must continue.
    pub fn claim_verdict(
        &mut self,
        server: usize,
        command: CommandId,
    ) -> Result<Order, WorldError> {
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
    pub fn inbox(&self) -> Result<Vec<Message>, WorldError> {
        Ok(block_on_ready(self.store.inbox(None, usize::MAX))?)
    }

    /// Delivers one message.
    pub fn deliver(&mut self, server: usize, message: &Message) -> Result<InputResult, WorldError> {
        let body: ExecutionMessage = message
            .body
            .parse_as()
            .expect("the world created all of its messages");
        let key = Some(message.key);
        let input = match body {
            ExecutionMessage::Start {
                path,
                version,
                input,
                parent,
                depth,
                ..
            } => {
                let Some(entry) = block_on_ready(self.store.catalog_entry(&path, version))? else {
                    let input = Input::ChildEnded {
                        child: message.to,
                        seq: parent.seq,
                        outcome: Box::new(Outcome::error(not_found(&path))),
                    };
                    return self.apply_input(server, parent.execution_id, input, key);
                };
                if let Err(refusal) = self.load_net(&entry.hash)?.check_payload_size(Some(&input)) {
                    let input = Input::ChildEnded {
                        child: message.to,
                        seq: parent.seq,
                        outcome: Box::new(Outcome::error(refusal.to_task_error())),
                    };
                    return self.apply_input(server, parent.execution_id, input, key);
                }
                Input::Submit(Box::new(ExecutionRequest {
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
            ExecutionMessage::ChildEnded { seq, outcome } => Input::ChildEnded {
                child: message.key.from,
                seq,
                outcome,
            },
            ExecutionMessage::Cancel(request) => Input::Cancel(request),
            ExecutionMessage::Retry { version } => Input::Retry {
                switch: self.resolve_switch(message.to, version)?,
            },
            ExecutionMessage::Patch { patch } => Input::Patch(patch),
            ExecutionMessage::Pause { reason } => Input::Pause { reason },
            ExecutionMessage::Resume => Input::Resume,
            ExecutionMessage::Signal { name, payload } => Input::Signal { name, payload },
        };
        self.apply_input(server, message.to, input, key)
    }

    /// Timers that are due.
    pub fn due_timers(&mut self) -> Result<Vec<(ExecutionId, Seq)>, WorldError> {
        Ok(block_on_ready(self.store.due_timers(None, usize::MAX))?)
    }

    /// When the next timer is due.
    pub fn next_timer(&self) -> Result<Option<Time>, WorldError> {
        Ok(block_on_ready(self.store.next_timer(None, Time(i64::MAX)))?)
    }

    /// Extends a worker's session.
    pub fn renew_session(&self, worker: &WorkerId, ttl: Duration) -> Result<(), WorldError> {
        // A worker in the simulator never restarts under the same name.
        let holder = store::SessionHolder(worker.0.clone());
        block_on_ready(self.store.renew_session(worker, &holder, ttl))?;
        Ok(())
    }

    /// The text of a playbook in the catalog.
    pub fn playbook_text(&self, hash: &PlaybookHash) -> Arc<str> {
        let entry =
            block_on_ready(self.store.playbook(hash)).expect("a store in memory can be read");
        entry
            .expect("the catalog has the playbook of every execution")
            .text
    }

    /// The cached state of a server, which may be stale.
    pub fn cached_state(&self, server: usize, execution: ExecutionId) -> Option<&ExecutionState> {
        self.states.get(server)?.get(&execution)
    }

    /// Releases a claimed command.
    pub fn release_claim(
        &self,
        command: CommandId,
        epoch: model::id::LeaseEpoch,
    ) -> Result<(), WorldError> {
        Ok(block_on_ready(self.store.release_claim(command, epoch))?)
    }

    /// An execution as it appears in lists.
    pub fn execution_row(
        &self,
        execution: ExecutionId,
    ) -> Result<Option<store::ExecutionRow>, WorldError> {
        Ok(block_on_ready(self.store.execution(execution))?)
    }

    /// Claims of dead workers.
    pub fn lost_claims(&self) -> Result<Vec<store::LostClaim>, WorldError> {
        Ok(block_on_ready(self.store.lost_claims(None))?)
    }

    /// Whether another worker holds the command.
    pub fn has_stray_claims(&self, worker: &WorkerId) -> Result<bool, WorldError> {
        let open = self.open_commands()?;
        Ok(open
            .iter()
            .any(|open| open.worker.as_ref().is_some_and(|held| held != worker)))
    }

    /// Every command that has not ended.
    pub fn open_commands(&self) -> Result<Vec<store::OpenCommand>, WorldError> {
        let filter = store::ExecutionFilter {
            limit: usize::MAX,
            ..store::ExecutionFilter::default()
        };
        let mut open = Vec::new();
        for row in block_on_ready(self.store.executions(&filter))? {
            open.extend(block_on_ready(self.store.open_commands(row.id))?);
        }
        Ok(open)
    }

    /// When the first unclaimed command is overdue.
    pub fn next_overdue(&self) -> Result<Option<Time>, WorldError> {
        let pending = self
            .open_commands()?
            .into_iter()
            .filter(|open| open.worker.is_none());
        Ok(pending
            .map(|open| open.issued_at.after(self.limits.schedule_to_start))
            .min())
    }

    /// Fails commands that no worker claimed in time.
    pub fn sweep_overdue(&mut self, server: usize) -> Result<(), WorldError> {
        for command in block_on_ready(self.store.overdue_commands(None))? {
            self.apply_input(
                server,
                command.execution,
                Input::CommandOverdue(command.seq),
                None,
            )?;
        }
        Ok(())
    }

    /// Registers a playbook.
    pub fn register(&self, path: &str, text: &str) -> Result<(), WorldError> {
        block_on_ready(self.store.put_playbook(path, text))?;
        Ok(())
    }

    /// Returns what happened since the last call.
    pub fn take_new_events(&mut self) -> Vec<(ExecutionId, Vec<Event>)> {
        std::mem::take(&mut self.new_events)
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
