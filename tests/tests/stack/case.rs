//! One case through a whole stack: SQLite, server and worker in one process and in virtual time; or Postgres, a server
//! that listens and a worker that speaks HTTP to it, in real time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use language::playbook::credentials::CredentialUses;
use model::id::{ExecutionId, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use server::{Control, ControlError, Rerun, Server, SubmitError, SubmitRequest};
use store::{ExecutionFilter, Store};
use tempfile::TempDir;
use tests::conformance::{
    Case, CaseLog, ExternalInput, InputSchedule, RerunInput, Script, normalise,
};
use tokio_util::sync::CancellationToken;
use wire::api::SetCredentialRequest;

use crate::deployment::CaseDeployment;
use crate::tool;
use tests::stack::KillableTransport;
use tests::stack::VirtualClock;

/// Time moves in such steps while something is expected to happen.
const STEP: Duration = Duration::from_millis(1);
/// So long passes before the case is looked at again while it waits for something near.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Sooner than this every sweep is lived through; a longer time in which nothing happens is jumped over.
const JUMP_MIN: Duration = Duration::from_secs(30);
/// A case that has not ended by then hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// A log that does not grow for so long while nothing is due will not grow any more.
const IDLE_MAX: Duration = Duration::from_secs(60);

struct StackCaseRun {
    dir: TempDir,
    deployment: CaseDeployment,
    clock: VirtualClock,
    store: Arc<dyn Store>,
    bodies: Arc<dyn results::BodyStore>,
    server: Server,
    script: Arc<Mutex<Script>>,
    workers: u32,
    kill_token: CancellationToken,
    root: ExecutionId,
    latest: ExecutionId,
    schedule: InputSchedule,
    jumps_max: u32,
}

/// Runs a case to its end; answers the logs made comparable.
pub(crate) async fn run_case(case: &Case, deployment: CaseDeployment) -> Result<String, String> {
    let mut running = start_case(case, deployment).await?;
    running.run_to_end().await?;
    let text = running.normalised_text().await?;
    running.kill_token.cancel();
    running.server.stop().await;
    Ok(text)
}

/// Every credential that the playbooks of a case name.
async fn set_credentials(case: &Case, server: &Server) -> Result<(), String> {
    let texts = [&case.playbook]
        .into_iter()
        .chain(case.children.iter().map(|(_, text)| text));
    for text in texts {
        let parsed = language::playbook::parse("playbook", text.as_bytes());
        let Some(playbook) = &parsed.playbook else {
            continue;
        };
        let entries = playbook.keychain.iter().map(|entry| entry.name.to_string());
        for name in CredentialUses::names_in_playbook(playbook)
            .into_iter()
            .chain(entries)
        {
            let request = SetCredentialRequest {
                name,
                kind: "basic".to_owned(),
                data: serde_json::json!({"password": "open"}),
            };
            let actor = server::Actor {
                name: "the case".to_owned(),
                source: None,
            };
            server
                .set_credential(&request, actor)
                .await
                .map_err(to_message)?;
        }
    }
    Ok(())
}

async fn start_case(case: &Case, mut deployment: CaseDeployment) -> Result<StackCaseRun, String> {
    let dir = tempfile::tempdir().map_err(to_message)?;
    let clock = VirtualClock::start();
    let store = deployment.open_store(dir.path(), clock)?;
    let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).map_err(to_message)?;
    let bodies: Arc<dyn results::BodyStore> = Arc::new(bodies);
    let config = server::Config {
        store: store.clone(),
        bodies: bodies.clone(),
        limits: case.limits,
        playbook_dir: None,
        bus: None,
        may_adopt: false,
        keychain: server::KeychainConfig {
            keys: server::MasterKeys::Given {
                current: server::MasterKey::generate(),
                old: None,
            },
            ..server::KeychainConfig::default()
        },
        retention: None,
        cluster_secret: deployment.cluster_secret(&*store).await?,
    };
    for (path, text) in &case.children {
        store.put_playbook(path, text).await.map_err(to_message)?;
    }
    let server = Server::start(config).map_err(to_message)?;
    set_credentials(case, &server).await?;
    deployment.start_listening(&server, dir.path()).await?;
    let submission = SubmitRequest {
        name: "playbook".to_owned(),
        text: case.playbook.clone(),
        payload: case.payload.as_ref().map(RawJson::from_serializable),
    };
    let root = server.submit(submission).await.map_err(to_message)?;
    for text in &case.versions {
        let registered = store.put_playbook("playbook", text).await;
        registered.map_err(to_message)?;
    }
    let mut running = StackCaseRun {
        deployment,
        clock,
        store,
        bodies,
        server,
        script: Arc::new(Mutex::new(case.script.clone())),
        workers: 0,
        kill_token: CancellationToken::new(),
        root,
        latest: root,
        schedule: case.schedule(),
        jumps_max: case.jumps_max,
        dir,
    };
    running.start_worker()?;
    Ok(running)
}

fn to_message(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl StackCaseRun {
    /// The worker dies if there is one, and another begins.
    fn start_worker(&mut self) -> Result<(), String> {
        self.kill_token.cancel();
        self.kill_token = CancellationToken::new();
        self.workers += 1;
        let logs = worker::FileLogs::open(self.dir.path().join("logs")).map_err(to_message)?;
        let config = worker::Config {
            worker: WorkerId(format!("worker-{}", self.workers).into()),
            pool: "default".into(),
            kinds: None,
            slots: 64,
            tools: tool::registry(&self.script),
            bodies: self.bodies.clone(),
            logs: Arc::new(logs),
            clock: self.deployment.worker_clock(self.clock),
            env: serde_json::Map::new(),
            base_dir: self.dir.path().to_owned(),
            scratch_dir: self.dir.path().join("scratch"),
            heartbeat: Duration::from_secs(5),
            jumps_max: self.jumps_max,
        };
        let transport = KillableTransport {
            server: self.deployment.transport(&self.server)?,
            kill_token: self.kill_token.clone(),
        };
        let worker = worker::Worker::new(config, Arc::new(transport));
        tokio::spawn(worker.run(CancellationToken::new()));
        Ok(())
    }

    /// Lets time pass until the case is over.
    async fn run_to_end(&mut self) -> Result<(), String> {
        let mut seen = (0, self.clock.elapsed());
        while self.clock.elapsed() < self.deployment.timeout().unwrap_or(CASE_TIMEOUT) {
            // Time moves on only when nobody has anything to do.
            tokio::time::sleep(STEP).await;
            if self.apply_due_input().await? {
                continue;
            }
            let version = self.root_version().await?;
            if version != seen.0 {
                seen = (version, self.clock.elapsed());
            }
            if self.schedule.is_empty() && self.is_ended().await? {
                return Ok(());
            }
            match self.next_due().await? {
                Some(left) if left > JUMP_MIN && self.deployment.has_virtual_time() => {
                    // Whatever waits for less than this is let come first.
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if self.root_version().await? == version {
                        tokio::time::advance(left.saturating_sub(JUMP_MIN) + STEP).await;
                    }
                }
                None if self.clock.elapsed() > seen.1 + IDLE_MAX => return Ok(()),
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        Err("it does not end".to_owned())
    }

    /// Does one of the case's inputs whose time has come.
    async fn apply_due_input(&mut self) -> Result<bool, String> {
        let log = self.read_log(self.root).await?;
        let elapsed = self.clock.elapsed();
        let Some(what) = self.schedule.take_due(elapsed, &log) else {
            return Ok(false);
        };
        let control = match what {
            ExternalInput::Cancel { cascade } => Control::Cancel {
                reason: None,
                cascade,
            },
            ExternalInput::Finalize(ending) => Control::Finalize {
                ending,
                reason: None,
            },
            ExternalInput::Rerun(again) => return self.rerun(again).await,
            ExternalInput::Pause => Control::Pause { reason: None },
            ExternalInput::Resume => Control::Resume,
            ExternalInput::Retry(version) => Control::Retry { version },
            ExternalInput::Signal(name, payload) => Control::Signal {
                name,
                payload: payload.as_ref().map(RawJson::from_serializable),
            },
            ExternalInput::Crash => {
                self.start_worker()?;
                return Ok(true);
            }
            ExternalInput::Patch(patch) => Control::Patch(RawJson::from_serializable(&patch)),
        };
        match self.server.control(self.root, control).await {
            // The engine alone refuses the same way, and leaves no trace of it.
            Ok(()) | Err(ControlError::Refused(_)) => Ok(true),
            Err(ControlError::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Has the root, or its latest rerun, run again.
    async fn rerun(&mut self, rerun_input: RerunInput) -> Result<bool, String> {
        let of = if rerun_input.latest {
            self.latest
        } else {
            self.root
        };
        let rerun = Rerun {
            from_step: rerun_input.from_step,
            from_iteration: rerun_input.from_iteration,
            payload: rerun_input.payload.as_ref().map(RawJson::from_serializable),
            version: rerun_input.version,
        };
        match self.server.rerun(of, rerun).await {
            Ok(execution) => self.latest = execution,
            Err(SubmitError::Refused(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(true)
    }

    async fn root_version(&self) -> Result<u64, String> {
        let rows = self.executions().await?;
        Ok(rows.iter().map(|row| row.version.0).sum())
    }

    async fn executions(&self) -> Result<Vec<store::ExecutionRow>, String> {
        let filter = ExecutionFilter {
            limit: 1_000,
            ..ExecutionFilter::default()
        };
        let mut rows = self.store.executions(&filter).await.map_err(to_message)?;
        // A database may hold the runs of earlier cases; ids are in the order of time.
        rows.retain(|row| row.id >= self.root);
        rows.sort_by_key(|row| (row.started_at, row.id));
        Ok(rows)
    }

    async fn is_ended(&self) -> Result<bool, String> {
        let rows = self.executions().await?;
        let terminal = rows.iter().all(|row| row.status.is_terminal());
        let inbox = self.store.inbox(None, 1).await.map_err(to_message)?;
        Ok(terminal && inbox.is_empty())
    }

    /// How long it is until something is known to happen.
    async fn next_due(&self) -> Result<Option<Duration>, String> {
        let timer = self
            .store
            .next_timer(None, model::time::Time(i64::MAX))
            .await
            .map_err(to_message)?;
        let timer = timer.map(|due| due.since(self.store.now()));
        let elapsed = self.clock.elapsed();
        let inputs = self
            .schedule
            .times()
            .map(|span| span.saturating_sub(elapsed));
        Ok(inputs.chain(timer).min())
    }

    async fn read_log(&self, id: ExecutionId) -> Result<Vec<model::event::Event>, String> {
        let all = self.store.events(id, model::id::Seq(0), usize::MAX >> 1);
        all.await.map_err(to_message)
    }

    async fn normalised_text(&self) -> Result<String, String> {
        let mut logs = Vec::new();
        let mut rows = self.executions().await?;
        rows.sort_by_key(|row| row.id != self.root);
        for (index, row) in rows.iter().enumerate() {
            let events = self.read_log(row.id).await?;
            let name = match index {
                0 => "root".to_owned(),
                _ => format!("'{} {index}'", row.path),
            };
            if index == 0 && row.status == RunStatus::Running {
                return Err(format!("it still runs after {:?}", self.clock.elapsed()));
            }
            logs.push(CaseLog { name, events });
        }
        Ok(normalise(&logs))
    }
}
