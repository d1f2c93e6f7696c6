//! Environment variables, read once at start.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variables of the process, and terminal properties that follow from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    /// `NO_COLOR` is set.
    pub(crate) forbids_color: bool,
    /// `CI` is set to something other than `false` or `0`.
    pub(crate) is_ci: bool,
    /// The locale is UTF-8.
    pub(crate) has_unicode: bool,
}

/// Variables that are passed on to pip.
const PIP_VARIABLES: [&str; 26] = [
    "PIP_CACHE_DIR",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_CONSTRAINT",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_KEYRING_PROVIDER",
    "PIP_NO_BINARY",
    "PIP_NO_INDEX",
    "PIP_ONLY_BINARY",
    "PIP_PRE",
    "PIP_PREFER_BINARY",
    "PIP_PROXY",
    "PIP_RETRIES",
    "PIP_TRUSTED_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
];

impl Environment {
    /// Reads the environment of this process; skips variables that are not UTF-8.
    #[expect(
        clippy::disallowed_methods,
        reason = "this module reads the environment"
    )]
    pub(crate) fn read() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::from_variables(std::env::vars_os().filter_map(text))
    }

    /// Builds an environment from these variables.
    pub(crate) fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let variables: BTreeMap<String, String> = variables.into_iter().collect();
        let get = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let locale = get("LC_ALL")
            .or_else(|| get("LC_CTYPE"))
            .or_else(|| get("LANG"));
        let has_unicode = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        Self {
            forbids_color: get("NO_COLOR").is_some(),
            is_ci: get("CI").is_some_and(|value| value != "false" && value != "0"),
            has_unicode,
            variables,
        }
    }

    /// Returns the value of a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    /// Returns the non-empty variables whose name starts with `prefix`.
    pub(crate) fn variables_with_prefix(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.variables.iter();
        let all = all.map(|(name, value)| (name.as_str(), value.as_str()));
        all.filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
    }

    /// Returns the variables that the programs of tasks inherit.
    pub(crate) fn task_variables(&self) -> BTreeMap<String, String> {
        self.select_variables(["PATH", "HOME", "LANG", "VIRTUAL_ENV"])
    }

    /// Returns the variables that only pip gets: index, proxy and certificates. They may contain secrets.
    pub(crate) fn pip_variables(&self) -> BTreeMap<String, String> {
        self.select_variables(PIP_VARIABLES)
    }

    /// Returns the cache directory of the user.
    pub(crate) fn cache_dir(&self) -> Option<PathBuf> {
        let base = self.get("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".cache")));
        Some(base?.join("noetl"))
    }

    /// Returns the variables with these names that are set.
    pub(crate) fn select_variables<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> BTreeMap<String, String> {
        let set = |name: &str| {
            let value = self.variables.get(name)?;
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
        let base = self.get("XDG_CONFIG_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(self.get("HOME")?).join(".config")));
        Some(base?.join("noetl"))
    }
}
