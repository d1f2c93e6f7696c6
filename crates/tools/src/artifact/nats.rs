//! Values in buckets of NATS: `nats-kv://bucket/key` and `nats-obj://bucket/name`.

use std::time::Duration;

use async_nats::jetstream::{self, Context};
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::result_ref::HELD_BYTES_MAX;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::outside::{held, unknown};
use crate::auth::invalid;
use crate::call::Call;
use crate::nats::{Connections, Login};

/// How long the server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// An address in a bucket of NATS.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NatsAddress {
    uri: String,
    is_object: bool,
    bucket: String,
    key: String,
}

impl NatsAddress {
    pub(super) fn read(uri: &str) -> Option<Self> {
        let (is_object, rest) = match uri.strip_prefix("nats-kv://") {
            Some(rest) => (false, rest),
            None => (true, uri.strip_prefix("nats-obj://")?),
        };
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Self {
            uri: uri.to_owned(),
            is_object,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Does what the task asks for.
    pub(super) async fn run(
        self,
        call: &Call,
        action: &str,
        connections: &Connections,
    ) -> Result<Outcome, TaskError> {
        let context = connect(call, connections).await?;
        let result = match (action, self.is_object) {
            ("get", false) => self.kv_get(&context).await?,
            ("get", true) => self.object_get(&context).await?,
            ("put", false) => self.kv_put(call, &context).await?,
            ("put", true) => self.object_put(call, &context).await?,
            ("list", false) => self.kv_list(&context).await?,
            ("list", true) => self.object_list(&context).await?,
            ("delete", false) => {
                let store = self.kv(&context).await?;
                store
                    .delete(&self.key)
                    .await
                    .map_err(|error| self.away(&error))?;
                json!({"uri": self.uri, "deleted": true})
            }
            ("delete", true) => {
                let store = self.objects(&context).await?;
                let deleted = store.delete(&self.key).await.is_ok();
                json!({"uri": self.uri, "deleted": deleted})
            }
            (other, _) => return Err(unknown(other)),
        };
        Ok(Outcome::ok(result))
    }

    async fn kv(&self, context: &Context) -> Result<jetstream::kv::Store, TaskError> {
        let found = context.get_key_value(&self.bucket).await;
        found.map_err(|_| self.missing("there is no such bucket"))
    }

    async fn objects(
        &self,
        context: &Context,
    ) -> Result<jetstream::object_store::ObjectStore, TaskError> {
        let found = context.get_object_store(&self.bucket).await;
        found.map_err(|_| self.missing("there is no such bucket"))
    }

    async fn kv_get(&self, context: &Context) -> Result<Value, TaskError> {
        let found = self.kv(context).await?.get(&self.key).await;
        let found = found.map_err(|error| self.away(&error))?;
        let bytes = found.ok_or_else(|| self.missing("it is not there"))?;
        Ok(held(&self.uri, &bytes))
    }

    async fn object_get(&self, context: &Context) -> Result<Value, TaskError> {
        let found = self.objects(context).await?.get(&self.key).await;
        let object = found.map_err(|_| self.missing("it is not there"))?;
        if object.info().size as u64 > HELD_BYTES_MAX {
            let message = format!("`{}` is larger than a worker holds in memory", self.uri);
            return Err(TaskError::new(
                ErrorKind::Storage,
                "BODY_TOO_LARGE",
                message,
            ));
        }
        let mut bytes = Vec::new();
        let mut object = object.take(HELD_BYTES_MAX + 1);
        let read = object.read_to_end(&mut bytes).await;
        read.map_err(|error| self.away(&error))?;
        Ok(held(&self.uri, &bytes))
    }

    async fn kv_put(&self, call: &Call, context: &Context) -> Result<Value, TaskError> {
        let bytes = data(call)?;
        let size = bytes.len();
        let put = self.kv(context).await?.put(&self.key, bytes.into()).await;
        put.map_err(|error| self.away(&error))?;
        Ok(json!({"uri": self.uri, "size_bytes": size}))
    }

    async fn object_put(&self, call: &Call, context: &Context) -> Result<Value, TaskError> {
        let bytes = data(call)?;
        let put = self
            .objects(context)
            .await?
            .put(self.key.as_str(), &mut bytes.as_slice())
            .await;
        put.map_err(|error| self.away(&error))?;
        Ok(json!({"uri": self.uri, "size_bytes": bytes.len()}))
    }

    async fn kv_list(&self, context: &Context) -> Result<Value, TaskError> {
        let keys = self.kv(context).await?.keys().await;
        let keys = keys.map_err(|error| self.away(&error))?;
        let keys: Vec<String> = keys
            .try_collect()
            .await
            .map_err(|error| self.away(&error))?;
        let mut keys: Vec<String> = keys
            .into_iter()
            .filter(|key| key.starts_with(&self.key))
            .collect();
        keys.sort();
        let shown = keys
            .iter()
            .map(|key| json!({"uri": format!("nats-kv://{}/{key}", self.bucket)}));
        Ok(json!({"uri": self.uri, "count": keys.len(), "data": shown.collect::<Vec<_>>()}))
    }

    async fn object_list(&self, context: &Context) -> Result<Value, TaskError> {
        let listed = self.objects(context).await?.list().await;
        let listed = listed.map_err(|error| self.away(&error))?;
        let found: Vec<_> = listed
            .try_collect()
            .await
            .map_err(|error| self.away(&error))?;
        let found = found.iter().filter(|info| info.name.starts_with(&self.key));
        let shown: Vec<Value> = found
            .map(|info| json!({"uri": format!("nats-obj://{}/{}", self.bucket, info.name), "size_bytes": info.size}))
            .collect();
        Ok(json!({"uri": self.uri, "count": shown.len(), "data": shown}))
    }

    fn missing(&self, problem: &str) -> TaskError {
        let message = format!("`{}`: {problem}", self.uri);
        TaskError::new(ErrorKind::NotFound, "OBJECT_NOT_FOUND", message)
    }

    fn away(&self, error: &dyn std::fmt::Display) -> TaskError {
        let message = format!("`{}` cannot be reached: {error}", self.uri);
        TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message)
    }
}

/// What is to be written: text as it is, anything else as JSON.
fn data(call: &Call) -> Result<Vec<u8>, TaskError> {
    match call.fields.get("data") {
        None => Err(call.missing("data", "the value to keep")),
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
    }
}

async fn connect(call: &Call, connections: &Connections) -> Result<Context, TaskError> {
    if call.field("auth").is_none() {
        return Err(invalid(
            "a bucket of NATS needs a `credential` with `nats_url`",
        ));
    }
    let client = connections.get(&Login::of(call, SILENCE_MAX)?).await?;
    let mut context = jetstream::new(client);
    context.set_timeout(SILENCE_MAX);
    Ok(context)
}
