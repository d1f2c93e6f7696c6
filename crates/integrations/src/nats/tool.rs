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
use tools::objects::ObjectAccess;
use tools::{Call, LogSink, Tool, ToolResult, run_within_limit};

use crate::nats::connection::{NatsConnections, NatsLogin};
use crate::nats::failure::{message_too_large_error, no_response_error, peer_error, with_version};
use crate::nats::value::{NatsEncoding, headers_to_json, to_header_map};
use crate::nats::{kv, object, stream};

/// Default timeout of a call.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(30);
/// Default connect timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

const OPERATIONS: &str = "kv_get kv_put kv_delete kv_purge kv_keys object_get object_put object_delete object_list \
                          object_info js_publish js_consume js_get_msg publish request";

/// The `nats` tool.
pub(crate) struct NatsTool {
    object_access: ObjectAccess,
    connections: Arc<NatsConnections>,
}

/// Context of an operation.
pub(crate) struct NatsCall<'a> {
    pub(crate) call: &'a Call,
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) encoding: NatsEncoding,
    pub(crate) object_access: &'a ObjectAccess,
    pub(crate) total_timeout: Duration,
}

impl NatsTool {
    pub(crate) fn new(object_access: ObjectAccess, connections: Arc<NatsConnections>) -> Self {
        Self {
            object_access,
            connections,
        }
    }

    async fn run_call(&self, call: &Call) -> Result<Outcome, TaskError> {
        let operation = call.text_field("operation")?;
        let operation = operation.ok_or_else(|| call.missing_key_error("operation", OPERATIONS))?;
        let total = call.timeout.total.unwrap_or(TOTAL_TIMEOUT);
        let connect = call.timeout.connect.unwrap_or(CONNECT_TIMEOUT).min(total);
        let login = NatsLogin::from_call(call, connect)?;
        if !OPERATIONS.split_whitespace().any(|name| name == operation) {
            let message = format!("invalid `operation: {operation}`; use one of {OPERATIONS}");
            return Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "operation"));
        }
        let client = self.connections.get(&login).await?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(total);
        let nats_call = NatsCall {
            call,
            client,
            context,
            encoding: NatsEncoding::from_call(call)?,
            object_access: &self.object_access,
            total_timeout: total,
        };
        let result = match operation {
            "object_get" => object::get(&nats_call).await,
            operation => nats_call.run_operation(operation).await.map(Outcome::ok),
        };
        result.map_err(|error| with_version(error, &nats_call.client.server_info().version))
    }
}

impl NatsCall<'_> {
    async fn run_operation(&self, operation: &str) -> Result<Value, TaskError> {
        match operation {
            "kv_get" => kv::get(self).await,
            "kv_put" => kv::put(self).await,
            "kv_delete" => kv::remove(self, kv::KeyRemoval::Delete).await,
            "kv_purge" => kv::remove(self, kv::KeyRemoval::Purge).await,
            "kv_keys" => kv::list_keys(self).await,
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
    pub(crate) fn required_text(&self, key: &str) -> Result<&str, TaskError> {
        let text = self.call.text_field(key)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| self.call.missing_key_error(key, "the operation requires it"))
    }

    /// A field that must be a whole number if present.
    pub(crate) fn number_field(&self, key: &str) -> Result<Option<u64>, TaskError> {
        match self.call.field(key) {
            None => Ok(None),
            Some(Value::String(text)) if text.trim().parse::<u64>().is_ok() => Ok(text.trim().parse().ok()),
            Some(value) => match value.as_u64() {
                Some(number) => Ok(Some(number)),
                None => Err(self.call.wrong_type_error(key, "a whole number", value)),
            },
        }
    }

    /// A field that must be a duration if present.
    pub(crate) fn duration_field(&self, key: &str) -> Result<Option<Duration>, TaskError> {
        let Some(value) = self.call.field(key) else {
            return Ok(None);
        };
        let duration = duration::parse(value);
        duration
            .map(Some)
            .ok_or_else(|| self.call.wrong_type_error(key, "a duration such as `2s`", value))
    }

    /// Message payload: `value`, or empty.
    pub(crate) fn payload(&self) -> Result<bytes::Bytes, TaskError> {
        match self.call.fields.get("value") {
            None => Ok(bytes::Bytes::new()),
            Some(value) => self.encoding.encode(self.call, value),
        }
    }

    async fn publish(&self) -> Result<Value, TaskError> {
        let subject = self.required_text("subject")?;
        let (payload, headers) = (self.payload()?, to_header_map(self.call)?);
        let size = payload.len();
        let result = self
            .client
            .publish_with_headers(subject.to_owned(), headers, payload)
            .await;
        result.map_err(|error| match error.kind() {
            async_nats::client::PublishErrorKind::MaxPayloadExceeded => message_too_large_error(),
            _ => peer_error(&error),
        })?;
        // The message is sent only after a flush.
        self.client.flush().await.map_err(|error| peer_error(&error))?;
        Ok(json!({"subject": subject, "size_bytes": size}))
    }

    async fn request(&self) -> Result<Value, TaskError> {
        let subject = self.required_text("subject")?;
        let request = async_nats::Request::new()
            .payload(self.payload()?)
            .headers(to_header_map(self.call)?)
            .timeout(Some(self.total_timeout));
        let response = self.client.send_request(subject.to_owned(), request).await;
        let response = response.map_err(|error| match error.kind() {
            RequestErrorKind::TimedOut => no_response_error(),
            RequestErrorKind::MaxPayloadExceeded => message_too_large_error(),
            RequestErrorKind::NoResponders => {
                let message = format!("no service responds on subject `{subject}`");
                TaskError::new(ErrorKind::Connection, "NATS_NO_RESPONDERS", message).with_detail("sent", false)
            }
            _ => peer_error(&error),
        })?;
        let mut result = Map::new();
        result.insert("subject".to_owned(), subject.into());
        let headers = response.headers.as_ref().map(headers_to_json);
        result.insert("headers".to_owned(), headers.unwrap_or_else(|| json!({})));
        self.encoding.decode_into(&mut result, "data", &response.payload)?;
        Ok(Value::Object(result))
    }
}

#[async_trait]
impl Tool for NatsTool {
    async fn run(&self, call: Call, stop: &CancellationToken, _log: &dyn LogSink) -> ToolResult {
        run_within_limit(
            Some(call.timeout.total.unwrap_or(TOTAL_TIMEOUT)),
            stop,
            Box::pin(self.run_call(&call)),
        )
        .await
    }
}
