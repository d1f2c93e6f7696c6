//! The command line of processes that stay, and of what they do by themselves.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration;

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "HOST:PORT")]
    pub(crate) listen: String,
    /// How many tasks this process runs itself; 0 leaves all work to `noetl worker` [default: 32, with Postgres 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub(crate) local_slots: Option<u32>,
    /// Publish every event here, and wake workers through it
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// The certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Something in front of this server speaks TLS for it
    #[arg(long, conflicts_with = "tls_cert")]
    pub(crate) behind_tls_proxy: bool,
    /// A name that clients call this server by; several with commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// The URL under which other servers on the same Postgres reach this one [default: the address listened on]
    #[arg(long, value_name = "URL")]
    pub(crate) advertise: Option<String>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
    /// How long after a run's end its results are kept [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) retention: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Where `serve` would listen
    #[arg(long, default_value = "127.0.0.1:8082", value_name = "HOST:PORT")]
    pub(crate) listen: String,
}

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Remove nothing; say what would be removed
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long after a run's end its results are kept [default: 30d]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) retention: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The worker's name; each live worker needs its own [default: host, process and a random number]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The pool to serve
    #[arg(long, default_value = "default", value_name = "NAME")]
    pub(crate) pool: String,
    /// How many tasks run at once [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// Take only steps whose tasks are all of these kinds; several with commas
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) kinds: Vec<String>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
}
