//! Values in NATS buckets: `nats-kv://bucket/key` and `nats-obj://bucket/name`.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::object_store::{DeleteErrorKind, GetErrorKind};
use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use futures_util::TryStreamExt as _;
use model::outcome::{ErrorKind, Outcome, TaskError};
use model::result_ref::IN_MEMORY_BYTES_MAX;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tools::{Call, NatsAddress, NatsBuckets, bytes_to_value, invalid_auth_error, unknown_action_error};

use super::connection::{NatsConnections, NatsLogin};
use super::failure::{error_chain, stream_error};

/// Maximum time without a response from the server.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// The buckets of all servers that tasks name, over cached connections.
pub(crate) struct ConnectedNatsBuckets {
    connections: Arc<NatsConnections>,
}

/// A value in a bucket, or the values with a prefix.
struct BucketEntry {
    address: NatsAddress,
}

impl ConnectedNatsBuckets {
    pub(crate) fn new(connections: Arc<NatsConnections>) -> Self {
        Self { connections }
    }
}

#[async_trait]
impl NatsBuckets for ConnectedNatsBuckets {
    async fn run_action(&self, call: &Call, action: &str, address: NatsAddress) -> Result<Outcome, TaskError> {
        let context = connect_context(call, &self.connections).await?;
        BucketEntry { address }.run_action(call, action, &context).await
    }
}

impl BucketEntry {
    /// Runs the action of the task.
    async fn run_action(self, call: &Call, action: &str, context: &Context) -> Result<Outcome, TaskError> {
        let result = match (action, self.address.is_object) {
            ("get", false) => self.kv_get(context).await?,
            ("get", true) => self.object_get(context).await?,
            ("put", false) => self.kv_put(call, context).await?,
            ("put", true) => self.object_put(call, context).await?,
            ("list", false) => self.kv_list(context).await?,
            ("list", true) => self.object_list(context).await?,
            ("delete", false) => {
                let store = self.open_kv(context).await?;
                store
                    .delete(&self.address.key)
                    .await
                    .map_err(|error| self.unavailable_error(&error))?;
                json!({"uri": self.address.uri, "deleted": true})
            }
            ("delete", true) => {
                let store = self.open_object_store(context).await?;
                let deleted = match store.delete(&self.address.key).await {
                    Ok(()) => true,
                    Err(error) if error.kind() == DeleteErrorKind::NotFound => false,
                    Err(error) => return Err(self.unavailable_error(&error)),
                };
                json!({"uri": self.address.uri, "deleted": deleted})
            }
            (other, _) => return Err(unknown_action_error(other)),
        };
        Ok(Outcome::ok(result))
    }

    async fn open_kv(&self, context: &Context) -> Result<jetstream::kv::Store, TaskError> {
        let store = context.get_key_value(&self.address.bucket).await;
        store.map_err(|error| self.bucket_error(&error))
    }

    async fn open_object_store(&self, context: &Context) -> Result<jetstream::object_store::ObjectStore, TaskError> {
        let store = context.get_object_store(&self.address.bucket).await;
        store.map_err(|error| self.bucket_error(&error))
    }

    async fn kv_get(&self, context: &Context) -> Result<Value, TaskError> {
        let entry = self.open_kv(context).await?.get(&self.address.key).await;
        let entry = entry.map_err(|error| self.unavailable_error(&error))?;
        let bytes = entry.ok_or_else(|| self.not_found_error("not found"))?;
        Ok(bytes_to_value(&self.address.uri, &bytes))
    }

    async fn object_get(&self, context: &Context) -> Result<Value, TaskError> {
        let object = self.open_object_store(context).await?.get(&self.address.key).await;
        let object = object.map_err(|error| match error.kind() {
            GetErrorKind::NotFound | GetErrorKind::InvalidName | GetErrorKind::BucketLink => {
                self.not_found_error("not found")
            }
            _ => self.unavailable_error(&error),
        })?;
        if object.info().size as u64 > IN_MEMORY_BYTES_MAX {
            let message = format!("`{}` exceeds the limit for reading into memory", self.address.uri);
            return Err(TaskError::new(ErrorKind::Storage, "BODY_TOO_LARGE", message));
        }
        let mut bytes = Vec::new();
        let mut object = object.take(IN_MEMORY_BYTES_MAX + 1);
        let read = object.read_to_end(&mut bytes).await;
        read.map_err(|error| self.unavailable_error(&error))?;
        Ok(bytes_to_value(&self.address.uri, &bytes))
    }

    async fn kv_put(&self, call: &Call, context: &Context) -> Result<Value, TaskError> {
        let bytes = data_bytes(call)?;
        let size = bytes.len();
        let put = self.open_kv(context).await?.put(&self.address.key, bytes.into()).await;
        put.map_err(|error| self.unavailable_error(&error))?;
        Ok(json!({"uri": self.address.uri, "size_bytes": size}))
    }

    async fn object_put(&self, call: &Call, context: &Context) -> Result<Value, TaskError> {
        let bytes = data_bytes(call)?;
        let put = self
            .open_object_store(context)
            .await?
            .put(self.address.key.as_str(), &mut bytes.as_slice())
            .await;
        put.map_err(|error| self.unavailable_error(&error))?;
        Ok(json!({"uri": self.address.uri, "size_bytes": bytes.len()}))
    }

    async fn kv_list(&self, context: &Context) -> Result<Value, TaskError> {
        let keys = self.open_kv(context).await?.keys().await;
        let keys = keys.map_err(|error| self.unavailable_error(&error))?;
        let keys: Vec<String> = keys
            .try_collect()
            .await
            .map_err(|error| self.unavailable_error(&error))?;
        let mut keys: Vec<String> = keys
            .into_iter()
            .filter(|key| key.starts_with(&self.address.key))
            .collect();
        keys.sort();
        let names = keys
            .iter()
            .map(|key| json!({"uri": format!("nats-kv://{}/{key}", self.address.bucket)}));
        Ok(json!({"uri": self.address.uri, "count": keys.len(), "data": names.collect::<Vec<_>>()}))
    }

    async fn object_list(&self, context: &Context) -> Result<Value, TaskError> {
        let objects = self.open_object_store(context).await?.list().await;
        let objects = objects.map_err(|error| self.unavailable_error(&error))?;
        let objects: Vec<_> = objects
            .try_collect()
            .await
            .map_err(|error| self.unavailable_error(&error))?;
        let objects = objects.iter().filter(|info| info.name.starts_with(&self.address.key));
        let objects: Vec<Value> = objects
            .map(|info| json!({"uri": format!("nats-obj://{}/{}", self.address.bucket, info.name), "size_bytes": info.size}))
            .collect();
        Ok(json!({"uri": self.address.uri, "count": objects.len(), "data": objects}))
    }

    fn not_found_error(&self, problem: &str) -> TaskError {
        let message = format!("`{}`: {problem}", self.address.uri);
        TaskError::new(ErrorKind::NotFound, "OBJECT_NOT_FOUND", message)
    }

    /// Error of a bucket that does not exist, or could not be queried.
    fn bucket_error(&self, error: &(dyn std::error::Error + 'static)) -> TaskError {
        let task_error = stream_error(error, self.not_found_error("the bucket does not exist"));
        match task_error.kind {
            ErrorKind::NotFound => task_error,
            _ => self.unavailable_error(&error_chain(error)),
        }
    }

    fn unavailable_error(&self, error: &dyn std::fmt::Display) -> TaskError {
        let message = format!("cannot access `{}`: {error}", self.address.uri);
        TaskError::new(ErrorKind::Connection, "OBJECT_UNAVAILABLE", message)
    }
}

/// Value to write: text as it is, anything else as JSON.
fn data_bytes(call: &Call) -> Result<Vec<u8>, TaskError> {
    match call.fields.get("data") {
        None => Err(call.missing_key_error("data", "set it to the value to store")),
        Some(Value::String(text)) => Ok(text.clone().into_bytes()),
        Some(other) => Ok(other.to_string().into_bytes()),
    }
}

async fn connect_context(call: &Call, connections: &NatsConnections) -> Result<Context, TaskError> {
    if call.field("auth").is_none() {
        return Err(invalid_auth_error(
            "a NATS bucket requires a `credential` with `nats_url`",
        ));
    }
    let client = connections.get(&NatsLogin::from_call(call, SILENCE_MAX)?).await?;
    let mut context = jetstream::new(client);
    context.set_timeout(SILENCE_MAX);
    Ok(context)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use tools::testing::build_call;

    /// Implements just enough of the protocol to send the same response to every request.
    async fn start_server(response: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.split();
            let info = format!(
                "INFO {{\"server_id\":\"x\",\"server_name\":\"x\",\"version\":\"2.10.0\",\"host\":\"127.0.0.1\",\
                 \"port\":{port},\"max_payload\":1048576,\"proto\":1,\"headers\":true}}\r\n"
            );
            write.write_all(info.as_bytes()).await.unwrap();
            let mut lines = BufReader::new(read).lines();
            let mut subscription = String::new();
            while let Ok(Some(line)) = lines.next_line().await {
                let words: Vec<&str> = line.split_whitespace().collect();
                let reply = match words.as_slice() {
                    ["PING"] => "PONG\r\n".to_owned(),
                    ["SUB", _, id] => {
                        subscription = (*id).to_owned();
                        continue;
                    }
                    ["PUB", _, reply, _] => {
                        let length = response.len();
                        format!("MSG {reply} {subscription} {length}\r\n{response}\r\n")
                    }
                    _ => continue,
                };
                write.write_all(reply.as_bytes()).await.unwrap();
            }
        });
        format!("nats://127.0.0.1:{port}")
    }

    async fn get_error(uri: &str, response: &'static str) -> TaskError {
        let auth = json!({"nats_url": start_server(response).await});
        let call = build_call("artifact", json!({"auth": auth}), json!({}));
        let address = NatsAddress::parse(uri).unwrap();
        let buckets = ConnectedNatsBuckets::new(Arc::default());
        let done = buckets.run_action(&call, "get", address).await;
        done.unwrap_err()
    }

    #[tokio::test]
    async fn a_bucket_that_cannot_be_queried_is_a_retryable_error() {
        let busy = r#"{"error": {"code": 503, "err_code": 10008, "description": "system temporarily unavailable"}}"#;
        let missing = r#"{"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}"#;
        for uri in ["nats-kv://b/k", "nats-obj://b/k"] {
            let error = get_error(uri, busy).await;
            assert_eq!((error.kind, error.retryable), (ErrorKind::Connection, true));
            assert_eq!(error.code, "OBJECT_UNAVAILABLE");
            assert_eq!(get_error(uri, missing).await.code, "OBJECT_NOT_FOUND");
        }
    }
}
