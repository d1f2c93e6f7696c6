//! Runs one `python` call: finds the code and an interpreter, runs it and returns the outcome.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use model::outcome::{ErrorKind, TaskError};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error};
use crate::http::HttpClients;
use crate::isolation::{ResourceLimits, Sandbox, SandboxLevel, SandboxRules, SandboxSupport};
use crate::process::StartError;
use crate::python::environments::{EnvironmentSpec, Environments, IfAbsent};
use crate::python::facts::FactsCache;
use crate::python::libs::CodeRequirements;
use crate::python::pool::{InterpreterKey, InterpreterPool};
use crate::python::request::{CodeSource, PythonRequest, inline_source};
use crate::python::runner_answer;
use crate::python::sandboxed::{InterpreterFinder, SandboxedPython};
use crate::registry::PythonConfig;
use crate::script::ScriptLoader;

/// The `python` tool.
pub(crate) struct PythonTool {
    pool: InterpreterPool,
    command: PathBuf,
    scripts: ScriptLoader,
    facts_cache: FactsCache,
    environments: Environments,
    sandbox_level_min: SandboxLevel,
}

impl PythonTool {
    pub(crate) fn new(
        config: &PythonConfig,
        env: BTreeMap<String, String>,
        clients: Arc<HttpClients>,
        sandbox_level_min: SandboxLevel,
    ) -> Self {
        let command = match env.get("VIRTUAL_ENV") {
            Some(venv) if config.command == Path::new("python3") => venv_python(Path::new(venv)),
            _ => config.command.clone(),
        };
        let mut pip = env.clone();
        pip.extend(config.pip_environment.clone());
        Self {
            pool: InterpreterPool::new(config, env),
            command,
            scripts: ScriptLoader::new(clients),
            facts_cache: FactsCache::default(),
            environments: Environments::new(config.environments_dir.clone(), pip),
            sandbox_level_min,
        }
    }

    /// Finder for the interpreter of a strict task.
    fn finder<'a>(
        &'a self,
        python: &Path,
        rules_for: &'a (dyn Fn(&[PathBuf]) -> SandboxRules + Sync),
    ) -> InterpreterFinder<'a> {
        InterpreterFinder {
            facts_cache: &self.facts_cache,
            environments: &self.environments,
            env: self.pool.env(),
            is_deployment_python: python == self.command,
            rules_for,
        }
    }

    /// Returns an interpreter that meets the requirements.
    async fn find_interpreter(
        &self,
        call: &Call,
        needs: CodeRequirements,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<SandboxedPython, TaskError> {
        let without_dirs = |python| SandboxedPython {
            python,
            read_dirs: Vec::new(),
        };
        let python = self.interpreter_path(call)?;
        if needs.is_empty() {
            return Ok(without_dirs(python));
        }
        let unrestricted = SandboxRules::default();
        let facts = self
            .facts_cache
            .load_facts(&python, self.pool.env(), &unrestricted)
            .await?;
        let needs = needs.reduce_for(&facts)?;
        if needs.requirements.is_empty() {
            return Ok(without_dirs(python));
        }
        let spec = EnvironmentSpec {
            facts: &facts,
            requirements: &needs.requirements,
            if_absent: IfAbsent::Build,
        };
        let python = self.environments.interpreter(&spec, stop, log).await?;
        Ok(without_dirs(python))
    }

    async fn load_source(&self, call: &Call, stop: &CancellationToken) -> Result<CodeSource, TaskError> {
        if let Some(source) = inline_source(call)? {
            return Ok(source);
        }
        let script = self.scripts.load(call, stop).await?;
        Ok(CodeSource {
            code: script.text.into(),
            file: script.name.into(),
            line: 1,
        })
    }

    /// Interpreter of a call: `venv`, `python`, else the configured one.
    fn interpreter_path(&self, call: &Call) -> Result<PathBuf, TaskError> {
        let named = |key: &str| match call.spec.get(key) {
            Some(Value::String(text)) if call.field(key).is_none() => Ok(Some(text.as_str())),
            _ => call.text_field(key),
        };
        if let Some(venv) = named("venv")? {
            return Ok(venv_python(&call.resolve_path(venv)));
        }
        match named("python")? {
            Some(path) if path.contains('/') => Ok(call.resolve_path(path)),
            Some(name) => Ok(PathBuf::from(name)),
            None => Ok(self.command.clone()),
        }
    }
}

#[async_trait]
impl Tool for PythonTool {
    async fn run(&self, mut call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        let source = self.load_source(&call, stop).await?;
        let limits = ResourceLimits::from_call(&call)?;
        let sandbox = Sandbox::from_call(&call, self.sandbox_level_min, SandboxSupport::detect())?;
        // Warm interpreters have no limits and are not strict, so calls with limits or `strict` get their own.
        let isolate = is_isolated(&call)? || !limits.is_empty() || sandbox.is_strict();
        let needs = CodeRequirements::from_call(&call, &source.code)?;
        let own_dir = sandbox.create_own_dir()?;
        let own_dir = own_dir.as_ref().map(TempDir::path);
        let rules_for = |read_dirs: &[PathBuf]| sandbox.rules(own_dir, read_dirs);
        let SandboxedPython { python, read_dirs } = if sandbox.is_strict() {
            let python = self.interpreter_path(&call)?;
            let finder = self.finder(&python, &rules_for);
            finder.find(&python, needs, stop, log).await?
        } else {
            self.find_interpreter(&call, needs, stop, log).await?
        };
        let timeout = call.timeout.total;
        let has_cwd = call.field("cwd").is_some();
        let mut request = PythonRequest::new(&mut call, source)?;
        if let Some(own_dir) = own_dir {
            request.set_own_dir(own_dir);
        }
        if let Some(own_dir) = own_dir.filter(|_| sandbox.is_strict() && !has_cwd) {
            request.set_cwd(own_dir);
        }
        let rules = rules_for(&read_dirs);
        let _slot = tokio::select! {
            slot = self.pool.acquire_slot() => slot,
            () = stop.cancelled() => return Err(cancelled_error()),
        };
        let key = InterpreterKey {
            python,
            level: sandbox.level,
        };
        let starting = async {
            if isolate {
                self.pool.start(&key, &limits, &rules).await
            } else {
                self.pool.check_out(&key, &rules).await
            }
        };
        let started = tokio::select! {
            started = starting => started,
            () = stop.cancelled() => return Err(cancelled_error()),
        };
        let mut interpreter = started.map_err(|error| start_error(&key.python, &error))?;
        let reply = interpreter.run(&request, timeout, stop, log).await;
        let (outcome, reusable) = runner_answer::reply_outcome(reply, &request.source.file);
        if reusable && !isolate {
            self.pool.check_in(key, interpreter);
        }
        Ok(outcome)
    }
}

fn venv_python(venv: &Path) -> PathBuf {
    venv.join("bin/python")
}

fn is_isolated(call: &Call) -> Result<bool, TaskError> {
    match call.spec.get("isolate") {
        Some(Value::Bool(isolate)) => Ok(*isolate),
        _ => Ok(call.flag_field("isolate")?.unwrap_or(false)),
    }
}

/// Error of an interpreter that does not start.
pub(crate) fn start_error(python: &Path, error: &StartError) -> TaskError {
    if let Some(error) = error.host_error() {
        return error;
    }
    let path = python.display();
    let error = error.cause();
    let message = if error.kind() == std::io::ErrorKind::NotFound {
        format!(
            "`{path}` not found: install Python 3.8 or newer (for example `apt install python3`), \
             or set NOETL_PYTHON on the worker"
        )
    } else {
        format!("cannot start `{path}`: {error}")
    };
    TaskError::new(ErrorKind::ClientError, "PYTHON_MISSING", message)
}
