//! Properties of an interpreter, queried once: version, paths and standard modules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::outcome::{ErrorKind, TaskError};
use serde::Deserialize;

use crate::isolation::{Confines, Limits};
use crate::process::Program;
use crate::python::tool::not_started;

/// Code that prints the properties.
const QUESTION: &str = "\
import json, sys
names = getattr(sys, 'stdlib_module_names', sys.builtin_module_names)
print(json.dumps({'version': sys.version_info[:3], 'executable': sys.executable, 'prefix': sys.prefix,
    'base_prefix': sys.base_prefix, 'modules': sorted(names)}))";

/// Time limit for the query.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Properties of an interpreter.
#[derive(Debug, Deserialize)]
pub(crate) struct Facts {
    /// Version, such as 3, 11, 7.
    pub(crate) version: [u32; 3],
    /// The real executable, behind the shims and links of a version manager.
    pub(crate) executable: PathBuf,
    prefix: PathBuf,
    base_prefix: PathBuf,
    /// Names of its standard modules.
    pub(crate) modules: BTreeSet<String>,
}

impl Facts {
    /// Directories that it reads at run time.
    pub(crate) fn homes(&self) -> Vec<PathBuf> {
        let mut homes = vec![self.prefix.clone(), self.base_prefix.clone()];
        if let Ok(real) = self.executable.canonicalize()
            && let Some(home) = real.parent().and_then(Path::parent)
            && home != Path::new("/")
        {
            homes.push(home.to_owned());
        }
        homes
    }

    /// Version as text.
    pub(crate) fn version_text(&self) -> String {
        let [major, minor, patch] = self.version;
        format!("{major}.{minor}.{patch}")
    }
}

/// Cache of interpreter properties.
#[derive(Default)]
pub(crate) struct Known(Mutex<HashMap<PathBuf, Arc<Facts>>>);

impl Known {
    /// Returns the properties of an interpreter; the query runs in the given sandbox.
    pub(crate) async fn of(
        &self,
        python: &Path,
        env: &BTreeMap<String, String>,
        confines: &Confines,
    ) -> Result<Arc<Facts>, TaskError> {
        if let Some(facts) = self.get(python) {
            return Ok(facts);
        }
        let facts = Arc::new(ask(python, env, confines).await?);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(python.to_owned(), facts.clone());
        Ok(facts)
    }

    fn get(&self, python: &Path) -> Option<Arc<Facts>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(python).cloned()
    }
}

async fn ask(
    python: &Path,
    env: &BTreeMap<String, String>,
    confines: &Confines,
) -> Result<Facts, TaskError> {
    let program = Program {
        path: python,
        args: &["-c", QUESTION],
        env,
        cwd: Path::new("/"),
        limits: &Limits::default(),
        confines,
    };
    let mut group = program
        .start(Stdio::null())
        .map_err(|error| not_started(python, &error))?;
    let stop = tokio_util::sync::CancellationToken::new();
    let (_, printed) = crate::attend::attend(
        &mut group,
        None,
        Some(ANSWER_WITHIN),
        &stop,
        &crate::call::NoLog,
    )
    .await;
    serde_json::from_str(&printed.stdout).map_err(|_| {
        let shown = python.display();
        let said = crate::capture::tail_of(&printed.stderr, 500);
        let message = format!("`{shown}` is not a working Python interpreter: {said}");
        TaskError::new(ErrorKind::ClientError, "PYTHON_MISSING", message.trim_end())
    })
}
