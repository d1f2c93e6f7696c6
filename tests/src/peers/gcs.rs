//! A fake Google Cloud Storage in memory with the requests of its XML API that NoETL uses. It can fail on demand.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use results::GcsConfig;

use super::web::PeerRequest;

/// A running fake; it runs until the process exits.
pub struct FakeGcs {
    port: u16,
    shared: Arc<Mutex<GcsState>>,
}

#[derive(Default)]
struct GcsState {
    objects: BTreeMap<String, Vec<u8>>,
    uploads: BTreeMap<String, BTreeMap<u32, Vec<u8>>>,
    count: u32,
    /// Status of the next requests, and how many of them get it.
    pending_failures: (u16, u32),
    requests: u32,
}

impl FakeGcs {
    /// Name of its bucket.
    pub const BUCKET: &'static str = "results";

    /// Starts a fake with one bucket.
    pub fn private() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr();
        let port = address.expect("a bound socket has an address").port();
        let shared = Arc::new(Mutex::new(GcsState::default()));
        let accepting = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = accepting.clone();
                thread::spawn(move || serve_connection(stream, &shared));
            }
        });
        Self { port, shared }
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Client settings for its bucket through this port.
    pub fn config_at(&self, port: u16) -> GcsConfig {
        GcsConfig {
            bucket: Self::BUCKET.to_owned(),
            endpoint: Some(format!("http://127.0.0.1:{port}")),
            credentials: None,
        }
    }

    /// Client settings for its bucket.
    pub fn config(&self) -> GcsConfig {
        self.config_at(self.port)
    }

    /// Makes the next requests fail with this status.
    pub fn fail_next(&self, status: u16, count: u32) {
        self.state().pending_failures = (status, count);
    }

    /// Number of requests.
    pub fn requests(&self) -> u32 {
        self.state().requests
    }

    /// Number of unfinished uploads, and number of objects.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.uploads.len(), state.objects.len())
    }

    /// Changes an object without the client.
    pub fn modify_object(&self, key: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let name = format!("/{}/{key}", Self::BUCKET);
        change(state.objects.get_mut(&name).expect("the object exists"));
    }

    fn state(&self) -> MutexGuard<'_, GcsState> {
        lock(&self.shared)
    }
}

fn lock(shared: &Mutex<GcsState>) -> MutexGuard<'_, GcsState> {
    shared.lock().expect("the fake does not panic")
}

fn serve_connection(stream: TcpStream, shared: &Mutex<GcsState>) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    while let Some(request) = PeerRequest::read(&mut reader) {
        let (status, headers, body) = lock(shared).reply(&request);
        let bytes = body.len();
        let length = if request.method == "HEAD" { 0 } else { bytes };
        let head = format!(
            "HTTP/1.1 {status} -\r\nContent-Length: {bytes}\r\nETag: \"1\"\r\nx-goog-generation: 1\r\n\
             Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n{headers}\r\n"
        );
        let sent = writer
            .write_all(head.as_bytes())
            .and_then(|()| writer.write_all(&body[..length]));
        if sent.is_err() {
            return;
        }
    }
}

type GcsReply = (u16, String, Vec<u8>);

fn plain_reply(status: u16, body: &str) -> GcsReply {
    (status, String::new(), body.as_bytes().to_vec())
}

impl GcsState {
    fn reply(&mut self, request: &PeerRequest) -> GcsReply {
        self.requests += 1;
        if self.pending_failures.1 > 0 {
            self.pending_failures.1 -= 1;
            return plain_reply(self.pending_failures.0, "<Error><Code>OnDemand</Code></Error>");
        }
        if let Some(upload) = request.param("uploadId") {
            return self.upload_part(request, upload);
        }
        match request.method.as_str() {
            "POST" => {
                self.count += 1;
                let id = self.count.to_string();
                self.uploads.insert(id.clone(), BTreeMap::new());
                let body =
                    format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>");
                plain_reply(200, &body)
            }
            "PUT" => {
                self.objects.insert(request.path.clone(), request.body.clone());
                plain_reply(200, "")
            }
            "DELETE" => match self.objects.remove(&request.path) {
                Some(_) => plain_reply(204, ""),
                None => plain_reply(404, ""),
            },
            _ => self.read_object(request),
        }
    }

    fn upload_part(&mut self, request: &PeerRequest, upload: &str) -> GcsReply {
        let Some(parts) = self.uploads.get_mut(upload) else {
            return plain_reply(404, "");
        };
        match request.method.as_str() {
            "PUT" => {
                let number = request.param("partNumber").and_then(|n| n.parse().ok());
                parts.insert(number.unwrap_or(0), request.body.clone());
                plain_reply(200, "")
            }
            "POST" => {
                let whole = parts.values().cloned().collect::<Vec<_>>().concat();
                self.uploads.remove(upload);
                self.objects.insert(request.path.clone(), whole);
                let body = "<CompleteMultipartUploadResult><ETag>\"1\"</ETag></CompleteMultipartUploadResult>";
                plain_reply(200, body)
            }
            _ => {
                self.uploads.remove(upload);
                plain_reply(204, "")
            }
        }
    }

    /// A page of names in the format of the XML API.
    fn list_objects(&self, request: &PeerRequest) -> GcsReply {
        const PAGE: usize = 2;
        let folder = format!("{}/", request.path.trim_end_matches('/'));
        let prefix = request.param("prefix").unwrap_or_default();
        let after = request.param("continuation-token").or(request.param("start-after"));
        let names = self.objects.iter().filter_map(|(path, body)| {
            let name = path.strip_prefix(&folder)?;
            let is_after = after.is_none_or(|after| name > after);
            (name.starts_with(prefix) && is_after).then_some((name, body.len()))
        });
        let mut names: Vec<_> = names.take(PAGE + 1).collect();
        let has_more = names.len() > PAGE;
        names.truncate(PAGE);
        let mut body = "<ListBucketResult>".to_owned();
        for (name, bytes) in &names {
            body.push_str(&format!(
                "<Contents><Key>{name}</Key><Size>{bytes}</Size><ETag>\"1\"</ETag>\
                 <LastModified>1970-01-01T00:00:00.000Z</LastModified></Contents>"
            ));
        }
        if let Some((last, _)) = names.last().filter(|_| has_more) {
            body.push_str(&format!("<NextContinuationToken>{last}</NextContinuationToken>"));
        }
        plain_reply(200, &format!("{body}</ListBucketResult>"))
    }

    fn read_object(&self, request: &PeerRequest) -> GcsReply {
        if request.param("list-type").is_some() {
            return self.list_objects(request);
        }
        let Some(object) = self.objects.get(&request.path) else {
            return plain_reply(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        match request.range {
            None => (200, String::new(), object.clone()),
            Some((start, end)) => {
                let end = end.min(object.len());
                let total = object.len();
                let header = format!("Content-Range: bytes {start}-{}/{total}\r\n", end - 1);
                (206, header, object[start.min(end)..end].to_vec())
            }
        }
    }
}
