//! Runs a case on a real server and a real worker whose tools are scripted: in one process and in virtual time, or on
//! Postgres and over HTTP in real time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::ControlRequest;
use language::playbook::credentials::CredentialUses;
use model::event::StopRequest;
use model::id::{ExecutionId, WorkerId};
use model::raw::RawJson;
use model::status::RunStatus;
use server::{ControlError, Server, SubmitError, SubmitRequest};
use store::{ExecutionFilter, Store};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use wire::api::{RerunRequest, SetCredentialRequest};

use crate::conformance::case::Case;
use crate::conformance::deployment::CaseDeployment;
use crate::conformance::input_schedule::{ExternalInput, InputSchedule, RerunInput};
use crate::conformance::normalise::{CaseLog, normalise};
use crate::conformance::script::Script;
use crate::conformance::scripted_tool;
use crate::stack::{KillableTransport, VirtualClock, server_config};

/// Interval between two polls of the case.
const STEP: Duration = Duration::from_millis(1);
/// Longer than `STEP`: in virtual time, an input that an event triggers arrives before a worker that
/// receives the same event sends its report.
const REPORT_LATENCY: Duration = Duration::from_millis(2);
/// The additional time that passes if nothing happened.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// A longer time without anything due is skipped in virtual time; a shorter one passes with all periodic work.
const JUMP_MIN: Duration = Duration::from_secs(30);
/// A case that has not ended after this time hangs.
const CASE_TIMEOUT: Duration = Duration::from_secs(90 * 24 * 3_600);
/// If nothing is due and no log grows for this time, no log will grow any more.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Outcome of a case.
#[derive(Debug, Clone)]
pub struct CaseResult {
    /// The normalized logs.
    pub text: String,
    /// Status of the root.
    pub status: RunStatus,
    /// The original logs, the root's first.
    pub logs: Vec<CaseLog>,
}

struct CaseRun {
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

/// Runs a case until it ends, on a runtime of its own whose time is virtual.
pub fn run_case_in_virtual_time(case: &Case, deployment: CaseDeployment) -> Result<CaseResult, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .map_err(to_message)?;
    let result = runtime.block_on(run_case(case, deployment));
    runtime.shutdown_background();
    result
}

/// Runs a case until it ends.
pub async fn run_case(case: &Case, deployment: CaseDeployment) -> Result<CaseResult, String> {
    let mut running = start_case(case, deployment).await?;
    running.run_to_end().await?;
    let result = running.build_result().await?;
    running.kill_token.cancel();
    running.server.stop().await;
    Ok(result)
}

/// Stores every credential that the playbooks of a case name.
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
        for name in CredentialUses::names_in_playbook(playbook).into_iter().chain(entries) {
            let request = SetCredentialRequest {
                name,
                kind: "basic".to_owned(),
                data: serde_json::json!({"password": "open"}),
            };
            let actor = server::Actor {
                name: "the case".to_owned(),
                source: None,
            };
            server.set_credential(&request, actor).await.map_err(to_message)?;
        }
    }
    Ok(())
}

async fn start_case(case: &Case, mut deployment: CaseDeployment) -> Result<CaseRun, String> {
    let dir = tempfile::tempdir().map_err(to_message)?;
    let clock = VirtualClock::start();
    let store = deployment.open_store(dir.path(), clock)?;
    let bodies = results::DirBodyStore::open(&dir.path().join("bodies")).map_err(to_message)?;
    let bodies: Arc<dyn results::BodyStore> = Arc::new(bodies);
    let config = server::Config {
        limits: case.limits,
        keychain: server::KeychainConfig {
            keys: server::MasterKeys::Given {
                current: server::MasterKey::generate(),
                old: None,
            },
            ..server::KeychainConfig::default()
        },
        cluster_secret: deployment.cluster_secret(&*store).await?,
        ..server_config(store.clone(), bodies.clone())
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
        labels: model::labels::Labels::default(),
    };
    let root = server.submit(submission).await.map_err(to_message)?;
    for text in &case.versions {
        let registered = store.put_playbook("playbook", text).await;
        registered.map_err(to_message)?;
    }
    let mut running = CaseRun {
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

impl CaseRun {
    /// Kills the worker if there is one, and starts another.
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
            tools: scripted_tool::registry(&self.script),
            bodies: self.bodies.clone(),
            logs: Arc::new(logs),
            clock: self.deployment.worker_clock(self.clock),
            env: serde_json::Map::new(),
            base_dir: self.dir.path().to_owned(),
            scratch_dir: self.dir.path().join("scratch"),
            heartbeat: Duration::from_secs(5),
            playbooks: language::playbook::SharedPlaybooks::default(),
            jumps_max: self.jumps_max,
        };
        let transport = KillableTransport {
            server: self.deployment.transport(&self.server)?,
            kill_token: self.kill_token.clone(),
            report_latency: REPORT_LATENCY,
        };
        let worker = worker::Worker::new(config, Arc::new(transport));
        tokio::spawn(worker.run(CancellationToken::new()));
        Ok(())
    }

    /// Advances the clock until the case ends.
    async fn run_to_end(&mut self) -> Result<(), String> {
        let mut last_change = (0, self.clock.elapsed());
        while self.clock.elapsed() < self.deployment.timeout().unwrap_or(CASE_TIMEOUT) {
            // Virtual time advances only when the server and the worker are idle.
            tokio::time::sleep(STEP).await;
            if self.apply_due_input().await? {
                continue;
            }
            let version = self.load_root_version().await?;
            if version != last_change.0 {
                last_change = (version, self.clock.elapsed());
            }
            if self.schedule.is_empty() && self.is_ended().await? {
                return Ok(());
            }
            match self.next_due().await? {
                Some(left) if left > JUMP_MIN && self.deployment.has_virtual_time() => {
                    // Work that waits for less time than this is done first.
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if self.load_root_version().await? == version {
                        tokio::time::advance(left.saturating_sub(JUMP_MIN) + STEP).await;
                    }
                }
                None if self.clock.elapsed() > last_change.1 + IDLE_MAX => return Ok(()),
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
        Err("it does not end".to_owned())
    }

    /// Sends one input of the case that is due.
    async fn apply_due_input(&mut self) -> Result<bool, String> {
        let log = self.read_log(self.root).await?;
        let elapsed = self.clock.elapsed();
        let Some(input) = self.schedule.take_due(elapsed, &log) else {
            return Ok(false);
        };
        let control = match input {
            ExternalInput::Cancel { cascade } => ControlRequest::Cancel(StopRequest {
                cascade,
                ..StopRequest::default()
            }),
            ExternalInput::Finalize(ending) => ControlRequest::Cancel(StopRequest {
                ending: Some(ending),
                ..StopRequest::default()
            }),
            ExternalInput::Rerun(again) => return self.rerun(again).await,
            ExternalInput::Pause => ControlRequest::Pause { reason: None },
            ExternalInput::Resume => ControlRequest::Resume,
            ExternalInput::Retry(version) => ControlRequest::Retry { version },
            ExternalInput::Signal(name, payload) => ControlRequest::Signal {
                name,
                payload: payload.as_ref().map(RawJson::from_serializable),
            },
            ExternalInput::Crash => {
                self.start_worker()?;
                return Ok(true);
            }
            ExternalInput::Patch(patch) => ControlRequest::Patch {
                patch: RawJson::from_serializable(&patch),
            },
        };
        match self.server.control(self.root, control).await {
            // A refused request leaves nothing in the log.
            Ok(()) | Err(ControlError::Refused(_)) => Ok(true),
            Err(ControlError::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Reruns the root or its latest rerun.
    async fn rerun(&mut self, rerun_input: RerunInput) -> Result<bool, String> {
        let of = if rerun_input.latest { self.latest } else { self.root };
        let rerun = RerunRequest {
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

    async fn load_root_version(&self) -> Result<u64, String> {
        let rows = self.executions().await?;
        Ok(rows.iter().map(|row| row.version.0).sum())
    }

    async fn executions(&self) -> Result<Vec<store::ExecutionRow>, String> {
        let filter = ExecutionFilter {
            limit: 1_000,
            ..ExecutionFilter::default()
        };
        let mut rows = self.store.executions(&filter).await.map_err(to_message)?;
        // A database may contain the runs of earlier cases; IDs are in the order of time.
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

    /// The time until the next timer or input; `None` if there is none.
    async fn next_due(&self) -> Result<Option<Duration>, String> {
        let timer = self
            .store
            .next_timer(None, model::time::Time(i64::MAX))
            .await
            .map_err(to_message)?;
        let timer = timer.map(|due| due.since(self.store.now()));
        let elapsed = self.clock.elapsed();
        let inputs = self.schedule.times().map(|span| span.saturating_sub(elapsed));
        Ok(inputs.chain(timer).min())
    }

    async fn read_log(&self, id: ExecutionId) -> Result<Vec<model::event::Event>, String> {
        let all = self.store.events(id, model::id::Seq(0), usize::MAX >> 1);
        all.await.map_err(to_message)
    }

    async fn build_result(&self) -> Result<CaseResult, String> {
        let mut logs = Vec::new();
        let mut rows = self.executions().await?;
        rows.sort_by_key(|row| row.id != self.root);
        for (index, row) in rows.iter().enumerate() {
            let name = match index {
                0 => "root".to_owned(),
                _ => format!("'{} {index}'", row.path),
            };
            let events = self.read_log(row.id).await?;
            logs.push(CaseLog { name, events });
        }
        Ok(CaseResult {
            text: normalise(&logs),
            status: rows.first().ok_or("the case has no root")?.status,
            logs,
        })
    }
}
