//! Objects of a bucket. Large objects are streamed to the result store.

use std::io::Cursor;

use async_nats::jetstream::object_store::{
    Config, DeleteErrorKind, GetErrorKind, InfoErrorKind, Object, ObjectInfo, ObjectMetadata, ObjectStore,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, Outcome, TaskError};
use results::{ResultWriter, SpaceWatch};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use tools::http::{BodyEncoding, EnvelopeFields, SpooledBody, store_envelope};
use tools::objects::check_allowed;
use tools::stored_outcome;

use crate::nats::failure::{no_response_error, not_found_error, peer_error, stream_error};
use crate::nats::tool::NatsCall;
use crate::nats::value::{NatsEncoding, time_value};

/// Maximum length of a listing.
const OBJECTS_MAX: usize = 10_000;
/// Maximum size of an object that is read into memory.
const BUFFERED_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of an object that is streamed to the result store.
const STREAMED_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Bytes to read at a time.
const READ_BYTES: usize = 128 * 1024;

pub(crate) async fn get(nats_call: &NatsCall<'_>) -> Result<Outcome, TaskError> {
    let (name, bucket) = (nats_call.required_text("object")?, open_bucket(nats_call).await?);
    let object = bucket.get(name).await.map_err(|error| match error.kind() {
        GetErrorKind::NotFound => object_missing_error(name),
        GetErrorKind::TimedOut => no_response_error(),
        _ => peer_error(&error),
    })?;
    let writer = nats_call.call.result_writer.as_ref();
    let writer = writer.filter(|writer| writer.can_stream());
    match writer {
        Some(writer) if object.info.size > nats_call.call.inline_bytes_max => {
            read_spooled(nats_call, object, writer).await
        }
        _ => read_buffered(nats_call, object).await,
    }
}

pub(crate) async fn put(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let name = nats_call.required_text("object")?;
    let meta = ObjectMetadata {
        name: name.to_owned(),
        description: nats_call.call.text_field("description")?.map(str::to_owned),
        ..ObjectMetadata::default()
    };
    let bucket = match nats_call.call.flag_field("create")? {
        Some(true) => ensure_bucket(nats_call).await?,
        _ => open_bucket(nats_call).await?,
    };
    let put = match nats_call.call.text_field("file")? {
        Some(path) => {
            let path = check_allowed(nats_call.call.resolve_path(path), &nats_call.object_access.forbidden)?;
            let opened = tools::open_regular(&path).await;
            let mut file = opened.map_err(|error| {
                let message = format!("`file`: `{}`: {error}", path.display());
                TaskError::new(ErrorKind::NotFound, "FILE_NOT_READABLE", message)
            })?;
            bucket.put(meta, &mut file).await
        }
        None => bucket.put(meta, &mut Cursor::new(nats_call.payload()?)).await,
    };
    Ok(to_json(&put.map_err(|error| peer_error(&error))?))
}

pub(crate) async fn delete(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let (name, bucket) = (nats_call.required_text("object")?, open_bucket(nats_call).await?);
    // A deleted object leaves a marker, which a second deletion would find.
    if bucket.info(name).await.is_ok_and(|info| info.deleted) {
        return Err(object_missing_error(name));
    }
    match bucket.delete(name).await {
        Ok(()) => Ok(json!({"bucket": nats_call.required_text("bucket")?, "object": name, "deleted": true})),
        Err(error) if error.kind() == DeleteErrorKind::NotFound => Err(object_missing_error(name)),
        Err(error) => Err(peer_error(&error)),
    }
}

pub(crate) async fn info(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let (name, bucket) = (nats_call.required_text("object")?, open_bucket(nats_call).await?);
    match bucket.info(name).await {
        Ok(info) if info.deleted => Err(object_missing_error(name)),
        Ok(info) => Ok(to_json(&info)),
        Err(error) if error.kind() == InfoErrorKind::NotFound => Err(object_missing_error(name)),
        Err(error) => Err(peer_error(&error)),
    }
}

pub(crate) async fn list(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let bucket = open_bucket(nats_call).await?;
    let mut listing = bucket.list().await.map_err(|error| peer_error(&error))?;
    let mut objects: Vec<Value> = Vec::new();
    let mut is_truncated = false;
    while let Some(info) = listing.try_next().await.map_err(|error| peer_error(&error))? {
        if objects.len() == OBJECTS_MAX {
            is_truncated = true;
            break;
        }
        objects.push(to_json(&info));
    }
    let count = objects.len();
    Ok(
        json!({"bucket": nats_call.required_text("bucket")?, "objects": objects, "count": count, "truncated": is_truncated}),
    )
}

async fn read_buffered(nats_call: &NatsCall<'_>, mut object: Object) -> Result<Outcome, TaskError> {
    if object.info.size > BUFFERED_BYTES_MAX {
        let message = format!("the object exceeds the limit of {BUFFERED_BYTES_MAX} bytes");
        return Err(TaskError::new(ErrorKind::Schema, "NATS_OBJECT_TOO_LARGE", message));
    }
    let mut bytes = Vec::with_capacity(object.info.size);
    let read = object.read_to_end(&mut bytes).await;
    read.map_err(|error| peer_error(&error))?;
    let mut map = describe_object(&object.info);
    nats_call.encoding.decode_into(&mut map, "data", &bytes)?;
    Ok(Outcome::ok(map))
}

async fn read_spooled(
    nats_call: &NatsCall<'_>,
    mut object: Object,
    writer: &ResultWriter,
) -> Result<Outcome, TaskError> {
    let mut spool = SpooledBody::create(&nats_call.object_access.scratch_dir, &SpaceWatch::default())?;
    let mut chunk = vec![0; READ_BYTES];
    loop {
        let read = object.read(&mut chunk).await;
        let length = read.map_err(|error| peer_error(&error))?;
        if length == 0 {
            break;
        }
        let bytes = Bytes::copy_from_slice(&chunk[..length]);
        spool.append(bytes, STREAMED_BYTES_MAX).await?;
    }
    let encoding = body_encoding(nats_call.encoding, &spool)?;
    let mut after = Map::new();
    if encoding == BodyEncoding::Base64 {
        after.insert("encoding".to_owned(), "base64".into());
    }
    let fields = EnvelopeFields {
        before: describe_object(&object.info),
        after,
    };
    let reference = store_envelope(fields, encoding, spool, writer).await?;
    Ok(stored_outcome(reference))
}

/// Encoding of the object in the result.
fn body_encoding(encoding: NatsEncoding, spool: &SpooledBody) -> Result<BodyEncoding, TaskError> {
    match encoding {
        NatsEncoding::Json => match spool.check_json() {
            Ok(()) => Ok(BodyEncoding::Json),
            Err(error) => {
                let message = format!("the object is not valid JSON: {error}");
                Err(TaskError::new(ErrorKind::Parse, "NATS_JSON", message))
            }
        },
        NatsEncoding::Text => Ok(BodyEncoding::Text),
        NatsEncoding::Auto => Ok(spool.detect_encoding()),
        NatsEncoding::Base64 => Ok(BodyEncoding::Base64),
    }
}

async fn open_bucket(nats_call: &NatsCall<'_>) -> Result<ObjectStore, TaskError> {
    let name = nats_call.required_text("bucket")?;
    let opened = nats_call.context.get_object_store(name).await;
    opened.map_err(|error| stream_error(&error, not_found_error("NATS_BUCKET_NOT_FOUND", "object bucket", name)))
}

/// Returns the bucket; creates it if it does not exist.
async fn ensure_bucket(nats_call: &NatsCall<'_>) -> Result<ObjectStore, TaskError> {
    match open_bucket(nats_call).await {
        Err(error) if error.code == "NATS_BUCKET_NOT_FOUND" => {
            let config = Config {
                bucket: nats_call.required_text("bucket")?.to_owned(),
                ..Config::default()
            };
            let created = nats_call.context.create_object_store(config).await;
            created.map_err(|error| peer_error(&error))
        }
        opened => opened,
    }
}

fn object_missing_error(name: &str) -> TaskError {
    not_found_error("NATS_OBJECT_NOT_FOUND", "object", name)
}

fn to_json(info: &ObjectInfo) -> Value {
    Value::Object(describe_object(info))
}

fn describe_object(info: &ObjectInfo) -> Map<String, Value> {
    let modified = info
        .modified
        .map(|modified_at| time_value(modified_at.unix_timestamp_nanos()));
    let fields = json!({
        "bucket": info.bucket,
        "object": info.name,
        "size_bytes": info.size,
        "chunks": info.chunks,
        "modified": modified,
        "sha256": sha256(info),
        "description": info.description,
    });
    match fields {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Digest in hexadecimal; NATS writes it as `SHA-256=<base64url>`.
fn sha256(info: &ObjectInfo) -> Option<String> {
    let digest = info.digest.as_deref()?.strip_prefix("SHA-256=")?;
    let standard = digest.replace('-', "+").replace('_', "/");
    let bytes = STANDARD.decode(standard).ok()?;
    Some(hex::encode(bytes))
}
