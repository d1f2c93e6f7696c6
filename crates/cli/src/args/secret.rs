//! The command line of credentials.

use clap::Subcommand;

/// What to do with credentials.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Set a credential; what it opens with is sealed and never shown again
    Set {
        /// What playbooks call it
        name: String,
        /// What it opens: postgres, bearer, basic, `api_key` …
        #[arg(long = "type", value_name = "TYPE")]
        kind: String,
        /// A file with what it opens with, a map in JSON or YAML
        #[arg(long, value_name = "FILE", required_unless_present = "data")]
        file: Option<String>,
        /// The map itself in JSON, or `-` to read it from standard input
        #[arg(long, value_name = "JSON", conflicts_with = "file")]
        data: Option<String>,
    },
    /// List credentials, without what they open with
    List,
    /// Remove a credential
    Rm {
        /// Its name
        name: String,
    },
    /// Seal every credential under a new master key
    RotateKey,
}
