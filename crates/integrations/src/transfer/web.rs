//! HTTP as source and target: a response is streamed; a target gets one request per chunk.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use model::outcome::{Outcome, TaskError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;
use tools::http::HttpTool;
use tools::{Call, DiscardingLogSink, Tool as _};

use super::decode;
use super::encode::RowEncoder;
use super::flow::{RowReceiver, RowSender, TransferTotals};
use super::options::{FileFormat, TransferEnd};

/// The `http` call of one side.
pub(super) fn end_call(transfer_call: &Call, end: &TransferEnd<'_>) -> Result<Call, TaskError> {
    end.text("url")
        .or(end.text("endpoint"))
        .map_or_else(|| end.required_text("url", "set it to the URL"), Ok)?;
    let mut call = Call::new("http");
    let transfer_keys = [
        "kind",
        "type",
        "format",
        "path",
        "mapping",
        "table",
        "credential",
        "endpoint",
    ];
    let fields = end
        .fields
        .iter()
        .filter(|(key, _)| !transfer_keys.contains(&key.as_str()));
    call.fields = fields
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>();
    let url = end.text("url").or(end.text("endpoint")).unwrap_or_default();
    call.fields.insert("url".to_owned(), url.into());
    if let Some(auth) = end.auth() {
        call.fields.insert("auth".to_owned(), auth.clone());
    }
    call.site = transfer_call.site.clone();
    call.timeout = transfer_call.timeout;
    Ok(call)
}

/// Reads rows from a response.
pub(super) async fn read_response(
    http: &HttpTool,
    call: &Call,
    format: Option<FileFormat>,
    path: Option<String>,
    sender: &mut RowSender,
) -> Result<(), TaskError> {
    let response = http.open_response(call).await?;
    let content_type = response.headers().get(reqwest::header::CONTENT_TYPE);
    let content_type = content_type
        .and_then(|content_type| content_type.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let by_type = if content_type.contains("ndjson") || content_type.contains("jsonl") {
        FileFormat::Ndjson
    } else if content_type.contains("csv") {
        FileFormat::Csv
    } else {
        FileFormat::Json
    };
    let chunks = response.bytes_stream().map_err(std::io::Error::other);
    decode::decode_rows(Box::pin(chunks), format.unwrap_or(by_type), path.as_deref(), sender).await
}

/// Sends each chunk in a separate request.
pub(super) async fn send_batches(
    http: &Arc<HttpTool>,
    call: &Call,
    format: FileFormat,
    mut receiver: RowReceiver,
) -> Result<TransferTotals, TaskError> {
    while let Some(batch) = receiver.next().await? {
        if batch.rows.is_empty() {
            continue;
        }
        let mut writer = RowEncoder::new(format);
        let mut out = Vec::new();
        writer.write(&batch, &mut out);
        writer.finish(&mut out);
        let mut one = call.clone();
        one.fields.entry("method").or_insert_with(|| "POST".into());
        one.fields
            .insert("body".to_owned(), String::from_utf8_lossy(&out).into_owned().into());
        let kind = match format {
            FileFormat::Csv => "text/csv",
            FileFormat::Ndjson => "application/x-ndjson",
            FileFormat::Json | FileFormat::Parquet => "application/json",
        };
        let headers = one.fields.entry("headers").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(headers) = headers {
            headers.entry("content-type").or_insert_with(|| kind.into());
        }
        // The caller cancels the whole transfer.
        let outcome = http.call(one, CancellationToken::new(), &DiscardingLogSink).await;
        if let Outcome::Error(failure) = outcome {
            return Err(failure
                .error
                .with_detail("rows_sent", receiver.totals.rows - batch.rows.len() as u64));
        }
    }
    Ok(receiver.totals)
}
