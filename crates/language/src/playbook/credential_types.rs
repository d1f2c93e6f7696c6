//! The credential types that the built-in tasks know, with their usual fields, for forms.
//!
//! A credential may have any type and any fields; this table only describes what the tasks read.

use crate::playbook::credentials::is_public_field;

/// A credential type.
#[derive(Debug, Clone, Copy)]
pub struct CredentialTypeSpec {
    /// The value of `type`.
    pub name: &'static str,
    /// What it is for.
    pub description: &'static str,
    /// Its usual fields.
    pub fields: &'static [CredentialFieldSpec],
}

/// A field of a credential.
#[derive(Debug, Clone, Copy)]
pub struct CredentialFieldSpec {
    /// Its key in `data`.
    pub name: &'static str,
    /// What it contains.
    pub description: &'static str,
    /// Whether tasks need it.
    pub is_required: bool,
    /// Whether its value usually has several lines.
    pub is_multiline: bool,
}

impl CredentialFieldSpec {
    /// Whether its value is masked in the output of tasks.
    pub fn is_secret(&self) -> bool {
        !is_public_field(self.name)
    }
}

const fn required(name: &'static str, description: &'static str) -> CredentialFieldSpec {
    CredentialFieldSpec {
        name,
        description,
        is_required: true,
        is_multiline: false,
    }
}

const fn optional(name: &'static str, description: &'static str) -> CredentialFieldSpec {
    CredentialFieldSpec {
        name,
        description,
        is_required: false,
        is_multiline: false,
    }
}

const fn multiline(field: CredentialFieldSpec) -> CredentialFieldSpec {
    CredentialFieldSpec {
        is_multiline: true,
        ..field
    }
}

/// The types, the most common first.
pub const CREDENTIAL_TYPES: &[CredentialTypeSpec] = &[
    CredentialTypeSpec {
        name: "bearer",
        description: "A token in the Authorization header of http tasks",
        fields: &[required("token", "Token")],
    },
    CredentialTypeSpec {
        name: "basic",
        description: "User name and password of http tasks; use the type digest for HTTP Digest",
        fields: &[required("username", "User name"), required("password", "Password")],
    },
    CredentialTypeSpec {
        name: "digest",
        description: "User name and password of http tasks, for HTTP Digest",
        fields: &[required("username", "User name"), required("password", "Password")],
    },
    CredentialTypeSpec {
        name: "api_key",
        description: "A key in a header or query parameter of http tasks",
        fields: &[
            required("value", "Key"),
            optional(
                "header",
                "Name of the header or parameter. Default: X-API-Key, or api_key in a query",
            ),
            optional("in", "Location: header or query. Default: header"),
        ],
    },
    CredentialTypeSpec {
        name: "oauth2",
        description: "An OAuth 2 token that http tasks request with client credentials",
        fields: &[
            required("token_url", "URL of the token endpoint"),
            required("client_id", "Client ID"),
            required("client_secret", "Client secret"),
            optional("scope", "Scope"),
            optional("audience", "Audience"),
            optional("refresh_token", "Refresh token"),
        ],
    },
    CredentialTypeSpec {
        name: "postgres",
        description: "A Postgres database",
        fields: &[
            required("db_host", "Host"),
            optional("db_port", "Port. Default: 5432"),
            required("db_user", "User"),
            required("db_password", "Password"),
            required("db_name", "Database"),
            optional("sslmode", "TLS: disable, prefer, require, verify-ca or verify-full"),
        ],
    },
    CredentialTypeSpec {
        name: "s3",
        description: "A bucket in S3 or a compatible store",
        fields: &[
            required("access_key_id", "Access key ID"),
            required("secret_access_key", "Secret access key"),
            optional("region", "Region"),
            optional("endpoint", "URL of a compatible store"),
            optional("session_token", "Session token"),
        ],
    },
    CredentialTypeSpec {
        name: "gcs",
        description: "A bucket in Google Cloud Storage",
        fields: &[multiline(required("service_account", "Service account key as JSON"))],
    },
    CredentialTypeSpec {
        name: "nats",
        description: "A NATS server; with a user and password, a token or a credentials file",
        fields: &[
            required("nats_url", "URL: nats://HOST:PORT"),
            optional("user", "User"),
            optional("password", "Password"),
            optional("token", "Token"),
            multiline(optional("creds", "Text of a credentials file")),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_name_of_its_own_and_a_required_field() {
        let mut names: Vec<&str> = CREDENTIAL_TYPES.iter().map(|credential| credential.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CREDENTIAL_TYPES.len());
        for credential in CREDENTIAL_TYPES {
            assert!(
                credential.fields.iter().any(|field| field.is_required),
                "{}",
                credential.name
            );
        }
    }

    #[test]
    fn passwords_are_secret_and_hosts_are_not() {
        let postgres = CREDENTIAL_TYPES
            .iter()
            .find(|credential| credential.name == "postgres")
            .unwrap();
        let secret: Vec<&str> = postgres
            .fields
            .iter()
            .filter(|field| field.is_secret())
            .map(|field| field.name)
            .collect();
        assert_eq!(secret, ["db_password"]);
    }
}
