//! Reads a case from its directory.

use std::fs;
use std::path::{Path, PathBuf};

use engine::ExecutionLimits;
use serde_json::Value;

use crate::conformance::input_schedule::{InputSchedule, ScheduledInput, parse_input};
use crate::conformance::script::Script;

/// A case.
#[derive(Debug, Clone)]
pub struct Case {
    /// `<area>/<case>`.
    pub name: String,
    /// Its directory.
    pub folder: PathBuf,
    /// The playbook's text.
    pub playbook: String,
    /// Later versions of the playbook, in order.
    pub versions: Vec<String>,
    /// Additional playbooks by catalog path, for children.
    pub children: Vec<(String, String)>,
    /// The outcomes of tasks.
    pub script: Script,
    /// The request's payload.
    pub payload: Option<Value>,
    /// External inputs, in order.
    pub inputs: Vec<ScheduledInput>,
    /// The limits in force.
    pub limits: ExecutionLimits,
    /// Maximum number of jumps of a pipeline.
    pub jumps_max: u32,
}

/// Why a directory is not a valid case.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// A file cannot be read.
    #[error("cannot read `{}`", .0.display())]
    File(PathBuf, #[source] std::io::Error),
    /// A file has invalid content.
    #[error("{0}")]
    Invalid(String),
}

/// Every case, by name.
pub fn case_folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance");
    let mut folders: Vec<PathBuf> = subfolders(&root).iter().flat_map(|area| subfolders(area)).collect();
    folders.sort();
    folders
}

fn subfolders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn read_text(path: &Path) -> Result<String, CaseError> {
    fs::read_to_string(path).map_err(|error| CaseError::File(path.to_owned(), error))
}

/// Name of the case in a directory: `<area>/<case>`.
pub fn case_name(folder: &Path) -> String {
    let mut parts = folder.iter().rev().map(|part| part.to_string_lossy());
    let case = parts.next().unwrap_or_default();
    format!("{}/{case}", parts.next().unwrap_or_default())
}

impl Case {
    /// Reads the case in a directory.
    pub fn load(folder: &Path) -> Result<Self, CaseError> {
        let outcomes = match fs::read(folder.join("outcomes.yaml")) {
            Ok(bytes) => language::yaml::parse_yaml_data("outcomes.yaml", &bytes).map_err(|diagnostics| {
                let messages: Vec<_> = diagnostics.iter().map(|one| one.message.clone()).collect();
                CaseError::Invalid(messages.join("; "))
            })?,
            Err(_) => Value::Null,
        };
        let inputs = outcomes
            .get("inputs")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let (limits, jumps_max) = parse_limits(outcomes.get("limits"))?;
        Ok(Self {
            limits,
            jumps_max,
            name: case_name(folder),
            folder: folder.to_owned(),
            playbook: read_text(&folder.join("playbook.yaml"))?,
            versions: read_versions(folder)?,
            children: read_children(folder)?,
            script: Script::parse(outcomes.get("tasks")).map_err(CaseError::Invalid)?,
            payload: outcomes.get("payload").cloned(),
            inputs: inputs.iter().map(parse_input).collect::<Result<_, _>>()?,
        })
    }

    /// The external inputs.
    pub fn schedule(&self) -> InputSchedule {
        InputSchedule::new(self.inputs.clone())
    }

    /// The expected log as text; `None` if none was accepted yet.
    pub fn expected(&self) -> Option<String> {
        fs::read_to_string(self.folder.join("events.yaml")).ok()
    }

    /// Writes a log as the expected one.
    pub fn accept(&self, log: &str) -> Result<(), CaseError> {
        let path = self.folder.join("events.yaml");
        fs::write(&path, log).map_err(|error| CaseError::File(path, error))
    }
}

/// Later versions of the case's own playbook: `playbook.v2.yaml` and so on.
fn read_versions(folder: &Path) -> Result<Vec<String>, CaseError> {
    let files = (2..).map(|version| folder.join(format!("playbook.v{version}.yaml")));
    let files = files.take_while(|file| file.is_file());
    files.map(|file| read_text(&file)).collect()
}

/// Playbooks besides the case's own; the file name is the catalog path.
fn read_children(folder: &Path) -> Result<Vec<(String, String)>, CaseError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut children = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let is_own = ["playbook", "outcomes", "events"].contains(&stem.as_str());
        if !is_own && !stem.starts_with("playbook.v") {
            children.push((stem, read_text(&path)?));
        }
    }
    children.sort();
    Ok(children)
}

/// The default limits, with those that the case overrides.
fn parse_limits(section: Option<&Value>) -> Result<(ExecutionLimits, u32), CaseError> {
    let (mut limits, mut jumps_max) = (ExecutionLimits::default(), pipeline::JUMPS_MAX);
    for (name, value) in section.and_then(Value::as_object).into_iter().flatten() {
        let invalid = || CaseError::Invalid(format!("`{name}: {value}` is not a limit"));
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        let number = number.ok_or_else(invalid)?;
        match name.as_str() {
            "jumps_max" => jumps_max = number,
            "step_runs_max" => limits.step_runs_max = number,
            "depth_max" => limits.depth_max = number,
            _ => return Err(invalid()),
        }
    }
    Ok((limits, jumps_max))
}
