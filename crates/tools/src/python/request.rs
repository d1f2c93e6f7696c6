//! Builds the request for an interpreter from a call: code and its location, inputs, libraries, environment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::outcome::TaskError;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::call::Call;
use crate::declared_environment::declared_environment;
use crate::python::libs::module_name;

/// Code and its location; the same code in two locations has two tracebacks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct CodeSource {
    pub(crate) code: Arc<str>,
    /// File name for tracebacks.
    pub(crate) file: Arc<str>,
    /// Line of the file where the code begins.
    pub(crate) line: u32,
}

/// Request to an interpreter.
#[derive(Debug, Serialize)]
pub(crate) struct PythonRequest {
    #[serde(skip)]
    pub(crate) source: CodeSource,
    input: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    libs: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    cwd: PathBuf,
}

impl PythonRequest {
    /// Builds the request of a call with its code.
    pub(crate) fn new(call: &mut Call, source: CodeSource) -> Result<Self, TaskError> {
        let env = declared_environment(call)?;
        let cwd = match call.text_field("cwd")? {
            Some(path) => call.resolve_path(path),
            None => call.site.base_dir.clone(),
        };
        let cwd = std::path::absolute(&cwd).unwrap_or(cwd);
        // Building the context costs more than a warm call, so only code that mentions it gets one.
        let context = source.code.contains("context").then(|| (call.context)());
        Ok(Self {
            source,
            input: std::mem::take(&mut call.input),
            context,
            libs: runner_libs(call)?,
            env,
            cwd,
        })
    }

    /// Sets the code's own temporary directory.
    pub(crate) fn set_own_dir(&mut self, own_dir: &Path) {
        let own_dir = own_dir.display().to_string();
        self.env.entry("TMPDIR".to_owned()).or_insert(own_dir);
    }

    /// Sets a working directory other than the playbook's.
    pub(crate) fn set_cwd(&mut self, cwd: &Path) {
        cwd.clone_into(&mut self.cwd);
    }
}

/// Libraries for the runner: a map of names. From a list, bare names are imported if such a module exists.
fn runner_libs(call: &Call) -> Result<Option<Value>, TaskError> {
    match call.field("libs") {
        None => Ok(None),
        Some(Value::Object(map)) if map.is_empty() => Ok(None),
        Some(Value::Object(map)) => Ok(Some(Value::Object(map.clone()))),
        Some(Value::Array(list)) => {
            let names = list.iter().filter_map(Value::as_str).filter_map(module_name);
            let map: Map<String, Value> = names.map(|name| (name.clone(), json!({"try": name}))).collect();
            Ok((!map.is_empty()).then_some(Value::Object(map)))
        }
        Some(other) => {
            let expected = "a map of names to modules, or a list of requirements";
            Err(call.wrong_type_error("libs", expected, other))
        }
    }
}

/// Code of a call that has it in the playbook; `None` if it is a script.
pub(crate) fn inline_source(call: &Call) -> Result<Option<CodeSource>, TaskError> {
    let Some(code) = call.text_field("code")? else {
        return match call.field("script") {
            Some(_) => Ok(None),
            None => Err(call.missing_key_error("code", "set it to the code to run, or set `script`")),
        };
    };
    Ok(Some(CodeSource {
        code: code.into(),
        file: call.site.file.clone(),
        line: call.site.code_line.unwrap_or(1),
    }))
}
