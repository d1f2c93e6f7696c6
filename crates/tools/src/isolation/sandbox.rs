//! `spec.sandbox`: how far a program is shut in, as a task asks for it and the deployment demands it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use model::outcome::TaskError;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::call::Call;
use crate::isolation::limits::unavailable;
use crate::isolation::{Abilities, enforce};

/// How far a program is shut in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxLevel {
    /// A process group and an environment of its own, and the limits it asks for.
    #[default]
    None,
    /// Also a temporary directory of its own, and no way to gain rights.
    Basic,
    /// Also no files but its own and the system's, no network, and no calls that programs do not need.
    Strict,
}

/// What a task is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sandbox {
    pub(crate) level: SandboxLevel,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
}

/// What a program is held by, its own paths known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Confines {
    pub(super) level: SandboxLevel,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    pub(super) network: bool,
}

const LEVELS: [(&str, SandboxLevel); 3] = [
    ("none", SandboxLevel::None),
    ("basic", SandboxLevel::Basic),
    ("strict", SandboxLevel::Strict),
];

/// The keys of `spec.sandbox`.
const KEYS: [&str; 4] = ["level", "read", "write", "network"];

impl FromStr for SandboxLevel {
    type Err = UnknownLevel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = LEVELS.iter().find(|(name, _)| *name == text);
        known.map(|(_, level)| *level).ok_or(UnknownLevel)
    }
}

/// A word that is no level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one of none, basic, strict")]
pub struct UnknownLevel;

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = LEVELS.iter().find(|(_, level)| level == self);
        f.write_str(known.map_or("none", |(name, _)| name))
    }
}

impl Sandbox {
    /// What a call asks for, at least as much as the deployment demands, if this machine can give it.
    pub(crate) fn of(
        call: &Call,
        demanded: SandboxLevel,
        abilities: Abilities,
    ) -> Result<Self, TaskError> {
        let asked = match call.knobs.get("sandbox") {
            None | Some(Value::Null | Value::Bool(false)) => Self::default(),
            Some(Value::Bool(true)) => Self::at(SandboxLevel::Strict),
            Some(Value::String(name)) => Self::at(level(name)?),
            Some(Value::Object(map)) => Self::read(call, map)?,
            Some(other) => return Err(call.wrong_type("spec.sandbox", "a level or a map", other)),
        };
        let opens = asked.network || !asked.read.is_empty() || !asked.write.is_empty();
        if opens && demanded == SandboxLevel::Strict {
            let message = "this deployment demands `strict`, which a playbook may not open: \
                           remove `read`, `write` and `network` from `spec.sandbox`";
            return Err(unavailable(message).with("key", "sandbox"));
        }
        let level = asked.level.max(demanded);
        check(level, abilities)?;
        Ok(Self { level, ..asked })
    }

    fn at(level: SandboxLevel) -> Self {
        Self {
            level,
            ..Self::default()
        }
    }

    fn read(call: &Call, map: &Map<String, Value>) -> Result<Self, TaskError> {
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let known = KEYS.join(", ");
            let message = format!("`spec.sandbox.{key}` is not one of {known}: remove it");
            return Err(unavailable(message).with("key", key.as_str()));
        }
        let level = match map.get("level") {
            None | Some(Value::Null) => SandboxLevel::Strict,
            Some(Value::String(name)) => level(name)?,
            Some(other) => return Err(call.wrong_type("spec.sandbox.level", "text", other)),
        };
        let network = match map.get("network") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(network)) => *network,
            Some(other) => {
                return Err(call.wrong_type("spec.sandbox.network", "true or false", other));
            }
        };
        Ok(Self {
            level,
            read: paths(call, map, "read")?,
            write: paths(call, map, "write")?,
            network,
        })
    }

    /// The directory of a program that has one of its own; it goes when the call is over.
    pub(crate) fn own_dir(&self) -> Result<Option<TempDir>, TaskError> {
        if self.level < SandboxLevel::Basic {
            return Ok(None);
        }
        let made = tempfile::Builder::new().prefix("noetl-").tempdir();
        made.map(Some).map_err(|error| {
            let message =
                format!("a sandbox has a directory of its own, and none can be made: {error}");
            unavailable(message).with("key", "sandbox")
        })
    }

    /// Whether it sees no files but those it is given.
    pub(crate) fn is_strict(&self) -> bool {
        self.level == SandboxLevel::Strict
    }

    /// What a program is held by that has this directory for its own, and needs to read these.
    pub(crate) fn confines(&self, own: Option<&Path>, needs: &[PathBuf]) -> Confines {
        let read = self.read.iter().chain(needs);
        let own = own.map(Path::to_owned);
        Confines {
            level: self.level,
            read: read.cloned().collect(),
            write: self.write.iter().cloned().chain(own).collect(),
            network: self.network,
        }
    }
}

impl Confines {
    /// Whether nothing holds the program.
    pub(crate) fn is_none(&self) -> bool {
        self.level == SandboxLevel::None
    }

    /// Shuts this thread in, and whatever it starts. There is no way back.
    pub(crate) fn enforce(&self) -> std::io::Result<()> {
        enforce::enforce(self)
    }
}

fn level(name: &str) -> Result<SandboxLevel, TaskError> {
    name.parse().map_err(|_| {
        let message = format!("`spec.sandbox` is `{name}`, not one of none, basic, strict");
        unavailable(message).with("key", "sandbox")
    })
}

fn paths(call: &Call, map: &Map<String, Value>, key: &str) -> Result<Vec<PathBuf>, TaskError> {
    let wanted = "a list of paths";
    let full_key = format!("spec.sandbox.{key}");
    let listed = match map.get(key) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(path)) => vec![path.as_str()],
        Some(Value::Array(list)) => {
            let texts = list.iter().map(|path| {
                let text = path.as_str();
                text.ok_or_else(|| call.wrong_type(&full_key, wanted, path))
            });
            texts.collect::<Result<_, _>>()?
        }
        Some(other) => return Err(call.wrong_type(&full_key, wanted, other)),
    };
    let mut paths = Vec::new();
    for path in listed {
        let path = call.resolve(path);
        if !path.exists() {
            let message = format!("`{full_key}`: there is no `{}`", path.display());
            return Err(unavailable(message).with("key", full_key.as_str()));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Says what is missing for a level.
fn check(level: SandboxLevel, abilities: Abilities) -> Result<(), TaskError> {
    let missing = abilities.lacks(level);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.join(" and ");
    let message = format!(
        "sandbox `{level}` needs {missing}, which this machine does not have (`noetl doctor` tells more): \
         run the task on another worker, or run the worker itself in a container"
    );
    Err(unavailable(message).with("key", "sandbox"))
}
