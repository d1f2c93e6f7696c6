//! From a call to what an interpreter is asked: the code and where it stands, inputs, libraries, environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::outcome::{ErrorKind, TaskError};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::call::{Call, type_name};
use crate::python::libs::module_of;

/// Code and where it stands; the same code in two places has two tracebacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct Source {
    /// The text.
    pub(crate) code: Arc<str>,
    /// The file to name in tracebacks.
    pub(crate) file: Arc<str>,
    /// The line of the file on which the code begins.
    pub(crate) line: u32,
}

/// What an interpreter is asked to run.
#[derive(Debug, Serialize)]
pub(crate) struct Request {
    #[serde(skip)]
    pub(crate) source: Source,
    input: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    libs: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    cwd: PathBuf,
}

/// Where the code of a call comes from.
pub(crate) enum Origin {
    /// It is in the playbook.
    Inline(Source),
    /// It is in a file.
    File(PathBuf),
    /// It is fetched.
    Url(String),
}

impl Request {
    /// The request of a call, its code at hand.
    pub(crate) fn new(call: &mut Call, source: Source) -> Result<Self, TaskError> {
        let env = environment(call)?;
        let cwd = match call.text("cwd")? {
            Some(path) => call.resolve(path),
            None => call.place.base_dir.clone(),
        };
        let cwd = std::path::absolute(&cwd).unwrap_or(cwd);
        // Building the context costs more than a warm call, so only code that names it gets one.
        let context = source.code.contains("context").then(|| (call.context)());
        Ok(Self {
            source,
            input: std::mem::take(&mut call.input),
            context,
            libs: libs(call)?,
            env,
            cwd,
        })
    }

    /// Gives the code a directory of its own for what is temporary.
    pub(crate) fn set_own_dir(&mut self, own: &Path) {
        let own = own.display().to_string();
        self.env.entry("TMPDIR".to_owned()).or_insert(own);
    }

    /// Starts the code in another directory than the playbook's.
    pub(crate) fn set_cwd(&mut self, cwd: &Path) {
        cwd.clone_into(&mut self.cwd);
    }
}

/// Declared variables: text, or what has one obvious text.
pub(crate) fn environment(call: &Call) -> Result<BTreeMap<String, String>, TaskError> {
    let Some(declared) = call.map("env")? else {
        return Ok(BTreeMap::new());
    };
    let mut env = BTreeMap::new();
    for (name, value) in declared {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            Value::Null => continue,
            Value::Array(_) | Value::Object(_) => {
                return Err(call.wrong_type(&format!("env.{name}"), "text", value));
            }
        };
        if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
            let message =
                format!("`env.{name}` is not a name and value of an environment variable");
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "env"));
        }
        env.insert(name.clone(), text);
    }
    Ok(env)
}

/// Libraries as the runner reads them: a map of names. Of a list, bare names are imported if there is such a module.
fn libs(call: &Call) -> Result<Option<Value>, TaskError> {
    match call.field("libs") {
        None => Ok(None),
        Some(Value::Object(map)) if map.is_empty() => Ok(None),
        Some(Value::Object(map)) => Ok(Some(Value::Object(map.clone()))),
        Some(Value::Array(list)) => {
            let names = list.iter().filter_map(Value::as_str).filter_map(module_of);
            let map: Map<String, Value> = names
                .map(|name| (name.clone(), json!({"try": name})))
                .collect();
            Ok((!map.is_empty()).then_some(Value::Object(map)))
        }
        Some(other) => {
            let wanted = "a map of names to modules, or a list of requirements";
            Err(call.wrong_type("libs", wanted, other))
        }
    }
}

/// Where the code is: `code`, else `script`.
pub(crate) fn origin(call: &Call) -> Result<Origin, TaskError> {
    if let Some(code) = call.text("code")? {
        return Ok(Origin::Inline(Source {
            code: code.into(),
            file: call.place.file.clone(),
            line: call.place.code_line.unwrap_or(1),
        }));
    }
    match call.field("script") {
        None => Err(call.missing("code", "write the code, or name a `script`")),
        Some(Value::String(uri)) => by_uri(call, uri),
        Some(Value::Object(script)) => by_map(call, script),
        Some(other) => Err(call.wrong_type("script", "a map {uri} or {source}", other)),
    }
}

fn by_map(call: &Call, script: &Map<String, Value>) -> Result<Origin, TaskError> {
    let text = |map: &Map<String, Value>, key: &str| {
        map.get(key).and_then(Value::as_str).map(str::to_owned)
    };
    let uri = text(script, "uri");
    let Some(Value::Object(source)) = script.get("source") else {
        return match uri.or_else(|| text(script, "path")) {
            Some(uri) => by_uri(call, &uri),
            None => Err(call.missing("script.uri", "name the file or address of the script")),
        };
    };
    let place = text(source, "path")
        .or_else(|| text(source, "url"))
        .or_else(|| text(source, "endpoint"))
        .or(uri);
    let Some(place) = place else {
        return Err(call.missing("script.source.path", "name the file of the script"));
    };
    match source.get("type") {
        Some(Value::String(kind)) if kind == "file" => Ok(Origin::File(call.resolve(&place))),
        Some(Value::String(kind)) if kind == "http" => by_uri(call, &place),
        Some(Value::String(kind)) => Err(unsupported(kind)),
        None => by_uri(call, &place),
        Some(other) => Err(unsupported(type_name(other))),
    }
}

fn by_uri(call: &Call, uri: &str) -> Result<Origin, TaskError> {
    match uri.split_once("://") {
        None => Ok(Origin::File(call.resolve(uri))),
        Some(("file", path)) => Ok(Origin::File(call.resolve(path))),
        Some(("http" | "https", _)) => Ok(Origin::Url(uri.to_owned())),
        Some((scheme, _)) => Err(unsupported(scheme)),
    }
}

fn unsupported(kind: &str) -> TaskError {
    TaskError::new(
        ErrorKind::ClientError,
        "SCRIPT_SOURCE",
        format!("scripts cannot be read from `{kind}`; use a file or an http(s) address"),
    )
    .with("key", "script")
}
