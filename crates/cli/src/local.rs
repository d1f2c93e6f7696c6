//! Wiring: the store, bodies and logs of one directory, and the server and worker that drive runs in this process.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::id::{Name, WorkerId};
use serde_json::{Map, Value};
use server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use worker::{FileLogs, SystemClock, Worker};

use crate::app::App;
use crate::args::Driving;
use crate::config::Settings;
use crate::log::Log;
use crate::problem::{Exit, Problem};

/// Where bodies are kept in the store's directory.
const BODIES: &str = "bodies";
/// Where task logs are kept in the store's directory.
const LOGS: &str = "logs";
/// The pool that playbooks use unless they say otherwise.
const POOL: &str = "default";
/// How often the worker says that it is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Where the task logs of a store are.
pub(crate) fn logs(settings: &Settings) -> PathBuf {
    settings.store.join(LOGS)
}

/// Opens a store that exists; reading never makes one.
pub(crate) fn existing(settings: &Settings) -> Result<Log, Problem> {
    let dir = &settings.store;
    if !dir.join("noetl.db").is_file() {
        let message = format!("there is no store in `{}`", dir.display());
        return Err(Problem::new(Exit::Unreachable, "STORE_NOT_FOUND", message)
            .help("run a playbook first, or name the store with --store DIR or NOETL_STORE"));
    }
    open(dir)
}

/// Opens a store, and makes it if there is none.
pub(crate) fn open(dir: &Path) -> Result<Log, Problem> {
    let store = store::Sqlite::open(dir)?;
    let bodies = results::Local::open(&dir.join(BODIES)).map_err(|error| Problem {
        exit: Exit::Unreachable,
        code: error.code().into(),
        message: error.to_string(),
        help: Vec::new(),
    })?;
    Ok(Log {
        store: Arc::new(store),
        bodies: Arc::new(bodies),
    })
}

/// The control plane in this process, with or without a worker beside it.
pub(crate) struct Session {
    /// What runs are read from.
    pub(crate) log: Log,
    /// The control plane.
    pub(crate) server: Server,
    work: Option<(CancellationToken, JoinHandle<()>)>,
}

impl Session {
    /// Starts the control plane over a store.
    pub(crate) fn start(log: Log) -> Result<Self, Problem> {
        let config = server::Config {
            store: log.store.clone(),
            bodies: log.bodies.clone(),
            limits: engine::Limits::default(),
            files: Some(PathBuf::from(".")),
        };
        let server = Server::start(config)?;
        Ok(Self {
            log,
            server,
            work: None,
        })
    }

    /// Starts a worker beside it.
    pub(crate) fn work(&mut self, app: &App, driving: &Driving) -> Result<(), Problem> {
        let settings = &app.settings;
        let slots = driving.slots.unwrap_or(settings.slots);
        let logs = FileLogs::open(logs(settings))
            .map_err(|error| Problem::unwritable(&logs(settings).display().to_string(), &error))?;
        let owner = self.log.store.owner()?;
        let allowed = app
            .environment
            .allowed(driving.allow_env.iter().map(String::as_str));
        let env: Map<String, Value> = allowed
            .into_iter()
            .map(|(name, value)| (name, Value::String(value)))
            .collect();
        let config = worker::Config {
            worker: WorkerId(format!("{owner}/1").into()),
            pool: Name::from(POOL),
            slots,
            tools: tools::Registry::builtin(tools(app, slots)),
            bodies: self.log.bodies.clone(),
            logs: Arc::new(logs),
            clock: Arc::new(SystemClock),
            env,
            base_dir: PathBuf::from("."),
            heartbeat: HEARTBEAT,
            jumps_max: worker::JUMPS_MAX,
        };
        let stop = CancellationToken::new();
        let worker = Worker::new(config, self.server.transport());
        let task = tokio::spawn(worker.run(stop.clone()));
        self.work = Some((stop, task));
        Ok(())
    }

    /// Ends: the worker gives back what it holds, the control plane commits what it has taken in.
    pub(crate) async fn stop(self) {
        if let Some((stop, task)) = self.work {
            stop.cancel();
            // A worker that panicked has nothing left to give back.
            let _ = task.await;
        }
        self.server.stop().await;
    }
}

fn tools(app: &App, slots: u32) -> tools::Config {
    let settings = &app.settings;
    let mut environment = tools::Config::default().environment;
    environment.extend(app.environment.inherited());
    tools::Config {
        python: tools::PythonConfig {
            command: settings.python.clone(),
            pool_max: slots as usize,
            ..tools::PythonConfig::default()
        },
        environment,
        scratch_dir: settings.store.clone(),
        forbidden_files: vec![settings.store.join("noetl.db")],
        ..tools::Config::default()
    }
}

impl From<server::Error> for Problem {
    fn from(error: server::Error) -> Self {
        let exit = match &error {
            server::Error::NotFound(_) | server::Error::NoPlaybook(_) => Exit::NotFound,
            server::Error::Refused(_) => Exit::NotAllowed,
            server::Error::Store(_)
            | server::Error::Body(_)
            | server::Error::BrokenLog(_)
            | server::Error::Stopping => Exit::Unreachable,
        };
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        Problem {
            exit,
            code: error.code().into(),
            message: format!("{error}{}", cause.unwrap_or_default()),
            help: Vec::new(),
        }
    }
}

impl From<server::ControlError> for Problem {
    fn from(error: server::ControlError) -> Self {
        match error {
            server::ControlError::Failed(error) => error.into(),
            server::ControlError::Refused(refusal) => {
                Problem::new(Exit::NotAllowed, "REFUSED", refusal.to_string())
            }
        }
    }
}
