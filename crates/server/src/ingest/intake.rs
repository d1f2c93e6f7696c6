//! Taking in: a batch is checked whole, then reported in one piece.

use std::collections::HashMap;

use engine::Input;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Seq, WorkerId};
use model::raw::Raw;
use serde::Deserialize;
use wire::WireEvent;
use wire::api::EventAnswer;

use crate::Shared;
use crate::drive::{Extras, Posted};
use crate::error::Error;
use crate::ingest::identity::{derived, end, hash};
use crate::ingest::translate::{Said, Scene, Untranslatable};
use crate::loading;

/// Why a batch was not taken; nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// Events that cannot be understood, each with its place in the batch.
    #[error("{} of the events cannot be understood", .0.len())]
    Invalid(Vec<(usize, String)>),
    /// Only the control plane may say this.
    #[error("`{0}` is the server's to say")]
    ServersOwn(String),
    /// An id that is in the log with other content.
    #[error("event {0} is in the log with other content")]
    Conflict(EventId),
    /// The events are about several commands.
    #[error("the events are about more than one command")]
    SeveralCommands,
    /// No claim entitles to these events.
    #[error("no current claim entitles to these events")]
    Fenced,
    /// There is no such execution.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The engine does not take it.
    #[error(transparent)]
    Unfit(#[from] engine::Refusal),
}

/// A batch was taken, or everything in it had been before.
pub(crate) struct Taken {
    /// What became of each event, in order.
    pub(crate) events: Vec<EventAnswer>,
}

/// What older clients put beside an event.
#[derive(Debug, Default, Deserialize)]
struct Meta {
    #[serde(default)]
    command_id: Option<CommandId>,
    #[serde(default)]
    lease_epoch: Option<LeaseEpoch>,
}

/// A command, and the claim that is spoken under.
struct Claim {
    command: CommandId,
    lease_epoch: LeaseEpoch,
    worker: WorkerId,
}

/// Takes in events of one execution.
pub(crate) async fn take(
    shared: &Shared,
    execution: ExecutionId,
    worker: Option<WorkerId>,
    mut events: Vec<WireEvent>,
) -> Result<Taken, Refused> {
    parse(&events)?;
    authorise(&events)?;
    let metas: Vec<Meta> = events.iter().map(meta).collect();
    let claim = find_claim(shared, execution, worker, &events, &metas).await?;
    let hashes: Vec<[u8; 32]> = events.iter().map(hash).collect();
    for event in &mut events {
        let id = claim.as_ref();
        let id = id.map(|claim| derived(event, (claim.command, claim.lease_epoch)));
        event.event_id = event.event_id.or(id);
    }
    let known = duplicates(shared, execution, &events, &hashes).await?;
    let is_news = |event: &WireEvent| !event.event_id.is_some_and(|id| known.contains_key(&id));
    let news: Vec<&WireEvent> = events.iter().filter(|event| is_news(event)).collect();
    let ids = events.iter().zip(&hashes);
    let foreign: HashMap<EventId, [u8; 32]> = ids
        .filter_map(|(event, hash)| Some((event.event_id?, *hash)))
        .collect();
    let recorded = match claim {
        _ if news.is_empty() => HashMap::new(),
        Some(claim) => report(shared, claim, &news, foreign).await?,
        None if news.iter().all(|event| needs_no_row(event)) => HashMap::new(),
        None => return Err(Refused::Fenced),
    };
    let answers = events.iter().map(|event| {
        let id = event.event_id;
        let before = id.and_then(|id| known.get(&id).copied());
        EventAnswer {
            event_id: id,
            seq: before.or_else(|| recorded.get(&id?).copied()),
            duplicate: before.is_some(),
        }
    });
    Ok(Taken {
        events: answers.collect(),
    })
}

fn parse(events: &[WireEvent]) -> Result<(), Refused> {
    let wrong = events.iter().enumerate().filter_map(|(index, event)| {
        let kind = event.kind().err().map(|error| error.to_string());
        let at = || event.at().err().map(|error| error.to_string());
        kind.or_else(at).map(|why| (index, why))
    });
    let wrong: Vec<(usize, String)> = wrong.collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Refused::Invalid(wrong))
    }
}

/// A client speaks for a worker; what only the server can know it may not say.
fn authorise(events: &[WireEvent]) -> Result<(), Refused> {
    let own = events
        .iter()
        .find(|event| event.is_the_servers() && !needs_no_row(event) && !is_failed_command(event));
    match own {
        Some(event) => Err(Refused::ServersOwn(event.event_type.clone())),
        None => Ok(()),
    }
}

/// A worker's word on commands, and a loop's end, are acknowledged; the server knows both itself.
fn needs_no_row(event: &WireEvent) -> bool {
    let name = event.event_type.as_str();
    name == "loop.done"
        || (name.starts_with("command.") && !matches!(name, "command.failed" | "command.completed"))
}

fn is_boundary(event: &WireEvent) -> bool {
    event.kind().is_ok_and(model::event::Kind::is_boundary) || is_failed_command(event)
}

fn is_failed_command(event: &WireEvent) -> bool {
    event.event_type == "command.failed"
}

fn meta(event: &WireEvent) -> Meta {
    let meta = event.meta.as_ref();
    meta.and_then(|meta: &Raw| meta.read().ok())
        .unwrap_or_default()
}

/// The one command that the events are about: named in their meta, or the one of their step that the worker holds.
async fn find_claim(
    shared: &Shared,
    execution: ExecutionId,
    worker: Option<WorkerId>,
    events: &[WireEvent],
    metas: &[Meta],
) -> Result<Option<Claim>, Refused> {
    if shared
        .store
        .execution(execution)
        .await
        .map_err(Error::from)?
        .is_none()
    {
        return Err(Error::NotFound(execution).into());
    }
    let mut named = metas.iter().filter_map(|meta| meta.command_id);
    let first = named.next();
    if named.any(|other| Some(other) != first) || first.is_some_and(|id| id.execution != execution)
    {
        return Err(Refused::SeveralCommands);
    }
    let open = shared
        .store
        .open_commands(execution)
        .await
        .map_err(Error::from)?;
    let step = events.iter().find_map(WireEvent::step);
    let speaker = worker.or_else(|| events.iter().find_map(|event| event.worker_id.clone()));
    let fits = |open: &&store::OpenCommand| match first {
        Some(id) => open.command.id == id,
        None => {
            step.as_ref() == Some(&open.command.run.step)
                && (speaker.is_none() || open.worker == speaker)
        }
    };
    let Some(found) = open.iter().find(fits) else {
        return Ok(first.map(|command| Claim {
            // The command is over; its claim still tells the ids of what was said under it.
            command,
            lease_epoch: epoch(metas).unwrap_or(LeaseEpoch(1)),
            worker: speaker.unwrap_or_else(|| WorkerId("".into())),
        }));
    };
    Ok(Some(Claim {
        command: found.command.id,
        lease_epoch: epoch(metas).unwrap_or(found.lease_epoch),
        worker: speaker
            .or_else(|| found.worker.clone())
            .unwrap_or_else(|| WorkerId("".into())),
    }))
}

fn epoch(metas: &[Meta]) -> Option<LeaseEpoch> {
    metas.iter().find_map(|meta| meta.lease_epoch)
}

/// The events that are in the log already, with their places.
async fn duplicates(
    shared: &Shared,
    execution: ExecutionId,
    events: &[WireEvent],
    hashes: &[[u8; 32]],
) -> Result<HashMap<EventId, Seq>, Refused> {
    let ids: Vec<EventId> = events.iter().filter_map(|event| event.event_id).collect();
    let found = shared
        .store
        .foreign(execution, &ids)
        .await
        .map_err(Error::from)?;
    let mut known = HashMap::new();
    for (event, hash) in events.iter().zip(hashes) {
        let Some(id) = event.event_id else { continue };
        match found.iter().find(|found| found.event_id == id) {
            Some(found) if found.hash != *hash => return Err(Refused::Conflict(id)),
            Some(found) => {
                known.insert(id, found.seq);
            }
            None => {}
        }
    }
    Ok(known)
}

/// Reports the news under its claim, in one piece.
async fn report(
    shared: &Shared,
    claim: Claim,
    news: &[&WireEvent],
    foreign: HashMap<EventId, [u8; 32]>,
) -> Result<HashMap<EventId, Seq>, Refused> {
    let events = translate(shared, &claim, news).await?;
    if events.is_empty() {
        return Ok(HashMap::new());
    }
    let input = Input::Report(engine::Report {
        command: claim.command.seq,
        worker: claim.worker,
        lease_epoch: claim.lease_epoch,
        end: end(&events),
        events,
    });
    let extras = Extras {
        foreign,
        ..Extras::default()
    };
    match shared
        .drive
        .post(claim.command.execution, input, extras)
        .await
    {
        Ok(reply) => Ok(reply.recorded.into_iter().collect()),
        Err(Posted::Refused(engine::Refusal::Fenced | engine::Refusal::Ended)) => {
            Err(Refused::Fenced)
        }
        Err(Posted::Refused(refusal)) => Err(refusal.into()),
        Err(Posted::Failed(error)) => Err(error.into()),
    }
}

async fn translate(
    shared: &Shared,
    claim: &Claim,
    news: &[&WireEvent],
) -> Result<Vec<Event>, Refused> {
    let execution = claim.command.execution;
    let opened = loading::open(shared, execution).await?;
    let opened = opened.ok_or(Error::NotFound(execution))?;
    let Some(live) = opened.state.commands.get(&claim.command.seq) else {
        // The command is over. What its client says last of its end is acknowledged: the first word counted.
        let is_last_word = |event: &&WireEvent| needs_no_row(event) || is_boundary(event);
        let all_ignored = news.iter().all(is_last_word);
        return if all_ignored {
            Ok(Vec::new())
        } else {
            Err(Refused::Fenced)
        };
    };
    let run = opened.state.run(&live.run).ok_or(Refused::Fenced)?;
    let step = opened.net.playbook.step(live.run.step.as_str());
    let scene = Scene {
        execution,
        run,
        run_id: &live.run,
        step: step.ok_or(Refused::Fenced)?,
        now: shared.store.now(),
    };
    let mut said = Said::default();
    let mut events = Vec::new();
    let mut wrong = Vec::new();
    for (index, event) in news.iter().enumerate() {
        if needs_no_row(event) {
            continue;
        }
        match scene.translate(event, &mut said) {
            Ok(translated) => events.extend(translated),
            Err(why @ (Untranslatable::Invalid(_) | Untranslatable::TasksUnreported { .. })) => {
                wrong.push((index, why.to_string()));
            }
        }
    }
    if wrong.is_empty() {
        Ok(events)
    } else {
        Err(Refused::Invalid(wrong))
    }
}
