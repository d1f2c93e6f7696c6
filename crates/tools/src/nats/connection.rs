//! Connections to NATS, one per credential, made when they are first needed and kept.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use model::outcome::{ErrorKind, TaskError};
use tokio::sync::OnceCell;

use crate::auth::{auth, invalid, text};
use crate::call::Call;
use crate::exhaustion::find_connect_shortage;
use crate::nats::failure::{failed, told};

/// Connections that nobody uses are closed once there are this many.
const CONNECTIONS_MAX: usize = 64;

/// Where to connect, and as whom.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Login {
    servers: Vec<String>,
    proof: Proof,
    connect: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Proof {
    None,
    Password(String, String),
    Token(String),
    /// What a credentials file holds.
    Creds(String),
}

/// All connections of a worker.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<Login, Arc<OnceCell<Client>>>>);

impl Login {
    /// What a call says; its own `url` comes before the credential's.
    pub(crate) fn of(call: &Call, connect: Duration) -> Result<Self, TaskError> {
        let empty = serde_json::Map::new();
        let auth = auth(call)?.unwrap_or(&empty);
        let url = match call.text("url")? {
            Some(url) => Some(url.to_owned()),
            None => text(auth, &["nats_url", "url", "servers", "server", "dsn"]),
        };
        let url = url.ok_or_else(|| {
            call.missing(
                "url",
                "say nats://host:4222, or put `nats_url` into the credential",
            )
        })?;
        let servers: Vec<String> = url.split(',').map(|url| url.trim().to_owned()).collect();
        if servers
            .iter()
            .any(|url| url.parse::<async_nats::ServerAddr>().is_err())
        {
            return Err(invalid(
                "the address of NATS is not of the form nats://host:port",
            ));
        }
        let user = text(auth, &["user", "username", "nats_user"]);
        let password = text(auth, &["password", "nats_password"]);
        let proof = if let Some(creds) = text(auth, &["creds", "credentials", "nats_creds"]) {
            Proof::Creds(creds)
        } else if let Some(token) = text(auth, &["token", "nats_token"]) {
            Proof::Token(token)
        } else if let Some(user) = user {
            Proof::Password(user, password.unwrap_or_default())
        } else {
            Proof::None
        };
        Ok(Self {
            servers,
            proof,
            connect,
        })
    }

    async fn connect(&self) -> Result<Client, TaskError> {
        let options = ConnectOptions::new()
            .name("noetl")
            .connection_timeout(self.connect);
        let options = match &self.proof {
            Proof::None => options,
            Proof::Password(user, password) => {
                options.user_and_password(user.clone(), password.clone())
            }
            Proof::Token(token) => options.token(token.clone()),
            Proof::Creds(creds) => options
                .credentials(creds)
                .map_err(|_| invalid("`auth.creds` is not the text of a NATS credentials file"))?,
        };
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                let message = "NATS does not accept this credential";
                TaskError::new(ErrorKind::Auth, "NATS_AUTH", message)
            }
            _ => {
                if let Some(error) = find_connect_shortage(&error) {
                    return error;
                }
                let message = format!("NATS could not be reached: {}", told(&error));
                failed(ErrorKind::Connection, "NATS_CONNECT", message).with("sent", false)
            }
        })
    }
}

impl Connections {
    /// The connection of a login. One that is broken is made anew, so that a call learns at once that nobody is there.
    pub(crate) async fn get(&self, login: &Login) -> Result<Client, TaskError> {
        let slot = self.slot(login);
        let client = slot.get_or_try_init(|| login.connect()).await?.clone();
        if client.connection_state() == State::Connected {
            return Ok(client);
        }
        self.forget(login, &slot);
        let slot = self.slot(login);
        Ok(slot.get_or_try_init(|| login.connect()).await?.clone())
    }

    fn slot(&self, login: &Login) -> Arc<OnceCell<Client>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= CONNECTIONS_MAX && !slots.contains_key(login) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(login.clone()).or_default().clone()
    }

    fn forget(&self, login: &Login, broken: &Arc<OnceCell<Client>>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots
            .get(login)
            .is_some_and(|slot| Arc::ptr_eq(slot, broken))
        {
            slots.remove(login);
        }
    }
}
