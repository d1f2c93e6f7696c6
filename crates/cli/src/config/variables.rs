//! The environment variables that NoETL reads. `Environment` returns only variables that are defined here.
//!
//! `cargo xtask docs` generates the tables of `docs/reference/configuration.md` from this file: one table for each
//! section, with the meaning and the default of each variable from its comment.

/// An environment variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable(&'static str);

impl Variable {
    /// Returns the name of the variable.
    pub(crate) fn name(self) -> &'static str {
        self.0
    }
}

/// All environment variables whose name starts with this text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VariablePrefix(&'static str);

impl VariablePrefix {
    /// Returns the text with which the names start.
    pub(crate) fn text(self) -> &'static str {
        self.0
    }
}

// Section: settings.

/// Overrides `store`; overridden by `--store`.
pub(crate) const STORE: Variable = Variable("NOETL_STORE");
/// Overrides `slots`; overridden by `--slots` of `run` and `worker`, `--local-slots` of `serve`.
pub(crate) const SLOTS: Variable = Variable("NOETL_SLOTS");
/// Overrides `color`; overridden by `--color`.
pub(crate) const COLOR: Variable = Variable("NOETL_COLOR");
/// Overrides `python`.
pub(crate) const PYTHON: Variable = Variable("NOETL_PYTHON");
/// Overrides `retention`; overridden by `--retention` of `serve` and `gc`.
pub(crate) const RETENTION: Variable = Variable("NOETL_RETENTION");
/// Overrides `sandbox`.
pub(crate) const SANDBOX: Variable = Variable("NOETL_SANDBOX");
/// Overrides `tools`; overridden by `--tools`.
pub(crate) const TOOLS_DIR: Variable = Variable("NOETL_TOOLS_DIR");
/// Overrides `server`; overridden by `--server`.
pub(crate) const SERVER: Variable = Variable("NOETL_SERVER");
/// Overrides `oidc_issuer`; overridden by `--oidc-issuer` of `serve`.
pub(crate) const OIDC_ISSUER: Variable = Variable("NOETL_OIDC_ISSUER");
/// Overrides `oidc_client_id`; overridden by `--oidc-client-id` of `serve`.
pub(crate) const OIDC_CLIENT_ID: Variable = Variable("NOETL_OIDC_CLIENT_ID");
/// Overrides `oidc_client_secret_file`; overridden by `--oidc-client-secret-file` of `serve`.
pub(crate) const OIDC_CLIENT_SECRET_FILE: Variable = Variable("NOETL_OIDC_CLIENT_SECRET_FILE");
/// Overrides `oidc_client_auth`.
pub(crate) const OIDC_CLIENT_AUTH: Variable = Variable("NOETL_OIDC_CLIENT_AUTH");
/// Overrides `oidc_roles`.
pub(crate) const OIDC_ROLES: Variable = Variable("NOETL_OIDC_ROLES");
/// Overrides `oidc_role_claim`.
pub(crate) const OIDC_ROLE_CLAIM: Variable = Variable("NOETL_OIDC_ROLE_CLAIM");
/// Overrides `oidc_scopes`.
pub(crate) const OIDC_SCOPES: Variable = Variable("NOETL_OIDC_SCOPES");
/// Overrides `oidc_name`.
pub(crate) const OIDC_NAME: Variable = Variable("NOETL_OIDC_NAME");
/// Overrides `oidc_session`.
pub(crate) const OIDC_SESSION: Variable = Variable("NOETL_OIDC_SESSION");
/// Overrides `public_url`; overridden by `--public-url` of `serve`.
pub(crate) const PUBLIC_URL: Variable = Variable("NOETL_PUBLIC_URL");

// Section: commands.

/// Access token; `--token-file` overrides it.
/// Default: none.
pub(crate) const TOKEN: Variable = Variable("NOETL_TOKEN");
/// Log filter, such as `info` or `server=debug`; it overrides `-v`, `-vv` and `-vvv`.
/// Default: no log.
pub(crate) const LOG: Variable = Variable("NOETL_LOG");
/// If it is set, no colors are used.
/// Default: not set.
pub(crate) const NO_COLOR: Variable = Variable("NO_COLOR");
/// If it is set to a value other than `false` and `0`, no colors and no cursor movement are used.
/// Default: not set.
pub(crate) const CI: Variable = Variable("CI");
/// Locale: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is set. Output is ASCII unless the locale is UTF-8.
/// Default: not set.
pub(crate) const LC_ALL: Variable = Variable("LC_ALL");
/// Locale, see `LC_ALL`.
/// Default: not set.
pub(crate) const LC_CTYPE: Variable = Variable("LC_CTYPE");
/// Locale, see `LC_ALL`.
/// Default: not set.
pub(crate) const LANG: Variable = Variable("LANG");
/// Program that opens a URL; `noetl open` tries it before those of the system.
/// Default: not set.
pub(crate) const BROWSER: Variable = Variable("BROWSER");
/// Base directory of your configuration: `config.toml` and `contexts.toml` are in `noetl` below it.
/// Default: `~/.config`.
pub(crate) const XDG_CONFIG_HOME: Variable = Variable("XDG_CONFIG_HOME");
/// Base directory of caches: the virtual environments of `python` tasks are in `noetl/python` below it.
/// Default: `~/.cache`.
pub(crate) const XDG_CACHE_HOME: Variable = Variable("XDG_CACHE_HOME");
/// Your home directory, `~` in this page.
/// Default: none.
pub(crate) const HOME: Variable = Variable("HOME");
/// Number of heaps of the C library.
/// Default: one for each core.
pub(crate) const MALLOC_ARENA_MAX: Variable = Variable("MALLOC_ARENA_MAX");
/// Settings of the C library; if it is set, NoETL does not set the number of heaps.
/// Default: not set.
pub(crate) const GLIBC_TUNABLES: Variable = Variable("GLIBC_TUNABLES");

// Section: credentials.

/// Key that encrypts credentials: 32 bytes in base64 or hex.
/// Default: in a local store, the generated file `master.key`.
pub(crate) const MASTER_KEY: Variable = Variable("NOETL_MASTER_KEY");
/// File with the key that encrypts credentials, if `NOETL_MASTER_KEY` is not set.
/// Default: none.
pub(crate) const MASTER_KEY_FILE: Variable = Variable("NOETL_MASTER_KEY_FILE");
/// Previous key, until `noetl secret rotate-key` has encrypted everything again.
/// Default: none.
pub(crate) const MASTER_KEY_OLD: Variable = Variable("NOETL_MASTER_KEY_OLD");
/// File with the previous key, if `NOETL_MASTER_KEY_OLD` is not set.
/// Default: none.
pub(crate) const MASTER_KEY_OLD_FILE: Variable = Variable("NOETL_MASTER_KEY_OLD_FILE");
/// Values that keychain entries of kind `env` can read.
/// Default: none.
pub(crate) const SECRETS: VariablePrefix = VariablePrefix("NOETL_SECRET_");
/// Directory that keychain entries of kind `file` can read.
/// Default: none.
pub(crate) const SECRETS_DIR: Variable = Variable("NOETL_SECRETS_DIR");
/// Address of the server for keychain entries of kind `vault`.
/// Default: none.
pub(crate) const VAULT_ADDR: Variable = Variable("NOETL_VAULT_ADDR");
/// Token for keychain entries of kind `vault`.
/// Default: none.
pub(crate) const VAULT_TOKEN: Variable = Variable("NOETL_VAULT_TOKEN");
/// If it is `allow`, a server can request tokens from endpoints at private addresses that its tasks cannot access.
/// Default: not set.
pub(crate) const TOKEN_ENDPOINTS_PRIVATE: Variable = Variable("NOETL_TOKEN_ENDPOINTS_PRIVATE");

/// Client secret of single sign-on; it overrides `oidc_client_secret_file`.
/// Default: none.
pub(crate) const OIDC_CLIENT_SECRET: Variable = Variable("NOETL_OIDC_CLIENT_SECRET");

// Section: network.

/// Private addresses that tasks can access, comma-separated: `db.corp`, `*.corp`, `10.0.0.0/8`, `127.0.0.1:9200`.
/// Default: none.
pub(crate) const HTTP_ALLOW: Variable = Variable("NOETL_HTTP_ALLOW");
/// PEM file of certificate authorities to trust in addition to those of the system.
/// Default: none.
pub(crate) const HTTP_CA: Variable = Variable("NOETL_HTTP_CA");
/// Maximum number of concurrent requests from one process to one host, 1 to 10,000.
/// Default: 32.
pub(crate) const HTTP_PER_HOST: Variable = Variable("NOETL_HTTP_PER_HOST");
/// Databases that `postgres` tasks can access although NoETL stores runs there; comma-separated names or
/// `host:port/name`.
/// Default: none.
pub(crate) const POSTGRES_ALLOW: Variable = Variable("NOETL_POSTGRES_ALLOW");

// Section: tools.

/// Path of the library for `duckdb` tasks.
/// Default: the usual names of the library.
pub(crate) const DUCKDB_LIB: Variable = Variable("NOETL_DUCKDB_LIB");
/// Directory of the extensions for `duckdb` tasks.
/// Default: the directory that the library selects.
pub(crate) const DUCKDB_EXTENSIONS: Variable = Variable("NOETL_DUCKDB_EXTENSIONS");
/// Memory limit of one database of `duckdb` tasks.
/// Default: 1 GiB.
pub(crate) const DUCKDB_MEMORY: Variable = Variable("NOETL_DUCKDB_MEMORY");
/// Thread limit of one database of `duckdb` tasks.
/// Default: 4.
pub(crate) const DUCKDB_THREADS: Variable = Variable("NOETL_DUCKDB_THREADS");
/// Directories in which programs are looked up.
/// Default: none.
pub(crate) const PATH: Variable = Variable("PATH");
/// Passed to `python` and `shell` tasks.
/// Default: none.
pub(crate) const TASK_VARIABLES: [Variable; 4] = [PATH, HOME, LANG, Variable("VIRTUAL_ENV")];
/// Passed only to pip.
/// Default: none.
pub(crate) const PIP_VARIABLES: [Variable; 26] = [
    Variable("PIP_CACHE_DIR"),
    Variable("PIP_CERT"),
    Variable("PIP_CLIENT_CERT"),
    Variable("PIP_CONFIG_FILE"),
    Variable("PIP_CONSTRAINT"),
    Variable("PIP_DEFAULT_TIMEOUT"),
    Variable("PIP_EXTRA_INDEX_URL"),
    Variable("PIP_FIND_LINKS"),
    Variable("PIP_INDEX_URL"),
    Variable("PIP_KEYRING_PROVIDER"),
    Variable("PIP_NO_BINARY"),
    Variable("PIP_NO_INDEX"),
    Variable("PIP_ONLY_BINARY"),
    Variable("PIP_PRE"),
    Variable("PIP_PREFER_BINARY"),
    Variable("PIP_PROXY"),
    Variable("PIP_RETRIES"),
    Variable("PIP_TRUSTED_HOST"),
    Variable("HTTP_PROXY"),
    Variable("HTTPS_PROXY"),
    Variable("NO_PROXY"),
    Variable("http_proxy"),
    Variable("https_proxy"),
    Variable("no_proxy"),
    Variable("SSL_CERT_FILE"),
    XDG_CONFIG_HOME,
];
/// Passed to the clients of Docker, Podman and Kubernetes that `container` tasks run.
/// Default: none.
pub(crate) const CONTAINER_VARIABLES: [Variable; 9] = [
    Variable("DOCKER_HOST"),
    Variable("DOCKER_CONTEXT"),
    Variable("DOCKER_CONFIG"),
    Variable("DOCKER_TLS_VERIFY"),
    Variable("DOCKER_CERT_PATH"),
    Variable("CONTAINER_HOST"),
    Variable("KUBECONFIG"),
    Variable("KUBERNETES_SERVICE_HOST"),
    Variable("KUBERNETES_SERVICE_PORT"),
];

// Section: stores.

/// Store for large results that name no store: `s3` (`minio`) or `gcs`.
/// Default: the server's own store.
pub(crate) const STORAGE_CLOUD_TIER: Variable = Variable("NOETL_STORAGE_CLOUD_TIER");
/// Directory of the disk cache; each process needs its own.
/// Default: no cache.
pub(crate) const STORAGE_CACHE_DIR: Variable = Variable("NOETL_STORAGE_LOCAL_CACHE_DIR");
/// Maximum size of the cache.
/// Default: `10GiB`.
pub(crate) const STORAGE_CACHE_BYTES: Variable = Variable("NOETL_STORAGE_LOCAL_CACHE_BYTES");
/// S3 bucket, which must exist.
/// Default: none.
pub(crate) const STORAGE_S3_BUCKET: Variable = Variable("NOETL_STORAGE_S3_BUCKET");
/// S3 endpoint, for example `http://minio:9000`.
/// Default: Amazon's.
pub(crate) const STORAGE_S3_ENDPOINT: Variable = Variable("NOETL_STORAGE_S3_ENDPOINT");
/// S3 region.
/// Default: `AWS_REGION`.
pub(crate) const STORAGE_S3_REGION: Variable = Variable("NOETL_STORAGE_S3_REGION");
/// S3 region and credentials, with the names of Amazon's tools: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, ….
/// Default: the role of the machine.
pub(crate) const AMAZON: VariablePrefix = VariablePrefix("AWS_");
/// Google Cloud Storage bucket, which must exist.
/// Default: none.
pub(crate) const STORAGE_GCS_BUCKET: Variable = Variable("NOETL_STORAGE_GCS_BUCKET");
/// Endpoint of an emulator in tests; used without credentials unless some are set.
/// Default: Google's.
pub(crate) const STORAGE_GCS_ENDPOINT: Variable = Variable("NOETL_STORAGE_GCS_ENDPOINT");
/// File with the credentials for Google Cloud Storage.
/// Default: the account of the machine.
pub(crate) const GOOGLE_CREDENTIALS: Variable = Variable("GOOGLE_APPLICATION_CREDENTIALS");
/// NATS server for large results: `nats://user:password@host:4222`.
/// Default: none.
pub(crate) const STORAGE_NATS_URL: Variable = Variable("NOETL_STORAGE_NATS_URL");
/// Name of the NATS buckets, which are created when they are needed.
/// Default: `noetl-bodies`.
pub(crate) const STORAGE_NATS_BUCKET: Variable = Variable("NOETL_STORAGE_NATS_BUCKET");
/// Directory of the store `pvc`, shared by all processes.
/// Default: none.
pub(crate) const STORAGE_DIR: Variable = Variable("NOETL_STORAGE_DIR");
/// How long a bucket or NATS may send no data before a request is retried.
/// Default: `15s`.
pub(crate) const STORAGE_TIMEOUT: Variable = Variable("NOETL_STORAGE_TIMEOUT");
