//! HTTP as source and target: a response is streamed; a target gets one request per chunk.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use model::outcome::{Outcome, TaskError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::decode;
use super::encode::Writer;
use super::flow::{Inlet, Outlet, Totals};
use super::plan::{End, Format};
use crate::call::{Call, NoLog, Tool as _};
use crate::http::Http;

/// The `http` call of one side.
pub(super) fn call(of: &Call, end: &End<'_>) -> Result<Call, TaskError> {
    end.text("url")
        .or(end.text("endpoint"))
        .map_or_else(|| end.need("url", "set it to the URL"), Ok)?;
    let mut call = Call::new("http");
    let own = [
        "kind",
        "type",
        "format",
        "path",
        "mapping",
        "table",
        "credential",
        "endpoint",
    ];
    let kept = end
        .fields
        .iter()
        .filter(|(key, _)| !own.contains(&key.as_str()));
    call.fields = kept
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect::<Map<_, _>>();
    let url = end.text("url").or(end.text("endpoint")).unwrap_or_default();
    call.fields.insert("url".to_owned(), url.into());
    if let Some(auth) = end.auth() {
        call.fields.insert("auth".to_owned(), auth.clone());
    }
    call.place = of.place.clone();
    call.timeout = of.timeout;
    Ok(call)
}

/// Reads rows from a response.
pub(super) async fn read(
    http: &Http,
    call: &Call,
    (format, path): (Option<Format>, Option<String>),
    outlet: &mut Outlet,
) -> Result<(), TaskError> {
    let response = http.open(call).await?;
    let said = response.headers().get(reqwest::header::CONTENT_TYPE);
    let said = said
        .and_then(|said| said.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let by_type = if said.contains("ndjson") || said.contains("jsonl") {
        Format::Ndjson
    } else if said.contains("csv") {
        Format::Csv
    } else {
        Format::Json
    };
    let pieces = response.bytes_stream().map_err(std::io::Error::other);
    decode::read(
        Box::pin(pieces),
        format.unwrap_or(by_type),
        path.as_deref(),
        outlet,
    )
    .await
}

/// Sends each chunk in a separate request.
pub(super) async fn write(
    http: &Arc<Http>,
    call: &Call,
    format: Format,
    mut inlet: Inlet,
) -> Result<Totals, TaskError> {
    while let Some(batch) = inlet.next().await? {
        if batch.rows.is_empty() {
            continue;
        }
        let mut writer = Writer::new(format);
        let mut out = Vec::new();
        writer.write(&batch, &mut out);
        writer.finish(&mut out);
        let mut one = call.clone();
        one.fields.entry("method").or_insert_with(|| "POST".into());
        one.fields.insert(
            "body".to_owned(),
            String::from_utf8_lossy(&out).into_owned().into(),
        );
        let kind = match format {
            Format::Csv => "text/csv",
            Format::Ndjson => "application/x-ndjson",
            Format::Json | Format::Parquet => "application/json",
        };
        let headers = one
            .fields
            .entry("headers")
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(headers) = headers {
            headers.entry("content-type").or_insert_with(|| kind.into());
        }
        // The caller cancels the whole transfer.
        let outcome = http.call(one, CancellationToken::new(), &NoLog).await;
        if let Outcome::Error(failure) = outcome {
            return Err(failure
                .error
                .with("rows_sent", inlet.totals.rows - batch.rows.len() as u64));
        }
    }
    Ok(inlet.totals)
}
