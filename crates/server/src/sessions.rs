//! Worker sessions: while its session is alive, a worker's name belongs to one process.
//!
//! The store has one row per name with the holder of the session. A holder is a text: the process for a worker inside
//! a server, the access token for a client over HTTP, plus the session ID if the client registered for a secret.

use model::id::WorkerId;
use store::{OwnerId, SessionHolder, Store};

use crate::transport::SESSION_TTL;

/// How often taking a name is retried while other holders change the session.
const TRIES_MAX: usize = 4;

/// Separates the principal of a holder from the ID of its session.
const SESSION_MARK: &str = " session ";

/// Holder of the sessions of workers inside this process.
pub(crate) fn process_holder(owner: &OwnerId) -> SessionHolder {
    SessionHolder(format!("process {}", owner.0).into())
}

/// Holder of a session over HTTP: the principal and the session ID it registered, if any.
pub(crate) fn client_holder(principal: &str, session_id: Option<&str>) -> SessionHolder {
    let text = match session_id {
        None => principal.to_owned(),
        Some(id) => format!("{principal}{SESSION_MARK}{id}"),
    };
    SessionHolder(text.into())
}

fn principal(holder: &SessionHolder) -> &str {
    let text = &*holder.0;
    text.split_once(SESSION_MARK).map_or(text, |(principal, _)| principal)
}

/// Renews a session, or starts one if the worker's name has no live session. Returns false if another holder has a
/// live session.
pub(crate) async fn renew_session(
    store: &dyn Store,
    worker: &WorkerId,
    holder: &SessionHolder,
) -> Result<bool, store::Error> {
    claim_name(store, worker, holder, |_| false).await
}

/// Starts a session. It replaces a live session of the same principal, because a process that was killed and restarted
/// has no other proof that the name is its own. Returns false if a live session belongs to another principal.
pub(crate) async fn start_session(
    store: &dyn Store,
    worker: &WorkerId,
    holder: &SessionHolder,
) -> Result<bool, store::Error> {
    let is_same = |current: &SessionHolder| principal(current) == principal(holder);
    claim_name(store, worker, holder, is_same).await
}

async fn claim_name(
    store: &dyn Store,
    worker: &WorkerId,
    holder: &SessionHolder,
    may_replace: impl Fn(&SessionHolder) -> bool,
) -> Result<bool, store::Error> {
    for _ in 0..TRIES_MAX {
        if store.renew_session(worker, holder, SESSION_TTL).await? {
            return Ok(true);
        }
        let Some(session) = store.session(worker).await? else {
            continue;
        };
        let Some(current_holder) = session.holder else {
            continue;
        };
        if session.is_alive && !may_replace(&current_holder) {
            return Ok(false);
        }
        let replaced = store.replace_session(worker, &current_holder, holder, SESSION_TTL);
        if replaced.await? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_known_by_its_principal() {
        let plain = client_holder("token 7", None);
        let secret = client_holder("token 7", Some("ab"));
        assert_ne!(plain, secret);
        assert_eq!(principal(&plain), principal(&secret));
        assert_ne!(principal(&plain), principal(&client_holder("token 8", None)));
        let process = process_holder(&OwnerId("one".into()));
        assert_ne!(principal(&process), principal(&plain));
    }
}
