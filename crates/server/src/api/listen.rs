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
use crate::api::access::{AdminToken, first_admin, keep_admin};
use crate::api::connection::{Activity, Connection, Socket};
use crate::api::router;
use crate::api::state::{Api, ApiConfig};

/// Timeout of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Maximum number of open connections; more wait until one closes.
const CONNECTIONS_MAX: usize = 4_096;
/// Capacity of the queue of accepted connections.
const WAITING_MAX: usize = 64;
/// Pause after a failed accept, for example because of too many open files.
const REST: Duration = Duration::from_millis(50);

/// The certificate and key of a server.
pub struct Tls {
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

impl Tls {
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
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listening {
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
        tls: Option<Tls>,
        stop: CancellationToken,
    ) -> io::Result<()> {
        let mut api = Api::new(server, &config, stop.clone());
        api.is_encrypted = tls.is_some();
        let (router, _) = router::routes(api);
        let service = router.into_make_service_with_connect_info::<Peer>();
        let connections = Connections::start(self.listener, self.address, tls, stop.clone());
        let serving = axum::serve(connections, service);
        serving.with_graceful_shutdown(stop.cancelled_owned()).await
    }
}

impl Server {
    /// Creates the store's first admin token, unless it has one.
    pub async fn first_admin(&self) -> Result<Option<AdminToken>, crate::Error> {
        Ok(first_admin(&*self.shared.store).await?)
    }

    /// Registers an admin token that was created elsewhere.
    pub async fn keep_admin(&self, token: &str) -> Result<(), crate::Error> {
        Ok(keep_admin(&*self.shared.store, token).await?)
    }

    /// The API document as JSON text.
    pub fn api_document() -> &'static str {
        router::document()
    }
}

/// Remote end of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Remote address.
    pub(crate) address: SocketAddr,
    /// Activity of the connection.
    pub(crate) activity: Arc<Activity>,
}

impl Connected<IncomingStream<'_, Connections>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Connections>) -> Self {
        Self {
            address: *stream.remote_addr(),
            activity: stream.io().activity(),
        }
    }
}

/// Accepted connections; a slow handshake does not delay other connections.
pub(crate) struct Connections {
    ready: mpsc::Receiver<(Connection, SocketAddr)>,
    address: SocketAddr,
}

impl Connections {
    fn start(
        listener: TcpListener,
        address: SocketAddr,
        tls: Option<Tls>,
        stop: CancellationToken,
    ) -> Self {
        let (sender, ready) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let accepting = accept(listener, tls.map(|tls| tls.acceptor), sender);
            tokio::select! {
                () = accepting => {}
                () = stop.cancelled() => {}
            }
        });
        Self { ready, address }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    ready: mpsc::Sender<(Connection, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        // The semaphore is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        // Responses are small, and clients wait for them.
        let _ = stream.set_nodelay(true);
        let Some(acceptor) = acceptor.clone() else {
            let connection = Connection::new(Socket::Plain(stream), place);
            if ready.send((connection, peer)).await.is_err() {
                return;
            }
            continue;
        };
        let ready = ready.clone();
        tokio::spawn(async move {
            match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    // A server that is stopping accepts no more connections.
                    let connection = Connection::new(Socket::Tls(Box::new(stream)), place);
                    let _ = ready.send((connection, peer)).await;
                }
                Ok(Err(error)) => tracing::debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => tracing::debug!(%peer, "TLS handshake timed out"),
            }
        });
    }
}

impl Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            // The server is stopping; the caller stops too, by the same token.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }
}
