//! The interpreter of a strict task: found without running anything outside the sandbox that the task itself chose.
//!
//! Enters: the interpreter and the requirements of a task. Leaves: the program to run and the directories it reads.
//! The deployment's own interpreter is trusted, and says where it lives. One that the task names is only believed what
//! the disk shows, and is asked from within the sandbox. Nothing is installed: pip runs code of whoever made a package.

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

/// A program, and the directories it reads while it works.
pub(super) struct Housed {
    pub(super) python: PathBuf,
    pub(super) homes: Vec<PathBuf>,
}

/// What finding one takes.
pub(super) struct Finder<'a> {
    pub(super) known: &'a Known,
    pub(super) environments: &'a Environments,
    pub(super) env: &'a BTreeMap<String, String>,
    /// Whether the interpreter is the deployment's own.
    pub(super) is_own: bool,
    /// What holds a program that reads these directories.
    pub(super) confines: &'a (dyn Fn(&[PathBuf]) -> Confines + Sync),
}

impl Finder<'_> {
    /// The program that has everything the code needs.
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

/// The directories of an interpreter, as far as the disk shows them: where it lies, where its link leads, and where its
/// virtual environment comes from. A directory that does not look like Python's is none.
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

/// Where a virtual environment comes from.
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
