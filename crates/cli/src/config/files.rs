//! Configuration files: which there are, and what they say.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::args::ColorWhen;
use crate::config::store_url::is_store_url;
use crate::problem::{Exit, Problem};

/// What one file says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layer {
    pub(super) store: Option<PathBuf>,
    pub(super) slots: Option<u32>,
    pub(super) color: Option<Color>,
    pub(super) python: Option<PathBuf>,
    pub(super) server: Option<String>,
    pub(super) retention: Option<String>,
    pub(super) sandbox: Option<String>,
    pub(super) tools: Option<PathBuf>,
}

/// When to use colours, as files spell it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Color {
    Auto,
    Always,
    Never,
}

impl From<Color> for ColorWhen {
    fn from(color: Color) -> Self {
        match color {
            Color::Auto => Self::Auto,
            Color::Always => Self::Always,
            Color::Never => Self::Never,
        }
    }
}

impl Layer {
    /// What the file at `path` says; nothing if there is none. Relative paths are meant from where the file stands.
    pub(super) fn load(path: &Path) -> Result<Self, Problem> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(error) => return Err(Problem::unreadable(&path.display().to_string(), &error)),
        };
        let mut layer = Self::parse(&text, &path.display().to_string())?;
        let base = path.parent().unwrap_or(Path::new(""));
        layer.store = layer.store.map(|store| {
            if is_store_url(&store) {
                store
            } else {
                base.join(store)
            }
        });
        layer.tools = layer.tools.map(|tools| base.join(tools));
        Ok(layer)
    }

    /// What this text says.
    pub(super) fn parse(text: &str, name: &str) -> Result<Self, Problem> {
        toml::from_str(text).map_err(|error| {
            let message = format!(
                "`{name}` is not a configuration: {}",
                error.to_string().trim_end()
            );
            Problem::new(Exit::Usage, "CONFIG_INVALID", message)
                .help("it takes: store, slots, color, python, server, retention, sandbox, tools")
        })
    }
}

/// The nearest `noetl.toml` in this directory or above it.
pub(super) fn nearest(from: &Path) -> Option<PathBuf> {
    from.ancestors()
        .map(|dir| dir.join("noetl.toml"))
        .find(|file| file.is_file())
}
