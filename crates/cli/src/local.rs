//! Opens a store with its result stores and logs, and starts the server and worker that drive runs in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::id::{Name, WorkerId};
use results::TaskLogs;
use serde_json::Value;
use server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::{FileLogs, Logs, ShippedLogs, Worker};

use crate::app::App;
use crate::args::Driving;
use crate::config::{Settings, is_store_url};
use crate::hiring::{Hired, POOL};
use crate::log::Log;
use crate::problem::{Exit, Problem};
use crate::reach::Reach;

/// Working directory of a process without a local store.
pub(crate) const WORKPLACE: &str = ".noetl";
/// Directory of stored results in the store directory.
const BODIES: &str = "bodies";
/// Directory of task logs in the store directory.
const LOGS: &str = "logs";

/// Returns the directory of task logs.
pub(crate) fn logs(settings: &Settings) -> PathBuf {
    match place(settings) {
        Place::Directory(dir) => dir.join(LOGS),
        Place::Postgres(_) => Path::new(WORKPLACE).join(LOGS),
    }
}

/// Opens an existing store for reading; does not create one.
pub(crate) fn existing(settings: &Settings) -> Result<Log, Problem> {
    let dir = &settings.store;
    refuse_url(dir)?;
    if !dir.join("noetl.db").is_file() {
        let message = format!("no NoETL store at `{}`", dir.display());
        return Err(Problem::new(Exit::Unreachable, "STORE_NOT_FOUND", message)
            .help("run a playbook first, or specify the store with --store DIR or NOETL_STORE"));
    }
    over(settings, dir, store::Sqlite::open_to_read(dir)?)
}

/// Opens a store; creates it if it does not exist.
pub(crate) fn open(settings: &Settings) -> Result<Log, Problem> {
    open_publishing(settings, &settings.store, false)
}

fn open_publishing(settings: &Settings, dir: &Path, publishes: bool) -> Result<Log, Problem> {
    refuse_url(dir)?;
    let store = store::Sqlite::open(dir)?;
    let store = if publishes { store.publishing() } else { store };
    over(settings, dir, store)
}

/// Rejects a store URL: only `serve` opens a store in Postgres.
fn refuse_url(store: &Path) -> Result<(), Problem> {
    if !is_store_url(store) {
        return Ok(());
    }
    let message = format!(
        "cannot open store `{}`: this command opens only store directories; access a store in Postgres through a \
         server",
        store.display()
    );
    Err(Problem::new(Exit::Usage, "STORE_NEEDS_SERVER", message).help(
        "start `noetl serve --store postgres://…`, then add --server URL to this command; or use --store DIR",
    ))
}

fn over(settings: &Settings, dir: &Path, store: store::Sqlite) -> Result<Log, Problem> {
    Ok(Log {
        store: Arc::new(store),
        bodies: bodies(settings, results::Local::open(&dir.join(BODIES))?)?,
        keychain: settings.keychain.config.clone(),
    })
}

/// Opens all configured result stores and the server's own.
fn bodies(
    settings: &Settings,
    own: impl results::Bodies + 'static,
) -> Result<Arc<results::Stores>, Problem> {
    let home = results::Home::Own(Arc::new(own));
    Ok(Arc::new(results::Stores::open(&settings.storage, home)?))
}

fn file_logs(dir: PathBuf) -> Result<FileLogs, Problem> {
    let name = dir.display().to_string();
    FileLogs::open(dir).map_err(|error| Problem::unwritable(&name, &error))
}

/// Connects the result store and the task logs to the database of the store.
struct Connections(store::PostgresConnections);

#[async_trait]
impl results::Connect for Connections {
    async fn connect(
        &self,
        statement_max: Duration,
    ) -> Result<results::PostgresClient, results::ConnectError> {
        Ok(self.0.open(statement_max).await?)
    }

    fn place(&self) -> String {
        self.0.place()
    }
}

/// Location of a store.
pub(crate) enum Place {
    /// A directory.
    Directory(PathBuf),
    /// A Postgres database that several servers share.
    Postgres(store::PostgresUrl),
}

/// Returns the store location from the settings.
pub(crate) fn place(settings: &Settings) -> Place {
    match settings.store.to_str() {
        Some(url) if is_store_url(&settings.store) => Place::Postgres(store::PostgresUrl::new(url)),
        _ => Place::Directory(settings.store.clone()),
    }
}

/// An open store.
pub(crate) struct Opened {
    /// Reads runs.
    pub(crate) log: Log,
    /// Logs of tasks.
    pub(crate) logs: Arc<dyn TaskLogs>,
    /// Whether other servers may share the store.
    pub(crate) is_cluster: bool,
}

/// Opens the store of a server; other servers reach it at `address`.
pub(crate) async fn open_place(
    settings: &Settings,
    address: &str,
    publishes: bool,
) -> Result<Opened, Problem> {
    match &place(settings) {
        Place::Directory(dir) => Ok(Opened {
            log: open_publishing(settings, dir, publishes)?,
            logs: Arc::new(file_logs(dir.join(LOGS))?),
            is_cluster: false,
        }),
        Place::Postgres(url) => {
            let options = store::PostgresOptions {
                address: Some(address.to_owned()),
                publishes,
                ..store::PostgresOptions::new(url.clone())
            };
            let store = store::Postgres::open(options).await?;
            let connections = Connections(store::PostgresConnections::new(url)?);
            let own = results::Postgres::open(Arc::new(connections)).await?;
            Ok(Opened {
                logs: Arc::new(own.logs()),
                log: Log {
                    store: Arc::new(store),
                    bodies: bodies(settings, own)?,
                    keychain: settings.keychain.config.clone(),
                },
                is_cluster: true,
            })
        }
    }
}

/// Options of a control plane.
#[derive(Default)]
pub(crate) struct Setup {
    /// Where events are published; `None` without NATS.
    pub(crate) bus: Option<Arc<dyn wire::Bus>>,
    /// Whether it adopts the runs of dead processes.
    pub(crate) takes_over: bool,
    /// How long stored results are kept after the end of their run; `None` if this process does not delete them.
    pub(crate) retention: Option<Duration>,
    /// Secret with which servers on the same store authenticate each other.
    pub(crate) cluster_secret: Option<String>,
    /// Task logs that servers share through the database; `None` if they are in the store directory.
    pub(crate) logs: Option<Arc<dyn TaskLogs>>,
    /// Network access of the tasks of this process.
    pub(crate) reach: Reach,
}

impl Setup {
    /// Returns the options of `noetl serve`.
    pub(crate) async fn serving(opened: &Opened) -> Result<Self, Problem> {
        let cluster_secret = if opened.is_cluster {
            opened.log.store.setting("cluster_secret").await?
        } else {
            None
        };
        Ok(Self {
            bus: None,
            takes_over: true,
            retention: None,
            cluster_secret,
            logs: opened.is_cluster.then(|| opened.logs.clone()),
            reach: Reach::default(),
        })
    }
}

/// The control plane in this process, with or without a worker.
pub(crate) struct Session {
    /// Reads runs.
    pub(crate) log: Log,
    /// The control plane.
    pub(crate) server: Server,
    logs: Option<Arc<dyn TaskLogs>>,
    reach: Reach,
    shipped: Option<Arc<ShippedLogs>>,
    work: Option<(CancellationToken, JoinHandle<worker::WorkEnd>)>,
}

impl Session {
    /// Starts the control plane over a store.
    pub(crate) fn start(log: Log) -> Result<Self, Problem> {
        Self::start_with(log, Setup::default())
    }

    /// Starts the control plane over a store with these options.
    pub(crate) fn start_with(log: Log, setup: Setup) -> Result<Self, Problem> {
        let config = server::Config {
            store: log.store.clone(),
            bodies: log.bodies.clone(),
            limits: engine::Limits::default(),
            files: setup.cluster_secret.is_none().then(|| PathBuf::from(".")),
            bus: setup.bus,
            takes_over: setup.takes_over,
            retention: setup.retention,
            keychain: log.keychain.clone(),
            cluster_secret: setup.cluster_secret,
        };
        let server = Server::start(config)?;
        Ok(Self {
            log,
            server,
            logs: setup.logs,
            reach: setup.reach,
            shipped: None,
            work: None,
        })
    }

    /// Lets defaults of playbooks read the variables of `--allow-env`.
    pub(crate) fn allow_env(&self, app: &App, driving: &Driving) {
        if driving.allow_env.is_empty() {
            return;
        }
        let allowed = driving.allow_env.iter().map(String::as_str);
        let allowed = app.environment.allowed(allowed).into_iter();
        let allowed = allowed.map(|(name, value)| (name, Value::String(value)));
        self.server.allow_env(allowed.collect());
    }

    /// Starts a worker for all tool kinds.
    pub(crate) fn work(&mut self, app: &App, driving: &Driving) -> Result<(), Problem> {
        self.work_on(app, driving, None)
    }

    /// Starts a worker for these tool kinds; `None` is all.
    pub(crate) fn work_on(
        &mut self,
        app: &App,
        driving: &Driving,
        kinds: Option<Vec<Name>>,
    ) -> Result<(), Problem> {
        let settings = &app.settings;
        let slots = driving.slots.unwrap_or(settings.slots);
        let logs: Arc<dyn Logs> = match &self.logs {
            Some(shared) => self
                .shipped
                .insert(Arc::new(ShippedLogs::start(shared.clone())))
                .clone(),
            None => Arc::new(file_logs(logs(settings))?),
        };
        let owner = self.log.store.owner()?;
        let hired = Hired {
            worker: WorkerId(format!("{owner}/1").into()),
            pool: POOL,
            kinds,
            slots,
            allow_env: &driving.allow_env,
            bodies: self.log.bodies.clone(),
            logs,
            reach: self.reach.clone(),
        };
        let stop = CancellationToken::new();
        let worker = Worker::new(hired.config(app), self.server.transport());
        let task = tokio::spawn(worker.run(stop.clone()));
        self.work = Some((stop, task));
        Ok(())
    }

    /// Stops: the worker releases its commands, the control plane commits the events it has accepted.
    pub(crate) async fn stop(self) {
        if let Some((stop, task)) = self.work {
            stop.cancel();
            // A worker that panicked has nothing left to release.
            let _ = task.await;
        }
        if let Some(shipped) = self.shipped {
            shipped.close().await;
        }
        self.server.stop().await;
    }
}

impl From<results::Error> for Problem {
    fn from(error: results::Error) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        Problem::coded(Exit::Unreachable, error.code(), message)
    }
}

impl From<server::KeychainError> for Problem {
    fn from(error: server::KeychainError) -> Self {
        let exit = match &error {
            server::KeychainError::NotFound(_) => Exit::NotFound,
            server::KeychainError::Invalid(_) => Exit::Usage,
            server::KeychainError::Store(_) | server::KeychainError::Unavailable { .. } => {
                Exit::Unreachable
            }
            _ => Exit::NotAllowed,
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        let problem = Problem::coded(exit, error.code(), message);
        match error.remedy() {
            Some(remedy) => problem.help(remedy),
            None => problem,
        }
    }
}

impl From<server::Error> for Problem {
    fn from(error: server::Error) -> Self {
        let error = match error {
            server::Error::Keychain(error) => return error.into(),
            server::Error::Store(error) => return error.into(),
            error => error,
        };
        let exit = match &error {
            server::Error::NotFound(_)
            | server::Error::NoPlaybook(_)
            | server::Error::NoVersion { .. } => Exit::NotFound,
            server::Error::Store(_)
            | server::Error::Body(_)
            | server::Error::BrokenLog(_)
            | server::Error::TooLarge(..)
            | server::Error::Elsewhere(_)
            | server::Error::Keychain(_)
            | server::Error::Stopping => Exit::Unreachable,
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        Problem::coded(exit, error.code(), message)
    }
}

impl From<server::ControlError> for Problem {
    fn from(error: server::ControlError) -> Self {
        match error {
            server::ControlError::Failed(error) => error.into(),
            server::ControlError::Refused(refusal) => {
                Problem::coded(Exit::NotAllowed, refusal.code(), refusal.to_string())
            }
        }
    }
}
