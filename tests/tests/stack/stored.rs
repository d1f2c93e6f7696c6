//! The SQLite store with its writes held against virtual time: they happen in a thread the runtime does not know.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::time::Time;
use store::{
    AccessId, Adoption, Ask, AuditEntry, AuditRow, CatalogEntry, Claim, Commit, Committed, Error,
    ExecutionRow, Filter, Foreign, Held, LostClaim, Message, OpenCommand, OutboxRow, OwnerId, Peer,
    Rebuilt, Recorded, ResultRow, Sqlite, StepState, Store, TokenRow,
};

use crate::clock::held;

/// The store of one case.
pub(crate) struct Stored(pub(crate) Sqlite);

#[async_trait]
impl Store for Stored {
    fn now(&self) -> Time {
        self.0.now()
    }
    fn ids(&self, count: u32) -> EventId {
        self.0.ids(count)
    }
    fn owner(&self) -> Result<OwnerId, Error> {
        self.0.owner()
    }
    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>> {
        held(self.0.commit_all(commits)).await
    }
    async fn load(&self, id: ExecutionId, version: u32) -> Result<Option<Recorded>, Error> {
        self.0.load(id, version).await
    }
    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.0.events(id, after, limit).await
    }
    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.0.events_at(id, seqs).await
    }
    async fn foreign(&self, id: ExecutionId, ids: &[EventId]) -> Result<Vec<Foreign>, Error> {
        self.0.foreign(id, ids).await
    }
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.0.execution(id).await
    }
    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error> {
        self.0.executions(filter).await
    }
    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        self.0.steps(id).await
    }
    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        self.0.results(id).await
    }
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error> {
        held(self.0.claim(ask)).await
    }
    async fn release(&self, command: CommandId, epoch: LeaseEpoch) -> Result<(), Error> {
        held(self.0.release(command, epoch)).await
    }
    async fn renew(&self, worker: &WorkerId, ttl: Duration) -> Result<(), Error> {
        held(self.0.renew(worker, ttl)).await
    }
    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        self.0.lost_claims(owner).await
    }
    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        self.0.overdue_commands(owner).await
    }
    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        self.0.open_commands(id).await
    }
    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        self.0.due_timers(owner, limit).await
    }
    async fn next_timer(&self, owner: Option<&OwnerId>) -> Result<Option<Time>, Error> {
        self.0.next_timer(owner).await
    }
    async fn send(&self, message: Message) -> Result<(), Error> {
        held(self.0.send(message)).await
    }
    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        self.0.inbox(owner, limit).await
    }
    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        held(self.0.put_playbook(path, text)).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        self.0.playbook(hash).await
    }
    async fn latest(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Error> {
        self.0.latest(path, version).await
    }
    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        self.0.catalog().await
    }
    async fn adopt(&self, id: ExecutionId, me: &OwnerId) -> Result<Adoption, Error> {
        held(self.0.adopt(id, me)).await
    }
    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error> {
        self.0.abandoned().await
    }
    async fn changed(&self) {
        self.0.changed().await;
    }
    async fn rebuild_projections(&self) -> Result<Rebuilt, Error> {
        held(self.0.rebuild_projections()).await
    }
    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error> {
        self.0.held(worker).await
    }
    async fn peers(&self) -> Result<Vec<Peer>, Error> {
        self.0.peers().await
    }
    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error> {
        self.0.owner_of(id).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        self.0.outbox(after, limit).await
    }
    async fn outbox_done(&self, upto: u64) -> Result<(), Error> {
        held(self.0.outbox_done(upto)).await
    }
    async fn put_token(&self, token: TokenRow) -> Result<(), Error> {
        held(self.0.put_token(token)).await
    }
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
        self.0.token_by_hash(hash).await
    }
    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        self.0.tokens().await
    }
    async fn revoke_token(&self, id: AccessId) -> Result<(), Error> {
        held(self.0.revoke_token(id)).await
    }
    async fn touch_token(&self, id: AccessId) -> Result<(), Error> {
        held(self.0.touch_token(id)).await
    }
    async fn audit(&self, entry: AuditEntry) -> Result<(), Error> {
        held(self.0.audit(entry)).await
    }
    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.0.audit_entries(after, limit).await
    }
    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        self.0.setting(key).await
    }
    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        held(self.0.set_setting_once(key, value)).await
    }
    fn health(&self) -> Result<(), Error> {
        self.0.health()
    }
}
