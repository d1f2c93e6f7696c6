//! The inbox: messages to executions of this process, and those that start new ones, taken up in order.
//!
//! Enters: messages from the store. Leaves: inputs of executions, and runs. A run whose keychain asks the network is
//! started beside the others, so that an endpoint that hangs holds up nobody else; what is said to it waits for it.

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

/// So many runs that ask the network are started at once.
const STARTS_MAX: usize = 16;
/// So often what a message is for may change its driver while the message is carried out.
const DRIVERS_MAX: usize = 4;
/// So many messages that wait for a start are looked past.
const WAITING_MAX: usize = 4 * BATCH;

/// Takes up messages as they come.
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
            Err(error) => tracing::warn!(%error, "cannot read the inbox; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE) => {}
            () = shared.sweeps.messages.notified() => {}
            () = shared.store.changed() => {}
            Some(started) = inbox.starts.join_next() => inbox.started(started),
        }
    }
}

/// What is known of the messages that are still in the store.
struct Inbox {
    shared: Arc<Shared>,
    /// Taken up.
    seen: HashSet<MessageKey>,
    /// Left for later: starts beyond the bound, and what is said to runs that are being started.
    waiting: HashSet<MessageKey>,
    /// Runs that are being started.
    starting: HashSet<ExecutionId>,
    starts: JoinSet<Started>,
}

/// A run that was started, or not.
struct Started {
    key: MessageKey,
    execution: ExecutionId,
    result: Result<(), Error>,
}

impl Inbox {
    /// How many messages are read: those that wait do not hide the ones behind them.
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
                Err(error) => tracing::warn!(%error, "cannot take up a message; trying again"),
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
            Err(error) => tracing::warn!(%error, "cannot take up a message; trying again"),
        }
    }
}

/// What came of a message.
enum Taken {
    /// It is done.
    Done,
    /// Another process takes it up.
    Left,
    /// It starts a run that asks the network first.
    Slow(Box<Child>, Box<Registered>),
}

async fn receive(shared: &Shared, message: Message) -> Result<Taken, Error> {
    let consumed = Some(message.key);
    let mut wanted = None;
    if let Ok(deferred) = message.body.read::<ingest::Deferred>() {
        return done(ingest::decide(shared, deferred, message.key).await);
    }
    let Ok(body) = message.body.read::<MessageBody>() else {
        tracing::error!("a message cannot be read and is left alone");
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

/// Carries out what a message asks; a retry with the version of the playbook that it names. What a dead process drove is
/// taken over first. A person whose message is refused is told so; an execution knows it from what happens.
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
                tracing::error!(%error, "a retry asks for a version that is gone");
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

/// Consumes a message that was not carried out, and says why.
async fn answer(shared: &Shared, key: MessageKey, refusal: &Refusal) -> Result<(), Error> {
    let text = Raw::of(refusal);
    Ok(shared.store.refuse_message(key, text.text()).await?)
}

fn done(result: Result<(), Error>) -> Result<Taken, Error> {
    result.map(|()| Taken::Done)
}

/// A run that another run starts.
struct Child {
    start: Start,
    parent: Parent,
}

impl Child {
    /// Starts it; what cannot be started has failed, and its parent decides.
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

/// Tells the parent that a run did not start.
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
