//! Valid and invalid settings.

use async_trait::async_trait;

use super::*;
use crate::keychain::{FetchError, FetchRequest, FetchResponse};

struct NoFetcher;

#[async_trait]
impl SecretFetcher for NoFetcher {
    async fn fetch(&self, _: FetchRequest) -> Result<FetchResponse, FetchError> {
        panic!("the configuration is checked without requests")
    }
}

fn config() -> OidcConfig {
    OidcConfig {
        issuer: "https://login.example/realms/main".to_owned(),
        client_id: "noetl".to_owned(),
        client_secret: None,
        client_auth: None,
        public_url: "https://noetl.example/tools/".to_owned(),
        name: "Example".to_owned(),
        scopes: vec!["profile".to_owned()],
        role_claim: "groups".to_owned(),
        roles: BTreeMap::from([("staff".to_owned(), Role::Viewer)]),
        session: Duration::from_secs(3_600),
        fetcher: Arc::new(NoFetcher),
    }
}

fn invalid_setting(change: impl FnOnce(&mut OidcConfig)) -> &'static str {
    let mut config = config();
    change(&mut config);
    SingleSignOn::new(config).err().map_or("", |error| error.setting)
}

#[test]
fn a_slash_at_the_end_of_the_public_url_is_optional() {
    let sign_on = SingleSignOn::new(config()).unwrap();
    assert_eq!(sign_on.page_url("/runs"), "https://noetl.example/tools/runs");
    assert_eq!(
        (sign_on.public_path(), sign_on.public_host()),
        ("/tools", "noetl.example")
    );
    let redirect = "https://noetl.example/tools/api/session/oidc/callback";
    assert_eq!(sign_on.config.redirect_url(), redirect);
    assert!(sign_on.is_encrypted());
}

#[test]
fn an_invalid_setting_is_named() {
    assert_eq!(invalid_setting(|_| {}), "");
    for url in [
        "",
        "login.example",
        "http://login.example",
        "https://a/?b=c",
        "https://u:p@a",
    ] {
        assert_eq!(invalid_setting(|config| config.issuer = url.to_owned()), "oidc_issuer");
        assert_eq!(
            invalid_setting(|config| config.public_url = url.to_owned()),
            "public_url"
        );
    }
    assert_eq!(invalid_setting(|config| config.client_id.clear()), "oidc_client_id");
    let empty = Some(ClientSecret::new(" \n"));
    assert_eq!(
        invalid_setting(|config| config.client_secret = empty),
        "oidc_client_secret_file"
    );
    let auth = Some(ClientAuth::Post);
    assert_eq!(invalid_setting(|config| config.client_auth = auth), "oidc_client_auth");
    assert_eq!(invalid_setting(|config| config.name = " ".to_owned()), "oidc_name");
    assert_eq!(
        invalid_setting(|config| config.scopes.push("a b".to_owned())),
        "oidc_scopes"
    );
    assert_eq!(invalid_setting(|config| config.role_claim.clear()), "oidc_role_claim");
    assert_eq!(invalid_setting(|config| config.roles.clear()), "oidc_roles");
    let worker = |config: &mut OidcConfig| config.roles.extend([("bots".to_owned(), Role::Worker)]);
    assert_eq!(invalid_setting(worker), "oidc_roles");
    assert_eq!(
        invalid_setting(|config| config.session = Duration::ZERO),
        "oidc_session"
    );
    assert_eq!(
        invalid_setting(|config| config.session = SESSION_MAX * 2),
        "oidc_session"
    );
}

#[test]
fn other_rules_for_roles_have_another_fingerprint() {
    let fingerprint = |change: fn(&mut OidcConfig)| {
        let mut config = config();
        change(&mut config);
        SingleSignOn::new(config).unwrap().fingerprint().to_string()
    };
    let same = fingerprint(|_| {});
    assert_eq!(same, fingerprint(|config| config.name = "Other".to_owned()));
    assert_ne!(same, fingerprint(|config| config.issuer.push('2')));
    assert_ne!(
        same,
        fingerprint(|config| config.roles.extend([("ops".to_owned(), Role::Admin)]))
    );
}

#[test]
fn a_secret_is_not_printed() {
    assert_eq!(format!("{:?}", ClientSecret::new("canary")), "***");
}
