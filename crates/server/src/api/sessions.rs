//! Session secrets: a worker gets one at registration and sends it with each call, so that no other client can call
//! under its name.
//!
//! A secret is the ID of a session plus a keyed hash of that ID, the worker's name and the access token. Every server
//! on the store can verify it without a lookup. Clients without a secret are distinguished by their access tokens.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use model::id::WorkerId;
use ring::hmac;
use store::SessionHolder;
use wire::SESSION_HEADER;

use crate::api::access::{Authorized, Principal, Work};
use crate::api::error::ApiError;
use crate::api::state::ApiState;
use crate::sessions;

/// Prefix of the hashed bytes, so that no other hash with the same key is a valid secret.
const PURPOSE: &[u8] = b"worker session\0";

/// An authorized worker with the session secret that it sent.
pub(crate) struct WorkerCaller {
    /// The caller.
    pub(crate) principal: Principal,
    secret: Option<String>,
}

impl FromRequestParts<ApiState> for WorkerCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &ApiState) -> Result<Self, ApiError> {
        let caller = Authorized::<Work>::from_request_parts(parts, api).await?;
        let secret = parts.headers.get(SESSION_HEADER);
        let secret = secret.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Ok(Self {
            principal: caller.principal,
            secret,
        })
    }
}

/// Owner of the session under a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionOwner {
    Caller,
    Nobody,
    Another,
}

/// Text of a principal in the holder of a session.
fn principal_text(principal: &Principal) -> String {
    match principal {
        Principal::Anyone => "anyone".to_owned(),
        Principal::Token { id, .. } => format!("token {id}"),
        Principal::User(user) => format!("user {}", user.subject),
        Principal::Server => "server".to_owned(),
    }
}

/// The bytes that are hashed. Each part is preceded by its length, so that no other parts result in the same bytes.
fn signed_bytes(principal: &str, worker: &WorkerId, id: &str) -> Vec<u8> {
    let mut bytes = PURPOSE.to_vec();
    for part in [principal, id, &*worker.0] {
        bytes.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        bytes.extend(part.as_bytes());
    }
    bytes
}

fn seal_secret(key: &str, principal: &str, worker: &WorkerId, id: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&key, &signed_bytes(principal, worker, id));
    format!("{id}.{}", hex::encode(tag))
}

/// Returns the session ID in a secret if it was issued to this worker and principal.
fn open_secret<'s>(key: &str, principal: &str, worker: &WorkerId, secret: &'s str) -> Option<&'s str> {
    let (id, tag) = secret.split_once('.')?;
    let tag = hex::decode(tag).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let verified = hmac::verify(&key, &signed_bytes(principal, worker, id), &tag);
    verified.is_ok().then_some(id)
}

/// Error of a call under the name of another process.
fn session_mismatch(worker: &WorkerId) -> ApiError {
    let detail = format!("the session of worker `{worker}` belongs to another process");
    ApiError::new(StatusCode::FORBIDDEN, "SESSION_MISMATCH", detail).with_remedy(
        "register with POST /api/worker/pool/register and `\"session_secret\": true`, then send the `session_secret` of \
         the response in the header `X-Noetl-Session` of every call; or use another worker name",
    )
}

fn name_in_use(worker: &WorkerId) -> ApiError {
    let detail =
        format!("the name `{worker}` is in use by a live worker with another access token, or inside a server");
    ApiError::new(StatusCode::FORBIDDEN, "WORKER_NAME_IN_USE", detail).with_remedy(
        "use another name, or the access token of that worker; if it is dead, its session expires within 15 s",
    )
}

impl ApiState {
    /// Starts the session of a worker that registers, and returns its secret if requested.
    pub(crate) async fn start_session(
        &self,
        caller: &WorkerCaller,
        worker: &WorkerId,
        wants_secret: bool,
    ) -> Result<Option<String>, ApiError> {
        let id = wants_secret.then(|| {
            let mut bytes = [0_u8; 16];
            rand::fill(&mut bytes);
            hex::encode(bytes)
        });
        let principal = principal_text(&caller.principal);
        let holder = sessions::client_holder(&principal, id.as_deref());
        if !sessions::start_session(&**self.store(), worker, &holder).await? {
            return Err(name_in_use(worker));
        }
        self.workers.record_renewal(worker, &holder);
        let key = self.lease_key.get(&**self.store()).await?;
        Ok(id.map(|id| seal_secret(key, &principal, worker, &id)))
    }

    /// Renews the session of a worker, or starts one without a secret.
    pub(crate) async fn renew_session(&self, caller: &WorkerCaller, worker: &WorkerId) -> Result<(), ApiError> {
        let holder = self.session_holder(caller, worker).await?;
        if !sessions::renew_session(&**self.store(), worker, &holder).await? {
            return Err(session_mismatch(worker));
        }
        self.workers.record_renewal(worker, &holder);
        Ok(())
    }

    /// Like `renew_session`, unless the session was renewed recently.
    pub(crate) async fn renew_session_if_due(&self, caller: &WorkerCaller, worker: &WorkerId) -> Result<(), ApiError> {
        let holder = self.session_holder(caller, worker).await?;
        if self.workers.is_recently_renewed(worker, &holder) {
            return Ok(());
        }
        self.renew_session(caller, worker).await
    }

    /// Checks that no other process owns the name, and returns the holder of the session.
    pub(crate) async fn check_session(
        &self,
        caller: &WorkerCaller,
        worker: &WorkerId,
    ) -> Result<SessionHolder, ApiError> {
        match self.find_session_owner(caller, worker).await? {
            SessionOwner::Caller | SessionOwner::Nobody => self.session_holder(caller, worker).await,
            SessionOwner::Another => Err(session_mismatch(worker)),
        }
    }

    /// Owner of the session under a name. An expired session still belongs to its holder.
    pub(crate) async fn find_session_owner(
        &self,
        caller: &WorkerCaller,
        worker: &WorkerId,
    ) -> Result<SessionOwner, ApiError> {
        let holder = self.session_holder(caller, worker).await?;
        if self.workers.is_recently_renewed(worker, &holder) {
            return Ok(SessionOwner::Caller);
        }
        let session = self.store().session(worker).await?;
        Ok(match session.and_then(|session| session.holder) {
            None => SessionOwner::Nobody,
            Some(owner) if owner == holder => SessionOwner::Caller,
            Some(_) => SessionOwner::Another,
        })
    }

    /// The session holder that a caller proves to be.
    pub(crate) async fn session_holder(
        &self,
        caller: &WorkerCaller,
        worker: &WorkerId,
    ) -> Result<SessionHolder, ApiError> {
        let principal = principal_text(&caller.principal);
        let Some(secret) = &caller.secret else {
            return Ok(sessions::client_holder(&principal, None));
        };
        let key = self.lease_key.get(&**self.store()).await?;
        let id = open_secret(key, &principal, worker, secret).ok_or_else(|| session_mismatch(worker))?;
        Ok(sessions::client_holder(&principal, Some(id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_for_its_worker_and_access_token_only() {
        let (first_worker, second_worker) = (WorkerId("one".into()), WorkerId("two".into()));
        let secret = seal_secret("key", "token 1", &first_worker, "ab");
        assert_eq!(open_secret("key", "token 1", &first_worker, &secret), Some("ab"));
        assert_eq!(open_secret("key", "token 1", &second_worker, &secret), None);
        assert_eq!(open_secret("key", "token 2", &first_worker, &secret), None);
        assert_eq!(open_secret("other", "token 1", &first_worker, &secret), None);
        let other_secret = secret.replacen("ab.", "cd.", 1);
        assert_eq!(open_secret("key", "token 1", &first_worker, &other_secret), None);
        for broken in ["", ".", "ab.", "ab.zz", "ab"] {
            assert_eq!(open_secret("key", "token 1", &first_worker, broken), None, "{broken}");
        }
    }
}
