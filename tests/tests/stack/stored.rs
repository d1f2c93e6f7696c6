//! The SQLite store with its writes held against virtual time: they happen in a thread the runtime does not know.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{CommandId, EventId, ExecutionId, LeaseEpoch, PlaybookHash, Seq, WorkerId};
use model::time::Time;
use store::{
    AccessId, Adoption, Ask, AuditEntry, AuditRow, CatalogEntry, Claim, Commit, Committed, Error,
    ExecutionRow, Filter, Foreign, Held, LostClaim, Message, MessageKey, OpenCommand, OutboxRow,
    OwnerId, Peer, Rebuilt, Recorded, ResultRow, Sqlite, StepState, Store, TokenRow,
};

use crate::clock::held;

/// The store of one case.
pub(crate) struct Stored {
    pub(crate) sqlite: Sqlite,
    /// Whether the next commit happens and is answered as if nobody knew.
    pub(crate) loses_answer: AtomicBool,
}

impl Stored {
    /// A store that answers as it should.
    pub(crate) fn new(sqlite: Sqlite) -> Self {
        Self {
            sqlite,
            loses_answer: AtomicBool::new(false),
        }
    }
}

#[async_trait]
impl Store for Stored {
    fn now(&self) -> Time {
        self.sqlite.now()
    }
    fn ids(&self, count: u32) -> EventId {
        self.sqlite.ids(count)
    }
    fn owner(&self) -> Result<OwnerId, Error> {
        self.sqlite.owner()
    }
    async fn commit_all(&self, commits: Vec<Commit>) -> Vec<Result<Committed, Error>> {
        let answers = held(self.sqlite.commit_all(commits)).await;
        if !self.loses_answer.swap(false, Ordering::Relaxed) {
            return answers;
        }
        let lost = |_| Err(Error::Unavailable("the connection broke".into()));
        answers.into_iter().map(lost).collect()
    }
    async fn load(&self, id: ExecutionId, version: u32) -> Result<Option<Recorded>, Error> {
        self.sqlite.load(id, version).await
    }
    async fn events(&self, id: ExecutionId, after: Seq, limit: usize) -> Result<Vec<Event>, Error> {
        self.sqlite.events(id, after, limit).await
    }
    async fn events_at(&self, id: ExecutionId, seqs: &[Seq]) -> Result<Vec<Event>, Error> {
        self.sqlite.events_at(id, seqs).await
    }
    async fn foreign(&self, id: ExecutionId, ids: &[EventId]) -> Result<Vec<Foreign>, Error> {
        self.sqlite.foreign(id, ids).await
    }
    async fn execution(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Error> {
        self.sqlite.execution(id).await
    }
    async fn executions(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Error> {
        self.sqlite.executions(filter).await
    }
    async fn steps(&self, id: ExecutionId) -> Result<Vec<StepState>, Error> {
        self.sqlite.steps(id).await
    }
    async fn results(&self, id: ExecutionId) -> Result<Vec<ResultRow>, Error> {
        self.sqlite.results(id).await
    }
    async fn lasting_runs(&self) -> Result<Vec<ExecutionId>, Error> {
        self.sqlite.lasting_runs().await
    }
    async fn claim(&self, ask: &Ask) -> Result<Vec<Claim>, Error> {
        held(self.sqlite.claim(ask)).await
    }
    async fn release(&self, command: CommandId, epoch: LeaseEpoch) -> Result<(), Error> {
        held(self.sqlite.release(command, epoch)).await
    }
    async fn renew(&self, worker: &WorkerId, ttl: Duration) -> Result<(), Error> {
        held(self.sqlite.renew(worker, ttl)).await
    }
    async fn lost_claims(&self, owner: Option<&OwnerId>) -> Result<Vec<LostClaim>, Error> {
        self.sqlite.lost_claims(owner).await
    }
    async fn overdue_commands(&self, owner: Option<&OwnerId>) -> Result<Vec<CommandId>, Error> {
        self.sqlite.overdue_commands(owner).await
    }
    async fn open_commands(&self, id: ExecutionId) -> Result<Vec<OpenCommand>, Error> {
        self.sqlite.open_commands(id).await
    }
    async fn due_timers(
        &self,
        owner: Option<&OwnerId>,
        limit: usize,
    ) -> Result<Vec<(ExecutionId, Seq)>, Error> {
        self.sqlite.due_timers(owner, limit).await
    }
    async fn next_timer(&self, owner: Option<&OwnerId>) -> Result<Option<Time>, Error> {
        self.sqlite.next_timer(owner).await
    }
    async fn send(&self, message: Message) -> Result<(), Error> {
        held(self.sqlite.send(message)).await
    }
    async fn inbox(&self, owner: Option<&OwnerId>, limit: usize) -> Result<Vec<Message>, Error> {
        self.sqlite.inbox(owner, limit).await
    }
    async fn is_pending(&self, key: MessageKey) -> Result<bool, Error> {
        self.sqlite.is_pending(key).await
    }
    async fn put_playbook(&self, path: &str, text: &str) -> Result<CatalogEntry, Error> {
        held(self.sqlite.put_playbook(path, text)).await
    }
    async fn playbook(&self, hash: &PlaybookHash) -> Result<Option<CatalogEntry>, Error> {
        self.sqlite.playbook(hash).await
    }
    async fn latest(
        &self,
        path: &str,
        version: Option<u32>,
    ) -> Result<Option<CatalogEntry>, Error> {
        self.sqlite.latest(path, version).await
    }
    async fn catalog(&self) -> Result<Vec<CatalogEntry>, Error> {
        self.sqlite.catalog().await
    }
    async fn adopt(&self, id: ExecutionId, me: &OwnerId) -> Result<Adoption, Error> {
        held(self.sqlite.adopt(id, me)).await
    }
    async fn abandoned(&self) -> Result<Vec<ExecutionId>, Error> {
        self.sqlite.abandoned().await
    }
    async fn changed(&self) {
        self.sqlite.changed().await;
    }
    async fn rebuild_projections(&self) -> Result<Rebuilt, Error> {
        held(self.sqlite.rebuild_projections()).await
    }
    async fn held(&self, worker: &WorkerId) -> Result<Vec<Held>, Error> {
        self.sqlite.held(worker).await
    }
    async fn peers(&self) -> Result<Vec<Peer>, Error> {
        self.sqlite.peers().await
    }
    async fn owner_of(&self, id: ExecutionId) -> Result<Option<Peer>, Error> {
        self.sqlite.owner_of(id).await
    }
    async fn outbox(&self, after: u64, limit: usize) -> Result<Vec<OutboxRow>, Error> {
        self.sqlite.outbox(after, limit).await
    }
    async fn outbox_done(&self, upto: u64) -> Result<(), Error> {
        held(self.sqlite.outbox_done(upto)).await
    }
    fn safe(&self) -> &dyn store::Safe {
        self.sqlite.safe()
    }
    async fn put_token(&self, token: TokenRow) -> Result<(), Error> {
        held(self.sqlite.put_token(token)).await
    }
    async fn token_by_hash(&self, hash: &[u8; 32]) -> Result<Option<TokenRow>, Error> {
        self.sqlite.token_by_hash(hash).await
    }
    async fn tokens(&self) -> Result<Vec<TokenRow>, Error> {
        self.sqlite.tokens().await
    }
    async fn revoke_token(&self, id: AccessId) -> Result<(), Error> {
        held(self.sqlite.revoke_token(id)).await
    }
    async fn touch_token(&self, id: AccessId) -> Result<(), Error> {
        held(self.sqlite.touch_token(id)).await
    }
    async fn audit(&self, entry: AuditEntry) -> Result<(), Error> {
        held(self.sqlite.audit(entry)).await
    }
    async fn audit_entries(&self, after: u64, limit: usize) -> Result<Vec<AuditRow>, Error> {
        self.sqlite.audit_entries(after, limit).await
    }
    async fn setting(&self, key: &str) -> Result<Option<String>, Error> {
        self.sqlite.setting(key).await
    }
    async fn set_setting_once(&self, key: &str, value: &str) -> Result<String, Error> {
        held(self.sqlite.set_setting_once(key, value)).await
    }
    fn health(&self) -> Result<(), Error> {
        self.sqlite.health()
    }
}
