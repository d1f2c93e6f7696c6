//! Settings of single sign-on. `serve` checks them when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use server::{ClientAuth, ClientSecret, OidcConfig, SecretFetcher, SingleSignOn};
use wire::api::Role;

use crate::args::SingleSignOnArgs;
use crate::cli_error::{CliError, Exit};
use crate::config::environment::Environment;
use crate::config::files::ConfigFile;
use crate::config::settings::{first_setting, setting_error};
use crate::config::variables;

/// Settings of single sign-on from files and the environment, before they are checked.
#[derive(Debug, Clone)]
pub(crate) struct SingleSignOnSettings {
    issuer: Option<String>,
    client_id: Option<String>,
    client_secret: Option<ClientSecret>,
    client_secret_file: Option<PathBuf>,
    client_auth: Option<String>,
    roles: Option<BTreeMap<String, String>>,
    role_claim: String,
    scopes: Vec<String>,
    name: String,
    session: String,
    public_url: Option<String>,
}

impl SingleSignOnSettings {
    /// Takes each setting from the first layer that has it.
    pub(super) fn from_layers(layers: &[ConfigFile], environment: &Environment) -> Self {
        let invariant = "the defaults are complete";
        Self {
            issuer: first_setting(layers, |layer| layer.oidc_issuer.clone()),
            client_id: first_setting(layers, |layer| layer.oidc_client_id.clone()),
            client_secret: environment.get(variables::OIDC_CLIENT_SECRET).map(ClientSecret::new),
            client_secret_file: first_setting(layers, |layer| layer.oidc_client_secret_file.clone()),
            client_auth: first_setting(layers, |layer| layer.oidc_client_auth.clone()),
            roles: first_setting(layers, |layer| layer.oidc_roles.clone()),
            role_claim: first_setting(layers, |layer| layer.oidc_role_claim.clone()).expect(invariant),
            scopes: first_setting(layers, |layer| layer.oidc_scopes.clone()).expect(invariant),
            name: first_setting(layers, |layer| layer.oidc_name.clone()).expect(invariant),
            session: first_setting(layers, |layer| layer.oidc_session.clone()).expect(invariant),
            public_url: first_setting(layers, |layer| layer.public_url.clone()),
        }
    }

    /// Checks the settings and the options; `None` if single sign-on is not configured.
    pub(crate) fn build(
        &self,
        args: &SingleSignOnArgs,
        fetcher: Arc<dyn SecretFetcher>,
    ) -> Result<Option<SingleSignOn>, CliError> {
        let client_id = args.oidc_client_id.as_ref().or(self.client_id.as_ref());
        let Some(issuer) = args.oidc_issuer.as_ref().or(self.issuer.as_ref()) else {
            let is_partial = client_id.is_some() || self.roles.is_some() || self.client_secret_file.is_some();
            return if is_partial {
                Err(missing("oidc_issuer"))
            } else {
                Ok(None)
            };
        };
        let public_url = args.public_url.as_ref().or(self.public_url.as_ref());
        let config = OidcConfig {
            issuer: issuer.clone(),
            client_id: client_id.cloned().ok_or_else(|| missing("oidc_client_id"))?,
            client_secret: self.read_client_secret(args)?,
            client_auth: self.client_auth.as_deref().map(parse_client_auth).transpose()?,
            public_url: public_url.cloned().ok_or_else(|| missing("public_url"))?,
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            role_claim: self.role_claim.clone(),
            roles: self.parsed_roles()?,
            session: model::duration::parse_text(&self.session)
                .ok_or_else(|| setting_error("oidc_session", &self.session, "a duration from 1s to 12h"))?,
            fetcher,
        };
        let sign_on = SingleSignOn::new(config);
        sign_on.map(Some).map_err(|error| invalid(error.to_string()))
    }

    /// The secret in the file of the option, the variable, or the file of the settings.
    fn read_client_secret(&self, args: &SingleSignOnArgs) -> Result<Option<ClientSecret>, CliError> {
        let file = match (&args.oidc_client_secret_file, &self.client_secret) {
            (Some(file), _) => Some(file),
            (None, Some(secret)) => return Ok(Some(secret.clone())),
            (None, None) => self.client_secret_file.as_ref(),
        };
        let read = file.map(|file| {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|error| CliError::read_error(&file.display().to_string(), &error))?;
            Ok(ClientSecret::new(&text))
        });
        read.transpose()
    }

    fn parsed_roles(&self) -> Result<BTreeMap<String, Role>, CliError> {
        let roles = self.roles.as_ref().ok_or_else(|| missing("oidc_roles"))?;
        let roles = roles.iter().map(|(value, role)| {
            let expected = "viewer, operator, author or admin";
            let parsed = role.parse().map_err(|_| setting_error("oidc_roles", role, expected));
            Ok((value.clone(), parsed?))
        });
        roles.collect()
    }
}

/// Parses the variable with the roles: `VALUE=ROLE`, comma-separated.
pub(super) fn parse_roles(text: &str) -> Result<BTreeMap<String, String>, CliError> {
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    let entries = entries.map(|entry| {
        let expected = "VALUE=ROLE, comma-separated";
        let parts = entry.rsplit_once('=');
        let (value, role) = parts.ok_or_else(|| setting_error("NOETL_OIDC_ROLES", entry, expected))?;
        Ok((value.trim().to_owned(), role.trim().to_owned()))
    });
    entries.collect()
}

fn parse_client_auth(text: &str) -> Result<ClientAuth, CliError> {
    match text {
        "basic" => Ok(ClientAuth::Basic),
        "post" => Ok(ClientAuth::Post),
        _ => Err(setting_error("oidc_client_auth", text, "basic or post")),
    }
}

fn missing(setting: &str) -> CliError {
    invalid(format!(
        "`{setting}` is not set, but other settings of single sign-on are"
    ))
}

fn invalid(message: String) -> CliError {
    CliError::new(Exit::Usage, "CONFIG_INVALID", message).help("see docs/guide/single-sign-on.md")
}

#[cfg(test)]
mod tests {
    use server::{FetchError, FetchRequest, FetchResponse};

    use super::*;
    use crate::args::GlobalArgs;
    use crate::config::Settings;

    struct NoFetcher;

    #[async_trait::async_trait]
    impl SecretFetcher for NoFetcher {
        async fn fetch(&self, _: FetchRequest) -> Result<FetchResponse, FetchError> {
            panic!("the settings are checked without requests")
        }
    }

    /// The problem of these settings in a file; empty if they are valid.
    fn problem(file: &str, pairs: &[(&str, &str)], args: &SingleSignOnArgs) -> String {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("noetl.toml"), file).unwrap();
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = Environment::from_variables(pairs.iter().map(owned));
        let settings = match Settings::load(&GlobalArgs::default(), &environment, dir.path()) {
            Ok(settings) => settings,
            Err(error) => return error.message,
        };
        let built = settings.single_sign_on.build(args, Arc::new(NoFetcher));
        built.map_or_else(
            |error| error.message,
            |sign_on| if sign_on.is_some() { "" } else { "off" }.to_owned(),
        )
    }

    const COMPLETE: &str = "oidc_issuer = \"https://login.example\"\noidc_client_id = \"noetl\"\n\
        public_url = \"https://noetl.example\"\noidc_roles = { staff = \"viewer\" }\n";

    #[test]
    fn single_sign_on_is_off_without_settings_and_needs_all_of_them() {
        let args = SingleSignOnArgs::default();
        assert_eq!(problem("", &[], &args), "off");
        assert_eq!(problem(COMPLETE, &[], &args), "");
        for line in ["oidc_issuer", "oidc_client_id", "public_url", "oidc_roles"] {
            let others = COMPLETE.lines().filter(|other| !other.starts_with(line));
            let others: Vec<&str> = others.collect();
            let problem = problem(&others.join("\n"), &[], &args);
            assert!(problem.contains(line), "{problem}");
        }
    }

    #[test]
    fn variables_and_options_override_the_file() {
        let args = SingleSignOnArgs::default();
        let issuer = problem(COMPLETE, &[("NOETL_OIDC_ISSUER", "http://login.example")], &args);
        assert!(issuer.contains("`oidc_issuer`"), "{issuer}");
        let flagged = SingleSignOnArgs {
            oidc_issuer: Some("https://other.example".to_owned()),
            ..SingleSignOnArgs::default()
        };
        assert_eq!(
            problem(COMPLETE, &[("NOETL_OIDC_ISSUER", "http://login.example")], &flagged),
            ""
        );
        let roles = problem(COMPLETE, &[("NOETL_OIDC_ROLES", "cn=a=admin, b = viewer")], &args);
        assert_eq!(roles, "");
        for (variable, value) in [
            ("NOETL_OIDC_ROLES", "staff"),
            ("NOETL_OIDC_ROLES", "staff=king"),
            ("NOETL_OIDC_ROLES", "staff=worker"),
            ("NOETL_OIDC_SESSION", "13h"),
            ("NOETL_OIDC_SESSION", "long"),
            ("NOETL_OIDC_CLIENT_AUTH", "jwt"),
            ("NOETL_PUBLIC_URL", "noetl.example"),
        ] {
            let problem = problem(COMPLETE, &[(variable, value)], &args);
            let setting = variable.trim_start_matches("NOETL_").to_lowercase();
            assert!(
                problem.to_lowercase().contains(&setting),
                "{variable}={value}: {problem}"
            );
        }
    }

    #[test]
    fn the_client_secret_is_read_from_a_variable_or_a_file() {
        let args = SingleSignOnArgs::default();
        let with_auth = format!("{COMPLETE}oidc_client_auth = \"post\"\n");
        assert!(problem(&with_auth, &[], &args).contains("client secret"));
        assert_eq!(
            problem(&with_auth, &[("NOETL_OIDC_CLIENT_SECRET", "canary")], &args),
            ""
        );
        let missing = problem(COMPLETE, &[("NOETL_OIDC_CLIENT_SECRET_FILE", "/no/such/file")], &args);
        assert!(missing.contains("/no/such/file"), "{missing}");
        let empty = problem(COMPLETE, &[("NOETL_OIDC_CLIENT_SECRET_FILE", "/dev/null")], &args);
        assert!(empty.contains("empty"), "{empty}");
    }

    #[test]
    fn the_client_secret_is_not_printed() {
        let variables = [("NOETL_OIDC_CLIENT_SECRET".to_owned(), "canary".to_owned())];
        let environment = Environment::from_variables(variables);
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings::load(&GlobalArgs::default(), &environment, dir.path()).unwrap();
        assert!(!format!("{settings:?}").contains("canary"));
    }
}
