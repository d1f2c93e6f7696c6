//! Reads the container to run from a call, with a name by which a retry finds it.

use std::collections::BTreeMap;

use model::duration;
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use tools::{Call, declared_environment, plain_text};

/// Container to run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ContainerSpec {
    pub(crate) image: String,
    /// Replaces the image's entry point.
    pub(crate) command: Vec<String>,
    pub(crate) args: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) resources: ContainerResources,
    pub(crate) workdir: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) network: Option<String>,
    pub(crate) pull: Option<PullPolicy>,
    pub(crate) namespace: Option<String>,
    pub(crate) service_account: Option<String>,
    /// Hash of the idempotency key, the same for every attempt of the task.
    pub(crate) key: String,
    /// Name of this attempt.
    pub(crate) name: String,
}

/// Resource limits.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ContainerResources {
    /// Thousandths of a CPU.
    pub(crate) cpu_millis: Option<u64>,
    pub(crate) memory_bytes: Option<u64>,
}

/// When to pull the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullPolicy {
    Always,
    Missing,
    Never,
}

/// Container runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContainerRuntime {
    Docker,
    Podman,
    Kubernetes,
}

impl ContainerRuntime {
    /// In order of preference.
    pub(crate) const ALL: [Self; 3] = [Self::Docker, Self::Podman, Self::Kubernetes];

    /// Name of the client program.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubectl",
        }
    }

    /// Runtime that a call requests; `None` means any installed one.
    pub(crate) fn from_call(call: &Call) -> Result<Option<Self>, TaskError> {
        match call.text_field("runtime")? {
            None | Some("auto") => Ok(None),
            Some("docker") => Ok(Some(Self::Docker)),
            Some("podman") => Ok(Some(Self::Podman)),
            Some("kubernetes" | "k8s") => Ok(Some(Self::Kubernetes)),
            Some(other) => {
                let message = format!("invalid value `{other}`; use auto, docker, podman or kubernetes");
                Err(invalid_field_error("runtime", &message))
            }
        }
    }
}

impl ContainerSpec {
    /// Reads the container of a call.
    pub(crate) fn from_call(call: &Call) -> Result<Self, TaskError> {
        let text = |key: &str| -> Result<Option<String>, TaskError> { Ok(call.text_field(key)?.map(str::to_owned)) };
        let image = text("image")?.ok_or_else(|| call.missing_key_error("image", "set it to the image to run"))?;
        if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
            return Err(invalid_field_error(
                "image",
                &format!("`{image}` is not a valid image name"),
            ));
        }
        let pull = match call.text_field("pull")? {
            None => None,
            Some("always" | "Always") => Some(PullPolicy::Always),
            Some("missing" | "if_not_present" | "IfNotPresent") => Some(PullPolicy::Missing),
            Some("never" | "Never") => Some(PullPolicy::Never),
            Some(other) => {
                let message = format!("invalid value `{other}`; use always, missing or never");
                return Err(invalid_field_error("pull", &message));
            }
        };
        let key = task_key(&call.idempotency_key);
        Ok(Self {
            image,
            command: command_words(call)?,
            args: word_list(call, "args")?,
            env: declared_environment(call)?,
            resources: ContainerResources::from_call(call)?,
            workdir: text("workdir")?,
            user: text("user")?,
            network: text("network")?,
            pull,
            namespace: text("namespace")?,
            service_account: text("service_account")?,
            name: format!("noetl-{key}-{}", call.attempt),
            key,
        })
    }
}

impl ContainerResources {
    fn from_call(call: &Call) -> Result<Self, TaskError> {
        let own_resources = call.map_field("resources")?;
        let requested = match own_resources {
            Some(own_resources) => Some(own_resources),
            None => call.spec.get("resources").and_then(Value::as_object),
        };
        let Some(requested) = requested else {
            return Ok(Self::default());
        };
        let requested = requested.get("limits").and_then(Value::as_object).unwrap_or(requested);
        if let Some(key) = requested
            .keys()
            .find(|key| !matches!(key.as_str(), "cpu" | "memory" | "requests"))
        {
            let message = format!("unknown key `{key}`; use `cpu` and `memory`");
            return Err(invalid_field_error("resources", &message));
        }
        Ok(Self {
            cpu_millis: read_resource(
                requested,
                "cpu",
                parse_cpu_millis,
                "a number of CPUs such as 0.5 or `500m`",
            )?,
            memory_bytes: read_resource(requested, "memory", parse_memory_bytes, "a size such as `512MiB`")?,
        })
    }
}

fn read_resource(
    requested: &Map<String, Value>,
    key: &str,
    parse: fn(&Value) -> Option<u64>,
    runtime: &str,
) -> Result<Option<u64>, TaskError> {
    let Some(value) = requested.get(key).filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let number = parse(value).filter(|number| *number > 0);
    number.map(Some).ok_or_else(|| {
        let key = format!("resources.{key}");
        invalid_field_error(&key, &format!("`{value}` is not {runtime}"))
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a small positive number"
)]
fn parse_cpu_millis(value: &Value) -> Option<u64> {
    let cpus = match value {
        Value::String(text) => match text.trim().strip_suffix('m') {
            Some(millis) => return millis.parse().ok(),
            None => text.trim().parse().ok()?,
        },
        other => other.as_f64()?,
    };
    (cpus > 0.0 && cpus < 100_000.0).then(|| (cpus * 1_000.0).ceil() as u64)
}

fn parse_memory_bytes(value: &Value) -> Option<u64> {
    // Kubernetes omits the final `B` of a unit.
    if let Value::String(text) = value
        && text.ends_with('i')
    {
        return duration::parse_size(&Value::String(format!("{text}B")));
    }
    duration::parse_size(value)
}

/// Command that replaces the entry point; a string runs in a shell.
fn command_words(call: &Call) -> Result<Vec<String>, TaskError> {
    match call.field("command") {
        Some(Value::String(line)) => Ok(["/bin/sh", "-c", line].map(str::to_owned).to_vec()),
        _ => word_list(call, "command"),
    }
}

fn word_list(call: &Call, key: &str) -> Result<Vec<String>, TaskError> {
    match call.field(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(words)) => Ok(words.iter().map(plain_text).collect()),
        Some(one @ (Value::String(_) | Value::Number(_))) => Ok(vec![plain_text(one)]),
        Some(other) => Err(call.wrong_type_error(key, "a list of words", other)),
    }
}

/// Twenty hexadecimal digits that identify the task; a label value has at most 63 characters.
fn task_key(idempotency_key: &str) -> String {
    let hash = Sha256::digest(idempotency_key);
    hex::encode(&hash[..10])
}

fn invalid_field_error(key: &str, message: &str) -> TaskError {
    let message = format!("`{key}`: {message}");
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", key)
}
