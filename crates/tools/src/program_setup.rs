//! What a task sets up for a program that it starts: limits, sandbox, directories and environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use model::outcome::TaskError;
use tempfile::TempDir;

use crate::call::Call;
use crate::declared_environment::declared_environment;
use crate::isolation::{ResourceLimits, Sandbox, SandboxLevel, SandboxRules, SandboxSupport};

/// Setup of a program that a task starts.
pub struct ProgramSetup {
    /// Limits of the kernel.
    pub limits: ResourceLimits,
    /// Rules of the sandbox.
    pub sandbox_rules: SandboxRules,
    /// Environment variables: the inherited ones, those of the task, and `TMPDIR`.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Temporary directory of the program, if the sandbox has one; it is deleted when this value is dropped.
    pub own_dir: Option<TempDir>,
}

impl ProgramSetup {
    /// Reads the setup of a call, and creates the program's own directory. The sandbox has at least this level.
    pub fn from_call(
        call: &Call,
        inherited: &BTreeMap<String, String>,
        sandbox_level_min: SandboxLevel,
    ) -> Result<Self, TaskError> {
        let limits = ResourceLimits::from_call(call)?;
        let sandbox = Sandbox::from_call(call, sandbox_level_min, SandboxSupport::detect())?;
        let own_dir = sandbox.create_own_dir()?;
        let own_dir_path = own_dir.as_ref().map(TempDir::path);
        let mut env = inherited.clone();
        if let Some(own_dir_path) = own_dir_path {
            env.insert("TMPDIR".to_owned(), own_dir_path.display().to_string());
        }
        env.extend(declared_environment(call)?);
        let cwd = match (call.text_field("cwd")?, own_dir_path) {
            (Some(path), _) => call.resolve_path(path),
            (None, Some(own_dir_path)) if sandbox.is_strict() => own_dir_path.to_owned(),
            (None, _) => call.site.base_dir.clone(),
        };
        let sandbox_rules = sandbox.rules(own_dir_path, &[]);
        Ok(Self {
            limits,
            sandbox_rules,
            env,
            cwd,
            own_dir,
        })
    }
}
