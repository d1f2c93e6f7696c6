//! Checks a batch as a whole, then reports it in one input.

use std::collections::HashMap;

use engine::Input;
use model::command::ClaimId;
use model::event::{Event, EventKind, ReportedEvent};
use model::id::{CommandId, EventId, ExecutionId, IdBlock, LeaseEpoch, Seq, WorkerId};
use store::OwnerId;
use wire::WireEvent;
use wire::api::{EventResponse, IngestStatus};

use crate::ServerShared;
use crate::driver::{InputAttachments, InputError};
use crate::error::Error;
use crate::ingest::identity::{derive_event_id, event_hash, report_end};
use crate::ingest::translate::{TranslateError, Translation, TranslationResult, is_repeated_end};
use crate::loading;

/// Page size and maximum number of pages when searching for the end that a repeated event refers to.
const PAGE: usize = 500;
const PAGES_MAX: usize = 40;

/// Why a batch was refused; nothing of it was recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    /// Events that cannot be parsed, with their indexes in the batch.
    #[error("cannot parse {} of the events", .0.len())]
    Invalid(Vec<(usize, String)>),
    /// Only the server may emit this event.
    #[error("`{0}` can only be emitted by the server")]
    ServerOnly(String),
    /// The event ID is in the log with different content.
    #[error("event ID {0} already exists with different content")]
    Conflict(EventId),
    /// The events are about several commands.
    #[error("the events are about more than one command")]
    SeveralCommands,
    /// The worker holds no claim for these events.
    #[error("the worker holds no active lease for these events")]
    Fenced,
    /// No worker has claimed the command.
    #[error("command {0} is not claimed: claim it with POST /api/commands/claim first")]
    Unclaimed(CommandId),
    /// The server failed, for example because the execution does not exist.
    #[error(transparent)]
    Failed(#[from] Error),
    /// The engine refuses the report.
    #[error(transparent)]
    Refused(#[from] engine::Refusal),
}

/// A batch that was recorded, or that consists of duplicates.
pub(crate) struct IngestedBatch {
    /// The result of each event, in order.
    pub(crate) events: Vec<EventResponse>,
}

/// Events of one execution from a client, with the claim they are sent under. The epoch is the one in the store, not
/// the sealed form that clients see.
pub(crate) struct IncomingEvents {
    /// The execution.
    pub(crate) execution: ExecutionId,
    /// The worker that sends them.
    pub(crate) worker: Option<WorkerId>,
    /// The command they are about, if it is named.
    pub(crate) command: Option<CommandId>,
    /// Epoch of the claim, if it is named.
    pub(crate) lease_epoch: Option<LeaseEpoch>,
    /// The events.
    pub(crate) events: Vec<WireEvent>,
}

/// A command and the claim under which a client reports.
struct ReportedClaim {
    command: CommandId,
    lease_epoch: LeaseEpoch,
    worker: WorkerId,
    /// Whether the claim has been replaced. Events that were recorded under it are still recognized as duplicates.
    is_stale: bool,
}

/// An event that is not in the log yet, with its index in the batch.
struct NewEvent<'e> {
    index: usize,
    event: &'e WireEvent,
}

/// What happened to an event that was not in the log.
#[derive(Clone, Copy)]
enum Disposition {
    Recorded,
    AlreadyRecorded(Option<Seq>),
}

/// Ingests events of one execution.
pub(crate) async fn ingest_batch(
    shared: &ServerShared,
    incoming: IncomingEvents,
) -> Result<IngestedBatch, IngestError> {
    check_events(&incoming.events)?;
    authorize(&incoming.events)?;
    let row = shared.store.execution(incoming.execution).await;
    let row = row.map_err(Error::from)?;
    let row = row.ok_or(Error::NotFound(incoming.execution))?;
    let claim = find_claim(shared, &incoming).await?;
    let IncomingEvents {
        execution, mut events, ..
    } = incoming;
    let hashes: Vec<[u8; 32]> = events.iter().map(event_hash).collect();
    for event in &mut events {
        let id = claim.as_ref().ok();
        let id = id.map(|claim| {
            let claim = ClaimId {
                command: claim.command,
                lease_epoch: claim.lease_epoch,
            };
            derive_event_id(event, claim)
        });
        event.event_id = event.event_id.or(id);
    }
    let duplicates = find_duplicates(shared, execution, &events, &hashes).await?;
    let is_recorded = |event: &WireEvent| event.event_id.is_some_and(|id| duplicates.contains_key(&id));
    let unrecorded = events.iter().enumerate();
    let unrecorded = unrecorded.map(|(index, event)| NewEvent { index, event });
    let unrecorded = unrecorded.filter(|new| !needs_no_row(new.event) && !is_recorded(new.event));
    let unrecorded: Vec<NewEvent<'_>> = unrecorded.collect();
    let reported = if unrecorded.is_empty() {
        ReportedEvents::default()
    } else {
        let ids = events.iter().zip(&hashes);
        let foreign = ids.filter_map(|(event, hash)| Some((event.event_id?, *hash)));
        let claim = claim?;
        if row.status.is_terminal() {
            classify_after_end(shared, &claim, &unrecorded).await?
        } else {
            check_owner(shared, row.owner)?;
            report_events(shared, claim, &unrecorded, foreign.collect()).await?
        }
    };
    let statuses = events.iter().map(|event| {
        let before = event.event_id.and_then(|id| duplicates.get(&id).copied());
        event_response(event, before, &reported)
    });
    Ok(IngestedBatch {
        events: statuses.collect(),
    })
}

/// The response for one event.
fn event_response(event: &WireEvent, before: Option<Seq>, reported: &ReportedEvents) -> EventResponse {
    let id = event.event_id;
    let recorded = id.and_then(|id| reported.recorded.get(&id).copied());
    let disposition = id.and_then(|id| reported.dispositions.get(&id).copied());
    let (status, seq) = match (before, recorded, disposition) {
        (Some(seq), ..) => (IngestStatus::Duplicate, Some(seq)),
        (None, Some(seq), _) => (IngestStatus::Recorded, Some(seq)),
        (None, None, _) if needs_no_row(event) => (IngestStatus::Acknowledged, None),
        (None, None, Some(Disposition::AlreadyRecorded(seq))) => (IngestStatus::Known, seq),
        (None, None, _) => (IngestStatus::Known, None),
    };
    EventResponse {
        event_id: id,
        seq,
        duplicate: before.is_some(),
        status,
    }
}

fn check_events(events: &[WireEvent]) -> Result<(), IngestError> {
    let invalid_events = events.iter().enumerate().filter_map(|(index, event)| {
        if needs_no_row(event) {
            return None;
        }
        let kind_error = event.kind().err().map(|error| error.to_string());
        let location_error = || event.location().err().map(|error| error.to_string());
        kind_error.or_else(location_error).map(|reason| (index, reason))
    });
    let invalid_events: Vec<(usize, String)> = invalid_events.collect();
    if invalid_events.is_empty() {
        Ok(())
    } else {
        Err(IngestError::Invalid(invalid_events))
    }
}

/// Rejects events that only the server may emit.
fn authorize(events: &[WireEvent]) -> Result<(), IngestError> {
    let server_only = events
        .iter()
        .find(|event| event.is_server_only() && !needs_no_row(event) && !is_failed_command(event));
    match server_only {
        Some(event) => Err(IngestError::ServerOnly(event.event_type.clone())),
        None => Ok(()),
    }
}

/// Whether the event is acknowledged without being recorded: events about commands, routing under an older name, and
/// the end of a loop. The server records these itself.
pub(crate) fn needs_no_row(event: &WireEvent) -> bool {
    let name = event.event_type.as_str();
    let is_routing = || event.kind().is_ok_and(|kind| kind == EventKind::NextEvaluated);
    name == "loop.done"
        || (name.starts_with("command.") && !matches!(name, "command.failed" | "command.completed"))
        || (name.starts_with("case.") && is_routing())
}

fn is_failed_command(event: &WireEvent) -> bool {
    event.event_type == "command.failed"
}

/// Finds the command that the events are about: the named one, or the one of their step that the worker holds.
///
/// The inner error is the reason why there is no claim; it only matters if an event must be recorded.
async fn find_claim(
    shared: &ServerShared,
    incoming: &IncomingEvents,
) -> Result<Result<ReportedClaim, IngestError>, IngestError> {
    let execution = incoming.execution;
    let command_id = incoming.command;
    if command_id.is_some_and(|id| id.execution != execution) {
        return Err(IngestError::SeveralCommands);
    }
    let open = shared.store.open_commands(execution).await;
    let open = open.map_err(Error::from)?;
    let worker = incoming.worker.as_ref();
    let step = incoming.events.iter().find_map(WireEvent::step);
    let is_subject = |open: &&store::OpenCommand| {
        if let Some(id) = command_id {
            return open.command.id == id;
        }
        let is_theirs = worker.is_none() || open.worker.as_ref() == worker;
        step.as_ref() == Some(&open.command.run.step) && is_theirs
    };
    let Some(open_command) = open.iter().find(is_subject) else {
        // The command has ended. Its claim still determines the derived event IDs.
        let claim = command_id.zip(incoming.lease_epoch).zip(worker);
        let claim = claim.map(|((command, lease_epoch), worker)| ReportedClaim {
            command,
            lease_epoch,
            worker: worker.clone(),
            is_stale: false,
        });
        return Ok(claim.ok_or(IngestError::Fenced));
    };
    let command = open_command.command.id;
    let Some(holder) = &open_command.worker else {
        return Ok(Err(IngestError::Unclaimed(command)));
    };
    let is_current = incoming
        .lease_epoch
        .is_none_or(|epoch| epoch == open_command.lease_epoch);
    if worker.is_some_and(|worker| worker != holder) || !is_current {
        // Events that it sent while it held the command are recognized by the claim it had then.
        let stale_claim = incoming.lease_epoch.zip(worker);
        let stale_claim = stale_claim.map(|(lease_epoch, worker)| ReportedClaim {
            command,
            lease_epoch,
            worker: worker.clone(),
            is_stale: true,
        });
        return Ok(stale_claim.ok_or(IngestError::Fenced));
    }
    Ok(Ok(ReportedClaim {
        command,
        lease_epoch: open_command.lease_epoch,
        worker: holder.clone(),
        is_stale: false,
    }))
}

/// Events that are already in the log, with their seqs.
async fn find_duplicates(
    shared: &ServerShared,
    execution: ExecutionId,
    events: &[WireEvent],
    hashes: &[[u8; 32]],
) -> Result<HashMap<EventId, Seq>, IngestError> {
    let ids: Vec<EventId> = events.iter().filter_map(|event| event.event_id).collect();
    let recorded = shared
        .store
        .external_events(execution, &ids)
        .await
        .map_err(Error::from)?;
    let mut duplicates = HashMap::new();
    for (event, hash) in events.iter().zip(hashes) {
        let Some(id) = event.event_id else { continue };
        match recorded.iter().find(|recorded| recorded.event_id == id) {
            Some(recorded) if recorded.hash != *hash => return Err(IngestError::Conflict(id)),
            Some(recorded) => {
                duplicates.insert(id, recorded.seq);
            }
            None => {}
        }
    }
    Ok(duplicates)
}

/// Result of a report.
#[derive(Default)]
struct ReportedEvents {
    /// Seqs of the recorded events.
    recorded: HashMap<EventId, Seq>,
    /// What happened to each event.
    dispositions: HashMap<EventId, Disposition>,
}

/// Checks that this process owns the execution, or that no process does. Only the owner translates events: loading the
/// execution here would be useless, because the report would be refused.
fn check_owner(shared: &ServerShared, owner: Option<OwnerId>) -> Result<(), IngestError> {
    match owner.filter(|owner| *owner != shared.owner) {
        Some(owner) => Err(Error::OwnedBy(owner).into()),
        None => Ok(()),
    }
}

/// Handles new events of a command that has ended; nothing is recorded.
async fn classify_after_end(
    shared: &ServerShared,
    claim: &ReportedClaim,
    unrecorded: &[NewEvent<'_>],
) -> Result<ReportedEvents, IngestError> {
    if claim.is_stale {
        return Err(IngestError::Fenced);
    }
    let seq = find_reported_end(shared, claim, unrecorded).await?;
    let ids = unrecorded.iter().filter_map(|new| new.event.event_id);
    Ok(ReportedEvents {
        recorded: HashMap::new(),
        dispositions: ids.map(|id| (id, Disposition::AlreadyRecorded(Some(seq)))).collect(),
    })
}

/// Reports the new events under their claim, in one input.
async fn report_events(
    shared: &ServerShared,
    claim: ReportedClaim,
    unrecorded: &[NewEvent<'_>],
    foreign: HashMap<EventId, [u8; 32]>,
) -> Result<ReportedEvents, IngestError> {
    if claim.is_stale {
        return Err(IngestError::Fenced);
    }
    let (events, dispositions) = translate_events(shared, &claim, unrecorded).await?;
    if events.is_empty() {
        let recorded = HashMap::new();
        return Ok(ReportedEvents { recorded, dispositions });
    }
    let input = Input::Report(engine::CommandReport {
        command: claim.command.seq,
        worker: claim.worker,
        lease_epoch: claim.lease_epoch,
        end: report_end(&events),
        events,
    });
    let attachments = InputAttachments {
        external_event_hashes: foreign,
        ..InputAttachments::default()
    };
    match shared.driver.apply(claim.command.execution, input, attachments).await {
        Ok(reply) => Ok(ReportedEvents {
            recorded: reply.recorded.into_iter().collect(),
            dispositions,
        }),
        Err(InputError::Refused(engine::Refusal::Fenced | engine::Refusal::ExecutionEnded)) => Err(IngestError::Fenced),
        Err(InputError::Refused(refusal)) => Err(refusal.into()),
        Err(InputError::Failed(error)) => Err(error.into()),
    }
}

async fn translate_events(
    shared: &ServerShared,
    claim: &ReportedClaim,
    unrecorded: &[NewEvent<'_>],
) -> Result<(Vec<ReportedEvent>, HashMap<EventId, Disposition>), IngestError> {
    let execution = claim.command.execution;
    let opened = loading::load_execution(shared, execution).await?;
    let opened = opened.ok_or(Error::NotFound(execution))?;
    let live = opened.state.commands.get(&claim.command.seq);
    let Some(step) = live.map(|live| live.run.step.clone()) else {
        let seq = find_reported_end(shared, claim, unrecorded).await?;
        let ids = unrecorded.iter().filter_map(|new| new.event.event_id);
        let dispositions = ids.map(|id| (id, Disposition::AlreadyRecorded(Some(seq)))).collect();
        return Ok((Vec::new(), dispositions));
    };
    let step = opened.net.playbook.step(step.as_str());
    let step = step.ok_or(IngestError::Fenced)?;
    let translation = Translation::new(
        opened.state.clone(),
        claim.command.seq,
        step,
        claim.worker.clone(),
        IdBlock::starting_at(shared.store.ids(1)),
    );
    let mut translation = translation.ok_or(IngestError::Fenced)?;
    let mut events = Vec::new();
    let mut dispositions = HashMap::new();
    let mut invalid_events = Vec::new();
    for NewEvent { index, event } in unrecorded {
        let disposition = match translation.translate(event, shared.store.now()) {
            Ok(TranslationResult::Events(translated)) => {
                events.extend(translated);
                Disposition::Recorded
            }
            Ok(TranslationResult::AlreadyRecorded) => Disposition::AlreadyRecorded(None),
            Err(TranslateError::StepEnded) => return Err(IngestError::Fenced),
            Err(reason) => {
                invalid_events.push((*index, reason.to_string()));
                continue;
            }
        };
        if let Some(id) = event.event_id {
            dispositions.insert(id, disposition);
        }
    }
    if invalid_events.is_empty() {
        Ok((events, dispositions))
    } else {
        Err(IngestError::Invalid(invalid_events))
    }
}

/// Finds the end that the holder of the claim reported before, if the events only repeat it.
async fn find_reported_end(
    shared: &ServerShared,
    claim: &ReportedClaim,
    unrecorded: &[NewEvent<'_>],
) -> Result<Seq, IngestError> {
    if !unrecorded.iter().all(|new| is_repeated_end(new.event)) {
        return Err(IngestError::Fenced);
    }
    let CommandId { execution, seq } = claim.command;
    let issued = shared.store.events_at(execution, &[seq]).await;
    let issued = issued.map_err(Error::from)?.into_iter().next();
    let run = issued.and_then(|event| event.location.step_run_id());
    let run = run.ok_or(IngestError::Fenced)?;
    let is_theirs = |event: &Event| {
        event.kind().is_boundary()
            && event.worker_id.as_ref() == Some(&claim.worker)
            && event.location.step_run_id().as_ref() == Some(&run)
    };
    let mut after = seq;
    for _ in 0..PAGES_MAX {
        let page = shared.store.events(execution, after, PAGE).await;
        let page = page.map_err(Error::from)?;
        if let Some(end) = page.iter().find(|event| is_theirs(event)) {
            return Ok(end.seq);
        }
        match page.last() {
            Some(last) => after = last.seq,
            None => break,
        }
    }
    Err(IngestError::Fenced)
}
