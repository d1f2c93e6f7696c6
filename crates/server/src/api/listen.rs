//! Accepts connections, with or without TLS, until the server stops.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::Server;
use crate::api::access::{AdminToken, create_first_admin, store_admin_token};
use crate::api::connection::{ClientConnection, ClientSocket, ConnectionActivity};
use crate::api::router;
use crate::api::state::{ApiConfig, ApiState};

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of open connections; more wait until one closes.
const CONNECTIONS_MAX: usize = 4_096;
/// Capacity of the queue of accepted connections.
const ACCEPT_QUEUE_MAX: usize = 64;
/// Pause after a failed accept, for example because of too many open files.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The certificate and key of a server.
pub struct ServerTls {
    acceptor: TlsAcceptor,
}

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The certificate or the key is invalid.
    #[error("cannot use the TLS certificate or key: {0}")]
    Tls(String),
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

impl ServerTls {
    /// Parses a certificate chain and its key, both PEM.
    pub fn new(certificates: &[u8], key: &[u8]) -> Result<Self, ListenError> {
        let broken = |error: &dyn std::fmt::Display| ListenError::Tls(error.to_string());
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| broken(&error))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| broken(&error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| broken(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }
}

/// A bound port that is not served yet.
pub struct BoundListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl BoundListener {
    /// Binds an address.
    pub async fn bind(address: &str) -> Result<Self, ListenError> {
        let failed = |source| ListenError::Bind {
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// The bound address, with the actual port if 0 was requested.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the API until `stop`, then until all pending responses are sent.
    pub async fn serve(
        self,
        server: Server,
        config: ApiConfig,
        tls: Option<ServerTls>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let mut api = ApiState::new(server, &config, stop.clone());
        api.is_encrypted = tls.is_some();
        let (router, _) = router::routes(api);
        let service = router.into_make_service_with_connect_info::<ClientPeer>();
        let connections = IncomingConnections::start(self.listener, self.address, tls, stop.clone());
        let serving = axum::serve(connections, service);
        serving.with_graceful_shutdown(stop.cancelled_owned()).await
    }
}

impl Server {
    /// Creates the store's first admin token, unless it has one.
    pub async fn create_first_admin(&self) -> Result<Option<AdminToken>, crate::Error> {
        Ok(create_first_admin(&*self.shared.store).await?)
    }

    /// Registers an admin token that was created elsewhere.
    pub async fn store_admin_token(&self, token: &str) -> Result<(), crate::Error> {
        Ok(store_admin_token(&*self.shared.store, token).await?)
    }

    /// The API document as JSON text.
    pub fn api_document() -> &'static str {
        router::document()
    }
}

/// Remote end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct ClientPeer {
    /// Remote address.
    pub(crate) address: SocketAddr,
    /// Activity of the connection.
    pub(crate) activity: Arc<ConnectionActivity>,
}

impl Connected<IncomingStream<'_, IncomingConnections>> for ClientPeer {
    fn connect_info(stream: IncomingStream<'_, IncomingConnections>) -> Self {
        Self {
            address: *stream.remote_addr(),
            activity: stream.io().activity(),
        }
    }
}

/// Accepted connections; a slow handshake does not delay other connections.
pub(crate) struct IncomingConnections {
    ready_connections: mpsc::Receiver<(ClientConnection, SocketAddr)>,
    address: SocketAddr,
}

impl IncomingConnections {
    fn start(listener: TcpListener, address: SocketAddr, tls: Option<ServerTls>, stop: CancellationToken) -> Self {
        let (sender, ready_connections) = mpsc::channel(ACCEPT_QUEUE_MAX);
        tokio::spawn(async move {
            let accepting = accept_connections(listener, tls.map(|tls| tls.acceptor), sender);
            tokio::select! {
                () = accepting => {}
                () = stop.cancelled() => {}
            }
        });
        Self {
            ready_connections,
            address,
        }
    }
}

async fn accept_connections(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    ready: mpsc::Sender<(ClientConnection, SocketAddr)>,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        // Responses are small, and clients wait for them.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = acceptor.clone() else {
            let connection = ClientConnection::new(ClientSocket::Plain(stream), permit);
            if ready.send((connection, peer)).await.is_err() {
                return;
            }
            continue;
        };
        let ready = ready.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // A server that is stopping accepts no more connections.
                    let connection = ClientConnection::new(ClientSocket::Tls(Box::new(stream)), permit);
                    let _ = ready.send((connection, peer)).await;
                }
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
            }
        });
    }
}

impl Listener for IncomingConnections {
    type Io = ClientConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (ClientConnection, SocketAddr) {
        match self.ready_connections.recv().await {
            Some(connection) => connection,
            // The server is stopping; the caller stops too, by the same token.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
