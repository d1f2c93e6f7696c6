//! Runs one `nats` call: gets the connection, runs the operation and returns the outcome.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, RequestErrorKind};
use async_trait::async_trait;
use model::duration;
use model::outcome::{ErrorKind, Outcome, TaskError};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, timed_out};
use crate::nats::connection::{Connections, Login};
use crate::nats::failure::{failed, other, silent, too_large, with_version};
use crate::nats::value::{Encoding, header_map, headers};
use crate::nats::{kv, object, stream};
use crate::objects::Reach;

/// Default timeout of a call.
const TOTAL: Duration = Duration::from_secs(30);
/// Default connect timeout.
const CONNECT: Duration = Duration::from_secs(5);

const OPERATIONS: &str = "kv_get kv_put kv_delete kv_purge kv_keys object_get object_put object_delete object_list \
                          object_info js_publish js_consume js_get_msg publish request";

/// The `nats` tool.
pub(crate) struct Nats {
    reach: Reach,
    connections: Arc<Connections>,
}

/// Context of an operation.
pub(crate) struct Session<'a> {
    pub(crate) call: &'a Call,
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) encoding: Encoding,
    pub(crate) reach: &'a Reach,
    pub(crate) total: Duration,
}

impl Nats {
    pub(crate) fn new(reach: Reach, connections: Arc<Connections>) -> Self {
        Self { reach, connections }
    }

    async fn run(&self, call: &Call) -> Result<Outcome, TaskError> {
        let operation = call.text("operation")?;
        let operation = operation.ok_or_else(|| call.missing("operation", OPERATIONS))?;
        let total = call.timeout.total.unwrap_or(TOTAL);
        let connect = call.timeout.connect.unwrap_or(CONNECT).min(total);
        let login = Login::of(call, connect)?;
        if !OPERATIONS
            .split_whitespace()
            .any(|known| known == operation)
        {
            let message = format!("invalid `operation: {operation}`; use one of {OPERATIONS}");
            return Err(
                TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "operation")
            );
        }
        let client = self.connections.get(&login).await?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(total);
        let session = Session {
            call,
            client,
            context,
            encoding: Encoding::of(call)?,
            reach: &self.reach,
            total,
        };
        let done = match operation {
            "object_get" => object::get(&session).await,
            operation => session.answer(operation).await.map(Outcome::ok),
        };
        done.map_err(|error| with_version(error, &session.client.server_info().version))
    }
}

impl Session<'_> {
    async fn answer(&self, operation: &str) -> Result<Value, TaskError> {
        match operation {
            "kv_get" => kv::get(self).await,
            "kv_put" => kv::put(self).await,
            "kv_delete" => kv::remove(self, kv::Removal::Delete).await,
            "kv_purge" => kv::remove(self, kv::Removal::Purge).await,
            "kv_keys" => kv::keys(self).await,
            "object_put" => object::put(self).await,
            "object_delete" => object::delete(self).await,
            "object_list" => object::list(self).await,
            "object_info" => object::info(self).await,
            "js_publish" => stream::publish(self).await,
            "js_consume" => stream::consume(self).await,
            "js_get_msg" => stream::get_message(self).await,
            "publish" => self.publish().await,
            _ => self.request().await,
        }
    }

    /// A required text field.
    pub(crate) fn need(&self, key: &str) -> Result<&str, TaskError> {
        let text = self.call.text(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.call.missing(key, "the operation requires it"))
    }

    /// A field that must be a whole number if present.
    pub(crate) fn number(&self, key: &str) -> Result<Option<u64>, TaskError> {
        match self.call.field(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().parse::<u64>().is_ok() => {
                Ok(text.trim().parse().ok())
            }
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.call.wrong_type(key, "a whole number", value)),
            },
        }
    }

    /// A field that must be a duration if present.
    pub(crate) fn duration(&self, key: &str) -> Result<Option<Duration>, TaskError> {
        let Some(value) = self.call.field(key) else {
            return Ok(None);
        };
        let read = duration::parse(value);
        read.map(Some)
            .ok_or_else(|| self.call.wrong_type(key, "a duration such as `2s`", value))
    }

    /// Message payload: `value`, or empty.
    pub(crate) fn payload(&self) -> Result<bytes::Bytes, TaskError> {
        match self.call.fields.get("value") {
            None => Ok(bytes::Bytes::new()),
            Some(value) => self.encoding.write(self.call, value),
        }
    }

    async fn publish(&self) -> Result<Value, TaskError> {
        let subject = self.need("subject")?;
        let (payload, headers) = (self.payload()?, headers(self.call)?);
        let size = payload.len();
        let sent = self
            .client
            .publish_with_headers(subject.to_owned(), headers, payload)
            .await;
        sent.map_err(|error| match error.kind() {
            async_nats::client::PublishErrorKind::MaxPayloadExceeded => too_large(),
            _ => other(&error),
        })?;
        // The message is sent only after a flush.
        self.client.flush().await.map_err(|error| other(&error))?;
        Ok(json!({"subject": subject, "size_bytes": size}))
    }

    async fn request(&self) -> Result<Value, TaskError> {
        let subject = self.need("subject")?;
        let request = async_nats::Request::new()
            .payload(self.payload()?)
            .headers(headers(self.call)?)
            .timeout(Some(self.total));
        let answer = self.client.send_request(subject.to_owned(), request).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => silent(),
            RequestErrorKind::MaxPayloadExceeded => too_large(),
            RequestErrorKind::NoResponders => {
                let message = format!("no service responds on subject `{subject}`");
                failed(ErrorKind::Connection, "NATS_NO_RESPONDERS", message).with("sent", false)
            }
            _ => other(&error),
        })?;
        let mut result = Map::new();
        result.insert("subject".to_owned(), subject.into());
        let headers = answer.headers.as_ref().map(header_map);
        result.insert("headers".to_owned(), headers.unwrap_or_else(|| json!({})));
        self.encoding
            .read_into(&mut result, "data", &answer.payload)?;
        Ok(Value::Object(result))
    }
}

#[async_trait]
impl Tool for Nats {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, _log: &dyn LogSink) -> Outcome {
        let limit = call.timeout.total.unwrap_or(TOTAL);
        let run = self.run(&call);
        let outcome = tokio::select! {
            biased;
            outcome = run => outcome,
            () = stop.cancelled() => Err(cancelled()),
            () = tokio::time::sleep(limit) => Err(timed_out(limit)),
        };
        outcome.unwrap_or_else(Outcome::error)
    }
}
