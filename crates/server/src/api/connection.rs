//! A connection, with or without TLS, that is closed if it sends no request for too long.
//!
//! A client must send its first request soon after it connects, and the whole head of a request soon after its first
//! byte. A connection may stay idle between requests for a while. It is not closed while a request is being handled,
//! because long polls and streams take long.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_rustls::server::TlsStream;

/// Timeout for the head of a request.
const HEAD_MAX: Duration = Duration::from_secs(10);
/// Timeout of an idle connection.
const IDLE_MAX: Duration = Duration::from_secs(75);

/// A TCP stream, encrypted or not.
pub(crate) enum ClientSocket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// An open connection, counted against the maximum.
pub(crate) struct ClientConnection {
    socket: ClientSocket,
    activity: Arc<ConnectionActivity>,
    timer: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl ClientConnection {
    pub(crate) fn new(socket: ClientSocket, permit: OwnedSemaphorePermit) -> Self {
        let activity = ConnectionActivity::default();
        Self {
            socket,
            timer: Box::pin(sleep_until(Instant::now() + HEAD_MAX)),
            activity: Arc::new(activity),
            _permit: permit,
        }
    }

    /// Activity of the connection.
    pub(crate) fn activity(&self) -> Arc<ConnectionActivity> {
        Arc::clone(&self.activity)
    }

    /// Returns an error once the deadline has passed.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(deadline) = self.activity.deadline() else {
            // At the end of the request, the next read polls again.
            return Poll::Pending;
        };
        if self.timer.deadline() != deadline {
            self.timer.as_mut().reset(deadline);
        }
        match self.timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Activity of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionActivity {
    state: Mutex<ActivityState>,
}

#[derive(Debug)]
struct ActivityState {
    /// Requests that are being handled.
    requests: usize,
    /// When the first byte of the current head arrived, or when the client connected.
    head_started_at: Option<Instant>,
    /// When something was last sent.
    sent_at: Instant,
    /// Whether the connection uses HTTP/2, which also sends frames between requests.
    is_framed: bool,
}

impl Default for ConnectionActivity {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(ActivityState {
                requests: 0,
                head_started_at: Some(now),
                sent_at: now,
                is_framed: false,
            }),
        }
    }
}

impl ConnectionActivity {
    fn state(&self) -> std::sync::MutexGuard<'_, ActivityState> {
        self.state.lock().expect("no holder of the activity lock panics")
    }

    /// Records a request; it is being handled until the returned guard is dropped.
    pub(crate) fn start_request(self: Arc<Self>, is_framed: bool) -> RequestGuard {
        let mut state = self.state();
        state.requests += 1;
        state.head_started_at = None;
        state.is_framed = is_framed;
        drop(state);
        RequestGuard(self)
    }

    fn on_received(&self) {
        let mut state = self.state();
        if state.requests == 0 && !state.is_framed {
            state.head_started_at.get_or_insert_with(Instant::now);
        }
    }

    fn record_sent(&self) {
        self.state().sent_at = Instant::now();
    }

    /// When the connection is closed unless something happens; `None` while a request is being handled.
    fn deadline(&self) -> Option<Instant> {
        let state = self.state();
        if state.requests > 0 {
            return None;
        }
        let head = state.head_started_at.map(|since| since + HEAD_MAX);
        Some(head.unwrap_or(state.sent_at + IDLE_MAX))
    }
}

/// A request that is being handled.
pub(crate) struct RequestGuard(Arc<ConnectionActivity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.requests -= 1;
        state.sent_at = Instant::now();
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = match &mut this.socket {
            ClientSocket::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            ClientSocket::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if buffer.filled().len() > before {
            this.activity.on_received();
        }
        match read {
            Poll::Pending => this.poll_deadline(context),
            // A head that arrives byte by byte is late, too.
            Poll::Ready(Ok(())) if this.is_late() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            ready @ Poll::Ready(_) => ready,
        }
    }
}

impl ClientConnection {
    fn is_late(&self) -> bool {
        let deadline = self.activity.deadline();
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match &mut this.socket {
            ClientSocket::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            ClientSocket::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if let Poll::Ready(Ok(_)) = written {
            this.activity.record_sent();
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            ClientSocket::Plain(stream) => Pin::new(stream).poll_flush(context),
            ClientSocket::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            ClientSocket::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            ClientSocket::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_head_has_ten_seconds_and_a_request_has_no_limit() {
        let activity = Arc::new(ConnectionActivity::default());
        let start = Instant::now();
        assert_eq!(activity.deadline(), Some(start + HEAD_MAX));
        advance(Duration::from_secs(4)).await;
        activity.on_received();
        assert_eq!(
            activity.deadline(),
            Some(start + HEAD_MAX),
            "received bytes do not extend the deadline"
        );
        let request = Arc::clone(&activity).start_request(false);
        advance(Duration::from_secs(600)).await;
        assert_eq!(activity.deadline(), None);
        drop(request);
        assert_eq!(activity.deadline(), Some(Instant::now() + IDLE_MAX));
        activity.on_received();
        assert_eq!(activity.deadline(), Some(Instant::now() + HEAD_MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_sends_nothing_is_closed_and_gives_its_place_back() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let permits = Arc::new(tokio::sync::Semaphore::new(1));
        let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
        let mut connection = ClientConnection::new(ClientSocket::Plain(accepted), permit);
        let start = Instant::now();
        let mut byte = [0_u8; 1];
        let read = tokio::io::AsyncReadExt::read(&mut connection, &mut byte).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= HEAD_MAX);
        assert_eq!(permits.available_permits(), 0);
        drop(connection);
        assert_eq!(permits.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_keeps_a_stream_open() {
        let activity = Arc::new(ConnectionActivity::default());
        drop(Arc::clone(&activity).start_request(false));
        advance(Duration::from_secs(70)).await;
        activity.record_sent();
        assert_eq!(activity.deadline(), Some(Instant::now() + IDLE_MAX));
    }
}
