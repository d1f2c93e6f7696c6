//! Sends single requests to a service without its client, and parses requests for fakes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

/// Credentials of the bucket's owner; the services of the tests do not check the signature.
const OWNER: &str =
    "AWS4-HMAC-SHA256 Credential=tests/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";

/// Response of a service.
pub struct PeerReply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Sends a request to the service on this `port` of the machine.
pub fn request(port: u16, method: &str, path: &str, body: &[u8]) -> PeerReply {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the service accepts connections");
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {}\r\nAuthorization: {OWNER}\r\n\r\n",
        body.len()
    );
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    sent.expect("the service reads the request");
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).expect("the service sends a response");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("the service sends a response");
    }
    let mut body = Vec::new();
    reader.read_to_end(&mut body).expect("the service sends a response");
    PeerReply {
        status: status.unwrap_or(0),
        body,
    }
}

/// A request that a fake received.
pub(super) struct PeerRequest {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) query: String,
    pub(super) range: Option<(usize, usize)>,
    pub(super) body: Vec<u8>,
}

impl PeerRequest {
    /// Reads the next request of a connection; `None` at its end.
    pub(super) fn read(reader: &mut BufReader<TcpStream>) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut fields = line.split(' ');
        let method = fields.next()?.to_owned();
        let target = fields.next()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method,
            path: percent_decode(path),
            query: percent_decode(query),
            range: None,
            body: Vec::new(),
        };
        let mut bytes = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => bytes = value.trim().parse().ok()?,
                "range" => request.range = parse_range(value.trim()),
                _ => {}
            }
        }
        request.body = vec![0; bytes];
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// A value of the query.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&');
        pairs.find_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key == name).then_some(value)
        })
    }
}

fn parse_range(text: &str) -> Option<(usize, usize)> {
    let (start, end) = text.strip_prefix("bytes=")?.split_once('-')?;
    let end: usize = end.parse().unwrap_or(usize::MAX - 1);
    Some((start.parse().ok()?, end + 1))
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut encoded = text.bytes();
    while let Some(byte) = encoded.next() {
        let hex = |digit: Option<u8>| digit.and_then(|digit| char::from(digit).to_digit(16));
        if byte == b'%'
            && let (Some(high), Some(low)) = (hex(encoded.next()), hex(encoded.next()))
        {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
