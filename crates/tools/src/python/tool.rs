//! Runs one `python` call: finds the code and an interpreter, runs it and returns the outcome.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled};
use crate::http::Clients;
use crate::isolation::{Abilities, Confines, Limits, Sandbox, SandboxLevel};
use crate::process::NotStarted;
use crate::python::answer;
use crate::python::environments::{Absent, Environments, Wanted};
use crate::python::facts::Known;
use crate::python::libs::Needs;
use crate::python::pool::{Kept, Pool};
use crate::python::request::{Request, Source, inline};
use crate::python::shut_in::{Finder, Housed};
use crate::registry::PythonConfig;
use crate::script::Scripts;

/// The `python` tool.
pub(crate) struct Python {
    pool: Pool,
    command: PathBuf,
    scripts: Scripts,
    known: Known,
    environments: Environments,
    demanded: SandboxLevel,
}

impl Python {
    pub(crate) fn new(
        config: &PythonConfig,
        env: BTreeMap<String, String>,
        clients: Arc<Clients>,
        demanded: SandboxLevel,
    ) -> Self {
        let command = match env.get("VIRTUAL_ENV") {
            Some(venv) if config.command == Path::new("python3") => in_venv(Path::new(venv)),
            _ => config.command.clone(),
        };
        let mut pip = env.clone();
        pip.extend(config.pip_environment.clone());
        Self {
            pool: Pool::new(config, env),
            command,
            scripts: Scripts::new(clients),
            known: Known::default(),
            environments: Environments::new(config.environments_dir.clone(), pip),
            demanded,
        }
    }

    async fn run(
        &self,
        mut call: Call,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Outcome, TaskError> {
        let source = self.source(&call, stop).await?;
        let limits = Limits::of(&call)?;
        let sandbox = Sandbox::of(&call, self.demanded, Abilities::here())?;
        // Warm interpreters have no limits and are not strict, so calls with limits or `strict` get their own.
        let isolate = is_isolated(&call)? || !limits.is_empty() || sandbox.is_strict();
        let needs = Needs::of(&call, &source.code)?;
        let own = sandbox.own_dir()?;
        let own = own.as_ref().map(TempDir::path);
        let confines = |homes: &[PathBuf]| sandbox.confines(own, homes);
        let Housed { python, homes } = if sandbox.is_strict() {
            let python = self.interpreter(&call)?;
            let finder = self.finder(&python, &confines);
            finder.find(&python, needs, stop, log).await?
        } else {
            self.provided(&call, needs, stop, log).await?
        };
        let timeout = call.timeout.total;
        let has_cwd = call.field("cwd").is_some();
        let mut request = Request::new(&mut call, source)?;
        if let Some(own) = own {
            request.set_own_dir(own);
        }
        if let Some(own) = own.filter(|_| sandbox.is_strict() && !has_cwd) {
            request.set_cwd(own);
        }
        let confines = confines(&homes);
        let _slot = tokio::select! {
            slot = self.pool.slot() => slot,
            () = stop.cancelled() => return Err(cancelled()),
        };
        let kept = Kept {
            python,
            level: sandbox.level,
        };
        let starting = async {
            if isolate {
                self.pool.start(&kept, &limits, &confines).await
            } else {
                self.pool.check_out(&kept, &confines).await
            }
        };
        let started = tokio::select! {
            started = starting => started,
            () = stop.cancelled() => return Err(cancelled()),
        };
        let mut interpreter = started.map_err(|error| not_started(&kept.python, &error))?;
        let reply = interpreter.run(&request, timeout, stop, log).await;
        let (outcome, reusable) = answer::outcome(reply, &request.source.file);
        if reusable && !isolate {
            self.pool.put_back(kept, interpreter);
        }
        Ok(outcome)
    }

    /// Finder for the interpreter of a strict task.
    fn finder<'a>(
        &'a self,
        python: &Path,
        confines: &'a (dyn Fn(&[PathBuf]) -> Confines + Sync),
    ) -> Finder<'a> {
        Finder {
            known: &self.known,
            environments: &self.environments,
            env: self.pool.env(),
            is_own: python == self.command,
            confines,
        }
    }

    /// Returns an interpreter that meets the requirements.
    async fn provided(
        &self,
        call: &Call,
        needs: Needs,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Housed, TaskError> {
        let homeless = |python| Housed {
            python,
            homes: Vec::new(),
        };
        let python = self.interpreter(call)?;
        if needs.is_empty() {
            return Ok(homeless(python));
        }
        let free = Confines::default();
        let facts = self.known.of(&python, self.pool.env(), &free).await?;
        let needs = needs.met_by(&facts)?;
        if needs.requirements.is_empty() {
            return Ok(homeless(python));
        }
        let wanted = Wanted {
            facts: &facts,
            requirements: &needs.requirements,
            absent: Absent::Made,
        };
        let python = self.environments.python(&wanted, stop, log).await?;
        Ok(homeless(python))
    }

    async fn source(&self, call: &Call, stop: &CancellationToken) -> Result<Source, TaskError> {
        if let Some(source) = inline(call)? {
            return Ok(source);
        }
        let script = self.scripts.load(call, stop).await?;
        Ok(Source {
            code: script.text.into(),
            file: script.name.into(),
            line: 1,
        })
    }

    /// Interpreter of a call: `venv`, `python`, else the configured one.
    fn interpreter(&self, call: &Call) -> Result<PathBuf, TaskError> {
        let named = |key: &str| match call.knobs.get(key) {
            Some(Value::String(text)) if call.field(key).is_none() => Ok(Some(text.as_str())),
            _ => call.text(key),
        };
        if let Some(venv) = named("venv")? {
            return Ok(in_venv(&call.resolve(venv)));
        }
        match named("python")? {
            Some(path) if path.contains('/') => Ok(call.resolve(path)),
            Some(name) => Ok(PathBuf::from(name)),
            None => Ok(self.command.clone()),
        }
    }
}

#[async_trait]
impl Tool for Python {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        match self.run(call, &stop, log).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::error(error),
        }
    }
}

fn in_venv(venv: &Path) -> PathBuf {
    venv.join("bin/python")
}

fn is_isolated(call: &Call) -> Result<bool, TaskError> {
    match call.knobs.get("isolate") {
        Some(Value::Bool(isolate)) => Ok(*isolate),
        _ => Ok(call.flag("isolate")?.unwrap_or(false)),
    }
}

/// Error of an interpreter that does not start.
pub(crate) fn not_started(python: &Path, error: &NotStarted) -> TaskError {
    if let Some(error) = error.host_error() {
        return error;
    }
    let shown = python.display();
    let error = error.cause();
    let message = if error.kind() == std::io::ErrorKind::NotFound {
        format!(
            "`{shown}` not found: install Python 3.8 or newer (for example `apt install python3`), \
             or set NOETL_PYTHON on the worker"
        )
    } else {
        format!("cannot start `{shown}`: {error}")
    };
    TaskError::new(ErrorKind::ClientError, "PYTHON_MISSING", message)
}
