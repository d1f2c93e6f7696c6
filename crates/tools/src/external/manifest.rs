//! Tool manifests, which describe external tools.
//!
//! A tools directory holds `NAME.toml` files, or directories with a `tool.toml` each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use language::playbook::kinds::{EXTERNAL_PREFIX, is_external};
use serde::Deserialize;

/// Maximum size of a manifest.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024;

/// Manifest of an external tool.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindManifest {
    /// Tool kind, beginning with `x-`.
    pub name: String,
    /// Program and arguments; a relative path is relative to the manifest's directory.
    pub command: Vec<String>,
    /// Version, for display.
    pub version: String,
    /// Description, for display.
    #[serde(default)]
    pub description: String,
    /// Whether a call has no side effects, so that it can be repeated freely.
    #[serde(default)]
    pub pure: bool,
    /// Maximum number of concurrent processes.
    #[serde(default = "processes_max")]
    pub processes_max: usize,
    /// Keys of a task of this kind.
    #[serde(default)]
    pub keys: BTreeMap<String, ManifestKey>,
    /// Directory of the manifest.
    #[serde(skip)]
    pub dir: PathBuf,
}

/// A key of an external tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestKey {
    /// Type of its value.
    #[serde(rename = "type", default)]
    pub type_: KeyType,
    /// Whether it is required.
    #[serde(default)]
    pub required: bool,
    /// Description, for display.
    #[serde(default)]
    pub description: String,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// Anything.
    #[default]
    Any,
    /// Text.
    Text,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A list.
    List,
    /// A map.
    Map,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Read error.
    #[error("cannot read `{0}`")]
    Unreadable(PathBuf, #[source] std::io::Error),
    /// Invalid manifest.
    #[error("`{0}` is not a valid tool manifest: {1}")]
    Invalid(PathBuf, String),
    /// Two manifests define the same kind.
    #[error("`{0}` defines kind `{1}`, which another manifest already defines")]
    Duplicate(PathBuf, String),
}

fn processes_max() -> usize {
    8
}

/// Reads the manifests in a directory, by name.
pub fn load_manifests(dir: &Path) -> Result<Vec<KindManifest>, ManifestError> {
    let unreadable = |error| ManifestError::Unreadable(dir.to_owned(), error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let inner = path.join("tool.toml");
        if path.extension().is_some_and(|extension| extension == "toml") && path.is_file() {
            files.push(path);
        } else if inner.is_file() {
            files.push(inner);
        }
    }
    files.sort();
    let mut manifests: BTreeMap<String, KindManifest> = BTreeMap::new();
    for file in files {
        let manifest = KindManifest::load(&file)?;
        let name = manifest.name.clone();
        if manifests.insert(name.clone(), manifest).is_some() {
            return Err(ManifestError::Duplicate(file, name));
        }
    }
    Ok(manifests.into_values().collect())
}

impl KindManifest {
    fn load(file: &Path) -> Result<Self, ManifestError> {
        let unreadable = |error| ManifestError::Unreadable(file.to_owned(), error);
        let size = std::fs::metadata(file).map_err(unreadable)?.len();
        if size > MANIFEST_BYTES_MAX {
            let message = format!("larger than {MANIFEST_BYTES_MAX} bytes");
            return Err(ManifestError::Invalid(file.to_owned(), message));
        }
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let dir = file.parent().unwrap_or(Path::new("."));
        let dir = std::path::absolute(dir).map_err(unreadable)?;
        Self::parse(&text, &dir).map_err(|message| ManifestError::Invalid(file.to_owned(), message))
    }

    /// Parses a manifest that is in `dir`. The error describes the problem.
    pub(crate) fn parse(text: &str, dir: &Path) -> Result<Self, String> {
        let manifest: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if !is_external(&manifest.name) {
            return Err(format!(
                "`name` must be `{EXTERNAL_PREFIX}` followed by lowercase letters, digits, `-` and `_`, not `{}`",
                manifest.name
            ));
        }
        if manifest.command.first().is_none_or(String::is_empty) {
            return Err("`command` must name a program".to_owned());
        }
        if manifest.processes_max == 0 {
            return Err("`processes_max` must be at least 1".to_owned());
        }
        Ok(Self {
            dir: dir.to_owned(),
            ..manifest
        })
    }

    /// Program to start.
    pub fn program_path(&self) -> PathBuf {
        let first = self.command.first().map_or("", String::as_str);
        if first.contains('/') {
            self.dir.join(first)
        } else {
            PathBuf::from(first)
        }
    }
}
