//! NATS connections: one per login, opened on first use and cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions};
use model::outcome::{ErrorKind, TaskError};
use tokio::sync::OnceCell;
use tools::{Call, auth_text, call_auth, find_connect_shortage, invalid_auth_error};

use crate::nats::failure::error_chain;

/// Maximum number of cached connections; beyond it, unused ones are closed.
const CONNECTIONS_MAX: usize = 64;

/// Servers and credential.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct NatsLogin {
    servers: Vec<String>,
    auth: NatsAuth,
    connect_timeout: Duration,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum NatsAuth {
    None,
    Password(String, String),
    Token(String),
    /// Content of a credentials file.
    Creds(String),
}

/// Connection cache of a worker.
#[derive(Default)]
pub(crate) struct NatsConnections(Mutex<HashMap<NatsLogin, Arc<OnceCell<Client>>>>);

impl NatsLogin {
    /// Reads the login of a call; its `url` takes precedence over the credential's.
    pub(crate) fn from_call(call: &Call, connect: Duration) -> Result<Self, TaskError> {
        let empty = serde_json::Map::new();
        let auth = call_auth(call)?.unwrap_or(&empty);
        let url = match call.text_field("url")? {
            Some(url) => Some(url.to_owned()),
            None => auth_text(auth, &["nats_url", "url", "servers", "server", "dsn"]),
        };
        let url = url.ok_or_else(|| {
            call.missing_key_error("url", "set it to nats://host:4222, or add `nats_url` to the credential")
        })?;
        let servers: Vec<String> = url.split(',').map(|url| url.trim().to_owned()).collect();
        if servers.iter().any(|url| url.parse::<async_nats::ServerAddr>().is_err()) {
            return Err(invalid_auth_error("the NATS URL must have the form nats://host:port"));
        }
        let user = auth_text(auth, &["user", "username", "nats_user"]);
        let password = auth_text(auth, &["password", "nats_password"]);
        let nats_auth = if let Some(creds) = auth_text(auth, &["creds", "credentials", "nats_creds"]) {
            NatsAuth::Creds(creds)
        } else if let Some(token) = auth_text(auth, &["token", "nats_token"]) {
            NatsAuth::Token(token)
        } else if let Some(user) = user {
            NatsAuth::Password(user, password.unwrap_or_default())
        } else {
            NatsAuth::None
        };
        Ok(Self {
            servers,
            auth: nats_auth,
            connect_timeout: connect,
        })
    }

    async fn connect(&self) -> Result<Client, TaskError> {
        let options = ConnectOptions::new()
            .name("noetl")
            .connection_timeout(self.connect_timeout);
        let options = match &self.auth {
            NatsAuth::None => options,
            NatsAuth::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
            NatsAuth::Token(token) => options.token(token.clone()),
            NatsAuth::Creds(creds) => options
                .credentials(creds)
                .map_err(|_| invalid_auth_error("`auth.creds` is not the content of a NATS credentials file"))?,
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
                let message = format!("cannot connect to NATS: {}", error_chain(&error));
                TaskError::new(ErrorKind::Connection, "NATS_CONNECT", message).with_detail("sent", false)
            }
        })
    }
}

impl NatsConnections {
    /// Returns the connection of a login. Replaces a broken one, so that a call fails at once when the server is down.
    pub(crate) async fn get(&self, login: &NatsLogin) -> Result<Client, TaskError> {
        let slot = self.slot(login);
        let client = slot.get_or_try_init(|| login.connect()).await?.clone();
        if client.connection_state() == State::Connected {
            return Ok(client);
        }
        self.remove(login, &slot);
        let slot = self.slot(login);
        Ok(slot.get_or_try_init(|| login.connect()).await?.clone())
    }

    fn slot(&self, login: &NatsLogin) -> Arc<OnceCell<Client>> {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= CONNECTIONS_MAX && !slots.contains_key(login) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        slots.entry(login.clone()).or_default().clone()
    }

    fn remove(&self, login: &NatsLogin, broken: &Arc<OnceCell<Client>>) {
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.get(login).is_some_and(|slot| Arc::ptr_eq(slot, broken)) {
            slots.remove(login);
        }
    }
}
