//! Opens connections to one target; every wait has a limit.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::target::{ConnectTarget, PostgresUrl, TargetError, TargetParts};
use crate::tls::{SystemRoots, make_tls_connect};

/// Maximum time for a response that the server normally returns at once: a login, a setting or a notification.
pub const RESPONSE_MAX: Duration = Duration::from_secs(5);

/// Maximum time that data sent to the database of a store stays unacknowledged.
const STORE_SILENCE_MAX: Duration = Duration::from_secs(10);

/// An encrypted connection.
pub type TlsConnection = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// No response arrived in time.
    #[error("no response within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The server refused the connection, or cannot be reached.
    #[error("cannot connect")]
    Failed(#[source] tokio_postgres::Error),
}

impl ConnectError {
    /// Whether the same request may succeed later. A wrong login or a missing database stays wrong.
    pub fn is_transient(&self) -> bool {
        let Self::Failed(error) = self else {
            return true;
        };
        match error.code() {
            None => !error.to_string().contains("password missing"),
            Some(code) => {
                *code != SqlState::INVALID_CATALOG_NAME
                    && *code != SqlState::INSUFFICIENT_PRIVILEGE
                    && *code != SqlState::PROTOCOL_VIOLATION
                    && !["22", "28"].contains(&&code.code()[..2])
            }
        }
    }
}

/// Limits the time for a response that the server normally returns at once. The driver only limits the TCP handshake:
/// without this limit, a caller would wait forever for a server that accepts a connection and never responds.
pub async fn limit_response<T>(response: impl Future<Output = T>) -> Result<T, ConnectError> {
    let received = timeout(RESPONSE_MAX, response).await;
    received.map_err(|_| ConnectError::TimedOut(RESPONSE_MAX))
}

/// Opens connections.
#[derive(Clone)]
pub struct Connector {
    /// The database.
    pub target: Arc<ConnectTarget>,
    tls: MakeRustlsConnect,
}

impl Connector {
    /// Prepares connections; opens none yet.
    pub fn new(target: ConnectTarget) -> Result<Self, TargetError> {
        // Authorities that cannot be read are left out.
        Self::with_system_roots(target, || Ok(rustls_native_certs::load_native_certs().certs))
    }

    /// Like [`new`](Self::new), but with the machine's authorities as `system_roots` loads them.
    pub fn with_system_roots(target: ConnectTarget, system_roots: SystemRoots) -> Result<Self, TargetError> {
        let tls = make_tls_connect(&target, system_roots)?;
        Ok(Self {
            target: Arc::new(target),
            tls,
        })
    }

    /// Prepares connections to the database of a store; one that is silent for 10 s counts as lost.
    pub fn from_url(url: &PostgresUrl) -> Result<Self, TargetError> {
        Self::new(TargetParts::parse(url.reveal())?.into_target(STORE_SILENCE_MAX)?)
    }

    /// Opens a connection. The caller must poll the returned [`Connection`], which does the I/O of the [`Client`].
    pub async fn connect(&self) -> Result<(Client, Connection<Socket, TlsConnection>), ConnectError> {
        let result = limit_response(self.target.config.connect(self.tls.clone())).await?;
        result.map_err(ConnectError::Failed)
    }

    /// Opens a connection whose I/O a new task does, and applies settings to it.
    pub async fn open(&self, settings: &str) -> Result<Client, ConnectError> {
        let result = limit_response(self.establish(settings)).await?;
        result.map_err(ConnectError::Failed)
    }

    /// Like [`open`](Self::open), but without a limit.
    pub(crate) async fn establish(&self, settings: &str) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.target.config.connect(self.tls.clone()).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "database connection closed");
            }
        });
        client.batch_execute(settings).await?;
        Ok(client)
    }

    /// Requests that the server cancels the statement of a connection; the result arrives on that connection.
    pub async fn cancel_query(&self, token: CancelToken) {
        // If the request fails, the connection is dropped anyway.
        let _ = timeout(RESPONSE_MAX, Box::pin(token.cancel_query(self.tls.clone()))).await;
    }
}
