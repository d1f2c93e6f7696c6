//! The inbox: applies messages to executions of this process and starts child executions, in order.
//!
//! Input: messages from the store. Output: inputs of executions, and new executions. An execution whose keychain needs
//! the network starts in a task of its own, so that an endpoint that does not respond delays no other message;
//! messages to it wait until it has started.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{Input, MessageBody, Refusal};
use model::event::Parent;
use model::id::{ExecutionId, Seq};
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::Raw;
use store::{Adoption, Message, MessageKey};
use tokio::task::{JoinError, JoinSet};

use crate::Shared;
use crate::control;
use crate::drive::{Extras, Posted, priority_of};
use crate::error::Error;
use crate::ingest;
use crate::keychain::{KeychainError, asks_network};
use crate::playbooks::{Registered, Unusable};
use crate::submit::Start;
use crate::sweep::{BATCH, IDLE, post};

/// Maximum number of concurrent starts that need the network.
const STARTS_MAX: usize = 16;
/// How often the owner of the recipient may change while a message is carried out.
const DRIVERS_MAX: usize = 4;
/// Maximum number of waiting messages that are read in addition to a batch.
const WAITING_MAX: usize = 4 * BATCH;

/// Processes messages until the server stops.
pub(crate) async fn messages(shared: Arc<Shared>) {
    let mut inbox = Inbox {
        shared: shared.clone(),
        seen: HashSet::new(),
        waiting: HashSet::new(),
        starting: HashSet::new(),
        starts: JoinSet::new(),
    };
    loop {
        match shared.store.inbox(Some(&shared.owner), inbox.limit()).await {
            Ok(messages) => inbox.take_up(messages).await,
            Err(error) => tracing::warn!(%error, "failed to read the inbox; retrying"),
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE) => {}
            () = shared.sweeps.messages.notified() => {}
            () = shared.store.changed() => {}
            Some(started) = inbox.starts.join_next() => inbox.started(started),
        }
    }
}

/// State of the messages that are still in the store.
struct Inbox {
    shared: Arc<Shared>,
    /// Processed messages.
    seen: HashSet<MessageKey>,
    /// Messages for later: starts beyond `STARTS_MAX`, and messages to executions that are being started.
    waiting: HashSet<MessageKey>,
    /// Executions that are being started.
    starting: HashSet<ExecutionId>,
    starts: JoinSet<Started>,
}

/// Result of starting an execution.
struct Started {
    key: MessageKey,
    execution: ExecutionId,
    result: Result<(), Error>,
}

impl Inbox {
    /// How many messages to read: waiting messages must not hide the ones behind them.
    fn limit(&self) -> usize {
        let waiting = self.waiting.len() + self.starting.len();
        BATCH + waiting.min(WAITING_MAX)
    }

    async fn take_up(&mut self, messages: Vec<Message>) {
        let keys: HashSet<MessageKey> = messages.iter().map(|message| message.key).collect();
        self.seen.retain(|key| keys.contains(key));
        self.waiting.retain(|key| keys.contains(key));
        let mut held = self.starting.clone();
        for message in messages {
            let (key, to) = (message.key, message.to);
            if self.seen.contains(&key) {
                continue;
            }
            let is_full = self.starts.len() >= STARTS_MAX;
            if held.contains(&to) || (is_full && self.waiting.contains(&key)) {
                self.waiting.insert(key);
                held.insert(to);
                continue;
            }
            match receive(&self.shared, message).await {
                Ok(Taken::Done) => {
                    self.waiting.remove(&key);
                    self.seen.insert(key);
                }
                Ok(Taken::Left) => {
                    self.waiting.insert(key);
                }
                Ok(Taken::Slow(child, registered)) => {
                    held.insert(to);
                    if is_full {
                        self.waiting.insert(key);
                    } else {
                        self.waiting.remove(&key);
                        self.start(key, *child, *registered);
                    }
                }
                Err(error) => tracing::warn!(%error, "failed to process message; retrying"),
            }
        }
    }

    fn start(&mut self, key: MessageKey, child: Child, registered: Registered) {
        let execution = child.start.execution;
        self.starting.insert(execution);
        let shared = self.shared.clone();
        self.starts.spawn(async move {
            let result = child.begin(&shared, registered).await;
            if result.is_err() {
                tokio::time::sleep(IDLE).await;
            }
            Started {
                key,
                execution,
                result,
            }
        });
    }

    fn started(&mut self, started: Result<Started, JoinError>) {
        let started = started.expect("starting a run does not panic");
        self.starting.remove(&started.execution);
        match started.result {
            Ok(()) => {
                self.seen.insert(started.key);
            }
            Err(error) => tracing::warn!(%error, "failed to process message; retrying"),
        }
    }
}

/// What became of a message.
enum Taken {
    /// It has been processed.
    Done,
    /// It is left to another process.
    Left,
    /// It starts an execution whose keychain needs the network first.
    Slow(Box<Child>, Box<Registered>),
}

async fn receive(shared: &Shared, message: Message) -> Result<Taken, Error> {
    let consumed = Some(message.key);
    let mut wanted = None;
    if let Ok(deferred) = message.body.read::<ingest::Deferred>() {
        return done(ingest::decide(shared, deferred, message.key).await);
    }
    let Ok(body) = message.body.read::<MessageBody>() else {
        tracing::error!("skipping unreadable control message");
        return Ok(Taken::Done);
    };
    let input = match body {
        MessageBody::Start {
            path,
            version,
            input,
            parent,
            depth,
            base,
            trace_id,
        } => {
            let start = Start {
                execution: message.to,
                payload: Some(input),
                parent: Some(parent.clone()),
                depth,
                trace_id,
                consumed,
                reuse: None,
            };
            let child = Child { start, parent };
            return match shared.playbooks.find(&path, version, base.as_str()).await {
                Ok(registered) if asks_network(&registered.net.playbook) => {
                    Ok(Taken::Slow(Box::new(child), Box::new(registered)))
                }
                Ok(registered) => done(child.begin(shared, registered).await),
                Err(Unusable::Store(error)) => Err(error.into()),
                Err(unusable) => done(child.fail(shared, cannot_start(&path, &unusable)).await),
            };
        }
        MessageBody::ChildEnded { seq, outcome } => Input::ChildEnded {
            child: message.key.from,
            seq,
            outcome,
        },
        MessageBody::Cancel(request) => Input::Cancel(request),
        MessageBody::Retry { version } => {
            wanted = version;
            Input::Retry { switch: None }
        }
        MessageBody::Patch { patch } => Input::Patch(patch),
        MessageBody::Pause { reason } => Input::Pause { reason },
        MessageBody::Resume => Input::Resume,
        MessageBody::Signal { name, payload } => Input::Signal { name, payload },
    };
    carry_out(shared, &message, input, wanted).await
}

/// Carries out a message; a retry continues with the playbook version that it names. If the owner of the execution is
/// dead, it is adopted first. If the message comes from a client, a refusal is stored as its response; an execution
/// learns the result from events.
async fn carry_out(
    shared: &Shared,
    message: &Message,
    input: Input,
    version: Option<u32>,
) -> Result<Taken, Error> {
    let is_from_a_person = message.key.seq == Seq(0);
    for _ in 0..DRIVERS_MAX {
        let switch = match control::switch(shared, message.to, version).await {
            Err(error @ Error::NoVersion { .. }) => {
                tracing::error!(%error, "playbook version of a retry not found; refusing the retry");
                let refusal = Refusal::NotRetryable;
                return done(answer(shared, message.key, &refusal).await);
            }
            switch => switch?,
        };
        let extras = Extras {
            switch,
            answers_refusal: is_from_a_person,
            ..Extras::consuming(Some(message.key))
        };
        match shared.drive.post(message.to, input.clone(), extras).await {
            Err(Posted::Refused(refusal)) if is_from_a_person => {
                return done(answer(shared, message.key, &refusal).await);
            }
            Ok(_) | Err(Posted::Refused(_)) => return Ok(Taken::Done),
            Err(Posted::Failed(Error::Elsewhere(_))) => {
                if !shared.takes_over {
                    return Ok(Taken::Left);
                }
                let priority = priority_of(&input);
                if control::adopt(shared, message.to, priority).await? != Adoption::Mine {
                    return Ok(Taken::Left);
                }
            }
            Err(Posted::Failed(error)) => return Err(error),
        }
    }
    Ok(Taken::Left)
}

/// Consumes a message that was refused and stores the refusal.
async fn answer(shared: &Shared, key: MessageKey, refusal: &Refusal) -> Result<(), Error> {
    let text = Raw::of(refusal);
    Ok(shared.store.refuse_message(key, text.text()).await?)
}

fn done(result: Result<(), Error>) -> Result<Taken, Error> {
    result.map(|()| Taken::Done)
}

/// A child execution to start.
struct Child {
    start: Start,
    parent: Parent,
}

impl Child {
    /// Starts the child. If it cannot start, its parent receives a failed outcome.
    async fn begin(self, shared: &Shared, registered: Registered) -> Result<(), Error> {
        let (execution, consumed) = (self.start.execution, self.start.consumed);
        let error = match self.start.run(shared, registered).await {
            Ok(()) => return Ok(()),
            Err(Posted::Failed(Error::Keychain(KeychainError::Store(error))))
                if error.is_passing() =>
            {
                return Err(error.into());
            }
            Err(Posted::Failed(Error::Keychain(error))) => error.failure(),
            Err(Posted::Failed(error)) => return Err(error),
            Err(Posted::Refused(refusal)) => refusal.failure(),
        };
        failed(shared, &self.parent, (execution, consumed), error).await
    }

    async fn fail(self, shared: &Shared, error: TaskError) -> Result<(), Error> {
        let at = (self.start.execution, self.start.consumed);
        failed(shared, &self.parent, at, error).await
    }
}

/// Applies a failed outcome to the parent of an execution that did not start.
async fn failed(
    shared: &Shared,
    parent: &Parent,
    (child, consumed): (ExecutionId, Option<MessageKey>),
    error: TaskError,
) -> Result<(), Error> {
    let input = Input::ChildEnded {
        child,
        seq: parent.seq,
        outcome: Box::new(Outcome::error(error)),
    };
    post(shared, parent.execution_id, input, consumed).await
}

fn cannot_start(path: &str, unusable: &Unusable) -> TaskError {
    let (kind, code) = match unusable {
        Unusable::Invalid(_) => (ErrorKind::Schema, "PLAYBOOK_INVALID"),
        Unusable::NotFound(_) | Unusable::Store(_) => (ErrorKind::NotFound, "PLAYBOOK_NOT_FOUND"),
    };
    let detail = match unusable {
        Unusable::Invalid(diagnostics) => diagnostics.first().map(|first| first.message.clone()),
        _ => None,
    };
    let message = match detail {
        Some(detail) => format!("playbook `{path}` has errors: {detail}"),
        None => unusable.to_string(),
    };
    TaskError {
        retryable: false,
        ..TaskError::new(kind, code, message)
    }
}
