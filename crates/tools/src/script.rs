//! `script`: a program outside the playbook, in a file, at a URL or in a bucket.
//!
//! Input: `script` of a call, as text or as `{uri, source: {type, …}}`. Output: the program's text and its name. An
//! inline program, `source: {type: inline, code}`, is read with the playbook.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use language::template::Piece;
use model::outcome::{ErrorKind, TaskError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, ToolResult, cancelled_error, timeout_error, type_name};
use crate::http::HttpClients;
use crate::objects::{ObjectAccess, ObjectAddress, open_object};

/// Maximum size of a script.
const SCRIPT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Default timeout for loading a script.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Loads scripts.
pub(crate) struct ScriptLoader {
    clients: Arc<HttpClients>,
    object_access: ObjectAccess,
}

/// A loaded script.
pub(crate) struct LoadedScript {
    pub(crate) text: String,
    /// File or URL.
    pub(crate) name: String,
}

/// Location of a script.
#[derive(Debug, PartialEq, Eq)]
enum ScriptOrigin {
    File(PathBuf),
    Url(String),
    Object(ObjectAddress),
}

impl ScriptLoader {
    pub(crate) fn new(clients: Arc<HttpClients>) -> Self {
        let object_access = ObjectAccess {
            forbidden: Vec::new(),
            guard: clients.guard.clone(),
            scratch_dir: PathBuf::new(),
        };
        Self { clients, object_access }
    }

    /// Loads the script of a call.
    pub(crate) async fn load(&self, call: &Call, stop: &CancellationToken) -> Result<LoadedScript, TaskError> {
        let limit = call.timeout.total.unwrap_or(LOAD_TIMEOUT);
        match parse_origin(call)? {
            ScriptOrigin::File(path) => load_file(&path).await,
            ScriptOrigin::Url(url) => Ok(LoadedScript {
                text: self.clients.fetch_text(&url, limit, stop).await?,
                name: url,
            }),
            ScriptOrigin::Object(address) => tokio::select! {
                script = self.load_object(call, address) => script,
                () = stop.cancelled() => Err(cancelled_error()),
                () = tokio::time::sleep(limit) => Err(timeout_error(limit)),
            },
        }
    }

    async fn load_object(&self, call: &Call, address: ObjectAddress) -> Result<LoadedScript, TaskError> {
        let location = address.open(script_credential(call), &self.object_access).await?;
        let name = location.uri();
        let mut opened = open_object(&location, None).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = opened.chunks.next().await {
            let piece = piece.map_err(|error| unreadable_error(&name, &error.to_string()))?;
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > SCRIPT_BYTES_MAX {
                let reason = format!("larger than {SCRIPT_BYTES_MAX} bytes");
                return Err(unreadable_error(&name, &reason));
            }
        }
        decode_script(bytes, name)
    }
}

async fn load_file(path: &Path) -> Result<LoadedScript, TaskError> {
    let name = path.display().to_string();
    let bytes = crate::regular_file::read_regular(path, SCRIPT_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| unreadable_error(&name, &error.to_string()))?;
    decode_script(bytes, name)
}

fn decode_script(bytes: Vec<u8>, name: String) -> Result<LoadedScript, TaskError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(LoadedScript { text, name }),
        Err(_) => Err(unreadable_error(&name, "not valid UTF-8")),
    }
}

fn unreadable_error(name: &str, reason: &str) -> TaskError {
    let message = format!("cannot read script `{name}`: {reason}");
    TaskError::new(ErrorKind::NotFound, "SCRIPT_NOT_READABLE", message).with_detail("key", "script")
}

/// Credential for the script's location: its own `auth`, else the task's.
fn script_credential(call: &Call) -> Option<&Value> {
    let script = call.field("script")?;
    let source = script.get("source").and_then(auth_field);
    source.or_else(|| auth_field(script)).or_else(|| call.field("auth"))
}

fn auth_field(map: &Value) -> Option<&Value> {
    map.get("auth").or_else(|| map.get("credential"))
}

/// Location of a call's script.
fn parse_origin(call: &Call) -> Result<ScriptOrigin, TaskError> {
    match call.field("script") {
        None => Err(call.missing_key_error("script", "set it to the path or URL of the script")),
        Some(Value::String(uri)) => origin_from_uri(call, uri),
        Some(Value::Object(script)) => origin_from_map(call, script),
        Some(other) => Err(call.wrong_type_error("script", "a map {uri} or {source}", other)),
    }
}

fn origin_from_map(call: &Call, script: &Map<String, Value>) -> Result<ScriptOrigin, TaskError> {
    let text = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
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
        return Err(call.missing_key_error("script.uri", "set it to the path or URL of the script"));
    };
    match kind {
        None => origin_from_uri(call, &uri),
        Some(Value::String(kind)) => match kind.as_str() {
            "file" => {
                let path = uri.strip_prefix("file://").unwrap_or(&uri);
                Ok(ScriptOrigin::File(call.resolve_path(path)))
            }
            "http" | "https" => origin_from_uri(call, &uri),
            "s3" | "gcs" => {
                let key = key.unwrap_or(uri);
                Ok(ScriptOrigin::Object(bucket_address(call, &kind, bucket, key)?))
            }
            other => Err(unsupported_error(other)),
        },
        Some(other) => Err(unsupported_error(type_name(&other))),
    }
}

/// Object address from a URI, or from a bucket and a key.
fn bucket_address(call: &Call, kind: &str, bucket: Option<String>, key: String) -> Result<ObjectAddress, TaskError> {
    match (ObjectAddress::parse(call, &key), bucket) {
        (Some(address @ (ObjectAddress::S3 { .. } | ObjectAddress::Gcs { .. })), _) => Ok(address),
        (None, Some(bucket)) if kind == "s3" => Ok(ObjectAddress::S3 { bucket, key }),
        (None, Some(bucket)) => Ok(ObjectAddress::Gcs { bucket, key }),
        _ => Err(call.missing_key_error("script.source.bucket", "set the bucket, or use `uri: s3://bucket/key`")),
    }
}

fn origin_from_uri(call: &Call, uri: &str) -> Result<ScriptOrigin, TaskError> {
    match uri.split_once("://") {
        None => Ok(ScriptOrigin::File(call.resolve_path(uri))),
        Some(("http" | "https", _)) => Ok(ScriptOrigin::Url(uri.to_owned())),
        Some((scheme, _)) => match ObjectAddress::parse(call, uri) {
            Some(ObjectAddress::File(path)) => Ok(ScriptOrigin::File(path)),
            Some(object) => Ok(ScriptOrigin::Object(object)),
            None => Err(unsupported_error(scheme)),
        },
    }
}

fn unsupported_error(kind: &str) -> TaskError {
    TaskError::new(
        ErrorKind::ClientError,
        "SCRIPT_SOURCE",
        format!("unsupported script source `{kind}`; use inline, file, http, gcs or s3"),
    )
    .with_detail("key", "script")
}

/// A tool whose program can be a script.
pub(crate) struct ScriptLoadingTool {
    tool: Arc<dyn Tool>,
    scripts: Arc<ScriptLoader>,
    /// Key that receives the script's text.
    key: &'static str,
}

impl ScriptLoadingTool {
    /// Wraps a tool; the text of a script is passed under `key`.
    pub(crate) fn new(tool: Arc<dyn Tool>, scripts: Arc<ScriptLoader>, key: &'static str) -> Self {
        Self { tool, scripts, key }
    }
}

#[async_trait]
impl Tool for ScriptLoadingTool {
    fn is_pure(&self) -> bool {
        self.tool.is_pure()
    }

    async fn run(&self, mut call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        if call.field("script").is_some() {
            let script = self.scripts.load(&call, stop).await?;
            call.fields.remove("script");
            if self.key == "command" {
                let command = vec![vec![Piece::Text(script.text)]];
                call.pieces.insert(self.key.to_owned(), command);
            } else {
                call.fields.insert(self.key.to_owned(), script.text.into());
            }
        }
        self.tool.run(call, stop, log).await
    }
}
