//! Effective settings: all configuration sources merged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::args::{ColorWhen, GlobalArgs};
use crate::cli_error::{CliError, Exit};
use crate::config::address::{self, AddressSources, ServerAddress};
use crate::config::contexts::Contexts;
use crate::config::environment::Environment;
use crate::config::files::{ConfigFile, find_project_file};
use crate::config::keychain::KeychainSettings;
use crate::config::network::{NetworkSettings, read_network_settings};
use crate::config::single_sign_on::{SingleSignOnSettings, parse_roles};
use crate::config::storage::{scratch_dir, storage_config};
use crate::config::store_url::check_store;
use crate::config::variables;

/// The default settings with comments; `noetl init` writes them to `noetl.toml`.
pub(crate) const DEFAULT_CONFIG: &str = include_str!("default.toml");

const SLOTS_MAX: u32 = 1024;

/// Effective settings of the commands.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Store directory or database URL.
    pub(crate) store: PathBuf,
    /// Maximum number of steps to run at once.
    pub(crate) slots: u32,
    /// When to use colors.
    pub(crate) color: ColorWhen,
    /// Python interpreter for python tasks.
    pub(crate) python: PathBuf,
    /// How long stored results are kept after the end of their run.
    pub(crate) retention: Duration,
    /// Minimum sandbox level for the programs of tasks.
    pub(crate) sandbox: tools::SandboxLevel,
    /// Manifests of external tools.
    pub(crate) external: Vec<tools::KindManifest>,
    /// Selected server, if any.
    pub(crate) server: Option<ServerAddress>,
    /// Whether the local store is used even if a server is configured.
    pub(crate) is_local: bool,
    /// Whether `--server` is set.
    pub(crate) has_server_flag: bool,
    /// Value of `--token-file`.
    pub(crate) token_file: Option<PathBuf>,
    /// Databases that tasks may access although they contain an engine's runs.
    pub(crate) postgres_allow: Vec<String>,
    /// Result stores besides the server's own store.
    pub(crate) storage: results::StoresConfig,
    /// Network access of tasks.
    pub(crate) network: NetworkSettings,
    /// How credentials are encrypted and resolved.
    pub(crate) keychain: KeychainSettings,
    /// Single sign-on of a server.
    pub(crate) single_sign_on: SingleSignOnSettings,
}

impl Settings {
    /// Returns the server that has the runs; `None` if they are in the local store.
    pub(crate) fn remote_address(&self) -> Option<&ServerAddress> {
        self.server.as_ref().filter(|_| !self.is_local)
    }

    /// Loads the effective settings for the working directory `current_dir`.
    pub(crate) fn load(flags: &GlobalArgs, environment: &Environment, current_dir: &Path) -> Result<Self, CliError> {
        let defaults = ConfigFile::parse(DEFAULT_CONFIG, "default.toml")?;
        let load = |file: Option<PathBuf>| file.map_or(Ok(ConfigFile::default()), |file| ConfigFile::load(&file));
        let user = load(environment.user_config_file())?;
        let project = load(find_project_file(current_dir))?;
        let contexts = Contexts::load(environment)?;
        let sources = AddressSources {
            flags,
            environment,
            project: project.server.as_deref(),
            user: user.server.as_deref(),
            contexts: &contexts,
        };
        let (server, is_local) = address::choose_address(&sources)?;
        let layers = [
            from_flags(flags),
            from_environment(environment)?,
            project,
            user,
            defaults,
        ];
        let color = flags.color.or_else(|| first_setting(&layers, |layer| layer.color));
        let invariant = "the defaults are complete";
        let retention = first_setting(&layers, |layer| layer.retention.clone()).expect(invariant);
        let expected = "a duration such as 12h, 30d or forever";
        let retention =
            model::duration::parse_text(&retention).ok_or_else(|| setting_error("retention", &retention, expected))?;
        let sandbox = first_setting(&layers, |layer| layer.sandbox.clone()).expect(invariant);
        let sandbox = sandbox
            .parse()
            .map_err(|_| setting_error("sandbox", &sandbox, "one of none, basic, strict"))?;
        let store = first_setting(&layers, |layer| layer.store.clone()).expect(invariant);
        check_store(&store)?;
        let network = read_network_settings(environment)?;
        let settings = Self {
            storage: storage_config(environment, scratch_dir(&store))?,
            keychain: KeychainSettings::from_environment(environment, &store, &network)?,
            network,
            store,
            slots: first_setting(&layers, |layer| layer.slots).expect(invariant),
            color: color.expect(invariant),
            python: first_setting(&layers, |layer| layer.python.clone()).expect(invariant),
            retention,
            sandbox,
            external: load_external_manifests(first_setting(&layers, |layer| layer.tools.clone()))?,
            server,
            is_local,
            has_server_flag: !flags.server.is_empty(),
            token_file: flags.token_file.clone(),
            postgres_allow: split_names(environment.get(variables::POSTGRES_ALLOW)),
            single_sign_on: SingleSignOnSettings::from_layers(&layers, environment),
        };
        if !(1..=SLOTS_MAX).contains(&settings.slots) {
            return Err(setting_error(
                "slots",
                &settings.slots.to_string(),
                "a number from 1 to 1024",
            ));
        }
        Ok(settings)
    }
}

/// Splits a comma-separated list of names.
fn split_names(text: Option<&str>) -> Vec<String> {
    let names = text.unwrap_or_default().split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

pub(super) fn first_setting<T>(layers: &[ConfigFile], read: impl Fn(&ConfigFile) -> Option<T>) -> Option<T> {
    layers.iter().find_map(read)
}

fn from_flags(flags: &GlobalArgs) -> ConfigFile {
    ConfigFile {
        store: flags.store.clone(),
        tools: flags.tools.clone(),
        ..ConfigFile::default()
    }
}

fn from_environment(environment: &Environment) -> Result<ConfigFile, CliError> {
    let slots = environment.get(variables::SLOTS).map(|text| {
        text.parse()
            .map_err(|_| setting_error("NOETL_SLOTS", text, "a number from 1 to 1024"))
    });
    let color = environment.get(variables::COLOR).map(|text| {
        ConfigFile::parse(&format!("color = {text:?}"), "NOETL_COLOR")
            .map_err(|_| setting_error("NOETL_COLOR", text, "one of auto, always, never"))
    });
    let text = |variable| environment.get(variable).map(ToOwned::to_owned);
    Ok(ConfigFile {
        store: environment.get(variables::STORE).map(PathBuf::from),
        slots: slots.transpose()?,
        color: color.transpose()?.and_then(|layer| layer.color),
        python: environment.get(variables::PYTHON).map(PathBuf::from),
        server: None,
        retention: environment.get(variables::RETENTION).map(ToOwned::to_owned),
        sandbox: environment.get(variables::SANDBOX).map(ToOwned::to_owned),
        tools: environment.get(variables::TOOLS_DIR).map(PathBuf::from),
        oidc_roles: environment.get(variables::OIDC_ROLES).map(parse_roles).transpose()?,
        oidc_scopes: environment
            .get(variables::OIDC_SCOPES)
            .map(|text| split_names(Some(text))),
        oidc_client_secret_file: environment.get(variables::OIDC_CLIENT_SECRET_FILE).map(PathBuf::from),
        oidc_issuer: text(variables::OIDC_ISSUER),
        oidc_client_id: text(variables::OIDC_CLIENT_ID),
        oidc_client_auth: text(variables::OIDC_CLIENT_AUTH),
        oidc_role_claim: text(variables::OIDC_ROLE_CLAIM),
        oidc_name: text(variables::OIDC_NAME),
        oidc_session: text(variables::OIDC_SESSION),
        public_url: text(variables::PUBLIC_URL),
    })
}

/// Loads the manifests of the external tools in a directory.
fn load_external_manifests(dir: Option<PathBuf>) -> Result<Vec<tools::KindManifest>, CliError> {
    let Some(dir) = dir else {
        return Ok(Vec::new());
    };
    tools::load_manifests(&dir).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let message = format!("{error}{}", cause.unwrap_or_default());
        CliError::new(Exit::Usage, "TOOLS_INVALID", message)
            .help("see docs/guide/external-tools.md, or unset --tools and NOETL_TOOLS_DIR")
    })
}

pub(super) fn setting_error(name: &str, value: &str, expected: &str) -> CliError {
    let message = format!("invalid {name} `{value}`: expected {expected}");
    CliError::new(Exit::Usage, "CONFIG_INVALID", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(store: Option<&str>) -> GlobalArgs {
        GlobalArgs {
            store: store.map(PathBuf::from),
            ..GlobalArgs::default()
        }
    }

    fn environment(pairs: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Environment::from_variables(pairs.iter().map(owned))
    }

    #[test]
    fn each_layer_overrides_the_ones_below_it() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(dir.path().join("noetl.toml"), "store = \"s\"\nslots = 3\n").unwrap();
        let own = dir.path().join("own/noetl");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("config.toml"), "slots = 2\npython = \"py\"\n").unwrap();
        let xdg = dir.path().join("own").display().to_string();
        let variables = environment(&[("XDG_CONFIG_HOME", &xdg), ("NOETL_SLOTS", "5")]);

        let settings = Settings::load(&flags(None), &variables, &deep).unwrap();
        assert_eq!(settings.store, dir.path().join("s"));
        assert_eq!(settings.slots, 5);
        assert_eq!(settings.python, PathBuf::from("py"));
        assert_eq!(settings.color, ColorWhen::Auto);

        let settings = Settings::load(&flags(Some("mine")), &variables, &deep).unwrap();
        assert_eq!(settings.store, PathBuf::from("mine"));
    }

    #[test]
    fn a_url_names_the_same_store_in_a_flag_a_variable_and_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let url = "postgres://u:a-password@db:5433/noetl";
        let load = |flag, variables: &[(&str, &str)]| Settings::load(&flags(flag), &environment(variables), dir.path());
        let flagged = load(Some(url), &[]).unwrap();
        let from_variable = load(None, &[("NOETL_STORE", url)]).unwrap();
        std::fs::write(dir.path().join("noetl.toml"), format!("store = {url:?}\n")).unwrap();
        let from_file = load(None, &[]).unwrap();
        for settings in [flagged, from_variable, from_file] {
            assert_eq!(settings.store, PathBuf::from(url));
        }

        let other = "store = \"mysql://u:a-password@db\"\n";
        std::fs::write(dir.path().join("noetl.toml"), other).unwrap();
        let refused = load(None, &[]).unwrap_err();
        assert_eq!(refused.code, "CONFIG_INVALID");
        assert!(!format!("{refused:?}").contains("a-password"), "{refused:?}");
    }

    #[test]
    fn an_invalid_setting_is_reported_with_its_allowed_values() {
        let dir = tempfile::tempdir().unwrap();
        let load = |pairs: &[(&str, &str)]| Settings::load(&flags(None), &environment(pairs), dir.path()).unwrap_err();
        assert!(load(&[("NOETL_SLOTS", "many")]).message.contains("NOETL_SLOTS"));
        assert!(load(&[("NOETL_SLOTS", "0")]).message.contains("1 to 1024"));
        assert!(load(&[("NOETL_COLOR", "pink")]).message.contains("auto"));
        assert!(load(&[("NOETL_SANDBOX", "iron")]).message.contains("strict"));
        let tools = load(&[("NOETL_TOOLS_DIR", "/no/such/dir")]);
        assert_eq!(tools.code, "TOOLS_INVALID");
        std::fs::write(dir.path().join("noetl.toml"), "slotz = 1\n").unwrap();
        let problem = load(&[]);
        assert_eq!(problem.code, "CONFIG_INVALID");
        assert!(problem.message.contains("slotz"), "{}", problem.message);
    }
}
