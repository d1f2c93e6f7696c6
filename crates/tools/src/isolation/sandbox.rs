//! `spec.sandbox`: the isolation level that a task requests and the deployment requires.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use model::outcome::TaskError;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::call::Call;
use crate::isolation::limits::isolation_unavailable_error;
use crate::isolation::{SandboxSupport, enforce};

/// Isolation level of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// Own process group and environment, and the requested limits.
    #[default]
    None,
    /// Also its own temporary directory, and no privilege escalation.
    Basic,
    /// Also access only to its own and system files, no network, and a system call filter.
    Strict,
}

/// Sandbox of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    pub(crate) level: SandboxLevel,
    read_paths: Vec<PathBuf>,
    write_paths: Vec<PathBuf>,
    has_network: bool,
}

/// Sandbox rules of one program, with its paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxRules {
    pub(super) level: SandboxLevel,
    pub(super) read_paths: Vec<PathBuf>,
    pub(super) write_paths: Vec<PathBuf>,
    pub(super) has_network: bool,
}

const LEVELS: [(&str, SandboxLevel); 3] = [
    ("none", SandboxLevel::None),
    ("basic", SandboxLevel::Basic),
    ("strict", SandboxLevel::Strict),
];

/// Keys of `spec.sandbox`.
const SANDBOX_KEYS: [&str; 4] = ["level", "read", "write", "network"];

impl FromStr for SandboxLevel {
    type Err = ParseSandboxLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let entry = LEVELS.iter().find(|(name, _)| *name == text);
        entry.map(|(_, level)| *level).ok_or(ParseSandboxLevelError)
    }
}

/// Text that is not a sandbox level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown level; use none, basic or strict")]
pub struct ParseSandboxLevelError;

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = LEVELS.iter().find(|(_, level)| level == self);
        f.write_str(entry.map_or("none", |(name, _)| name))
    }
}

impl Sandbox {
    /// Reads the sandbox of a call and raises it to the `demanded` level; an error if this machine does not support it.
    pub(crate) fn from_call(call: &Call, demanded: SandboxLevel, support: SandboxSupport) -> Result<Self, TaskError> {
        let sandbox = match call.spec.get("sandbox") {
            None | Some(Value::Null | Value::Bool(false)) => Self::default(),
            Some(Value::Bool(true)) => Self::at_level(SandboxLevel::Strict),
            Some(Value::String(name)) => Self::at_level(parse_level(name)?),
            Some(Value::Object(map)) => Self::parse(call, map)?,
            Some(other) => {
                return Err(call.wrong_type_error("spec.sandbox", "a level or a map", other));
            }
        };
        let opens = sandbox.has_network || !sandbox.read_paths.is_empty() || !sandbox.write_paths.is_empty();
        if opens && demanded == SandboxLevel::Strict {
            let message = "this deployment requires `strict`, which a playbook cannot relax: \
                 remove `read`, `write` and `network` from `spec.sandbox`";
            return Err(isolation_unavailable_error(message).with_detail("key", "sandbox"));
        }
        let level = sandbox.level.max(demanded);
        check_support(level, support)?;
        Ok(Self { level, ..sandbox })
    }

    fn at_level(level: SandboxLevel) -> Self {
        Self {
            level,
            ..Self::default()
        }
    }

    fn parse(call: &Call, map: &Map<String, Value>) -> Result<Self, TaskError> {
        if let Some(key) = map.keys().find(|key| !SANDBOX_KEYS.contains(&key.as_str())) {
            let keys = SANDBOX_KEYS.join(", ");
            let message = format!("unknown key `spec.sandbox.{key}`; use {keys}");
            return Err(isolation_unavailable_error(message).with_detail("key", key.as_str()));
        }
        let level = match map.get("level") {
            None | Some(Value::Null) => SandboxLevel::Strict,
            Some(Value::String(name)) => parse_level(name)?,
            Some(other) => return Err(call.wrong_type_error("spec.sandbox.level", "text", other)),
        };
        let network = match map.get("network") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(network)) => *network,
            Some(other) => {
                return Err(call.wrong_type_error("spec.sandbox.network", "true or false", other));
            }
        };
        Ok(Self {
            level,
            read_paths: parse_paths(call, map, "read")?,
            write_paths: parse_paths(call, map, "write")?,
            has_network: network,
        })
    }

    /// Creates the program's own directory, if the level has one; it is deleted after the call.
    pub(crate) fn create_own_dir(&self) -> Result<Option<TempDir>, TaskError> {
        if self.level < SandboxLevel::Basic {
            return Ok(None);
        }
        let dir = tempfile::Builder::new().prefix("noetl-").tempdir();
        dir.map(Some).map_err(|error| {
            let message = format!("cannot create the directory of the sandbox: {error}");
            isolation_unavailable_error(message).with_detail("key", "sandbox")
        })
    }

    /// Whether the program can access only listed files.
    pub(crate) fn is_strict(&self) -> bool {
        self.level == SandboxLevel::Strict
    }

    /// Rules for a program with this directory of its own and these paths to read.
    pub(crate) fn rules(&self, own_dir: Option<&Path>, extra_read_paths: &[PathBuf]) -> SandboxRules {
        let read_paths = self.read_paths.iter().chain(extra_read_paths);
        let own_dir = own_dir.map(Path::to_owned);
        SandboxRules {
            level: self.level,
            read_paths: read_paths.cloned().collect(),
            write_paths: self.write_paths.iter().cloned().chain(own_dir).collect(),
            has_network: self.has_network,
        }
    }
}

impl SandboxRules {
    /// Whether there are no restrictions.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.level == SandboxLevel::None
    }

    /// Restricts this thread and the programs that it starts. This cannot be undone.
    pub(crate) fn enforce(&self) -> std::io::Result<()> {
        enforce::enforce(self)
    }
}

fn parse_level(name: &str) -> Result<SandboxLevel, TaskError> {
    name.parse().map_err(|_| {
        let message = format!("unknown level `spec.sandbox: {name}`; use none, basic or strict");
        isolation_unavailable_error(message).with_detail("key", "sandbox")
    })
}

fn parse_paths(call: &Call, map: &Map<String, Value>, key: &str) -> Result<Vec<PathBuf>, TaskError> {
    let expected = "a list of paths";
    let full_key = format!("spec.sandbox.{key}");
    let path_texts = match map.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(path)) => vec![path.as_str()],
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|path| {
                let text = path.as_str();
                text.ok_or_else(|| call.wrong_type_error(&full_key, expected, path))
            });
            texts.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(call.wrong_type_error(&full_key, expected, other)),
    };
    let mut paths = Vec::new();
    for path in path_texts {
        let path = call.resolve_path(path);
        if !path.exists() {
            let message = format!("`{full_key}`: `{}` does not exist", path.display());
            return Err(isolation_unavailable_error(message).with_detail("key", full_key.as_str()));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Error if this machine lacks a feature of the level.
fn check_support(level: SandboxLevel, support: SandboxSupport) -> Result<(), TaskError> {
    let missing = support.missing_for(level);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" and ");
    let message = format!(
        "sandbox `{level}` needs {missing}, which this machine does not have (see `noetl doctor`): \
         run the task on another worker, or run the worker itself in a container"
    );
    Err(isolation_unavailable_error(message).with_detail("key", "sandbox"))
}
