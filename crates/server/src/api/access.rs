//! Authorization. Every handler takes an [`Authorized`] with its action, so that a missing check does not compile.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use model::time::Time;
use sha2::{Digest, Sha256};
use store::{AccessTokenId, AccessTokenRow, AuditEntry, AuditOutcome, Store};
use tokio::time::Instant;
use wire::api::Role;

use crate::access_tokens::Actor;
use crate::api::error::ApiError;
use crate::api::listen::ClientPeer;
use crate::api::state::ApiState;
use crate::api::web_session::{CLIENT_HEADER, SessionUser, WebSessionHolder, cookie_text};

/// Prefix of every access token.
const TOKEN_PREFIX: &str = "noetl_pat_";
/// How long a lookup is cached; a revoked token or an ended session works for at most this long.
const CACHE_TTL: Duration = Duration::from_secs(2);
/// How many failed authentications of one address per minute are recorded in the audit log; further ones are rejected
/// without a record.
const FAILURES_MAX: u32 = 20;
const FAILURES_WITHIN: Duration = Duration::from_secs(60);
/// Maximum number of addresses that are counted.
const ADDRESSES_MAX: usize = 10_000;

/// Whether access tokens are required.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessMode {
    /// Everyone who can connect may do everything; for loopback addresses.
    Open,
    /// An access token is always required.
    Tokens,
}

/// A permission that a request needs.
pub(crate) trait Permission: Send + Sync + 'static {
    /// Whether a token with this role has the permission.
    fn allows(role: Role) -> bool;
    /// The lowest role with the permission.
    const NEEDS: &str;
    /// Whether only servers of the same cluster have it.
    const IS_CLUSTER_ONLY: bool = false;
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident $needs:literal |$role:ident| $allows:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $name;
            impl Permission for $name {
                fn allows($role: Role) -> bool { $allows }
                const NEEDS: &str = $needs;
            }
        )*
    };
}

actions! {
    /// Read runs and playbooks.
    View "viewer" |role| role >= Role::Viewer;
    /// Start and control runs.
    Operate "operator" |role| role >= Role::Operator;
    /// Register playbooks.
    Author "author" |role| role >= Role::Author;
    /// Manage access tokens and credentials.
    Administer "admin" |role| role == Role::Admin;
    /// Claim commands and report on them.
    Work "worker" |role| role == Role::Worker || role == Role::Admin;
}

/// Act as another server of the cluster.
pub(crate) struct ClusterPeer;

impl Permission for ClusterPeer {
    fn allows(_role: Role) -> bool {
        false
    }
    const NEEDS: &str = "server";
    const IS_CLUSTER_ONLY: bool = true;
}

/// The authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Principal {
    /// Any caller; no token is required.
    Anyone,
    /// The holder of an access token.
    Token {
        /// ID of the token.
        id: AccessTokenId,
        /// Name of the token.
        name: String,
        /// Role of the token.
        role: Role,
    },
    /// A person whom the identity provider signed in.
    User(Arc<SessionUser>),
    /// Another server on the same store.
    Server,
}

impl Principal {
    /// Name in the audit log.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Anyone => "anyone".to_owned(),
            Self::Token { id, name, .. } => format!("{name} ({id})"),
            Self::User(user) => user.to_string(),
            Self::Server => "server".to_owned(),
        }
    }

    fn has_permission<A: Permission>(&self) -> bool {
        match self {
            Self::Anyone => true,
            Self::Server => A::IS_CLUSTER_ONLY || A::allows(Role::Worker),
            Self::Token { role, .. } => A::allows(*role),
            Self::User(user) => A::allows(user.role),
        }
    }
}

/// Proof that the caller has the permission `A`.
pub(crate) struct Authorized<A> {
    /// The caller.
    pub(crate) principal: Principal,
    permission: PhantomData<A>,
}

impl<A: Permission> Authorized<A> {
    /// Checks another permission that the body of the request turns out to need.
    pub(crate) fn check_also<B: Permission>(&self) -> Result<(), ApiError> {
        if self.principal.has_permission::<B>() {
            Ok(())
        } else {
            Err(forbidden::<B>())
        }
    }
}

/// An authorized admin, for a request that the audit log records.
pub(crate) struct AuditedAdmin(pub(crate) Actor);

fn forbidden<A: Permission>() -> ApiError {
    let detail = format!("this request needs the role `{}`", A::NEEDS);
    ApiError::new(StatusCode::FORBIDDEN, "FORBIDDEN", detail)
        .with_remedy("use a token with that role: `noetl token create NAME --role ROLE`")
}

impl<A: Permission> FromRequestParts<ApiState> for Authorized<A> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> Result<Self, ApiError> {
        let principal = identify(parts, api).await?;
        if !principal.has_permission::<A>() {
            audit_denial(parts, api, &principal.name()).await;
            return Err(forbidden::<A>());
        }
        Ok(Self {
            principal,
            permission: PhantomData,
        })
    }
}

impl FromRequestParts<ApiState> for AuditedAdmin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> Result<Self, ApiError> {
        let caller = Authorized::<Administer>::from_request_parts(parts, api).await?;
        Ok(Self(Actor {
            name: caller.principal.name(),
            source: source_address(parts),
        }))
    }
}

/// The caller of a request, by its access token or the session of the web client.
pub(crate) async fn identify(parts: &Parts, api: &ApiState) -> Result<Principal, ApiError> {
    let Some(header) = parts.headers.get(AUTHORIZATION) else {
        return match api.access {
            AccessMode::Open => Ok(Principal::Anyone),
            AccessMode::Tokens => identify_by_session(parts, api).await,
        };
    };
    match bearer_token(header.to_str().unwrap_or("")) {
        Some(token) => check_token(parts, api, token).await,
        None => Err(unauthenticated("an access token is required")),
    }
}

/// The caller whose session is in the cookie of a request.
async fn identify_by_session(parts: &Parts, api: &ApiState) -> Result<Principal, ApiError> {
    let Some(text) = cookie_text(&parts.headers) else {
        return Err(unauthenticated("an access token is required"));
    };
    // Browsers add cookies to requests of other sites; only the client itself can add this header.
    if !parts.method.is_safe() && !parts.headers.contains_key(CLIENT_HEADER) {
        let detail = "a request with a session cookie needs the header `X-Noetl-Client`";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "CLIENT_HEADER_MISSING", detail)
            .with_remedy("send `X-Noetl-Client: web`, or an access token instead of the cookie"));
    }
    let ended = || unauthenticated("the session has expired or ended");
    let digest = token_digest(text);
    let holder = if let Some(holder) = api.tokens.sessions.get(&digest) {
        holder
    } else {
        let session = api.find_web_session(&parts.headers).await?.ok_or_else(ended)?;
        api.tokens.sessions.insert(digest, session.holder.clone());
        session.holder
    };
    let principal = match holder {
        WebSessionHolder::Token(hash) => api.tokens.find(&**api.store(), &hash).await?,
        WebSessionHolder::User(user) => Some(Principal::User(user)),
    };
    principal.ok_or_else(ended)
}

/// The holder of an access token. Counts and records failures.
pub(crate) async fn check_token(parts: &Parts, api: &ApiState, token: &str) -> Result<Principal, ApiError> {
    if api
        .cluster_secret_hash
        .as_ref()
        .is_some_and(|secret| *secret == token_digest(token))
    {
        return Ok(Principal::Server);
    }
    match api.tokens.find(&**api.store(), &token_digest(token)).await? {
        Some(principal) => Ok(principal),
        None if api.access == AccessMode::Open => Ok(Principal::Anyone),
        // Only invalid tokens are rate limited: behind a proxy, holders of valid tokens have the same address.
        None if !record_failure(parts, api) => {
            let status = StatusCode::TOO_MANY_REQUESTS;
            let detail = "rate limited: too many failed authentication attempts from this address";
            Err(ApiError::new(status, "TOO_MANY_FAILURES", detail)
                .with_remedy("use a valid access token, or retry in a minute"))
        }
        None => {
            audit_denial(parts, api, "unknown token").await;
            Err(unauthenticated("the access token is unknown, expired or revoked"))
        }
    }
}

/// Counts a failed attempt to authenticate from the address of a request. Returns false if there were too many.
pub(crate) fn record_failure(parts: &Parts, api: &ApiState) -> bool {
    let peer = parts.extensions.get::<ConnectInfo<ClientPeer>>();
    peer.is_none_or(|ConnectInfo(peer)| api.tokens.record_failure(peer.address.ip()))
}

fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

pub(crate) fn unauthenticated(detail: &str) -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
        .with_remedy("send `Authorization: Bearer TOKEN`; an admin creates one with `noetl token create`")
}

async fn audit_denial(parts: &Parts, api: &ApiState, caller: &str) {
    let entry = AuditEntry {
        actor: caller.to_owned(),
        action: "api.call".into(),
        resource: format!("{} {}", parts.method, parts.uri.path()),
        outcome: AuditOutcome::Denied,
        source: source_address(parts),
        detail: None,
    };
    if let Err(error) = api.store().add_audit_entry(entry).await {
        tracing::warn!(%error, "failed to record a denied request in the audit log");
    }
}

/// Remote address of a request, for the audit log.
pub(crate) fn source_address(parts: &Parts) -> Option<String> {
    let peer = parts.extensions.get::<ConnectInfo<ClientPeer>>();
    peer.map(|ConnectInfo(peer)| peer.address.to_string())
}

/// SHA-256 of a token; only the hash is stored and compared.
pub(crate) fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Lookups by the digest of a text, for a short time.
struct LookupCache<V>(Mutex<HashMap<[u8; 32], (Instant, V)>>);

impl<V> Default for LookupCache<V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<V: Clone> LookupCache<V> {
    fn entries(&self) -> MutexGuard<'_, HashMap<[u8; 32], (Instant, V)>> {
        self.0.lock().expect("no holder of a lookup cache lock panics")
    }

    fn get(&self, digest: &[u8; 32]) -> Option<V> {
        let entries = self.entries();
        let (since, value) = entries.get(digest)?;
        (since.elapsed() < CACHE_TTL).then(|| value.clone())
    }

    fn insert(&self, digest: [u8; 32], value: V) {
        let mut entries = self.entries();
        entries.retain(|_, (since, _)| since.elapsed() < CACHE_TTL);
        entries.insert(digest, (Instant::now(), value));
    }
}

/// Cached lookups of tokens and sessions, and failed attempts by address.
#[derive(Default)]
pub(crate) struct AccessTokenCache {
    tokens: LookupCache<Principal>,
    /// The holder of each session, apart from the tokens: the text of a cookie must not work as a token.
    sessions: LookupCache<WebSessionHolder>,
    failures: Mutex<HashMap<IpAddr, (Instant, u32)>>,
}

impl AccessTokenCache {
    /// The holder of the token with this hash, if it is valid.
    async fn find(&self, store: &dyn Store, hash: &[u8; 32]) -> Result<Option<Principal>, ApiError> {
        if let Some(principal) = self.tokens.get(hash) {
            return Ok(Some(principal));
        }
        let Some(row) = store.token_by_hash(hash).await? else {
            return Ok(None);
        };
        if !is_live(&row, store.now()) {
            return Ok(None);
        }
        let Ok(role) = row.role.as_str().parse() else {
            return Ok(None);
        };
        if let Err(error) = store.touch_token(row.id).await {
            tracing::debug!(%error, "failed to record the last use of a token");
        }
        let principal = Principal::Token {
            id: row.id,
            name: row.name,
            role,
        };
        self.tokens.insert(*hash, principal.clone());
        Ok(Some(principal))
    }

    /// Clears the lookups after a token was revoked or a session has ended.
    pub(crate) fn clear(&self) {
        self.tokens.entries().clear();
        self.sessions.entries().clear();
    }

    /// Counts a failed attempt of an address. Returns false if it has made too many recently.
    fn record_failure(&self, address: IpAddr) -> bool {
        let mut failures = self.failures.lock().expect("no holder of the failures lock panics");
        failures.retain(|_, (since, _)| since.elapsed() < FAILURES_WITHIN);
        if failures.len() >= ADDRESSES_MAX && !failures.contains_key(&address) {
            let oldest = failures.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(oldest) = oldest.map(|(address, _)| *address) {
                failures.remove(&oldest);
            }
        }
        let (_, count) = failures.entry(address).or_insert((Instant::now(), 0));
        *count = count.saturating_add(1);
        *count <= FAILURES_MAX
    }
}

/// Whether a token is valid at this time.
pub(crate) fn is_live(row: &AccessTokenRow, now: Time) -> bool {
    row.revoked_at.is_none() && row.expires_at.is_none_or(|expires| now < expires)
}

/// ID of a token, derived from its hash, so that two servers that register the same token store it once.
fn access_token_id(hash: &[u8; 32]) -> AccessTokenId {
    let head: [u8; 8] = hash[..8].try_into().expect("a hash has 32 bytes");
    AccessTokenId(i64::from_be_bytes(head) & i64::MAX)
}

/// A new token: its text, which is shown once, and the row to store.
pub(crate) struct GeneratedAccessToken {
    pub(crate) text: String,
    pub(crate) row: AccessTokenRow,
}

/// Generates a token.
pub(crate) fn generate_access_token(
    name: &str,
    role: Role,
    now: Time,
    expires_in: Option<Duration>,
) -> GeneratedAccessToken {
    let mut bytes = [0_u8; 32];
    rand::fill(&mut bytes);
    let text = format!("{TOKEN_PREFIX}{}", hex::encode(bytes));
    let hash = token_digest(&text);
    let row = AccessTokenRow {
        id: access_token_id(&hash),
        name: name.to_owned(),
        hash,
        role: role.to_string().into(),
        created_at: now,
        expires_at: expires_in.map(|span| now.after(span)),
        last_used_at: None,
        revoked_at: None,
    };
    GeneratedAccessToken { text, row }
}

/// The admin token of a store, if this start created it.
#[derive(Clone)]
pub struct AdminToken(String);

impl AdminToken {
    /// The token, to be shown or written once.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// Creates the first admin token of a store that has no valid one.
pub(crate) async fn create_first_admin(store: &dyn Store) -> Result<Option<AdminToken>, store::Error> {
    let now = store.now();
    let admin = Role::Admin.to_string();
    let tokens = store.tokens().await?;
    let is_admin = |row: &AccessTokenRow| row.role.as_str() == admin && is_live(row, now);
    if tokens.iter().any(is_admin) {
        return Ok(None);
    }
    let generated = generate_access_token("admin", Role::Admin, now, None);
    store.put_token(generated.row).await?;
    Ok(Some(AdminToken(generated.text)))
}

/// Registers a token that was created elsewhere, for example one in a file that servers share.
pub(crate) async fn store_admin_token(store: &dyn Store, text: &str) -> Result<(), store::Error> {
    let hash = token_digest(text.trim());
    if store.token_by_hash(&hash).await?.is_some() {
        return Ok(());
    }
    let row = AccessTokenRow {
        id: access_token_id(&hash),
        name: "admin".to_owned(),
        hash,
        role: Role::Admin.to_string().into(),
        created_at: store.now(),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
    };
    store.put_token(row).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_permissions() {
        let permissions = |role| {
            [
                View::allows(role),
                Operate::allows(role),
                Author::allows(role),
                Administer::allows(role),
                Work::allows(role),
                ClusterPeer::allows(role),
            ]
        };
        assert_eq!(permissions(Role::Worker), [false, false, false, false, true, false]);
        assert_eq!(permissions(Role::Viewer), [true, false, false, false, false, false]);
        assert_eq!(permissions(Role::Operator), [true, true, false, false, false, false]);
        assert_eq!(permissions(Role::Author), [true, true, true, false, false, false]);
        assert_eq!(permissions(Role::Admin), [true, true, true, true, true, false]);
    }

    #[test]
    fn only_a_bearer_is_a_token() {
        assert_eq!(bearer_token("Bearer abc"), Some("abc"));
        assert_eq!(bearer_token("bearer  abc "), Some("abc"));
        assert_eq!(bearer_token("Basic abc"), None);
        assert_eq!(bearer_token("Bearer "), None);
        assert_eq!(bearer_token("abc"), None);
    }

    #[test]
    fn generated_tokens_differ_and_only_their_hash_is_stored() {
        let first_token = generate_access_token("a", Role::Viewer, Time(0), Some(Duration::from_secs(5)));
        let second_token = generate_access_token("a", Role::Viewer, Time(0), None);
        assert_ne!(first_token.text, second_token.text);
        assert_eq!(first_token.row.hash, token_digest(&first_token.text));
        assert!(is_live(&first_token.row, Time(4_999_999)));
        assert!(!is_live(&first_token.row, Time(5_000_000)));
    }
}
