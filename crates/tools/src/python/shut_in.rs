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
use crate::isolation::Confines;
use crate::python::environments::{Absent, Environments, Wanted};
use crate::python::facts::{Facts, Known};
use crate::python::libs::Needs;

/// An interpreter and the directories it reads at run time.
pub(super) struct Housed {
    pub(super) python: PathBuf,
    pub(super) homes: Vec<PathBuf>,
}

/// Inputs of the search.
pub(super) struct Finder<'a> {
    pub(super) known: &'a Known,
    pub(super) environments: &'a Environments,
    pub(super) env: &'a BTreeMap<String, String>,
    /// Whether it is the worker's own interpreter.
    pub(super) is_own: bool,
    /// Builds the sandbox of a program that reads these directories.
    pub(super) confines: &'a (dyn Fn(&[PathBuf]) -> Confines + Sync),
}

impl Finder<'_> {
    /// Finds the interpreter that meets the requirements.
    pub(super) async fn find(
        &self,
        python: &Path,
        needs: Needs,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<Housed, TaskError> {
        let (facts, mut housed) = self.housed(python, !needs.is_empty()).await?;
        let Some(facts) = facts else {
            return Ok(housed);
        };
        let needs = needs.met_by(&facts)?;
        if needs.requirements.is_empty() {
            return Ok(housed);
        }
        let wanted = Wanted {
            facts: &facts,
            requirements: &needs.requirements,
            absent: Absent::Refused,
        };
        housed.python = self.environments.python(&wanted, stop, log).await?;
        let home = housed.python.parent().and_then(Path::parent);
        housed.homes.extend(home.map(Path::to_owned));
        Ok(housed)
    }

    async fn housed(
        &self,
        python: &Path,
        has_needs: bool,
    ) -> Result<(Option<Arc<Facts>>, Housed), TaskError> {
        if self.is_own {
            let free = Confines::default();
            let facts = self.known.of(python, self.env, &free).await?;
            let housed = Housed {
                python: facts.executable.clone(),
                homes: facts.homes(),
            };
            return Ok((Some(facts), housed));
        }
        let housed = Housed {
            python: python.to_owned(),
            homes: homes_of(python, self.env),
        };
        if !has_needs {
            return Ok((None, housed));
        }
        let confines = (self.confines)(&housed.homes);
        let facts = self.known.of(python, self.env, &confines).await?;
        Ok((Some(facts), housed))
    }
}

/// Directories of an interpreter, derived from the file system: its own, that of its link target, and the base of its
/// virtual environment. Directories without Python files are left out.
fn homes_of(python: &Path, env: &BTreeMap<String, String>) -> Vec<PathBuf> {
    let python = if python.components().count() > 1 {
        python.to_owned()
    } else {
        let path = env.get("PATH").map_or("", String::as_str);
        let mut found = path.split(':').map(|dir| Path::new(dir).join(python));
        found.find(|file| file.is_file()).unwrap_or_default()
    };
    let mut homes = Vec::new();
    let linked = python.canonicalize().ok();
    for file in [Some(&python), linked.as_ref()].into_iter().flatten() {
        homes.extend(file.parent().and_then(Path::parent).map(Path::to_owned));
    }
    let base = homes.first().and_then(|home| base_of(home));
    homes.extend(base);
    homes.retain(|home| is_pythons(home));
    homes
}

/// Base installation of a virtual environment.
fn base_of(venv: &Path) -> Option<PathBuf> {
    let config = std::fs::read_to_string(venv.join("pyvenv.cfg")).ok()?;
    let mut lines = config.lines().filter_map(|line| line.split_once('='));
    let (_, bin) = lines.find(|(key, _)| key.trim() == "home")?;
    Path::new(bin.trim()).parent().map(Path::to_owned)
}

fn is_pythons(home: &Path) -> bool {
    let is_python = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with("python3")
    };
    let has_library = || {
        let entries = std::fs::read_dir(home.join("lib"));
        entries.is_ok_and(|entries| entries.flatten().any(is_python))
    };
    home.parent().is_some() && (home.join("pyvenv.cfg").is_file() || has_library())
}
