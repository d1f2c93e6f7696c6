//! The inbox: applies messages to executions of this process and starts child executions, in order.
//!
//! Input: messages from the store. Output: inputs of executions, and new executions. An execution whose keychain needs
//! the network starts in a task of its own, so that an endpoint that does not respond delays no other message;
//! messages to it wait until it has started.

use std::collections::HashSet;
use std::sync::Arc;

use engine::{ControlRequest, ExecutionMessage, Input, Refusal};
use model::event::ParentTask;
use model::id::{ExecutionId, Seq};
use model::labels::Labels;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::raw::RawJson;
use store::{Adoption, Message, MessageKey};
use tokio::task::{JoinError, JoinSet};

use crate::ServerShared;
use crate::control;
use crate::driver::{InputAttachments, InputError, input_priority};
use crate::error::Error;
use crate::ingest;
use crate::keychain::{KeychainError, needs_network};
use crate::playbooks::{PlaybookError, RegisteredPlaybook};
use crate::submit::ExecutionStart;
use crate::sweep::{BATCH_MAX, IDLE_PAUSE, apply_input};

/// Maximum number of concurrent starts that need the network.
const STARTS_MAX: usize = 16;
/// How often the owner of the recipient may change while a message is carried out.
const OWNER_CHANGES_MAX: usize = 4;
/// Maximum number of waiting messages that are read in addition to a batch.
const DEFERRED_MAX: usize = 4 * BATCH_MAX;

/// Processes messages until the server stops.
pub(crate) async fn run_inbox(shared: Arc<ServerShared>) {
    let mut inbox = Inbox {
        shared: shared.clone(),
        handled: HashSet::new(),
        deferred: HashSet::new(),
        starting_executions: HashSet::new(),
        start_tasks: JoinSet::new(),
    };
    loop {
        match shared.store.inbox(Some(&shared.owner), inbox.read_limit()).await {
            Ok(messages) => inbox.process(messages).await,
            Err(error) => tracing::warn!(%error, "failed to read the inbox; retrying"),
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE_PAUSE) => {}
            () = shared.sweep_signals.messages.notified() => {}
            () = shared.store.wait_for_change() => {}
            Some(started) = inbox.start_tasks.join_next() => inbox.on_started(started),
        }
    }
}

/// State of the messages that are still in the store.
struct Inbox {
    shared: Arc<ServerShared>,
    /// Processed messages.
    handled: HashSet<MessageKey>,
    /// Messages for later: starts beyond `STARTS_MAX`, and messages to executions that are being started.
    deferred: HashSet<MessageKey>,
    /// Executions that are being started.
    starting_executions: HashSet<ExecutionId>,
    start_tasks: JoinSet<StartResult>,
}

/// Result of starting an execution.
struct StartResult {
    key: MessageKey,
    execution: ExecutionId,
    result: Result<(), Error>,
}

impl Inbox {
    /// How many messages to read: waiting messages must not hide the ones behind them.
    fn read_limit(&self) -> usize {
        let waiting = self.deferred.len() + self.starting_executions.len();
        BATCH_MAX + waiting.min(DEFERRED_MAX)
    }

    async fn process(&mut self, messages: Vec<Message>) {
        let keys: HashSet<MessageKey> = messages.iter().map(|message| message.key).collect();
        self.handled.retain(|key| keys.contains(key));
        self.deferred.retain(|key| keys.contains(key));
        let mut starting = self.starting_executions.clone();
        for message in messages {
            let (key, to) = (message.key, message.to);
            if self.handled.contains(&key) {
                continue;
            }
            let is_full = self.start_tasks.len() >= STARTS_MAX;
            if starting.contains(&to) || (is_full && self.deferred.contains(&key)) {
                self.deferred.insert(key);
                starting.insert(to);
                continue;
            }
            match handle_message(&self.shared, message).await {
                Ok(MessageProgress::Handled) => {
                    self.deferred.remove(&key);
                    self.handled.insert(key);
                }
                Ok(MessageProgress::LeftToOwner) => {
                    self.deferred.insert(key);
                }
                Ok(MessageProgress::NeedsNetwork(child, registered)) => {
                    starting.insert(to);
                    if is_full {
                        self.deferred.insert(key);
                    } else {
                        self.deferred.remove(&key);
                        self.start_child(key, *child, *registered);
                    }
                }
                Err(error) => tracing::warn!(%error, "failed to process message; retrying"),
            }
        }
    }

    fn start_child(&mut self, key: MessageKey, child: PendingChild, registered: RegisteredPlaybook) {
        let execution = child.start.execution;
        self.starting_executions.insert(execution);
        let shared = self.shared.clone();
        self.start_tasks.spawn(async move {
            let result = child.start(&shared, registered).await;
            if result.is_err() {
                tokio::time::sleep(IDLE_PAUSE).await;
            }
            StartResult { key, execution, result }
        });
    }

    fn on_started(&mut self, started: Result<StartResult, JoinError>) {
        let started = started.expect("starting a run does not panic");
        self.starting_executions.remove(&started.execution);
        match started.result {
            Ok(()) => {
                self.handled.insert(started.key);
            }
            Err(error) => tracing::warn!(%error, "failed to process message; retrying"),
        }
    }
}

/// What became of a message.
enum MessageProgress {
    /// It has been processed.
    Handled,
    /// It is left to another process.
    LeftToOwner,
    /// It starts an execution whose keychain needs the network first.
    NeedsNetwork(Box<PendingChild>, Box<RegisteredPlaybook>),
}

async fn handle_message(shared: &ServerShared, message: Message) -> Result<MessageProgress, Error> {
    let consumed = Some(message.key);
    let mut retry_version = None;
    if let Ok(deferred) = message.body.parse_as::<ingest::DeferredBatch>() {
        return to_progress(ingest::decide_batch(shared, deferred, message.key).await);
    }
    let Ok(body) = message.body.parse_as::<ExecutionMessage>() else {
        tracing::error!("skipping unreadable control message");
        return Ok(MessageProgress::Handled);
    };
    let input = match body {
        ExecutionMessage::Start {
            path,
            version,
            input,
            parent,
            depth,
            base,
            trace_id,
        } => {
            let start = ExecutionStart {
                execution: message.to,
                payload: Some(input),
                parent: Some(parent.clone()),
                depth,
                trace_id,
                labels: Labels::default(),
                consumed,
                reuse: None,
            };
            let child = PendingChild { start, parent };
            return match shared.catalog.find(&path, version, base.as_str()).await {
                Ok(registered) if needs_network(&registered.net.playbook) => {
                    Ok(MessageProgress::NeedsNetwork(Box::new(child), Box::new(registered)))
                }
                Ok(registered) => to_progress(child.start(shared, registered).await),
                Err(PlaybookError::Store(error)) => Err(error.into()),
                Err(unusable) => to_progress(child.report_failure(shared, start_error(&path, &unusable)).await),
            };
        }
        ExecutionMessage::ChildEnded { seq, outcome } => Input::ChildEnded {
            child: message.key.from,
            seq,
            outcome,
        },
        ExecutionMessage::Control(request) => {
            if let ControlRequest::Retry { version } = request {
                retry_version = version;
            }
            request.into()
        }
    };
    apply_message(shared, &message, input, retry_version).await
}

/// Carries out a message; a retry continues with the playbook version that it names. If the owner of the execution is
/// dead, it is adopted first. If the message comes from a client, a refusal is stored as its response; an execution
/// learns the result from events.
async fn apply_message(
    shared: &ServerShared,
    message: &Message,
    input: Input,
    version: Option<u32>,
) -> Result<MessageProgress, Error> {
    let is_from_a_person = message.key.seq == Seq(0);
    for _ in 0..OWNER_CHANGES_MAX {
        let switch = match control::resolve_switch(shared, message.to, version).await {
            Err(error @ Error::NoVersion { .. }) => {
                tracing::error!(%error, "playbook version of a retry not found; refusing the retry");
                let refusal = Refusal::NotRetryable;
                return to_progress(record_refusal(shared, message.key, &refusal).await);
            }
            switch => switch?,
        };
        let attachments = InputAttachments {
            switch,
            has_refusal_handler: is_from_a_person,
            ..InputAttachments::from_message(Some(message.key))
        };
        match shared.driver.apply(message.to, input.clone(), attachments).await {
            Err(InputError::Refused(refusal)) if is_from_a_person => {
                return to_progress(record_refusal(shared, message.key, &refusal).await);
            }
            Ok(_) | Err(InputError::Refused(_)) => return Ok(MessageProgress::Handled),
            Err(InputError::Failed(Error::OwnedBy(_))) => {
                if !shared.may_adopt {
                    return Ok(MessageProgress::LeftToOwner);
                }
                let priority = input_priority(&input);
                if control::adopt(shared, message.to, priority).await? != Adoption::Owned {
                    return Ok(MessageProgress::LeftToOwner);
                }
            }
            Err(InputError::Failed(error)) => return Err(error),
        }
    }
    Ok(MessageProgress::LeftToOwner)
}

/// Consumes a message that was refused and stores the refusal.
async fn record_refusal(shared: &ServerShared, key: MessageKey, refusal: &Refusal) -> Result<(), Error> {
    let text = RawJson::from_serializable(refusal);
    Ok(shared.store.refuse_message(key, text.text()).await?)
}

fn to_progress(result: Result<(), Error>) -> Result<MessageProgress, Error> {
    result.map(|()| MessageProgress::Handled)
}

/// A child execution to start.
struct PendingChild {
    start: ExecutionStart,
    parent: ParentTask,
}

impl PendingChild {
    /// Starts the child. If it cannot start, its parent receives a failed outcome.
    async fn start(self, shared: &ServerShared, registered: RegisteredPlaybook) -> Result<(), Error> {
        let (execution, consumed) = (self.start.execution, self.start.consumed);
        let error = match self.start.submit(shared, registered).await {
            Ok(()) => return Ok(()),
            Err(InputError::Failed(Error::Keychain(KeychainError::Store(error)))) if error.is_transient() => {
                return Err(error.into());
            }
            Err(InputError::Failed(Error::Keychain(error))) => error.to_task_error(),
            Err(InputError::Failed(error)) => return Err(error),
            Err(InputError::Refused(refusal)) => refusal.to_task_error(),
        };
        report_failed_start(shared, &self.parent, execution, consumed, error).await
    }

    async fn report_failure(self, shared: &ServerShared, error: TaskError) -> Result<(), Error> {
        let (child, consumed) = (self.start.execution, self.start.consumed);
        report_failed_start(shared, &self.parent, child, consumed, error).await
    }
}

/// Applies a failed outcome to the parent of an execution that did not start.
async fn report_failed_start(
    shared: &ServerShared,
    parent: &ParentTask,
    child: ExecutionId,
    consumed: Option<MessageKey>,
    error: TaskError,
) -> Result<(), Error> {
    let input = Input::ChildEnded {
        child,
        seq: parent.seq,
        outcome: Box::new(Outcome::error(error)),
    };
    apply_input(shared, parent.execution_id, input, consumed).await
}

fn start_error(path: &str, unusable: &PlaybookError) -> TaskError {
    let (kind, code) = match unusable {
        PlaybookError::Invalid(_) => (ErrorKind::Schema, "PLAYBOOK_INVALID"),
        PlaybookError::NotFound(_) | PlaybookError::Store(_) => (ErrorKind::NotFound, "PLAYBOOK_NOT_FOUND"),
    };
    let detail = match unusable {
        PlaybookError::Invalid(diagnostics) => diagnostics.first().map(|first| first.message.clone()),
        _ => None,
    };
    let message = match detail {
        Some(detail) => format!("playbook `{path}` has errors: {detail}"),
        None => unusable.to_string(),
    };
    TaskError::permanent(kind, code, message)
}
