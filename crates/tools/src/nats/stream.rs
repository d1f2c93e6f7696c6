//! Messages of a stream: published once, consumed in batches, read by sequence number.

use std::time::Duration;

use async_nats::header::{
    NATS_EXPECTED_LAST_SEQUENCE, NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_MESSAGE_ID,
};
use async_nats::jetstream::consumer::pull::Config;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::stream::{ConsumerErrorKind, RawMessageErrorKind, Stream};
use async_nats::jetstream::{ErrorCode, Message};
use futures_util::StreamExt as _;
use model::outcome::TaskError;
use serde_json::{Map, Value, json};

use crate::nats::failure::{no_stream, not_found, not_published, other};
use crate::nats::tool::Session;
use crate::nats::value::{header_map, headers, moment};

/// Default and maximum batch size.
const BATCH: u64 = 100;
const BATCH_MAX: u64 = 10_000;
/// Default wait for a batch.
const WAIT: Duration = Duration::from_secs(1);
/// Maximum size of a batch.
const BATCH_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Maximum number of concurrent acknowledgments, and the time limit for all of them.
const ACKS_AT_ONCE: usize = 256;
const ACK_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn publish(session: &Session<'_>) -> Result<Value, TaskError> {
    let subject = session.need("subject")?;
    let mut headers = headers(session.call)?;
    let key = session.call.text("msg_id")?;
    let key = key.unwrap_or(&session.call.idempotency_key);
    if !key.is_empty() && headers.get(NATS_MESSAGE_ID).is_none() {
        headers.insert(NATS_MESSAGE_ID, key);
    }
    let expected = session.number("expected_last_revision")?;
    if let Some(expected) = expected {
        headers.insert(
            NATS_EXPECTED_LAST_SUBJECT_SEQUENCE,
            expected.to_string().as_str(),
        );
    }
    let last = session.number("expected_last_sequence")?;
    if let Some(last) = last {
        headers.insert(NATS_EXPECTED_LAST_SEQUENCE, last.to_string().as_str());
    }
    let payload = session.payload()?;
    let failed = |error| not_published(&error, subject, expected.or(last));
    let sent = session
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

pub(crate) async fn consume(session: &Session<'_>) -> Result<Value, TaskError> {
    let stream = stream(session).await?;
    let durable = session.call.text("consumer")?;
    let consumer = match durable {
        Some(name) => consumer(session, &stream, name).await?,
        None => ephemeral(session, &stream).await?,
    };
    let batch = session
        .number("batch")?
        .unwrap_or(BATCH)
        .clamp(1, BATCH_MAX);
    let wait = session.duration("wait")?.unwrap_or(WAIT).min(session.total);
    let acknowledges = durable.is_some() && session.call.flag("ack")?.unwrap_or(true);
    let fetch = consumer
        .fetch()
        .max_messages(usize::try_from(batch).unwrap_or(usize::MAX))
        .max_bytes(BATCH_BYTES_MAX)
        .expires(wait);
    let mut fetched = fetch.messages().await.map_err(|error| other(&error))?;
    let mut messages = Vec::new();
    while let Some(message) = fetched.next().await {
        let message = message.map_err(|error| other(&*error))?;
        messages.push((shown(session, &message)?, message));
    }
    let (shown, messages): (Vec<Value>, Vec<Message>) = messages.into_iter().unzip();
    if acknowledges {
        // Acknowledge after the outcome is recorded: if the worker crashes now, the messages are redelivered.
        session.call.afterwards.leave(acknowledge(messages));
    }
    Ok(json!({
        "stream": session.need("stream")?, "consumer": durable, "count": shown.len(), "messages": shown,
    }))
}

/// Acknowledges messages. If the server does not confirm an acknowledgment, the message may be redelivered.
async fn acknowledge(messages: Vec<Message>) {
    let mut known = 0;
    let told = futures_util::stream::iter(&messages)
        .map(Message::double_ack)
        .buffer_unordered(ACKS_AT_ONCE)
        .for_each(|told| {
            known += usize::from(told.is_ok());
            std::future::ready(())
        });
    // An acknowledgment that times out counts as failed.
    let _ = tokio::time::timeout(ACK_WITHIN, told).await;
    let unacknowledged = messages.len() - known;
    if unacknowledged > 0 {
        tracing::warn!(
            unacknowledged,
            "acknowledgments not confirmed; messages may be redelivered"
        );
    }
}

pub(crate) async fn get_message(session: &Session<'_>) -> Result<Value, TaskError> {
    let stream = stream(session).await?;
    let (found, name) = if let Some(sequence) = session.number("sequence")? {
        let found = stream.get_raw_message(sequence).await;
        (found, sequence.to_string())
    } else {
        let subject = session.need("subject")?;
        let last = stream.get_last_raw_message_by_subject(subject).await;
        (last, subject.to_owned())
    };
    let message = found.map_err(|error| match error.kind() {
        RawMessageErrorKind::NoMessageFound => {
            not_found("NATS_MESSAGE_NOT_FOUND", "message", &name)
        }
        RawMessageErrorKind::JetStream(error)
            if error.error_code() == ErrorCode::NO_MESSAGE_FOUND =>
        {
            not_found("NATS_MESSAGE_NOT_FOUND", "message", &name)
        }
        _ => other(&error),
    })?;
    let mut map = Map::new();
    map.insert("stream".to_owned(), session.need("stream")?.into());
    map.insert("subject".to_owned(), message.subject.as_str().into());
    map.insert("sequence".to_owned(), message.sequence.into());
    session
        .encoding
        .read_into(&mut map, "data", &message.payload)?;
    map.insert("headers".to_owned(), header_map(&message.headers));
    map.insert(
        "published".to_owned(),
        moment(message.time.unix_timestamp_nanos()),
    );
    Ok(Value::Object(map))
}

async fn stream(session: &Session<'_>) -> Result<Stream, TaskError> {
    let name = session.need("stream")?;
    let found = session.context.get_stream(name).await;
    found.map_err(|error| no_stream(&error, not_found("NATS_STREAM_NOT_FOUND", "stream", name)))
}

/// Returns the consumer of that name; creates it if it does not exist.
async fn consumer(
    session: &Session<'_>,
    stream: &Stream,
    name: &str,
) -> Result<Consumer<Config>, TaskError> {
    let found = stream.get_consumer::<Config>(name).await;
    if let Ok(found) = found {
        return Ok(found);
    }
    let config = Config {
        durable_name: Some(name.to_owned()),
        ..config(session)?
    };
    make(stream, config).await
}

/// Creates a consumer that lives for the call and acknowledges nothing.
async fn ephemeral(session: &Session<'_>, stream: &Stream) -> Result<Consumer<Config>, TaskError> {
    let config = Config {
        ack_policy: AckPolicy::None,
        inactive_threshold: Duration::from_secs(60),
        ..config(session)?
    };
    make(stream, config).await
}

fn config(session: &Session<'_>) -> Result<Config, TaskError> {
    let from = session.number("sequence")?;
    Ok(Config {
        filter_subject: session.call.text("subject")?.unwrap_or_default().to_owned(),
        deliver_policy: from.map_or(DeliverPolicy::All, |start_sequence| {
            DeliverPolicy::ByStartSequence { start_sequence }
        }),
        ..Config::default()
    })
}

async fn make(stream: &Stream, config: Config) -> Result<Consumer<Config>, TaskError> {
    let made = stream.create_consumer(config).await;
    made.map_err(|error| match error.kind() {
        ConsumerErrorKind::TimedOut => crate::nats::failure::silent(),
        _ => other(&error),
    })
}

fn shown(session: &Session<'_>, message: &Message) -> Result<Value, TaskError> {
    let info = message.info().map_err(|error| other(&*error))?;
    let mut map = Map::new();
    map.insert("subject".to_owned(), message.subject.as_str().into());
    map.insert("sequence".to_owned(), info.stream_sequence.into());
    session
        .encoding
        .read_into(&mut map, "data", &message.payload)?;
    let headers = message.headers.as_ref().map(header_map);
    map.insert("headers".to_owned(), headers.unwrap_or_else(|| json!({})));
    map.insert("delivered".to_owned(), info.delivered.into());
    map.insert("pending".to_owned(), info.pending.into());
    map.insert(
        "published".to_owned(),
        moment(info.published.unix_timestamp_nanos()),
    );
    Ok(Value::Object(map))
}
