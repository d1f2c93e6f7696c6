//! Opens a store with its result stores and logs, and starts the server and worker that drive runs in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use postgres::Connector;
use results::TaskLogs;
use serde_json::Value;
use server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::{FileLogs, LogShipper, TaskLogSink, Worker};

use crate::app::App;
use crate::args::DriveArgs;
use crate::cli_error::{CliError, Exit};
use crate::config::{Settings, is_store_url};
use crate::network_access::NetworkAccess;
use crate::run_reader::RunReader;
use crate::worker_setup::{DEFAULT_POOL, WorkerSetup};

/// Working directory of a process without a local store.
pub(crate) const DEFAULT_DATA_DIR: &str = ".noetl";
/// Directory of stored results in the store directory.
const BODIES_DIR: &str = "bodies";
/// Directory of task logs in the store directory.
const LOGS_DIR: &str = "logs";

/// Returns the directory of task logs.
pub(crate) fn task_logs_dir(settings: &Settings) -> PathBuf {
    match store_location(settings) {
        StoreLocation::Directory(dir) => dir.join(LOGS_DIR),
        StoreLocation::Postgres(_) => Path::new(DEFAULT_DATA_DIR).join(LOGS_DIR),
    }
}

/// Opens an existing store for reading; does not create one.
pub(crate) fn open_existing(app: &App) -> Result<RunReader, CliError> {
    let dir = &app.settings.store;
    check_is_directory(dir)?;
    if !dir.join("noetl.db").is_file() {
        let message = format!("no NoETL store at `{}`", dir.display());
        return Err(CliError::new(Exit::Unreachable, "STORE_NOT_FOUND", message)
            .help("run a playbook first, or specify the store with --store DIR or NOETL_STORE"));
    }
    new_reader(app, dir, store::SqliteStore::open_to_read(dir)?)
}

/// Opens a store; creates it if it does not exist.
pub(crate) fn open_or_create(app: &App) -> Result<RunReader, CliError> {
    open_directory(app, &app.settings.store, false)
}

fn open_directory(app: &App, dir: &Path, publishes: bool) -> Result<RunReader, CliError> {
    check_is_directory(dir)?;
    let store = store::SqliteStore::open(dir)?;
    let store = if publishes { store.with_outbox() } else { store };
    new_reader(app, dir, store)
}

/// Rejects a store URL: only `serve` opens a store in Postgres.
fn check_is_directory(store: &Path) -> Result<(), CliError> {
    if !is_store_url(store) {
        return Ok(());
    }
    let message = format!(
        "cannot open store `{}`: this command opens only store directories; access a store in Postgres through a \
         server",
        store.display()
    );
    Err(CliError::new(Exit::Usage, "STORE_NEEDS_SERVER", message)
        .help("start `noetl serve` with this store, then add --server URL to this command; or use --store DIR"))
}

fn new_reader(app: &App, dir: &Path, store: store::SqliteStore) -> Result<RunReader, CliError> {
    Ok(RunReader {
        store: Arc::new(store),
        bodies: open_body_stores(&app.settings, results::DirBodyStore::open(&dir.join(BODIES_DIR))?)?,
        keychain: app.settings.keychain.config.clone(),
        playbooks: app.playbooks.clone(),
    })
}

/// Opens all configured result stores and the server's own.
fn open_body_stores(
    settings: &Settings,
    own_store: impl results::BodyStore + 'static,
) -> Result<Arc<results::StoreRouter>, CliError> {
    let home_store = results::HomeStore::Own(Arc::new(own_store));
    Ok(Arc::new(results::StoreRouter::open(&settings.storage, home_store)?))
}

fn open_file_logs(dir: PathBuf) -> Result<FileLogs, CliError> {
    let name = dir.display().to_string();
    FileLogs::open(dir).map_err(|error| CliError::write_error(&name, &error))
}

/// Location of a store.
pub(crate) enum StoreLocation {
    /// A directory.
    Directory(PathBuf),
    /// A Postgres database that several servers share.
    Postgres(store::PostgresUrl),
}

/// Returns the store location from the settings.
pub(crate) fn store_location(settings: &Settings) -> StoreLocation {
    match settings.store.to_str() {
        Some(url) if is_store_url(&settings.store) => StoreLocation::Postgres(store::PostgresUrl::new(url)),
        _ => StoreLocation::Directory(settings.store.clone()),
    }
}

/// An open store.
pub(crate) struct OpenStore {
    /// Reads runs.
    pub(crate) reader: RunReader,
    /// Logs of tasks.
    pub(crate) logs: Arc<dyn TaskLogs>,
    /// Whether other servers may share the store.
    pub(crate) is_cluster: bool,
}

/// Opens the store of a server; other servers reach it at `address`.
pub(crate) async fn open_store(app: &App, address: &str, publishes: bool) -> Result<OpenStore, CliError> {
    let settings = &app.settings;
    match &store_location(settings) {
        StoreLocation::Directory(dir) => Ok(OpenStore {
            reader: open_directory(app, dir, publishes)?,
            logs: Arc::new(open_file_logs(dir.join(LOGS_DIR))?),
            is_cluster: false,
        }),
        StoreLocation::Postgres(url) => {
            let options = store::PostgresOptions {
                address: Some(address.to_owned()),
                publishes,
                ..store::PostgresOptions::new(url.clone())
            };
            let store = store::PostgresStore::open(options).await?;
            let connector = Connector::from_url(url).map_err(store::Error::from)?;
            let body_store = results::PostgresBodyStore::open(connector).await?;
            Ok(OpenStore {
                logs: Arc::new(body_store.logs()),
                reader: RunReader {
                    store: Arc::new(store),
                    bodies: open_body_stores(settings, body_store)?,
                    keychain: settings.keychain.config.clone(),
                    playbooks: app.playbooks.clone(),
                },
                is_cluster: true,
            })
        }
    }
}

/// Options of a control plane.
#[derive(Default)]
pub(crate) struct ControlPlaneOptions {
    /// Where events are published; `None` without NATS.
    pub(crate) bus: Option<Arc<dyn wire::Bus>>,
    /// Whether it adopts the runs of dead processes.
    pub(crate) adopts_abandoned: bool,
    /// How long stored results are kept after the end of their run; `None` if this process does not delete them.
    pub(crate) retention: Option<Duration>,
    /// Secret with which servers on the same store authenticate each other.
    pub(crate) cluster_secret: Option<String>,
    /// Task logs that servers share through the database; `None` if they are in the store directory.
    pub(crate) logs: Option<Arc<dyn TaskLogs>>,
    /// Network access of the tasks of this process.
    pub(crate) network_access: NetworkAccess,
}

impl ControlPlaneOptions {
    /// Returns the options of `noetl serve`.
    pub(crate) async fn for_server(store: &OpenStore) -> Result<Self, CliError> {
        let cluster_secret = if store.is_cluster {
            store.reader.store.setting("cluster_secret").await?
        } else {
            None
        };
        Ok(Self {
            bus: None,
            adopts_abandoned: true,
            retention: None,
            cluster_secret,
            logs: store.is_cluster.then(|| store.logs.clone()),
            network_access: NetworkAccess::default(),
        })
    }
}

/// The control plane in this process, with or without a worker.
pub(crate) struct ControlPlane {
    /// Reads runs.
    pub(crate) reader: RunReader,
    /// The control plane.
    pub(crate) server: Server,
    logs: Option<Arc<dyn TaskLogs>>,
    network_access: NetworkAccess,
    log_shipper: Option<Arc<LogShipper>>,
    worker: Option<(CancellationToken, JoinHandle<worker::WorkEnd>)>,
}

impl ControlPlane {
    /// Starts the control plane over a store.
    pub(crate) fn start(reader: RunReader) -> Result<Self, CliError> {
        Self::start_with(reader, ControlPlaneOptions::default())
    }

    /// Starts the control plane over a store with these options.
    pub(crate) fn start_with(reader: RunReader, options: ControlPlaneOptions) -> Result<Self, CliError> {
        let config = server::Config {
            store: reader.store.clone(),
            bodies: reader.bodies.clone(),
            limits: engine::ExecutionLimits::default(),
            playbooks: reader.playbooks.clone(),
            playbook_dir: options.cluster_secret.is_none().then(|| PathBuf::from(".")),
            bus: options.bus,
            may_adopt: options.adopts_abandoned,
            retention: options.retention,
            keychain: reader.keychain.clone(),
            cluster_secret: options.cluster_secret,
        };
        let server = Server::start(config)?;
        Ok(Self {
            reader,
            server,
            logs: options.logs,
            network_access: options.network_access,
            log_shipper: None,
            worker: None,
        })
    }

    /// Lets defaults of playbooks read the variables of `--allow-env`.
    pub(crate) fn allow_env(&self, app: &App, drive_args: &DriveArgs) {
        if drive_args.allow_env.is_empty() {
            return;
        }
        let allowed = drive_args.allow_env.iter().map(String::as_str);
        let allowed = app.environment.select_variables(allowed).into_iter();
        let allowed = allowed.map(|(name, value)| (name, Value::String(value)));
        self.server.allow_env(allowed.collect());
    }

    /// Starts a worker for all tool kinds.
    pub(crate) fn start_worker(&mut self, app: &App, drive_args: &DriveArgs) -> Result<(), CliError> {
        self.start_worker_for_kinds(app, drive_args, None)
    }

    /// Starts a worker for these tool kinds; `None` is all.
    pub(crate) fn start_worker_for_kinds(
        &mut self,
        app: &App,
        drive_args: &DriveArgs,
        kinds: Option<Vec<Name>>,
    ) -> Result<(), CliError> {
        let settings = &app.settings;
        let slots = drive_args.slots.unwrap_or(settings.slots);
        let logs: Arc<dyn TaskLogSink> = match &self.logs {
            Some(shared) => self
                .log_shipper
                .insert(Arc::new(LogShipper::start(shared.clone())))
                .clone(),
            None => Arc::new(open_file_logs(task_logs_dir(settings))?),
        };
        let owner = self.reader.store.owner()?;
        let setup = WorkerSetup {
            worker: WorkerId(format!("{owner}/1").into()),
            pool: DEFAULT_POOL,
            kinds,
            slots,
            allow_env: &drive_args.allow_env,
            bodies: self.reader.bodies.clone(),
            logs,
            network_access: self.network_access.clone(),
        };
        let stop = CancellationToken::new();
        let worker = Worker::new(setup.config(app), self.server.transport());
        let task = tokio::spawn(worker.run(stop.clone()));
        self.worker = Some((stop, task));
        Ok(())
    }

    /// Stops: the worker releases its commands, the control plane commits the events it has accepted.
    pub(crate) async fn stop(self) {
        if let Some((stop, task)) = self.worker {
            stop.cancel();
            // A worker that panicked has nothing left to release.
            let _ = task.await;
        }
        if let Some(shipped) = self.log_shipper {
            shipped.close().await;
        }
        self.server.stop().await;
    }
}

impl From<results::Error> for CliError {
    fn from(error: results::Error) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        CliError::with_code(Exit::Unreachable, error.code(), message)
    }
}

impl From<server::KeychainError> for CliError {
    fn from(error: server::KeychainError) -> Self {
        let exit = match &error {
            server::KeychainError::NotFound(_) => Exit::NotFound,
            server::KeychainError::Invalid(_) => Exit::Usage,
            server::KeychainError::Store(_) | server::KeychainError::Unavailable { .. } => Exit::Unreachable,
            _ => Exit::NotAllowed,
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        let problem = CliError::with_code(exit, error.code(), message);
        match error.remedy() {
            Some(remedy) => problem.help(remedy),
            None => problem,
        }
    }
}

impl From<server::Error> for CliError {
    fn from(error: server::Error) -> Self {
        let error = match error {
            server::Error::Keychain(error) => return error.into(),
            server::Error::Store(error) => return error.into(),
            error => error,
        };
        let exit = match &error {
            server::Error::NotFound(_) | server::Error::NoPlaybook(_) | server::Error::NoVersion { .. } => {
                Exit::NotFound
            }
            server::Error::Store(_)
            | server::Error::Body(_)
            | server::Error::BrokenLog(_)
            | server::Error::TooLarge(..)
            | server::Error::OwnedBy(_)
            | server::Error::Keychain(_)
            | server::Error::Stopping => Exit::Unreachable,
            server::Error::ReplayTooLong(_) => Exit::NotAllowed,
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        CliError::with_code(exit, error.code(), message)
    }
}

impl From<server::ControlError> for CliError {
    fn from(error: server::ControlError) -> Self {
        match error {
            server::ControlError::Failed(error) => error.into(),
            server::ControlError::Refused(refusal) => {
                CliError::with_code(Exit::NotAllowed, refusal.code(), refusal.to_string())
            }
        }
    }
}
