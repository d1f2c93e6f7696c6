//! `spec.resources`: kernel limits for a program and its descendants.

use std::io;

use model::duration;
use model::outcome::{ErrorKind, TaskError};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use serde_json::{Map, Value};

use crate::call::Call;

/// Waits for a line on standard input, which is sent once the limits are set, then executes the program.
pub(crate) const GATE_SCRIPT: &str = "read -r go && exec \"$@\"";

/// Input that lets [`GATE_SCRIPT`] continue.
pub const GATE_OPEN_LINE: &[u8] = b"\n";

/// Limits of a program and its descendants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceLimits(Vec<ResourceLimit>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ResourceLimit {
    resource: Resource,
    max: u64,
}

/// Keys of `spec.resources` with their resource and unit.
const RESOURCE_KEYS: [(&str, Resource, ResourceUnit); 5] = [
    ("cpu", Resource::Cpu, ResourceUnit::Seconds),
    ("memory", Resource::As, ResourceUnit::Bytes),
    ("file_size", Resource::Fsize, ResourceUnit::Bytes),
    ("open_files", Resource::Nofile, ResourceUnit::Count),
    ("processes", Resource::Nproc, ResourceUnit::Count),
];

#[derive(Debug, Clone, Copy)]
enum ResourceUnit {
    Seconds,
    Bytes,
    Count,
}

impl ResourceLimits {
    /// Reads the limits of a call; an error if one of them cannot be applied.
    pub(crate) fn from_call(call: &Call) -> Result<Self, TaskError> {
        match call.spec.get("resources") {
            None | Some(Value::Null) => Ok(Self::default()),
            Some(Value::Object(fields)) => Self::parse(call, fields),
            Some(other) => Err(call.wrong_type_error("spec.resources", "a map", other)),
        }
    }

    /// Whether there are no limits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets the limits of a process that waits in [`GATE_SCRIPT`].
    pub(crate) fn apply(&self, process: Pid) -> io::Result<()> {
        for limit in &self.0 {
            let now = rustix::process::getrlimit(limit.resource);
            // A lower existing limit stays.
            let maximum = now.maximum.map_or(limit.max, |max| max.min(limit.max));
            // At the soft CPU limit the process gets SIGXCPU, one second before SIGKILL.
            let grace = u64::from(limit.resource == Resource::Cpu);
            let hard = maximum.saturating_add(grace);
            let new = Rlimit {
                current: Some(maximum),
                maximum: Some(now.maximum.map_or(hard, |max| max.min(hard))),
            };
            set(process, limit.resource, new)?;
        }
        Ok(())
    }

    fn parse(call: &Call, fields: &Map<String, Value>) -> Result<Self, TaskError> {
        let mut limits = Vec::new();
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let Some((_, resource, unit)) = RESOURCE_KEYS.iter().find(|(name, ..)| name == key) else {
                let names = RESOURCE_KEYS.map(|(name, ..)| name).join(", ");
                let message = format!("unknown key `spec.resources.{key}`; use {names}");
                return Err(isolation_unavailable_error(message).with_detail("key", key.as_str()));
            };
            let maximum = unit.parse(value).ok_or_else(|| {
                let key = format!("spec.resources.{key}");
                call.wrong_type_error(&key, unit.expected(), value)
            })?;
            if *resource == Resource::Nproc && rustix::process::geteuid().is_root() {
                let message =
                    "`spec.resources.processes` has no effect for root; run the worker as another user, or remove it";
                return Err(isolation_unavailable_error(message).with_detail("key", key.as_str()));
            }
            limits.push(ResourceLimit {
                resource: *resource,
                max: maximum,
            });
        }
        Ok(Self(limits))
    }
}

impl ResourceUnit {
    fn parse(self, value: &Value) -> Option<u64> {
        let maximum = match self {
            Self::Seconds => {
                let span = duration::parse(value)?;
                span.as_secs() + u64::from(span.subsec_nanos() > 0)
            }
            Self::Bytes => duration::parse_size(value)?,
            Self::Count => match value {
                Value::String(text) => text.trim().parse().ok()?,
                other => other.as_u64()?,
            },
        };
        (maximum > 0).then_some(maximum)
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Seconds => "a duration such as `30s`, above zero",
            Self::Bytes => "a size such as `512MiB`, above zero",
            Self::Count => "a whole number above zero",
        }
    }
}

#[cfg(target_os = "linux")]
fn set(process: Pid, resource: Resource, new: Rlimit) -> io::Result<()> {
    rustix::process::prlimit(Some(process), resource, new)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set(_: Pid, _: Resource, _: Rlimit) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Limit that killed a program, by its signal.
pub(crate) fn limit_reached(signal: i32) -> Option<&'static str> {
    match Signal::from_named_raw(signal)? {
        Signal::XCPU => Some("CPU time limit reached (`spec.resources.cpu`)"),
        Signal::XFSZ => Some("file size limit reached (`spec.resources.file_size`)"),
        _ => None,
    }
}

/// Error of a program whose limits could not be set.
pub(crate) fn limits_error(error: &io::Error) -> TaskError {
    let message = format!("cannot set the resource limits (`spec.resources`): {error}");
    isolation_unavailable_error(message).with_detail("key", "resources")
}

/// Error of an isolation request that this worker cannot fulfill.
pub(crate) fn isolation_unavailable_error(message: impl Into<String>) -> TaskError {
    TaskError::new(ErrorKind::ClientError, "ISOLATION_UNAVAILABLE", message)
}
