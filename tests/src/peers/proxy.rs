//! A network that fails on demand: connections through it can be cut, delayed, refused, and left without answers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// A port that leads to another one.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    swallowed: Condvar,
}

#[derive(Default)]
struct State {
    refuses: bool,
    swallows: bool,
    delay: Duration,
    bytes_swallowed: u64,
    bytes_answered: u64,
    /// Both ends of every connection, to cut them.
    open: Vec<TcpStream>,
    is_over: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the proxy does not panic")
    }
}

impl Proxy {
    /// Leads to `upstream`, a host and port.
    pub fn start(upstream: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener
            .local_addr()
            .expect("a bound socket has an address")
            .port();
        let shared = Arc::new(Shared::default());
        let (upstream, accepting) = (upstream.to_owned(), Arc::clone(&shared));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().is_over {
                    return;
                }
                connect(client, &upstream, &accepting);
            }
        });
        Self { port, shared }
    }

    /// Where it listens, on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends every connection there is.
    pub fn cut(&self) {
        for end in self.shared.state().open.drain(..) {
            // An end that is closed already is cut.
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Whether new connections are turned away.
    pub fn refuse(&self, refuses: bool) {
        self.shared.state().refuses = refuses;
    }

    /// Holds back every piece of data, in both directions.
    pub fn delay(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Whether answers are dropped while requests still arrive.
    pub fn swallow_answers(&self, swallows: bool) {
        let mut state = self.shared.state();
        state.swallows = swallows;
        state.bytes_swallowed = 0;
    }

    /// How many bytes of answers went through it.
    pub fn bytes_answered(&self) -> u64 {
        self.shared.state().bytes_answered
    }

    /// Blocks until an answer was dropped: what was asked has been done.
    pub fn wait_until_swallowed(&self) {
        let state = self.shared.state();
        let nothing_yet = |state: &mut State| state.bytes_swallowed == 0;
        let waited = self.shared.swallowed.wait_while(state, nothing_yet);
        drop(waited.expect("the proxy does not panic"));
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state().is_over = true;
        self.cut();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn connect(client: TcpStream, upstream: &str, shared: &Arc<Shared>) {
    if shared.state().refuses {
        return;
    }
    let Ok(server) = TcpStream::connect(upstream) else {
        return;
    };
    let ends = [&client, &server].map(TcpStream::try_clone);
    let [Ok(client_end), Ok(server_end)] = ends else {
        return;
    };
    let again = [&client, &server].map(TcpStream::try_clone);
    shared.state().open.extend(again.into_iter().flatten());
    for end in [&client, &server] {
        // Small pieces go at once, as they would without the proxy.
        let _ = end.set_nodelay(true);
    }
    let (requests, answers) = (Arc::clone(shared), Arc::clone(shared));
    thread::spawn(move || pump(client, server_end, &requests, false));
    thread::spawn(move || pump(server, client_end, &answers, true));
}

fn pump(mut from: TcpStream, mut to: TcpStream, shared: &Shared, is_answer: bool) {
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
        if is_answer && state.swallows {
            state.bytes_swallowed += count as u64;
            shared.swallowed.notify_all();
            continue;
        }
        if is_answer {
            state.bytes_answered += count as u64;
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
