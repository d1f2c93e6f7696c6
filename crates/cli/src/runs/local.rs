//! Runs in a local store.

use std::time::Duration;

use async_trait::async_trait;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::playbook::Playbook;
use model::status::RunStatus;
use model::time::Time;
use results::Pieces;
use server::{
    Control, Listed, Rerun, ResultAddress, RunOutline, RunRequest, Submission, SubmitError,
};
use store::{ExecutionRow, Filter};

use crate::app::App;
use crate::args::Driving;
use crate::local::{self, Session};
use crate::log::{Log, PAGE};
use crate::problem::{Exit, Problem, without_userinfo};
use crate::runs::begin::{Begin, Driven, News, Watch};
use crate::runs::here::DrivenHere;
use crate::runs::place::{Lines, Runs, Wanted};

/// Backend for runs in a local store.
pub(crate) struct Here<'a> {
    pub(super) app: &'a App,
    pub(super) log: Log,
}

impl<'a> Here<'a> {
    pub(super) fn new(app: &'a App, log: Log) -> Self {
        Self { app, log }
    }
}

#[async_trait]
impl Runs for Here<'_> {
    fn place(&self) -> String {
        let store = without_userinfo(self.app.settings.store.display().to_string());
        let is_told = self.app.settings.store.is_absolute() || store.starts_with("./");
        let store = if is_told { store } else { format!("./{store}") };
        format!("local, store {store}")
    }

    fn now(&self) -> Time {
        self.log.store.now()
    }

    async fn get(&self, id: ExecutionId) -> Result<Option<ExecutionRow>, Problem> {
        Ok(self.log.store.execution(id).await?)
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<ExecutionRow>, Problem> {
        Ok(self.log.store.executions(filter).await?)
    }

    async fn events(&self, id: ExecutionId, after: Seq) -> Result<Vec<Event>, Problem> {
        Ok(self.log.store.events(id, after, PAGE).await?)
    }

    async fn outline(&self, id: ExecutionId, after: Seq) -> Result<RunOutline, Problem> {
        Ok(self.log.reader().outline(id, after, PAGE).await?)
    }

    fn watch<'a>(&'a self, id: ExecutionId, _after: Seq) -> Box<dyn Watch + 'a> {
        Box::new(Glance {
            log: &self.log,
            id,
            changes: store::ChangeWatch::default(),
        })
    }

    async fn playbook(&self, row: &ExecutionRow) -> Result<Option<Playbook>, Problem> {
        self.log.playbook(&row.hash, row.path.as_str()).await
    }

    async fn result(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem> {
        self.log.result(id, address).await
    }

    async fn read(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
    ) -> Result<Option<Pieces>, Problem> {
        let reader = self.log.reader();
        match reader.find(id, address).await? {
            Some(found) => Ok(Some(reader.pieces(found).await?)),
            None => Ok(None),
        }
    }

    async fn results(
        &self,
        id: ExecutionId,
        address: &ResultAddress,
        after: Seq,
    ) -> Result<Listed, Problem> {
        Ok(self.log.reader().list(id, address, after, PAGE).await?)
    }

    async fn lines(&self, id: ExecutionId, after: u64) -> Result<Lines, Problem> {
        let dir = local::logs(&self.app.settings);
        let lines = worker::read_logs(&dir, id)
            .map_err(|error| Problem::unreadable(&dir.display().to_string(), &error))?;
        let next = lines.len() as u64;
        let passed = usize::try_from(after).unwrap_or(usize::MAX);
        Ok(Lines {
            fresh: lines.into_iter().skip(passed).collect(),
            next,
            is_more: false,
        })
    }

    async fn changed(&self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.log.store.changed()).await;
    }

    async fn is_abandoned(&self, row: &ExecutionRow) -> Result<bool, Problem> {
        let running = row.status == RunStatus::Running;
        Ok(running && self.log.store.abandoned().await?.contains(&row.id))
    }

    async fn say(
        &self,
        row: &ExecutionRow,
        word: Control,
        wanted: Option<Wanted>,
    ) -> Result<RunStatus, Problem> {
        let session = Session::start(self.log.clone())?;
        session
            .server
            .control(row.id, word)
            .await
            .map_err(|error| {
                let mut problem = Problem::from(error);
                problem.message = format!("run {}: {}", row.id, problem.message);
                problem
            })?;
        let status = match wanted {
            Some(wanted) => settled(&session, row.id, wanted).await?,
            None => row.status,
        };
        session.stop().await;
        Ok(status)
    }

    async fn begin<'a>(
        &'a self,
        begin: Begin,
        driving: &'a Driving,
    ) -> Result<Box<dyn Driven + 'a>, Problem> {
        let session = Session::start(self.log.clone())?;
        session.allow_env(self.app, driving);
        let driven = match begin {
            Begin::Text {
                name,
                text,
                payload,
            } => {
                let submission = Submission {
                    name,
                    text,
                    payload,
                };
                let id = session.server.submit(submission).await.map_err(refused)?;
                DrivenHere::begun(self.app, session, id, driving)
            }
            Begin::Catalog {
                path,
                version,
                payload,
            } => {
                let server = &session.server;
                let id = server.fresh_id();
                let request = RunRequest {
                    payload,
                    trace_id: None,
                };
                let submitted = server.submit_from_catalog(id, &path, version, request);
                submitted.await.map_err(refused)?;
                DrivenHere::begun(self.app, session, id, driving)
            }
            Begin::Resume(row) => {
                let word = (row.status == RunStatus::Paused).then_some(Control::Resume);
                DrivenHere::again(self.app, session, (row, word), driving).await?
            }
            Begin::Retry(row, version) => {
                let word = Some(Control::Retry { version });
                DrivenHere::again(self.app, session, (row, word), driving).await?
            }
            Begin::Rerun(row, request) => {
                let rerun = Rerun {
                    from_step: request.from_step,
                    from_iteration: request.from_iteration,
                    payload: request.payload,
                    version: request.version,
                };
                let id = session.server.rerun(row.id, rerun).await.map_err(refused)?;
                DrivenHere::begun(self.app, session, id, driving)
            }
        };
        let mut driven = Box::new(driven);
        if !driving.detach {
            driven.work()?;
        }
        Ok(driven)
    }
}

/// Waits until the run has the wanted status or has ended, or the timeout passes; returns its status.
async fn settled(session: &Session, id: ExecutionId, wanted: Wanted) -> Result<RunStatus, Problem> {
    let store = &session.log.store;
    let status = async || -> Result<RunStatus, Problem> {
        let row = store.execution(id).await?;
        Ok(row.map_or(RunStatus::Running, |row| row.status))
    };
    let reached = async {
        let mut published = session.server.watch();
        loop {
            let now = status().await?;
            if now == wanted.status || now.is_terminal() {
                return Ok(now);
            }
            tokio::select! {
                _ = published.recv() => {}
                () = store.changed() => {}
            }
        }
    };
    match tokio::time::timeout(wanted.patience, reached).await {
        Ok(reached) => reached,
        Err(_) => status().await,
    }
}

fn refused(error: SubmitError) -> Problem {
    match error {
        SubmitError::Failed(error) => error.into(),
        SubmitError::NoPlaybook(_) => {
            Problem::new(Exit::NotFound, "PLAYBOOK_NOT_FOUND", error.to_string())
        }
        SubmitError::Refused(refusal) => {
            Problem::coded(Exit::Usage, refusal.code(), refusal.to_string())
        }
        SubmitError::Invalid(diagnostics) => {
            let first = diagnostics
                .first()
                .map_or("", |found| found.message.as_str());
            Problem::new(Exit::InvalidPlaybook, "PLAYBOOK_INVALID", first)
        }
    }
}

/// Watches a run of another process: every change of the store may be an update.
struct Glance<'a> {
    log: &'a Log,
    id: ExecutionId,
    changes: store::ChangeWatch,
}

#[async_trait]
impl Watch for Glance<'_> {
    async fn news(&mut self) -> Result<News, Problem> {
        let row = self.log.store.execution(self.id).await?;
        if row.is_none_or(|row| row.status.is_terminal()) {
            return Ok(News::Over);
        }
        self.changes.changed(&*self.log.store).await;
        Ok(News::Unread)
    }
}
