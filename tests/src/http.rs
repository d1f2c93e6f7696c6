//! A small HTTP server on a free local port: a function returns its responses, and it can fail on purpose.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Method, such as `GET`.
    pub method: String,
    /// The path without its query.
    pub path: String,
    /// The pairs of the query, in order.
    pub query: Vec<(String, String)>,
    /// The headers, names in lower case.
    pub headers: Vec<(String, String)>,
}

/// The response: a status and a JSON body.
pub type JsonReply = (u16, Value);

/// A server that runs until the process exits.
pub struct FakeHttpServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ReceivedRequest {
    /// A value of the query.
    pub fn param(&self, name: &str) -> Option<&str> {
        let pair = self.query.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.as_str())
    }

    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let pair = self.headers.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.as_str())
    }
}

impl FakeHttpServer {
    /// Starts a server; `reply` gets each request and the number of requests before it.
    pub fn start(reply: impl Fn(&ReceivedRequest, usize) -> JsonReply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a local port is free");
        let address = listener.local_addr().expect("a bound socket has an address");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (recorded, reply) = (requests.clone(), Arc::new(reply));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (recorded, reply) = (recorded.clone(), reply.clone());
                thread::spawn(move || serve_connection(stream, &recorded, &*reply));
            }
        });
        Self { address, requests }
    }

    /// Base URL of the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        let requests = self.requests.lock().expect("no server thread panics");
        requests.clone()
    }
}

/// Serves the requests of one connection until it closes.
fn serve_connection(
    stream: TcpStream,
    requests: &Mutex<Vec<ReceivedRequest>>,
    reply: &dyn Fn(&ReceivedRequest, usize) -> JsonReply,
) -> Option<()> {
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let request = read_request(&mut input)?;
        let before = {
            let mut recorded = requests.lock().ok()?;
            recorded.push(request.clone());
            recorded.len() - 1
        };
        let (status, body) = reply(&request, before);
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} Answer\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        out.write_all(head.as_bytes()).ok()?;
        out.write_all(body.as_bytes()).ok()?;
    }
}

fn read_request(input: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let first = read_line(input)?;
    let mut fields = first.split(' ');
    let (method, target) = (fields.next()?, fields.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut request = ReceivedRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        query: pairs.collect(),
        headers: Vec::new(),
    };
    loop {
        let header = read_line(input)?;
        let Some((name, value)) = header.split_once(':') else {
            break;
        };
        let pair = (name.to_ascii_lowercase(), value.trim().to_owned());
        request.headers.push(pair);
    }
    let length = request.header("content-length");
    let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(request)
}

fn read_line(input: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    let read = input.read_line(&mut line).ok()?;
    (read > 0).then(|| line.trim_end().to_owned())
}
