//! Messages of a stream: published once, consumed in batches, read by sequence number.

use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_SEQUENCE, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID};
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::stream::{ConsumerErrorKind, RawMessageErrorKind, Stream};
use async_nats::jetstream::{ErrorCode, Message};
use futures_util::StreamExt as _;
use model::outcome::TaskError;
use serde_json::{Map, Value, json};

use crate::nats::failure::{not_found_error, peer_error, publish_error, stream_error};
use crate::nats::tool::NatsCall;
use crate::nats::value::{headers_to_json, time_value, to_header_map};

/// Default and maximum batch size.
const BATCH_DEFAULT: u64 = 100;
const BATCH_MAX: u64 = 10_000;
/// Default wait for a batch.
const WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// Maximum size of a batch.
const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of concurrent acknowledgments, and the time limit for all of them.
const CONCURRENT_ACKS_MAX: usize = 256;
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn publish(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let subject = nats_call.required_text("subject")?;
    let mut headers = to_header_map(nats_call.call)?;
    let key = nats_call.call.text_field("msg_id")?;
    let key = key.unwrap_or(&nats_call.call.idempotency_key);
    if !key.is_empty() && headers.get(NATS_MESSAGE_ID).is_none() {
        headers.insert(NATS_MESSAGE_ID, key);
    }
    let expected = nats_call.number_field("expected_last_revision")?;
    if let Some(expected) = expected {
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string().as_str());
    }
    let last = nats_call.number_field("expected_last_sequence")?;
    if let Some(last) = last {
        headers.insert(NATS_EXPECTED_LAST_SEQUENCE, last.to_string().as_str());
    }
    let payload = nats_call.payload()?;
    let failed = |error| publish_error(&error, subject, expected.or(last));
    let sent = nats_call
        .context
        .publish_with_headers(subject.to_owned(), headers, payload)
        .await
        .map_err(failed)?;
    let receipt = sent.await.map_err(failed)?;
    Ok(json!({
        "stream": receipt.stream,
        "subject": subject,
        "sequence": receipt.sequence,
        "duplicate": receipt.duplicate,
    }))
}

pub(crate) async fn consume(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let stream = open_stream(nats_call).await?;
    let durable = nats_call.call.text_field("consumer")?;
    let consumer = match durable {
        Some(name) => ensure_consumer(nats_call, &stream, name).await?,
        None => create_ephemeral(nats_call, &stream).await?,
    };
    let batch = nats_call
        .number_field("batch")?
        .unwrap_or(BATCH_DEFAULT)
        .clamp(1, BATCH_MAX);
    let wait = nats_call
        .duration_field("wait")?
        .unwrap_or(WAIT_DEFAULT)
        .min(nats_call.total_timeout);
    let acknowledges = durable.is_some() && nats_call.call.flag_field("ack")?.unwrap_or(true);
    let fetch = consumer
        .fetch()
        .max_messages(usize::try_from(batch).unwrap_or(usize::MAX))
        .max_bytes(BATCH_BYTES_MAX)
        .expires(wait);
    let mut fetched = fetch.messages().await.map_err(|error| peer_error(&error))?;
    let mut messages = Vec::new();
    while let Some(message) = fetched.next().await {
        let message = message.map_err(|error| peer_error(&*error))?;
        messages.push((to_json(nats_call, &message)?, message));
    }
    let (values, messages): (Vec<Value>, Vec<Message>) = messages.into_iter().unzip();
    if acknowledges {
        // Acknowledge after the outcome is recorded: if the worker crashes now, the messages are redelivered.
        nats_call.call.deferred.defer(acknowledge(messages));
    }
    Ok(json!({
        "stream": nats_call.required_text("stream")?, "consumer": durable, "count": values.len(), "messages": values,
    }))
}

/// Acknowledges messages. If the server does not confirm an acknowledgment, the message may be redelivered.
async fn acknowledge(messages: Vec<Message>) {
    let mut confirmed = 0;
    let acknowledging = futures_util::stream::iter(&messages)
        .map(Message::double_ack)
        .buffer_unordered(CONCURRENT_ACKS_MAX)
        .for_each(|acknowledged| {
            confirmed += usize::from(acknowledged.is_ok());
            std::future::ready(())
        });
    // An acknowledgment that times out counts as failed.
    let _ = tokio::time::timeout(ACK_TIMEOUT, acknowledging).await;
    let unacknowledged = messages.len() - confirmed;
    if unacknowledged > 0 {
        tracing::warn!(
            unacknowledged,
            "acknowledgments not confirmed; messages may be redelivered"
        );
    }
}

pub(crate) async fn get_message(nats_call: &NatsCall<'_>) -> Result<Value, TaskError> {
    let stream = open_stream(nats_call).await?;
    let (response, name) = if let Some(sequence) = nats_call.number_field("sequence")? {
        let response = stream.get_raw_message(sequence).await;
        (response, sequence.to_string())
    } else {
        let subject = nats_call.required_text("subject")?;
        let response = stream.get_last_raw_message_by_subject(subject).await;
        (response, subject.to_owned())
    };
    let message = response.map_err(|error| match error.kind() {
        RawMessageErrorKind::NoMessageFound => not_found_error("NATS_MESSAGE_NOT_FOUND", "message", &name),
        RawMessageErrorKind::JetStream(error) if error.error_code() == ErrorCode::NO_MESSAGE_FOUND => {
            not_found_error("NATS_MESSAGE_NOT_FOUND", "message", &name)
        }
        _ => peer_error(&error),
    })?;
    let mut map = Map::new();
    map.insert("stream".to_owned(), nats_call.required_text("stream")?.into());
    map.insert("subject".to_owned(), message.subject.as_str().into());
    map.insert("sequence".to_owned(), message.sequence.into());
    nats_call.encoding.decode_into(&mut map, "data", &message.payload)?;
    map.insert("headers".to_owned(), headers_to_json(&message.headers));
    map.insert("published".to_owned(), time_value(message.time.unix_timestamp_nanos()));
    Ok(Value::Object(map))
}

async fn open_stream(nats_call: &NatsCall<'_>) -> Result<Stream, TaskError> {
    let name = nats_call.required_text("stream")?;
    let stream = nats_call.context.get_stream(name).await;
    stream.map_err(|error| stream_error(&error, not_found_error("NATS_STREAM_NOT_FOUND", "stream", name)))
}

/// Returns the consumer of that name; creates it if it does not exist.
async fn ensure_consumer(nats_call: &NatsCall<'_>, stream: &Stream, name: &str) -> Result<Consumer<Config>, TaskError> {
    if let Ok(consumer) = stream.get_consumer::<Config>(name).await {
        return Ok(consumer);
    }
    let config = Config {
        durable_name: Some(name.to_owned()),
        ..consumer_config(nats_call)?
    };
    create_consumer(stream, config).await
}

/// Creates a consumer that lives for the call and acknowledges nothing.
async fn create_ephemeral(nats_call: &NatsCall<'_>, stream: &Stream) -> Result<Consumer<Config>, TaskError> {
    let config = Config {
        ack_policy: AckPolicy::None,
        inactive_threshold: Duration::from_secs(60),
        ..consumer_config(nats_call)?
    };
    create_consumer(stream, config).await
}

fn consumer_config(nats_call: &NatsCall<'_>) -> Result<Config, TaskError> {
    let from = nats_call.number_field("sequence")?;
    Ok(Config {
        filter_subject: nats_call.call.text_field("subject")?.unwrap_or_default().to_owned(),
        deliver_policy: from.map_or(DeliverPolicy::All, |start_sequence| DeliverPolicy::ByStartSequence {
            start_sequence,
        }),
        ..Config::default()
    })
}

async fn create_consumer(stream: &Stream, config: Config) -> Result<Consumer<Config>, TaskError> {
    let created = stream.create_consumer(config).await;
    created.map_err(|error| match error.kind() {
        ConsumerErrorKind::TimedOut => crate::nats::failure::no_response_error(),
        _ => peer_error(&error),
    })
}

fn to_json(nats_call: &NatsCall<'_>, message: &Message) -> Result<Value, TaskError> {
    let info = message.info().map_err(|error| peer_error(&*error))?;
    let mut map = Map::new();
    map.insert("subject".to_owned(), message.subject.as_str().into());
    map.insert("sequence".to_owned(), info.stream_sequence.into());
    nats_call.encoding.decode_into(&mut map, "data", &message.payload)?;
    let headers = message.headers.as_ref().map(headers_to_json);
    map.insert("headers".to_owned(), headers.unwrap_or_else(|| json!({})));
    map.insert("delivered".to_owned(), info.delivered.into());
    map.insert("pending".to_owned(), info.pending.into());
    map.insert(
        "published".to_owned(),
        time_value(info.published.unix_timestamp_nanos()),
    );
    Ok(Value::Object(map))
}
