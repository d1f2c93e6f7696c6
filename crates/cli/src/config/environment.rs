//! Environment variables, read once at start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::config::variables::{self, PIP_VARIABLES, TASK_VARIABLES, Variable, VariablePrefix};

/// Environment variables of the process, and terminal properties that follow from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    values: BTreeMap<String, String>,
    /// `NO_COLOR` is set.
    pub(crate) forbids_color: bool,
    /// `CI` is set to something other than `false` or `0`.
    pub(crate) is_ci: bool,
    /// The locale is UTF-8.
    pub(crate) has_unicode: bool,
}

impl Environment {
    /// Reads the environment of this process; skips variables that are not UTF-8.
    #[expect(clippy::disallowed_methods, reason = "this module reads the environment")]
    pub(crate) fn read() -> Self {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        Self::from_variables(std::env::vars_os().filter_map(text))
    }

    /// Builds an environment from these variables.
    pub(crate) fn from_variables(values: impl IntoIterator<Item = (String, String)>) -> Self {
        let values: BTreeMap<String, String> = values.into_iter().collect();
        let get = |variable: Variable| {
            let value = values.get(variable.name());
            value.filter(|value| !value.is_empty())
        };
        let locale = get(variables::LC_ALL)
            .or_else(|| get(variables::LC_CTYPE))
            .or_else(|| get(variables::LANG));
        let has_unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            forbids_color: get(variables::NO_COLOR).is_some(),
            is_ci: get(variables::CI).is_some_and(|value| value != "false" && value != "0"),
            has_unicode,
            values,
        }
    }

    /// Returns the value of a variable that is set and not empty.
    pub(crate) fn get(&self, variable: Variable) -> Option<&str> {
        self.values
            .get(variable.name())
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns the non-empty variables whose name starts with `prefix`.
    pub(crate) fn variables_with_prefix(&self, prefix: VariablePrefix) -> impl Iterator<Item = (&str, &str)> {
        let all = self.values.iter();
        let all = all.map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(move |(name, value)| name.starts_with(prefix.text()) && !value.is_empty())
    }

    /// Returns the variables that the programs of tasks inherit.
    pub(crate) fn task_variables(&self) -> BTreeMap<String, String> {
        self.select_variables(TASK_VARIABLES.map(Variable::name))
    }

    /// Returns the variables that only pip gets: index, proxy and certificates. They may contain secrets.
    pub(crate) fn pip_variables(&self) -> BTreeMap<String, String> {
        self.select_variables(PIP_VARIABLES.map(Variable::name))
    }

    /// Returns the path of a program in PATH.
    pub(crate) fn find_program(&self, name: &str) -> Option<PathBuf> {
        let mut files = self
            .get(variables::PATH)?
            .split(':')
            .map(|dir| Path::new(dir).join(name));
        files.find(|file| file.is_file())
    }

    /// Returns the cache directory of the user.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        let base = self.get(variables::XDG_CACHE_HOME).map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(self.get(variables::HOME)?).join(".cache")));
        Some(base?.join("noetl"))
    }

    /// Returns the variables with these names that are set; users select names with `--allow-env`.
    pub(crate) fn select_variables<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> BTreeMap<String, String> {
        let set = |name: &str| {
            let value = self.values.get(name)?;
            Some((name.to_owned(), value.clone()))
        };
        names.into_iter().filter_map(set).collect()
    }

    /// Returns the path of the user's configuration file, which may not exist.
    pub(crate) fn user_config_file(&self) -> Option<PathBuf> {
        Some(self.user_config_dir()?.join("config.toml"))
    }

    /// Returns the path of the user's configuration directory, which may not exist.
    pub(crate) fn user_config_dir(&self) -> Option<PathBuf> {
        let base = self.get(variables::XDG_CONFIG_HOME).map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(self.get(variables::HOME)?).join(".config")));
        Some(base?.join("noetl"))
    }
}
