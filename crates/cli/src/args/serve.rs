//! Arguments of `serve` and `worker`, and of `doctor` and `gc`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse_duration;

/// Address on which a server listens by default.
pub(crate) const DEFAULT_LISTEN: &str = "127.0.0.1:8082";

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "HOST:PORT")]
    pub(crate) listen: String,
    /// Number of steps this server runs itself; 0 leaves all work to workers [default: 32, or 0 with Postgres]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) local_slots: Option<u32>,
    /// NATS URL: publish every event to JetStream and notify servers and workers
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// PEM file with the TLS certificate chain
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// PEM file with the private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A reverse proxy in front of this server terminates TLS
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_tls_proxy: bool,
    /// Host names to accept in the Host header, comma-separated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) single_sign_on: SingleSignOnArgs,
    /// URL at which other servers on the same Postgres can reach this one [default: the listen address]
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
    /// How long results are kept after the end of their run [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) retention: Option<Duration>,
}

/// Options of single sign-on.
#[derive(Debug, Default, Args)]
pub(crate) struct SingleSignOnArgs {
    /// URL at which browsers reach this server; single sign-on needs it
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// URL of the identity provider for single sign-on
    #[arg(long, value_name = "URL")]
    pub(crate) oidc_issuer: Option<String>,
    /// ID of NoETL at the identity provider
    #[arg(long, value_name = "ID")]
    pub(crate) oidc_client_id: Option<String>,
    /// File with the client secret
    #[arg(long, value_name = "FILE")]
    pub(crate) oidc_client_secret_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Address that `serve` will listen on
    #[arg(long, default_value = DEFAULT_LISTEN, value_name = "HOST:PORT")]
    pub(crate) listen: String,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Print what would be deleted without deleting it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long results are kept after the end of their run [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) retention: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Worker name, unique among live workers [default: host name, process ID and a random number]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Worker pool to join
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) pool: String,
    /// Maximum number of steps to run at once [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// Only run steps whose tasks all use these tool kinds, comma-separated
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
}
