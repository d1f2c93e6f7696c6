//! Stores environments by the hash of their contents and locks them while they are built or used.
//!
//! A directory `<hash>` is complete, because it is built elsewhere and renamed. The file `<hash>.lock` next to it is
//! locked exclusively to build or delete the environment, and shared by every process that has used it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use model::outcome::{ErrorKind, TaskError};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::call::{LogSink, cancelled_error};
use crate::python::environments::{build, clean};
use crate::python::facts::InterpreterFacts;

/// Interval between attempts to get a lock that another process holds.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Environments of this worker.
pub(crate) struct Environments {
    dir: PathBuf,
    env: BTreeMap<String, String>,
    locked: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Option<LockedEnvironment>>>>>,
}

/// An environment that this process uses; its lock prevents deletion.
struct LockedEnvironment {
    python: PathBuf,
    _lock: File,
}

/// A requested environment.
pub(crate) struct EnvironmentSpec<'a> {
    pub(crate) facts: &'a InterpreterFacts,
    pub(crate) requirements: &'a [String],
    pub(crate) if_absent: IfAbsent,
}

/// What to do if the environment does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfAbsent {
    /// Build it.
    Build,
    /// Fail the call, because building runs code outside the sandbox that the call requests.
    Refuse,
}

impl Environments {
    /// Environments in this directory; pip runs with these variables.
    pub(crate) fn new(dir: PathBuf, env: BTreeMap<String, String>) -> Self {
        Self {
            dir,
            env,
            locked: Mutex::default(),
        }
    }

    /// Returns the interpreter of the environment with these requirements.
    pub(crate) async fn interpreter(
        &self,
        spec: &EnvironmentSpec<'_>,
        stop: &CancellationToken,
        log: &dyn LogSink,
    ) -> Result<PathBuf, TaskError> {
        let EnvironmentSpec {
            facts,
            requirements,
            if_absent: absent,
        } = *spec;
        let name = environment_name(facts, requirements);
        let slot = self.slot(&name);
        let mut slot = tokio::select! {
            slot = slot.lock() => slot,
            () = stop.cancelled() => return Err(cancelled_error()),
        };
        if let Some(used) = slot.as_ref().filter(|used| used.python.exists()) {
            return Ok(used.python.clone());
        }
        let dir = self.dir.join(&name);
        let python = dir.join("bin/python");
        let spec = build::BuildSpec {
            python: &facts.executable,
            requirements,
            build_dir: &self.dir,
            target_dir: &dir,
            env: &self.env,
        };
        let lock = loop {
            if absent == IfAbsent::Refuse && !dir.exists() {
                return Err(not_installed_error(requirements));
            }
            let lock = self.lock_environment(&name, stop).await?;
            if absent == IfAbsent::Build && !dir.exists() {
                build::build_environment(&spec, stop, log).await?;
            }
            let shared = lock.unlock().and_then(|()| lock.lock_shared());
            let shared = shared.and_then(|()| touch(&lock));
            shared.map_err(|error| directory_error(&self.dir, &error))?;
            // Another process may have deleted it between the two locks.
            if python.exists() {
                break lock;
            }
        };
        *slot = Some(LockedEnvironment {
            python: python.clone(),
            _lock: lock,
        });
        let dir = self.dir.clone();
        tokio::task::spawn_blocking(move || {
            clean::remove_unused(&dir, SystemTime::now(), clean::RetentionLimits::default());
        });
        Ok(python)
    }

    fn slot(&self, name: &str) -> Arc<tokio::sync::Mutex<Option<LockedEnvironment>>> {
        let mut used = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        used.entry(name.to_owned()).or_default().clone()
    }

    /// Waits until no other process builds or deletes this environment.
    async fn lock_environment(&self, name: &str, stop: &CancellationToken) -> Result<File, TaskError> {
        let failed = |error: &std::io::Error| directory_error(&self.dir, error);
        std::fs::create_dir_all(&self.dir).map_err(|error| failed(&error))?;
        let path = self.dir.join(format!("{name}.lock"));
        let mut options = File::options();
        let options = options.create(true).truncate(false).read(true).write(true);
        let file = options.open(path).map_err(|error| failed(&error))?;
        let dir = self.dir.join(name);
        loop {
            // An existing environment only needs a shared lock.
            let is_there = dir.exists();
            let tried = if is_there {
                file.try_lock_shared()
            } else {
                file.try_lock()
            };
            match tried {
                Ok(()) if is_there == dir.exists() => return Ok(file),
                // It appeared or disappeared while the lock was requested.
                Ok(()) => file.unlock().map_err(|error| failed(&error))?,
                Err(TryLockError::Error(error)) => return Err(failed(&error)),
                Err(TryLockError::WouldBlock) => {}
            }
            tokio::select! {
                () = tokio::time::sleep(LOCK_RETRY_INTERVAL) => {}
                () = stop.cancelled() => return Err(cancelled_error()),
            }
        }
    }
}

/// Name of an environment: hash of its requirements and interpreter.
fn environment_name(facts: &InterpreterFacts, requirements: &[String]) -> String {
    let mut hash = Sha256::new();
    let executable = facts.executable.display().to_string();
    let parts = [executable, facts.version_text()];
    for part in parts.iter().chain(requirements) {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hex::encode(&hash.finalize()[..16])
}

/// Records that an environment is used.
fn touch(lock: &File) -> std::io::Result<()> {
    lock.set_modified(SystemTime::now())
}

/// Error of a strict task whose libraries are not installed yet.
fn not_installed_error(requirements: &[String]) -> TaskError {
    let listed = requirements.join(", ");
    let message = format!(
        "{listed} would be installed outside the sandbox `strict`; run a task with the same `libs` once on this worker \
         with `sandbox: basic` or `none`, or install the libraries in the worker's interpreter and remove `libs`"
    );
    TaskError::new(ErrorKind::ClientError, "PYTHON_LIBS_SANDBOX", message).with_detail("key", "libs")
}

/// Error of a directory that cannot be used.
pub(super) fn directory_error(dir: &Path, error: &std::io::Error) -> TaskError {
    let message = format!("cannot store Python environments in `{}`: {error}", dir.display());
    TaskError::new(ErrorKind::Storage, "PYTHON_LIBS", message)
}
