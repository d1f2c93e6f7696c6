//! Arguments of `noetl secret`.

use clap::Subcommand;

/// Subcommands of `noetl secret`.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretVerb {
    /// Create or update a credential; its values are stored encrypted and cannot be read back
    Set {
        /// Name that playbooks use
        name: String,
        #[arg(
            long = "type",
            value_name = "TYPE",
            help = "Credential type: postgres, bearer, basic, api_key …"
        )]
        kind: String,
        /// JSON or YAML file with the fields of the credential
        #[arg(long, value_name = "FILE", required_unless_present = "data")]
        file: Option<String>,
        /// Fields of the credential as JSON, or `-` to read them from standard input
        #[arg(long, value_name = "JSON", conflicts_with = "file")]
        data: Option<String>,
    },
    /// List credentials without their values
    List,
    /// Remove a credential
    Rm {
        /// Credential name
        name: String,
    },
    /// Re-encrypt all credentials with a new master key
    RotateKey,
}
