//! Sweeps: timers that are due, messages that came, claims whose holders are gone. Hints only make them quicker.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::{Input, MessageBody};
use model::outcome::{ErrorKind, Outcome, TaskError};
use store::{Message, MessageKey};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::Shared;
use crate::control;
use crate::drive::{Extras, Order, Posted};
use crate::error::Error;
use crate::ingest;
use crate::playbooks::Unusable;
use crate::publish;
use crate::submit::Start;
use crate::transport::SESSION_TTL;

/// How long a sweep sleeps when nothing calls it.
const IDLE: Duration = Duration::from_secs(1);
/// How long after a look for offers the next one waits.
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// A sweep that comes so late means that the store, or this process, stood still.
const STANDSTILL: Duration = Duration::from_secs(5);
/// How many timers or messages one sweep takes up.
const BATCH: usize = 256;

/// What wakes the sweeps early.
#[derive(Default)]
pub(crate) struct Hints {
    /// A timer was set or cleared.
    pub(crate) timers: Notify,
    /// A message was sent.
    pub(crate) messages: Notify,
    /// Something waits to be published.
    pub(crate) outbox: Notify,
}

/// Starts the sweeps; they end with the server.
pub(crate) fn spawn(shared: &Arc<Shared>) -> Vec<Part> {
    let mut parts = vec![
        Part::spawn("the timer sweep", shared, timers(shared.clone())),
        Part::spawn("the message sweep", shared, messages(shared.clone())),
        Part::spawn("the claim sweep", shared, claims(shared.clone())),
    ];
    if shared.takes_over {
        let taking_over = take_over(shared.clone());
        parts.push(Part::spawn("the takeover sweep", shared, taking_over));
    }
    if let Some(bus) = &shared.bus {
        let publishing = publish::publish(shared.clone(), bus.clone());
        parts.push(Part::spawn("the publisher", shared, publishing));
        let hearing = publish::hear(shared.clone(), bus.clone());
        parts.push(Part::spawn("the bus", shared, hearing));
    }
    if shared.peers.is_some() {
        let noticing = notice_offers(shared.clone());
        parts.push(Part::spawn("the offer sweep", shared, noticing));
    }
    parts
}

/// A part of the server that runs until the server stops.
pub(crate) struct Part {
    name: &'static str,
    task: JoinHandle<()>,
}

impl Part {
    /// Runs a part in a task of its own.
    pub(crate) fn spawn(
        name: &'static str,
        shared: &Arc<Shared>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let task = tokio::spawn(until_stopped(shared.clone(), work));
        Self { name, task }
    }

    /// Its name, if it has ended although the server goes on.
    pub(crate) fn dead(&self) -> Option<&'static str> {
        self.task.is_finished().then_some(self.name)
    }
}

/// Takes over what dead servers drove.
async fn take_over(shared: Arc<Shared>) {
    loop {
        match shared.store.abandoned().await {
            Ok(abandoned) => {
                for execution in abandoned {
                    if let Err(error) = control::adopt(&shared, execution).await {
                        tracing::warn!(%execution, %error, "cannot take over; trying again");
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot look for abandoned runs; trying again"),
        }
        tokio::time::sleep(IDLE).await;
    }
}

/// Lets workers that wait here look for commands that other servers put on offer.
async fn notice_offers(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(IDLE) => {}
            () = shared.store.changed() => {}
        }
        if shared.drive.send(Order::Offered).await.is_err() {
            return;
        }
        // Under load one look serves many changes.
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

async fn until_stopped(shared: Arc<Shared>, sweep: impl Future<Output = ()>) {
    tokio::select! {
        () = sweep => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Fires timers when they are due.
async fn timers(shared: Arc<Shared>) {
    loop {
        if let Err(error) = fire_due(&shared).await {
            tracing::warn!(%error, "cannot look for due timers; trying again");
        }
        let next = shared
            .store
            .next_timer(Some(&shared.owner))
            .await
            .ok()
            .flatten();
        let wait = next.map_or(IDLE, |due| due.since(shared.store.now()).min(IDLE));
        tokio::select! {
            () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {}
            () = shared.sweeps.timers.notified() => {}
        }
    }
}

async fn fire_due(shared: &Shared) -> Result<(), Error> {
    for (execution, timer) in shared.store.due_timers(Some(&shared.owner), BATCH).await? {
        let fired = Input::Timer(timer);
        let told = shared.drive.tell(execution, fired, Extras::default());
        told.await?;
    }
    Ok(())
}

/// Takes up messages to executions of this process, and those that start new ones.
async fn messages(shared: Arc<Shared>) {
    let mut seen: HashSet<MessageKey> = HashSet::new();
    loop {
        match shared.store.inbox(Some(&shared.owner), BATCH).await {
            Ok(inbox) => {
                let keys: HashSet<MessageKey> = inbox.iter().map(|message| message.key).collect();
                seen.retain(|key| keys.contains(key));
                for message in inbox
                    .into_iter()
                    .filter(|message| !seen.contains(&message.key))
                    .collect::<Vec<_>>()
                {
                    let key = message.key;
                    match receive(&shared, message).await {
                        Ok(()) => {
                            seen.insert(key);
                        }
                        Err(error) => {
                            tracing::warn!(%error, "cannot take up a message; trying again");
                        }
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "cannot read the inbox; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(IDLE) => {}
            () = shared.sweeps.messages.notified() => {}
            () = shared.store.changed() => {}
        }
    }
}

async fn receive(shared: &Shared, message: Message) -> Result<(), Error> {
    let consumed = Some(message.key);
    if let Ok(deferred) = message.body.read::<ingest::Deferred>() {
        return ingest::decide(shared, deferred, message.key).await;
    }
    let Ok(body) = message.body.read::<MessageBody>() else {
        tracing::error!("a message cannot be read and is left alone");
        return Ok(());
    };
    let input = match body {
        MessageBody::Start {
            path,
            version,
            input,
            parent,
            depth,
            base,
        } => {
            let start = Start {
                execution: message.to,
                payload: Some(input),
                parent: Some(parent.clone()),
                depth,
                consumed,
                reuse: None,
            };
            let error = match shared.playbooks.find(&path, version, base.as_str()).await {
                Ok(registered) => match start.run(shared, registered).await {
                    Ok(()) => return Ok(()),
                    Err(Posted::Failed(Error::Keychain(error))) if !error.is_passing() => {
                        error.failure()
                    }
                    Err(Posted::Failed(error)) => return Err(error),
                    Err(Posted::Refused(refusal)) => refusal.failure(),
                },
                Err(Unusable::Store(error)) => return Err(error.into()),
                Err(unusable) => cannot_start(&path, &unusable),
            };
            let input = Input::ChildEnded {
                child: message.to,
                seq: parent.seq,
                outcome: Box::new(Outcome::error(error)),
            };
            return post(shared, parent.execution_id, input, consumed).await;
        }
        MessageBody::ChildEnded { seq, outcome } => Input::ChildEnded {
            child: message.key.from,
            seq,
            outcome,
        },
        MessageBody::Cancel(request) => Input::Cancel(request),
        MessageBody::Retry { version } => return retry(shared, &message, version).await,
        MessageBody::Patch { patch } => Input::Patch(patch),
        MessageBody::Pause { reason } => Input::Pause { reason },
        MessageBody::Resume => Input::Resume,
        MessageBody::Signal { name, payload } => Input::Signal { name, payload },
    };
    post(shared, message.to, input, consumed).await
}

/// Redoes what failed, with the version of the playbook that the message names.
async fn retry(shared: &Shared, message: &Message, version: Option<u32>) -> Result<(), Error> {
    let switch = match control::switch(shared, message.to, version).await {
        Ok(switch) => switch,
        Err(error @ Error::NoVersion { .. }) => {
            tracing::error!(%error, "a retry asks for a text that is gone and is left alone");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let extras = Extras {
        switch,
        ..Extras::consuming(Some(message.key))
    };
    let input = Input::Retry { switch: None };
    shared.drive.tell(message.to, input, extras).await
}

async fn post(
    shared: &Shared,
    to: model::id::ExecutionId,
    input: Input,
    consumed: Option<MessageKey>,
) -> Result<(), Error> {
    let extras = Extras::consuming(consumed);
    shared.drive.tell(to, input, extras).await
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

/// Finds claims whose holders are gone and commands nobody took.
async fn claims(shared: Arc<Shared>) {
    let mut last = Instant::now();
    let mut spared_until = None;
    loop {
        tokio::time::sleep(IDLE).await;
        // While the store could not be written nobody could renew a session: each gets one more life.
        if last.elapsed() > STANDSTILL {
            spared_until = Some(Instant::now() + SESSION_TTL);
        }
        let spares = spared_until.is_some_and(|until| Instant::now() < until);
        match sweep_claims(&shared, spares).await {
            Ok(()) => last = Instant::now(),
            Err(error) => tracing::warn!(%error, "cannot look for lost claims; trying again"),
        }
    }
}

async fn sweep_claims(shared: &Shared, spares: bool) -> Result<(), Error> {
    let lost = shared.store.lost_claims(Some(&shared.owner)).await?;
    for lost in lost.into_iter().filter(|_| !spares) {
        metrics::counter!(crate::metrics::LOST).increment(1);
        let input = Input::Lost {
            command: lost.command.seq,
            worker: lost.worker,
            lease_epoch: lost.lease_epoch,
            is_strike: true,
        };
        shared.drive.send(Order::Forget(lost.command)).await?;
        post(shared, lost.command.execution, input, None).await?;
    }
    for command in shared.store.overdue_commands(Some(&shared.owner)).await? {
        post(
            shared,
            command.execution,
            Input::Unclaimed(command.seq),
            None,
        )
        .await?;
    }
    Ok(())
}
