//! One case through a whole stack: SQLite, server and worker in one process and in virtual time; or Postgres, a server
//! that listens and a worker that speaks HTTP to it, in real time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use model::id::{ExecutionId, WorkerId};
use model::playbook::credentials::Opens;
use model::raw::Raw;
use model::status::RunStatus;
use server::{Control, ControlError, Rerun, Server, Submission, SubmitError};
use store::{Filter, Store};
use tempfile::TempDir;
use tests::conformance::{Again, Agenda, Case, Log, Script, What, normalise};
use tokio_util::sync::CancellationToken;
use wire::api::CredentialRequest;

use crate::clock::Virtual;
use crate::mortal::Mortal;
use crate::site::Site;
use crate::tool;

/// Time moves in such steps while something is expected to happen.
const STEP: Duration = Duration::from_millis(1);
/// So long passes before the case is looked at again while it waits for something near.
const POLL: Duration = Duration::from_millis(100);
/// Sooner than this every sweep is lived through; a longer time in which nothing happens is jumped over.
const JUMP_OVER: Duration = Duration::from_secs(30);
/// A case that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(90 * 24 * 3_600);
/// A log that does not grow for so long while nothing is due will not grow any more.
const STILL: Duration = Duration::from_secs(60);

struct Running {
    dir: TempDir,
    site: Site,
    clock: Virtual,
    store: Arc<dyn Store>,
    bodies: Arc<dyn results::Bodies>,
    server: Server,
    script: Arc<Mutex<Script>>,
    workers: u32,
    death: CancellationToken,
    root: ExecutionId,
    latest: ExecutionId,
    agenda: Agenda,
    jumps_max: u32,
}

/// Runs a case to its end; answers the logs made comparable.
pub(crate) async fn run(case: &Case, site: Site) -> Result<String, String> {
    let mut running = start(case, site).await?;
    running.go().await?;
    let text = running.text().await?;
    running.death.cancel();
    running.server.stop().await;
    Ok(text)
}

/// Every credential that the playbooks of a case name.
async fn give_credentials(case: &Case, server: &Server) -> Result<(), String> {
    let texts = [&case.playbook]
        .into_iter()
        .chain(case.children.iter().map(|(_, text)| text));
    for text in texts {
        let parsed = model::playbook::parse("playbook", text.as_bytes());
        let Some(playbook) = &parsed.playbook else {
            continue;
        };
        let entries = playbook.keychain.iter().map(|entry| entry.name.to_string());
        for name in Opens::of_playbook(playbook).into_iter().chain(entries) {
            let request = CredentialRequest {
                name,
                kind: "basic".to_owned(),
                data: serde_json::json!({"password": "open"}),
            };
            let actor = server::Actor {
                name: "the case".to_owned(),
                source: None,
            };
            server.set_credential(&request, actor).await.map_err(said)?;
        }
    }
    Ok(())
}

async fn start(case: &Case, mut site: Site) -> Result<Running, String> {
    let dir = tempfile::tempdir().map_err(said)?;
    let clock = Virtual::start();
    let store = site.store(dir.path(), clock)?;
    let bodies = results::Local::open(&dir.path().join("bodies")).map_err(said)?;
    let bodies: Arc<dyn results::Bodies> = Arc::new(bodies);
    let config = server::Config {
        store: store.clone(),
        bodies: bodies.clone(),
        limits: case.limits,
        files: None,
        bus: None,
        takes_over: false,
        keychain: server::KeychainConfig {
            keys: server::MasterKeys::Given {
                current: server::MasterKey::fresh(),
                old: None,
            },
            ..server::KeychainConfig::default()
        },
        retention: None,
        cluster_secret: site.secret(&*store).await?,
    };
    for (path, text) in &case.children {
        store.put_playbook(path, text).await.map_err(said)?;
    }
    let server = Server::start(config).map_err(said)?;
    give_credentials(case, &server).await?;
    site.listen(&server, dir.path()).await?;
    let submission = Submission {
        name: "playbook".to_owned(),
        text: case.playbook.clone(),
        payload: case.payload.as_ref().map(Raw::of),
    };
    let root = server.submit(submission).await.map_err(said)?;
    for text in &case.versions {
        let registered = store.put_playbook("playbook", text).await;
        registered.map_err(said)?;
    }
    let mut running = Running {
        site,
        clock,
        store,
        bodies,
        server,
        script: Arc::new(Mutex::new(case.script.clone())),
        workers: 0,
        death: CancellationToken::new(),
        root,
        latest: root,
        agenda: case.agenda(),
        jumps_max: case.jumps_max,
        dir,
    };
    running.employ()?;
    Ok(running)
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Running {
    /// The worker dies if there is one, and another begins.
    fn employ(&mut self) -> Result<(), String> {
        self.death.cancel();
        self.death = CancellationToken::new();
        self.workers += 1;
        let logs = worker::FileLogs::open(self.dir.path().join("logs")).map_err(said)?;
        let config = worker::Config {
            worker: WorkerId(format!("worker-{}", self.workers).into()),
            pool: "default".into(),
            kinds: None,
            slots: 64,
            tools: tool::registry(&self.script),
            bodies: self.bodies.clone(),
            logs: Arc::new(logs),
            clock: self.site.worker_clock(self.clock),
            env: serde_json::Map::new(),
            base_dir: self.dir.path().to_owned(),
            scratch_dir: self.dir.path().join("scratch"),
            heartbeat: Duration::from_secs(5),
            jumps_max: self.jumps_max,
        };
        let transport = Mortal {
            server: self.site.transport(&self.server)?,
            death: self.death.clone(),
        };
        let worker = worker::Worker::new(config, Arc::new(transport));
        tokio::spawn(worker.run(CancellationToken::new()));
        Ok(())
    }

    /// Lets time pass until the case is over.
    async fn go(&mut self) -> Result<(), String> {
        let mut seen = (0, self.clock.elapsed());
        while self.clock.elapsed() < self.site.patience().unwrap_or(PATIENCE) {
            // Time moves on only when nobody has anything to do.
            tokio::time::sleep(STEP).await;
            if self.happen().await? {
                continue;
            }
            let version = self.version().await?;
            if version != seen.0 {
                seen = (version, self.clock.elapsed());
            }
            if self.agenda.is_empty() && self.is_over().await? {
                return Ok(());
            }
            match self.next_due().await? {
                Some(left) if left > JUMP_OVER && self.site.is_virtual() => {
                    // Whatever waits for less than this is let come first.
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    if self.version().await? == version {
                        tokio::time::advance(left.saturating_sub(JUMP_OVER) + STEP).await;
                    }
                }
                None if self.clock.elapsed() > seen.1 + STILL => return Ok(()),
                _ => tokio::time::sleep(POLL).await,
            }
        }
        Err("it does not end".to_owned())
    }

    /// Does one of the case's inputs whose time has come.
    async fn happen(&mut self) -> Result<bool, String> {
        let log = self.log(self.root).await?;
        let elapsed = self.clock.elapsed();
        let Some(what) = self.agenda.take_due(elapsed, &log) else {
            return Ok(false);
        };
        let control = match what {
            What::Cancel { cascade } => Control::Cancel {
                reason: None,
                cascade,
            },
            What::Finalize(ending) => Control::Finalize {
                ending,
                reason: None,
            },
            What::Rerun(again) => return self.rerun(again).await,
            What::Pause => Control::Pause { reason: None },
            What::Resume => Control::Resume,
            What::Retry(version) => Control::Retry { version },
            What::Signal(name, payload) => Control::Signal {
                name,
                payload: payload.as_ref().map(Raw::of),
            },
            What::Crash => {
                self.employ()?;
                return Ok(true);
            }
            What::Patch(patch) => Control::Patch(Raw::of(&patch)),
        };
        match self.server.control(self.root, control).await {
            // The engine alone refuses the same way, and leaves no trace of it.
            Ok(()) | Err(ControlError::Refused(_)) => Ok(true),
            Err(ControlError::Failed(error)) => Err(error.to_string()),
        }
    }

    /// Has the root, or its latest rerun, run again.
    async fn rerun(&mut self, again: Again) -> Result<bool, String> {
        let of = if again.latest { self.latest } else { self.root };
        let rerun = Rerun {
            from_step: again.from_step,
            from_iteration: again.from_iteration,
            payload: again.payload.as_ref().map(Raw::of),
            version: again.version,
        };
        match self.server.rerun(of, rerun).await {
            Ok(execution) => self.latest = execution,
            Err(SubmitError::Refused(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok(true)
    }

    async fn version(&self) -> Result<u64, String> {
        let rows = self.executions().await?;
        Ok(rows.iter().map(|row| row.version.0).sum())
    }

    async fn executions(&self) -> Result<Vec<store::ExecutionRow>, String> {
        let filter = Filter {
            limit: 1_000,
            ..Filter::default()
        };
        let mut rows = self.store.executions(&filter).await.map_err(said)?;
        // A database may hold the runs of earlier cases; ids are in the order of time.
        rows.retain(|row| row.id >= self.root);
        rows.sort_by_key(|row| (row.started_at, row.id));
        Ok(rows)
    }

    async fn is_over(&self) -> Result<bool, String> {
        let rows = self.executions().await?;
        let terminal = rows.iter().all(|row| row.status.is_terminal());
        let inbox = self.store.inbox(None, 1).await.map_err(said)?;
        Ok(terminal && inbox.is_empty())
    }

    /// How long it is until something is known to happen.
    async fn next_due(&self) -> Result<Option<Duration>, String> {
        let timer = self
            .store
            .next_timer(None, model::time::Time(i64::MAX))
            .await
            .map_err(said)?;
        let timer = timer.map(|due| due.since(self.store.now()));
        let elapsed = self.clock.elapsed();
        let inputs = self.agenda.times().map(|span| span.saturating_sub(elapsed));
        Ok(inputs.chain(timer).min())
    }

    async fn log(&self, id: ExecutionId) -> Result<Vec<model::event::Event>, String> {
        let all = self.store.events(id, model::id::Seq(0), usize::MAX >> 1);
        all.await.map_err(said)
    }

    async fn text(&self) -> Result<String, String> {
        let mut logs = Vec::new();
        let mut rows = self.executions().await?;
        rows.sort_by_key(|row| row.id != self.root);
        for (index, row) in rows.iter().enumerate() {
            let events = self.log(row.id).await?;
            let name = match index {
                0 => "root".to_owned(),
                _ => format!("'{} {index}'", row.path),
            };
            if index == 0 && row.status == RunStatus::Running {
                return Err(format!("it still runs after {:?}", self.clock.elapsed()));
            }
            logs.push(Log { name, events });
        }
        Ok(normalise(&logs))
    }
}
