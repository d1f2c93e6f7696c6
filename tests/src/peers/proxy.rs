//! A network proxy that fails on demand: it can cut, delay and refuse connections, and drop responses.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// A port that forwards to another one.
pub struct FaultProxy {
    port: u16,
    shared: Arc<ProxyShared>,
}

#[derive(Default)]
struct ProxyShared {
    state: Mutex<ProxyState>,
    response_dropped: Condvar,
}

#[derive(Default)]
struct ProxyState {
    refuses_connections: bool,
    drops_responses: bool,
    delay: Duration,
    dropped_bytes: u64,
    response_bytes: u64,
    /// Both ends of every connection, for cutting them.
    connections: Vec<TcpStream>,
    is_closed: bool,
}

impl ProxyShared {
    fn state(&self) -> MutexGuard<'_, ProxyState> {
        self.state.lock().expect("the proxy does not panic")
    }
}

impl FaultProxy {
    /// Forwards to `upstream`, a host and port.
    pub fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        let shared = Arc::new(ProxyShared::default());
        let (upstream, accept_shared) = (upstream.to_owned(), Arc::clone(&shared));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accept_shared.state().is_closed {
                    return;
                }
                handle_connection(client, &upstream, &accept_shared);
            }
        });
        Self { port, shared }
    }

    /// Its port on the loopback interface.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections.
    pub fn cut_connections(&self) {
        for end in self.shared.state().connections.drain(..) {
            // A connection may be closed already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Sets whether new connections are refused.
    pub fn set_refusing(&self, refuses_connections: bool) {
        self.shared.state().refuses_connections = refuses_connections;
    }

    /// Delays all data, in both directions.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Sets whether responses are dropped, while requests are still forwarded.
    pub fn set_dropping_responses(&self, drops_responses: bool) {
        let mut state = self.shared.state();
        state.drops_responses = drops_responses;
        state.dropped_bytes = 0;
    }

    /// Forwards responses again and closes all connections, in one step: no connection that lost a response stays open.
    pub fn stop_dropping_responses(&self) {
        let mut state = self.shared.state();
        state.drops_responses = false;
        for end in state.connections.drain(..) {
            // A connection may be closed already.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Number of bytes of responses that it forwarded.
    pub fn response_bytes(&self) -> u64 {
        self.shared.state().response_bytes
    }

    /// Blocks until a response was dropped, so that the request has been processed.
    pub fn wait_until_response_dropped(&self) {
        let state = self.shared.state();
        let is_pending = |state: &mut ProxyState| state.dropped_bytes == 0;
        let result = self.shared.response_dropped.wait_while(state, is_pending);
        drop(result.expect("the proxy does not panic"));
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.cut_connections();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn handle_connection(client: TcpStream, upstream: &str, shared: &Arc<ProxyShared>) {
    if shared.state().refuses_connections {
        return;
    }
    let Ok(server) = TcpStream::connect(upstream) else {
        return;
    };
    let ends = [&client, &server].map(TcpStream::try_clone);
    let [Ok(client_end), Ok(server_end)] = ends else {
        return;
    };
    let clones = [&client, &server].map(TcpStream::try_clone);
    shared.state().connections.extend(clones.into_iter().flatten());
    for end in [&client, &server] {
        // Small chunks are sent at once, as without the proxy.
        let _ = end.set_nodelay(true);
    }
    let (requests, responses) = (Arc::clone(shared), Arc::clone(shared));
    thread::spawn(move || copy_bytes(client, server_end, &requests, false));
    thread::spawn(move || copy_bytes(server, client_end, &responses, true));
}

fn copy_bytes(mut from: TcpStream, mut to: TcpStream, shared: &ProxyShared, is_response: bool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        let delay = shared.state().delay;
        if !delay.is_zero() {
            thread::sleep(delay);
        }
        let mut state = shared.state();
        if is_response && state.drops_responses {
            state.dropped_bytes += count as u64;
            shared.response_dropped.notify_all();
            continue;
        }
        if is_response {
            state.response_bytes += count as u64;
        }
        drop(state);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        // The other direction may have closed it.
        let _ = end.shutdown(Shutdown::Both);
    }
}
