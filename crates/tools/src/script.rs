//! `script`: a program outside the playbook, in a file, at a URL or in a bucket.
//!
//! Input: `script` of a call, as text or as `{uri, source: {type, …}}`. Output: the program's text and its name. An
//! inline program, `source: {type: inline, code}`, is read with the playbook.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::template::Piece;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, timed_out, type_name};
use crate::http::Clients;
use crate::objects::{Address, Reach, open};

/// Maximum size of a script.
const SCRIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Default timeout for loading a script.
const LOAD_MAX: Duration = Duration::from_secs(60);

/// Loads scripts.
pub(crate) struct Scripts {
    clients: Arc<Clients>,
    reach: Reach,
}

/// A loaded script.
pub(crate) struct Script {
    pub(crate) text: String,
    /// File or URL.
    pub(crate) name: String,
}

/// Location of a script.
#[derive(Debug, PartialEq, Eq)]
enum Origin {
    File(PathBuf),
    Url(String),
    Object(Address),
}

impl Scripts {
    pub(crate) fn new(clients: Arc<Clients>) -> Self {
        let reach = Reach {
            forbidden: Vec::new(),
            guard: clients.guard.clone(),
            scratch_dir: PathBuf::new(),
        };
        Self { clients, reach }
    }

    /// Loads the script of a call.
    pub(crate) async fn load(
        &self,
        call: &Call,
        stop: &CancellationToken,
    ) -> Result<Script, TaskError> {
        let limit = call.timeout.total.unwrap_or(LOAD_MAX);
        match origin(call)? {
            Origin::File(path) => file(&path).await,
            Origin::Url(url) => Ok(Script {
                text: self.clients.fetch_text(&url, limit, stop).await?,
                name: url,
            }),
            Origin::Object(address) => tokio::select! {
                script = self.object(call, address) => script,
                () = stop.cancelled() => Err(cancelled()),
                () = tokio::time::sleep(limit) => Err(timed_out(limit)),
            },
        }
    }

    async fn object(&self, call: &Call, address: Address) -> Result<Script, TaskError> {
        let place = address.open(credential(call), &self.reach).await?;
        let name = place.uri();
        let mut opened = open(&place, None).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = opened.pieces.next().await {
            let piece = piece.map_err(|error| unreadable(&name, &error.to_string()))?;
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > SCRIPT_BYTES_MAX {
                let why = format!("larger than {SCRIPT_BYTES_MAX} bytes");
                return Err(unreadable(&name, &why));
            }
        }
        text(bytes, name)
    }
}

async fn file(path: &Path) -> Result<Script, TaskError> {
    let name = path.display().to_string();
    let bytes = crate::regular::read(path, SCRIPT_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| unreadable(&name, &error.to_string()))?;
    text(bytes, name)
}

fn text(bytes: Vec<u8>, name: String) -> Result<Script, TaskError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Script { text, name }),
        Err(_) => Err(unreadable(&name, "not valid UTF-8")),
    }
}

fn unreadable(name: &str, why: &str) -> TaskError {
    let message = format!("cannot read script `{name}`: {why}");
    TaskError::new(ErrorKind::NotFound, "SCRIPT_NOT_READABLE", message).with("key", "script")
}

/// Credential for the script's location: its own `auth`, else the task's.
fn credential(call: &Call) -> Option<&Value> {
    let script = call.field("script")?;
    let source = script.get("source").and_then(auth_in);
    source
        .or_else(|| auth_in(script))
        .or_else(|| call.field("auth"))
}

fn auth_in(map: &Value) -> Option<&Value> {
    map.get("auth").or_else(|| map.get("credential"))
}

/// Location of a call's script.
fn origin(call: &Call) -> Result<Origin, TaskError> {
    match call.field("script") {
        None => Err(call.missing("script", "set it to the path or URL of the script")),
        Some(Value::String(uri)) => by_uri(call, uri),
        Some(Value::Object(script)) => by_map(call, script),
        Some(other) => Err(call.wrong_type("script", "a map {uri} or {source}", other)),
    }
}

fn by_map(call: &Call, script: &Map<String, Value>) -> Result<Origin, TaskError> {
    let text = |map: &Map<String, Value>, key: &str| {
        map.get(key).and_then(Value::as_str).map(str::to_owned)
    };
    let empty = Map::new();
    let (kind, source) = match script.get("source") {
        Some(Value::Object(source)) => (source.get("type").cloned(), source),
        Some(kind) => (Some(kind.clone()), &empty),
        None => (None, &empty),
    };
    let uri = ["path", "url", "endpoint", "uri"]
        .iter()
        .find_map(|key| text(source, key))
        .or_else(|| text(script, "uri"))
        .or_else(|| text(script, "path"));
    let bucket = text(source, "bucket");
    let key = ["key", "object"].iter().find_map(|key| text(source, key));
    let Some(uri) = uri.or_else(|| key.clone()) else {
        return Err(call.missing("script.uri", "set it to the path or URL of the script"));
    };
    match kind {
        None => by_uri(call, &uri),
        Some(Value::String(kind)) => match kind.as_str() {
            "file" => {
                let path = uri.strip_prefix("file://").unwrap_or(&uri);
                Ok(Origin::File(call.resolve(path)))
            }
            "http" | "https" => by_uri(call, &uri),
            "s3" | "gcs" => {
                let key = key.unwrap_or(uri);
                Ok(Origin::Object(in_bucket(call, &kind, bucket, key)?))
            }
            other => Err(unsupported(other)),
        },
        Some(other) => Err(unsupported(type_name(&other))),
    }
}

/// Object address from a URI, or from a bucket and a key.
fn in_bucket(
    call: &Call,
    kind: &str,
    bucket: Option<String>,
    key: String,
) -> Result<Address, TaskError> {
    match (Address::read(call, &key), bucket) {
        (Some(address @ (Address::S3 { .. } | Address::Gcs { .. })), _) => Ok(address),
        (None, Some(bucket)) if kind == "s3" => Ok(Address::S3 { bucket, key }),
        (None, Some(bucket)) => Ok(Address::Gcs { bucket, key }),
        _ => Err(call.missing(
            "script.source.bucket",
            "set the bucket, or use `uri: s3://bucket/key`",
        )),
    }
}

fn by_uri(call: &Call, uri: &str) -> Result<Origin, TaskError> {
    match uri.split_once("://") {
        None => Ok(Origin::File(call.resolve(uri))),
        Some(("http" | "https", _)) => Ok(Origin::Url(uri.to_owned())),
        Some((scheme, _)) => match Address::read(call, uri) {
            Some(Address::File(path)) => Ok(Origin::File(path)),
            Some(object) => Ok(Origin::Object(object)),
            None => Err(unsupported(scheme)),
        },
    }
}

fn unsupported(kind: &str) -> TaskError {
    TaskError::new(
        ErrorKind::ClientError,
        "SCRIPT_SOURCE",
        format!("unsupported script source `{kind}`; use inline, file, http, gcs or s3"),
    )
    .with("key", "script")
}

/// A tool whose program can be a script.
pub(crate) struct Scripted {
    tool: Arc<dyn Tool>,
    scripts: Arc<Scripts>,
    /// Key that receives the script's text.
    key: &'static str,
}

impl Scripted {
    /// Wraps a tool; the text of a script is passed under `key`.
    pub(crate) fn new(tool: Arc<dyn Tool>, scripts: Arc<Scripts>, key: &'static str) -> Self {
        Self { tool, scripts, key }
    }
}

#[async_trait]
impl Tool for Scripted {
    fn is_pure(&self) -> bool {
        self.tool.is_pure()
    }

    async fn call(&self, mut call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        if call.field("script").is_some() {
            let script = match self.scripts.load(&call, &stop).await {
                Ok(script) => script,
                Err(error) => return Outcome::error(error),
            };
            call.fields.remove("script");
            if self.key == "command" {
                let command = vec![vec![Piece::Text(script.text)]];
                call.pieces.insert(self.key.to_owned(), command);
            } else {
                call.fields.insert(self.key.to_owned(), script.text.into());
            }
        }
        self.tool.call(call, stop, log).await
    }
}
