//! Single sign-on with `OpenID` Connect: the authorization code flow with PKCE, against one provider.
//!
//! Enter: the configuration, and what the browser brings back from the provider. Leave: the address to which the
//! browser goes, and a `SignedInUser` whose ID token was checked. `api/single_sign_on.rs` has the routes.

mod cache;
mod config;
mod discovery;
mod error;
mod id_token;
mod key_set;
mod pending_sign_in;
mod provider;
mod signed_token;
mod url;
mod user;

pub use config::{ClientAuth, ClientSecret, OidcConfig, OidcConfigError, SESSION_MAX, SingleSignOn};
pub(crate) use error::{SignInError, SignInFailureKind, short_text};
pub(crate) use pending_sign_in::{PendingSignIn, ReturnPath, SIGN_IN_DURATION};
pub(crate) use provider::AuthorizationCode;
pub(crate) use url::encode_component;
pub(crate) use user::SignedInUser;
