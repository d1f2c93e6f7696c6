//! Properties of an interpreter, queried once: version, paths and standard modules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use serde::Deserialize;

use crate::isolation::{ResourceLimits, SandboxRules};
use crate::process::ProgramSpec;
use crate::python::tool::start_error;

/// Code that prints the properties.
const FACTS_SCRIPT: &str = "\
import json, sys
names = getattr(sys, 'stdlib_module_names', sys.builtin_module_names)
print(json.dumps({'version': sys.version_info[:3], 'executable': sys.executable, 'prefix': sys.prefix,
    'base_prefix': sys.base_prefix, 'modules': sorted(names)}))";

/// Time limit for the query.
const FACTS_TIMEOUT: Duration = Duration::from_secs(30);

/// Properties of an interpreter.
#[derive(Debug, Deserialize)]
pub(crate) struct InterpreterFacts {
    /// Version, such as 3, 11, 7.
    pub(crate) version: [u32; 3],
    /// The real executable, behind the shims and links of a version manager.
    pub(crate) executable: PathBuf,
    prefix: PathBuf,
    base_prefix: PathBuf,
    /// Names of its standard modules.
    pub(crate) modules: BTreeSet<String>,
}

impl InterpreterFacts {
    /// Directories that it reads at run time.
    pub(crate) fn read_dirs(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.prefix.clone(), self.base_prefix.clone()];
        if let Ok(real) = self.executable.canonicalize()
            && let Some(dir) = real.parent().and_then(Path::parent)
            && dir != Path::new("/")
        {
            dirs.push(dir.to_owned());
        }
        dirs
    }

    /// Version as text.
    pub(crate) fn version_text(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

/// Cache of interpreter properties.
#[derive(Default)]
pub(crate) struct FactsCache(Mutex<HashMap<PathBuf, Arc<InterpreterFacts>>>);

impl FactsCache {
    /// Returns the properties of an interpreter; the query runs in the given sandbox.
    pub(crate) async fn load_facts(
        &self,
        python: &Path,
        env: &BTreeMap<String, String>,
        rules: &SandboxRules,
    ) -> Result<Arc<InterpreterFacts>, TaskError> {
        if let Some(facts) = self.cached(python) {
            return Ok(facts);
        }
        let facts = Arc::new(query_facts(python, env, rules).await?);
        let mut facts_by_path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts_by_path.insert(python.to_owned(), facts.clone());
        Ok(facts)
    }

    fn cached(&self, python: &Path) -> Option<Arc<InterpreterFacts>> {
        let facts_by_path = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        facts_by_path.get(python).cloned()
    }
}

async fn query_facts(
    python: &Path,
    env: &BTreeMap<String, String>,
    rules: &SandboxRules,
) -> Result<InterpreterFacts, TaskError> {
    let program = ProgramSpec {
        path: python,
        args: &["-c", FACTS_SCRIPT],
        env,
        cwd: Path::new("/"),
        limits: &ResourceLimits::default(),
        sandbox_rules: rules,
    };
    let mut group = program
        .start(Stdio::null())
        .map_err(|error| start_error(python, &error))?;
    let stop = tokio_util::sync::CancellationToken::new();
    let (_, printed) = crate::run_program::run_to_end(
        &mut group,
        None,
        Some(FACTS_TIMEOUT),
        &stop,
        &crate::call::DiscardingLogSink,
    )
    .await;
    serde_json::from_str(&printed.stdout).map_err(|_| {
        let path = python.display();
        let stderr = crate::capture::text_tail(&printed.stderr, 500);
        let message = format!("`{path}` is not a working Python interpreter: {stderr}");
        TaskError::new(ErrorKind::ClientError, "PYTHON_MISSING", message.trim_end())
    })
}
