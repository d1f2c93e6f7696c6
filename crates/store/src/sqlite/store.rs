//! The `Store` of a directory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, Name, PlaybookHash, Seq, StepRunId, WorkerId};
use model::labels::Labels;
use model::time::Time;
use tokio::sync::oneshot;

use crate::Store;
use crate::access::{AccessTokenId, AccessTokenRow, AuditEntry, AuditRow, OutboxRow, StoreProcess, WorkerClaim};
use crate::commit::{Commit, CommitStatus, ExternalEventKey, Message, MessageKey, Priority};
use crate::error::Error;
use crate::execution_filter::{ExecutionFilter, FacetRow};
use crate::ids::IdGenerator;
use crate::iteration_reads::{IterationRow, IterationRowQuery, IterationTimings};
use crate::monitoring::MonitoringStore;
use crate::rows::{
    Adoption, CatalogEntry, CatalogVersion, ClaimQuery, CommandClaim, ExecutionRow, IterationOutcomes, LoopProgress,
    LoopTask, LostClaim, OldRows, OpenCommand, OutcomeRange, OwnerId, RebuildStats, RemovedRows, ResultRow,
    SessionHolder, StepState, StoredExecution, WaitEntry, WorkerSession,
};
use crate::sealed::SealedStore;
use crate::sqlite::append::CommitJob;
use crate::sqlite::handle::{SqliteStore, stopped_error};
use crate::sqlite::writer::{WriteJob, WriterRequest};
use crate::sqlite::{access, append, iteration_reads, iterations, queries, removal, waits, writer, writes};
use crate::verify::Damage;
use crate::wait_filter::WaitFilter;

/// Maximum time to wait for another process's commit; callers then check again.
const CHANGED_WAIT_MAX: Duration = Duration::from_millis(200);

#[async_trait]
impl Store for SqliteStore {
    fn now(&self) -> Time {
        (self.clock)()
    }

    fn ids(&self, count: u32) -> EventId {
        let (ids, _lock) = self.ids.get_or_init(|| match self.owners.id_slot() {
            Some((slot, lock)) => (IdGenerator::new(slot), Some(lock)),
            // There are more processes than slots: process ID and milliseconds make collisions unlikely.
            None => (IdGenerator::new(std::process::id().to_le_bytes()[0]), None),
        });
        ids.draw(self.now(), count)
    }

    fn owner(&self) -> Result<OwnerId, Error> {
        let mut registration = self.lock_owner();
        if let Some(registration) = &*registration {
            return Ok(registration.owner.clone());
        }
        let entered = self.owners.register(self.now(), self.publishes)?;
        Ok(registration.insert(entered).owner.clone())
    }

    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<CommitStatus, Error>> {
        let mut group: Vec<Box<dyn WriteJob>> = Vec::with_capacity(commits.len());
        let mut results = Vec::with_capacity(commits.len());
        for commit in commits {
            let (reply, replies) = oneshot::channel();
            match commit.check() {
                Ok(()) => group.push(Box::new(CommitJob::new(commit, self.now(), self.publishes, reply))),
                // The receiver cannot be closed yet.
                Err(error) => drop(reply.send(Err(error))),
            }
            results.push(replies);
        }
        let connection = self
            .write_connection
            .as_ref()
            .expect("a writable store has a write connection");
        connection
            .lock()
            .expect("writing does not panic")
            .write_group(&mut group);
        let replies = results.into_iter().map(|mut replies| replies.try_recv());
        replies
            .map(|reply| reply.unwrap_or_else(|_| Err(stopped_error())))
            .collect()
    }

    async fn load(&self, id: ExecutionId, snapshot_version: u32) -> Result<Option<StoredExecution>, Error> {
        self.read(move |db| queries::load(db, id, snapshot_version)).await
    }

    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.read(move |db| queries::events(db, id, after, limit)).await
    }

    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        let seqs = seqs.to_vec();
        self.read(move |db| queries::events_at(db, id, &seqs)).await
    }

    async fn external_events(&self, id: ExecutionId, event_ids: &[EventId]) -> Result<Vec<ExternalEventKey>, Error> {
        let event_ids = event_ids.to_vec();
        self.read(move |db| queries::external_events(db, id, &event_ids)).await
    }

    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.read(move |db| queries::execution(db, id)).await
    }

    async fn executions(&self, filter: &ExecutionFilter) -> Result<Vec<ExecutionRow>, Error> {
        let (filter, now) = (filter.clone(), self.now());
        self.read(move |db| queries::executions(db, &filter, now)).await
    }

    async fn execution_facets(&self, filter: &ExecutionFilter) -> Result<Vec<FacetRow>, Error> {
        let (filter, now) = (filter.clone(), self.now());
        self.read(move |db| queries::execution_facets(db, &filter, now)).await
    }

    async fn labels(&self, ids: &[ExecutionId]) -> Result<BTreeMap<ExecutionId, Labels>, Error> {
        if ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids = ids.to_vec();
        self.read(move |db| queries::labels(db, &ids)).await
    }

    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        self.read(move |db| queries::steps(db, id)).await
    }

    async fn waits(&self, filter: &WaitFilter) -> Result<Vec<WaitEntry>, Error> {
        let filter = filter.clone();
        self.read(move |db| waits::waits(db, &filter)).await
    }

    async fn wait_count(&self, filter: &WaitFilter) -> Result<u64, Error> {
        let filter = filter.clone();
        self.read(move |db| waits::wait_count(db, &filter)).await
    }

    async fn awaited_signals(&self, ids: &[ExecutionId]) -> Result<Vec<(ExecutionId, Name)>, Error> {
        let ids = ids.to_vec();
        self.read(move |db| waits::awaited_signals(db, &ids)).await
    }

    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        self.read(move |db| queries::results(db, id)).await
    }

    async fn loops(&self, id: ExecutionId) -> Result<Vec<LoopProgress>, Error> {
        self.read(move |db| iterations::loops(db, id)).await
    }

    async fn iteration_events(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        indices: Range<u64>,
    ) -> Result<Vec<Event>, Error> {
        let run = run.clone();
        self.read(move |db| iterations::iteration_events(db, id, &run, &indices))
            .await
    }

    async fn iteration_outcomes(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        range: &OutcomeRange,
    ) -> Result<IterationOutcomes, Error> {
        let (run, range) = (run.clone(), range.clone());
        self.read(move |db| iterations::iteration_outcomes(db, id, &run, &range))
            .await
    }

    async fn loop_task(
        &self,
        id: ExecutionId,
        step: &Name,
        run: Option<u32>,
        task: &Name,
    ) -> Result<Option<LoopTask>, Error> {
        let (step, task) = (step.clone(), task.clone());
        self.read(move |db| iterations::loop_task(db, id, &step, run, &task))
            .await
    }

    async fn failed_iterations(&self, id: ExecutionId, run: &StepRunId, limit: usize) -> Result<Vec<u64>, Error> {
        let run = run.clone();
        self.read(move |db| iterations::failed_iterations(db, id, &run, limit))
            .await
    }

    async fn iteration_rows(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        query: &IterationRowQuery,
    ) -> Result<Vec<IterationRow>, Error> {
        let (run, query) = (run.clone(), query.clone());
        self.read(move |db| iteration_reads::iteration_rows(db, id, &run, &query))
            .await
    }

    async fn iteration_timings(
        &self,
        id: ExecutionId,
        run: &StepRunId,
        iterations: Range<u64>,
        appends_max: usize,
    ) -> Result<IterationTimings, Error> {
        let run = run.clone();
        self.read(move |db| iteration_reads::iteration_timings(db, id, &run, &iterations, appends_max))
            .await
    }

    async fn iteration_count(&self, id: ExecutionId, run: &StepRunId) -> Result<u64, Error> {
        let run = run.clone();
        self.read(move |db| iterations::iteration_count(db, id, &run)).await
    }

    async fn outline(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.read(move |db| iterations::outline(db, id, after, limit)).await
    }

    async fn executions_with_permanent_bodies(&self) -> Result<Vec<ExecutionId>, Error> {
        self.read(queries::executions_with_permanent_bodies).await
    }

    async fn claim_commands(&self, query: &ClaimQuery) -> Result<Vec<CommandClaim>, Error> {
        let (query, now) = (query.clone(), self.now());
        self.write(move |db| writes::claim(db, &query, now)).await
    }

    async fn release_claim(&self, command: CommandId, lease_epoch: LeaseEpoch) -> Result<(), Error> {
        self.write(move |db| writes::release(db, command, lease_epoch)).await
    }

    async fn renew_session(&self, worker: &WorkerId, holder: &SessionHolder, ttl: Duration) -> Result<bool, Error> {
        let (worker, holder) = (worker.clone(), holder.clone());
        let expires_at = self.now().after(ttl);
        self.write(move |db| writes::renew_session(db, &worker, &holder, expires_at))
            .await
    }

    async fn session(&self, worker: &WorkerId) -> Result<Option<WorkerSession>, Error> {
        let (worker, now) = (worker.clone(), self.now());
        self.read(move |db| queries::session(db, &worker, now)).await
    }

    async fn replace_session(
        &self,
        worker: &WorkerId,
        replaced: &SessionHolder,
        holder: &SessionHolder,
        ttl: Duration,
    ) -> Result<bool, Error> {
        let (worker, replaced, holder) = (worker.clone(), replaced.clone(), holder.clone());
        let expires_at = self.now().after(ttl);
        self.write(move |db| writes::replace_session(db, &worker, &replaced, &holder, expires_at))
            .await
    }

    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        self.read(move |db| queries::lost_claims(db, owner.as_ref(), now)).await
    }

    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        self.read(move |db| queries::overdue_commands(db, owner.as_ref(), now))
            .await
    }

    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        self.read(move |db| queries::open_commands(db, id)).await
    }

    async fn due_timers(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        let (owner, now) = (owner.cloned(), self.now());
        let due = self.read(move |db| queries::timers(db, owner.as_ref(), now, limit));
        let due = due.await?.into_iter();
        Ok(due.map(|(id, seq, _)| (id, seq)).collect())
    }

    async fn next_timer(&self, owner: Option<&OwnerId>, until: Time) -> Result<Option<Time>, Error> {
        let owner = owner.cloned();
        let next = self.read(move |db| queries::timers(db, owner.as_ref(), until, 1));
        Ok(next.await?.first().map(|(_, _, due)| *due))
    }

    async fn send_message(&self, message: Message, priority: Priority) -> Result<(), Error> {
        self.write_with(priority, move |db| Ok(append::insert_message(db, &message)?))
            .await
    }

    async fn refuse_message(&self, key: MessageKey, reply: &str) -> Result<(), Error> {
        let (reply, now) = (reply.to_owned(), self.now());
        self.write(move |db| writes::refuse_message(db, key, &reply, now)).await
    }

    async fn withdraw_message(&self, key: MessageKey) -> Result<bool, Error> {
        let now = self.now();
        self.write(move |db| Ok(writes::withdraw_message(db, key, now)?)).await
    }

    async fn remove_old_rows(&self, old: OldRows) -> Result<RemovedRows, Error> {
        let now = self.now();
        self.write(move |db| removal::remove_old(db, old, now)).await
    }

    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        let (owner, owners) = (owner.cloned(), self.owners.clone());
        self.read(move |db| queries::inbox(db, &owners, owner.as_ref(), limit))
            .await
    }

    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        self.read(move |db| queries::is_pending(db, key)).await
    }

    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        let (path, text, now) = (path.to_owned(), text.to_owned(), self.now());
        self.write(move |db| writes::put_playbook(db, &path, &text, now)).await
    }

    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        let hash = hash.clone();
        self.read(move |db| queries::playbook(db, &hash)).await
    }

    async fn catalog_entry(&self, path: &str, version: Option<u32>) -> Result<Option<CatalogEntry>, Error> {
        let path = path.to_owned();
        self.read(move |db| Ok(queries::catalog_entry(db, &path, version)?))
            .await
    }

    async fn catalog_versions(
        &self,
        path: &str,
        before: Option<u32>,
        limit: usize,
    ) -> Result<Vec<CatalogVersion>, Error> {
        let path = path.to_owned();
        self.read(move |db| Ok(queries::catalog_versions(db, &path, before, limit)?))
            .await
    }

    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        self.read(queries::catalog).await
    }

    async fn adopt(&self, id: ExecutionId, new_owner: &OwnerId, priority: Priority) -> Result<Adoption, Error> {
        let (owners, new_owner) = (self.owners.clone(), new_owner.clone());
        self.write_with(priority, move |db| writes::adopt(db, &owners, id, &new_owner))
            .await
    }

    async fn abandoned_executions(&self) -> Result<Vec<ExecutionId>, Error> {
        let owners = self.owners.clone();
        self.read(move |db| queries::abandoned_executions(db, &owners)).await
    }

    async fn wait_for_change(&self) {
        // If the thread has stopped, no notification follows; every other call reports the error.
        let _ = self.send_request(WriterRequest::Watch);
        // A commit between two calls sends no notification, so each call waits only a short time.
        let _ = tokio::time::timeout(CHANGED_WAIT_MAX, self.foreign_commits.notified()).await;
    }

    async fn rebuild_projections(&self) -> Result<RebuildStats, Error> {
        self.write(writes::rebuild).await
    }

    async fn worker_claims(&self, worker: &WorkerId) -> Result<Vec<WorkerClaim>, Error> {
        let worker = worker.clone();
        self.read(move |db| access::worker_claims(db, &worker)).await
    }

    async fn processes(&self) -> Result<Vec<StoreProcess>, Error> {
        Ok(self.owners.all())
    }

    async fn owner_of(&self, id: ExecutionId) -> Result<Option<StoreProcess>, Error> {
        let owners = self.owners.clone();
        self.read(move |db| access::owner_of(db, &owners, id)).await
    }

    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        self.read(move |db| access::outbox(db, after, limit)).await
    }

    async fn mark_published(&self, upto: u64) -> Result<(), Error> {
        self.write(move |db| access::mark_published(db, upto)).await
    }

    fn sealed_store(&self) -> &dyn SealedStore {
        self
    }

    fn monitoring_store(&self) -> &dyn MonitoringStore {
        self
    }

    async fn put_token(&self, token: AccessTokenRow) -> Result<(), Error> {
        self.write(move |db| access::put_token(db, &token)).await
    }

    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<AccessTokenRow>, Error> {
        let hash = *hash;
        self.read(move |db| access::token_by_hash(db, &hash)).await
    }

    async fn tokens(&self) -> Result<Vec<AccessTokenRow>, Error> {
        self.read(access::tokens).await
    }

    async fn revoke_token(&self, id: AccessTokenId) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::revoke_token(db, id, now)).await
    }

    async fn touch_token(&self, id: AccessTokenId) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::touch_token(db, id, now)).await
    }

    async fn add_audit_entry(&self, entry: AuditEntry) -> Result<(), Error> {
        let now = self.now();
        self.write(move |db| access::audit(db, &entry, now)).await
    }

    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.read(move |db| access::audit_entries(db, after, limit)).await
    }

    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        let key = key.to_owned();
        self.read(move |db| access::setting(db, &key)).await
    }

    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        let (key, value, now) = (key.to_owned(), value.to_owned(), self.now());
        self.write(move |db| access::set_setting_once(db, &key, &value, now))
            .await
    }

    async fn damaged_files(&self) -> Result<Vec<Damage>, Error> {
        self.read(queries::find_damage).await
    }

    fn check_health(&self) -> Result<(), Error> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => {}
            _ => return Err(stopped_error()),
        }
        let is_scarce = || writer::is_scarce(self.readers.file());
        if (self.refusal.error().is_some() || is_scarce())
            && let Some(connection) = &self.write_connection
        {
            connection.lock().expect("writing does not panic").probe();
        }
        self.refusal.error().map_or(Ok(()), Err)
    }
}
