//! Objects of a bucket. Large objects are streamed to the result store.

use std::io::Cursor;

use async_nats::jetstream::object_store::{
    Config, DeleteErrorKind, GetErrorKind, InfoErrorKind, Object, ObjectInfo, ObjectMetadata,
    ObjectStore,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, Outcome, Success, TaskError};
use results::{Keeper, SpaceWatch};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;

use crate::http::{Around, Form, Spool, keep};
use crate::nats::failure::{failed, no_stream, not_found, other, silent};
use crate::nats::tool::Session;
use crate::nats::value::{Encoding, moment};
use crate::objects::allowed;

/// Maximum length of a listing.
const OBJECTS_MAX: usize = 10_000;
/// Maximum size of an object that is read into memory.
const HELD_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Maximum size of an object that is streamed to the result store.
const STREAMED_BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;
/// Bytes to read at a time.
const PIECE_BYTES: usize = 128 * 1024;

pub(crate) async fn get(session: &Session<'_>) -> Result<Outcome, TaskError> {
    let (name, bucket) = (session.need("object")?, bucket(session).await?);
    let object = bucket.get(name).await.map_err(|error| match error.kind() {
        GetErrorKind::NotFound => missing(name),
        GetErrorKind::TimedOut => silent(),
        _ => other(&error),
    })?;
    let keeper = session.call.keeper.as_ref();
    let keeper = keeper.filter(|keeper| keeper.can_stream());
    match keeper {
        Some(keeper) if object.info.size > session.call.inline_bytes_max => {
            kept(session, object, keeper).await
        }
        _ => held(session, object).await,
    }
}

pub(crate) async fn put(session: &Session<'_>) -> Result<Value, TaskError> {
    let name = session.need("object")?;
    let meta = ObjectMetadata {
        name: name.to_owned(),
        description: session.call.text("description")?.map(str::to_owned),
        ..ObjectMetadata::default()
    };
    let bucket = match session.call.flag("create")? {
        Some(true) => made(session).await?,
        _ => bucket(session).await?,
    };
    let put = match session.call.text("file")? {
        Some(path) => {
            let path = allowed(session.call.resolve(path), &session.reach.forbidden)?;
            let opened = crate::regular::open(&path).await;
            let mut file = opened.map_err(|error| {
                let message = format!("`file`: `{}`: {error}", path.display());
                failed(ErrorKind::NotFound, "FILE_NOT_READABLE", message)
            })?;
            bucket.put(meta, &mut file).await
        }
        None => bucket.put(meta, &mut Cursor::new(session.payload()?)).await,
    };
    Ok(shown(&put.map_err(|error| other(&error))?))
}

pub(crate) async fn delete(session: &Session<'_>) -> Result<Value, TaskError> {
    let (name, bucket) = (session.need("object")?, bucket(session).await?);
    // A deleted object leaves a marker, which a second deletion would find.
    if bucket.info(name).await.is_ok_and(|info| info.deleted) {
        return Err(missing(name));
    }
    match bucket.delete(name).await {
        Ok(()) => Ok(json!({"bucket": session.need("bucket")?, "object": name, "deleted": true})),
        Err(error) if error.kind() == DeleteErrorKind::NotFound => Err(missing(name)),
        Err(error) => Err(other(&error)),
    }
}

pub(crate) async fn info(session: &Session<'_>) -> Result<Value, TaskError> {
    let (name, bucket) = (session.need("object")?, bucket(session).await?);
    match bucket.info(name).await {
        Ok(info) if info.deleted => Err(missing(name)),
        Ok(info) => Ok(shown(&info)),
        Err(error) if error.kind() == InfoErrorKind::NotFound => Err(missing(name)),
        Err(error) => Err(other(&error)),
    }
}

pub(crate) async fn list(session: &Session<'_>) -> Result<Value, TaskError> {
    let bucket = bucket(session).await?;
    let mut listing = bucket.list().await.map_err(|error| other(&error))?;
    let mut objects: Vec<Value> = Vec::new();
    let mut is_cut = false;
    while let Some(info) = listing.try_next().await.map_err(|error| other(&error))? {
        if objects.len() == OBJECTS_MAX {
            is_cut = true;
            break;
        }
        objects.push(shown(&info));
    }
    let count = objects.len();
    Ok(
        json!({"bucket": session.need("bucket")?, "objects": objects, "count": count, "truncated": is_cut}),
    )
}

async fn held(session: &Session<'_>, mut object: Object) -> Result<Outcome, TaskError> {
    if object.info.size > HELD_BYTES_MAX {
        let message = format!("the object exceeds the limit of {HELD_BYTES_MAX} bytes");
        return Err(failed(ErrorKind::Schema, "NATS_OBJECT_TOO_LARGE", message));
    }
    let mut bytes = Vec::with_capacity(object.info.size);
    let read = object.read_to_end(&mut bytes).await;
    read.map_err(|error| other(&error))?;
    let mut map = described(&object.info);
    session.encoding.read_into(&mut map, "data", &bytes)?;
    Ok(Outcome::ok(map))
}

async fn kept(
    session: &Session<'_>,
    mut object: Object,
    keeper: &Keeper,
) -> Result<Outcome, TaskError> {
    let mut spool = Spool::begin(&session.reach.scratch_dir, &SpaceWatch::default())?;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = object.read(&mut piece).await;
        let length = read.map_err(|error| other(&error))?;
        if length == 0 {
            break;
        }
        let bytes = Bytes::copy_from_slice(&piece[..length]);
        spool.take(bytes, STREAMED_BYTES_MAX).await?;
    }
    let form = form(session.encoding, &spool)?;
    let mut after = Map::new();
    if form == Form::Base64 {
        after.insert("encoding".to_owned(), "base64".into());
    }
    let around = Around {
        before: described(&object.info),
        after,
    };
    let reference = keep(around, form, spool, keeper).await?;
    Ok(Outcome::Ok(Success {
        reference: Some(Box::new(reference)),
        ..Success::default()
    }))
}

/// Encoding of the object in the result.
fn form(encoding: Encoding, spool: &Spool) -> Result<Form, TaskError> {
    match encoding {
        Encoding::Json => match spool.json() {
            Ok(()) => Ok(Form::Json),
            Err(error) => {
                let message = format!("the object is not valid JSON: {error}");
                Err(failed(ErrorKind::Parse, "NATS_JSON", message))
            }
        },
        Encoding::Text => Ok(Form::Text),
        Encoding::Auto if spool.json().is_ok() => Ok(Form::Json),
        Encoding::Auto if spool.is_utf8() => Ok(Form::Text),
        Encoding::Auto | Encoding::Base64 => Ok(Form::Base64),
    }
}

async fn bucket(session: &Session<'_>) -> Result<ObjectStore, TaskError> {
    let name = session.need("bucket")?;
    let found = session.context.get_object_store(name).await;
    found.map_err(|error| {
        no_stream(
            &error,
            not_found("NATS_BUCKET_NOT_FOUND", "object bucket", name),
        )
    })
}

/// Returns the bucket; creates it if it does not exist.
async fn made(session: &Session<'_>) -> Result<ObjectStore, TaskError> {
    match bucket(session).await {
        Err(error) if error.code == "NATS_BUCKET_NOT_FOUND" => {
            let config = Config {
                bucket: session.need("bucket")?.to_owned(),
                ..Config::default()
            };
            let made = session.context.create_object_store(config).await;
            made.map_err(|error| other(&error))
        }
        found => found,
    }
}

fn missing(name: &str) -> TaskError {
    not_found("NATS_OBJECT_NOT_FOUND", "object", name)
}

fn shown(info: &ObjectInfo) -> Value {
    Value::Object(described(info))
}

fn described(info: &ObjectInfo) -> Map<String, Value> {
    let modified = info.modified.map(|at| moment(at.unix_timestamp_nanos()));
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
