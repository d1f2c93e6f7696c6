//! Sign-in of the web client: the session of the caller, and single sign-on.

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::Role;

/// A session of the web client to start.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignInRequest {
    /// An access token.
    pub token: String,
}

/// Whether callers must sign in, and who is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CallerSession {
    /// Whether callers must sign in.
    pub auth: SignInMode,
    /// Role of the caller; null if the caller must sign in.
    pub role: Option<Role>,
    /// Name of the access token or of the person.
    pub name: Option<String>,
    /// Version of the server.
    pub version: String,
    /// When the session ends.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Time>,
    /// The identity provider for single sign-on; absent if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_sign_on: Option<SignInProvider>,
}

/// Whether callers must sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignInMode {
    /// Everyone who can connect may do everything.
    Open,
    /// An access token or a session is required.
    Required,
}

/// An identity provider for single sign-on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInProvider {
    /// Its name.
    pub name: String,
}

/// Why a sign-in at the identity provider failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInFailure {
    /// Stable code.
    pub code: String,
    /// What failed.
    pub detail: String,
    /// What to do.
    pub remedy: String,
}
