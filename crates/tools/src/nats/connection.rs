//! NATS connections: one per login, opened on first use and cached.

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

/// Maximum number of cached connections; beyond it, unused ones are closed.
const CONNECTIONS_MAX: usize = 64;

/// Servers and credential.
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
    /// Content of a credentials file.
    Creds(String),
}

/// Connection cache of a worker.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<Login, Arc<OnceCell<Client>>>>);

impl Login {
    /// Reads the login of a call; its `url` takes precedence over the credential's.
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
                "set it to nats://host:4222, or add `nats_url` to the credential",
            )
        })?;
        let servers: Vec<String> = url.split(',').map(|url| url.trim().to_owned()).collect();
        if servers
            .iter()
            .any(|url| url.parse::<async_nats::ServerAddr>().is_err())
        {
            return Err(invalid("the NATS URL must have the form nats://host:port"));
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
            Proof::Creds(creds) => options.credentials(creds).map_err(|_| {
                invalid("`auth.creds` is not the content of a NATS credentials file")
            })?,
        };
        let connected = options.connect(self.servers.as_slice()).await;
        connected.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                let message = "NATS rejected the credential";
                TaskError::new(ErrorKind::Auth, "NATS_AUTH", message)
            }
            _ => {
                if let Some(error) = find_connect_shortage(&error) {
                    return error;
                }
                let message = format!("cannot connect to NATS: {}", told(&error));
                failed(ErrorKind::Connection, "NATS_CONNECT", message).with("sent", false)
            }
        })
    }
}

impl Connections {
    /// Returns the connection of a login. Replaces a broken one, so that a call fails at once when the server is down.
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
