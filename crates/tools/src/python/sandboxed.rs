//! Finds the interpreter of a strict task without running anything that the task chose outside the sandbox.
//!
//! Input: interpreter and requirements of a task. Output: the program to run and the directories it reads. The worker's
//! own interpreter is trusted and queried for its directories. For an interpreter that the task names, the directories
//! are derived from the file system, and queries run inside the sandbox. Nothing is installed, because pip runs code
//! from packages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::outcome::TaskError;
use tokio_util::sync::CancellationToken;

use crate::call::LogSink;
use crate::isolation::SandboxRules;
use crate::python::environments::{EnvironmentSpec, Environments, IfAbsent};
use crate::python::facts::{FactsCache, InterpreterFacts};
use crate::python::libs::CodeRequirements;

/// An interpreter and the directories it reads at run time.
pub(super) struct SandboxedPython {
    pub(super) python: PathBuf,
    pub(super) read_dirs: Vec<PathBuf>,
}

/// Inputs of the search.
pub(super) struct InterpreterFinder<'a> {
    pub(super) facts_cache: &'a FactsCache,
    pub(super) environments: &'a Environments,
    pub(super) env: &'a BTreeMap<String, String>,
    /// Whether it is the worker's own interpreter.
    pub(super) is_deployment_python: bool,
    /// Builds the sandbox of a program that reads these directories.
    pub(super) rules_for: &'a (dyn Fn(&[PathBuf]) -> SandboxRules + Sync),
}

impl InterpreterFinder<'_> {
    /// Finds the interpreter that meets the requirements.
    pub(super) async fn find(
        &self,
        python: &Path,
        needs: CodeRequirements,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<SandboxedPython, TaskError> {
        let (facts, mut sandboxed) = self.locate_python(python, !needs.is_empty()).await?;
        let Some(facts) = facts else {
            return Ok(sandboxed);
        };
        let needs = needs.reduce_for(&facts)?;
        if needs.requirements.is_empty() {
            return Ok(sandboxed);
        }
        let spec = EnvironmentSpec {
            facts: &facts,
            requirements: &needs.requirements,
            if_absent: IfAbsent::Refuse,
        };
        sandboxed.python = self.environments.interpreter(&spec, stop, log).await?;
        let dir = sandboxed.python.parent().and_then(Path::parent);
        sandboxed.read_dirs.extend(dir.map(Path::to_owned));
        Ok(sandboxed)
    }

    async fn locate_python(
        &self,
        python: &Path,
        has_needs: bool,
    ) -> Result<(Option<Arc<InterpreterFacts>>, SandboxedPython), TaskError> {
        if self.is_deployment_python {
            let unrestricted = SandboxRules::default();
            let facts = self.facts_cache.load_facts(python, self.env, &unrestricted).await?;
            let sandboxed = SandboxedPython {
                python: facts.executable.clone(),
                read_dirs: facts.read_dirs(),
            };
            return Ok((Some(facts), sandboxed));
        }
        let sandboxed = SandboxedPython {
            python: python.to_owned(),
            read_dirs: find_read_dirs(python, self.env),
        };
        if !has_needs {
            return Ok((None, sandboxed));
        }
        let rules = (self.rules_for)(&sandboxed.read_dirs);
        let facts = self.facts_cache.load_facts(python, self.env, &rules).await?;
        Ok((Some(facts), sandboxed))
    }
}

/// Directories of an interpreter, derived from the file system: its own, that of its link target, and the base of its
/// virtual environment. Directories without Python files are left out.
fn find_read_dirs(python: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let python = if python.components().count() > 1 {
        python.to_owned()
    } else {
        let path = env.get("PATH").map_or("", String::as_str);
        let mut candidates = path.split(':').map(|dir| Path::new(dir).join(python));
        candidates.find(|file| file.is_file()).unwrap_or_default()
    };
    let mut dirs = Vec::new();
    let linked = python.canonicalize().ok();
    for file in [Some(&python), linked.as_ref()].into_iter().flatten() {
        dirs.extend(file.parent().and_then(Path::parent).map(Path::to_owned));
    }
    let base = dirs.first().and_then(|dir| venv_base(dir));
    dirs.extend(base);
    dirs.retain(|dir| is_python_dir(dir));
    dirs
}

/// Base installation of a virtual environment.
fn venv_base(venv: &Path) -> Option<PathBuf> {
    let config = std::fs::read_to_string(venv.join("pyvenv.cfg")).ok()?;
    let mut lines = config.lines().filter_map(|line| line.split_once('='));
    let (_, bin) = lines.find(|(key, _)| key.trim() == "home")?;
    Path::new(bin.trim()).parent().map(Path::to_owned)
}

fn is_python_dir(dir: &Path) -> bool {
    let is_python = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("python3")
    };
    let has_library = || {
        let entries = std::fs::read_dir(dir.join("lib"));
        entries.is_ok_and(|entries| entries.flatten().any(is_python))
    };
    dir.parent().is_some() && (dir.join("pyvenv.cfg").is_file() || has_library())
}
