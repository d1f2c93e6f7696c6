//! Task logs behind a server's API.

use async_trait::async_trait;
use model::id::ExecutionId;
use model::task_log::LogLine;
use results::{Error, LogPage, LogPosition, LogQuery, StoredLine, TaskLogs};
use wire::Client;
use wire::api::{AppendLogsRequest, AppendLogsResponse, LogEntry, LogsResponse};

use super::store_error::into_store_error;

/// Name of the store in errors.
const LOGS_LOCATION: &str = "the server's task logs";

/// Sends and reads task logs through a server.
pub struct HttpTaskLogs {
    client: Client,
}

impl HttpTaskLogs {
    /// Creates task logs that use the servers of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl TaskLogs for HttpTaskLogs {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        let request = AppendLogsRequest { lines: lines.to_vec() };
        let response = self.client.post("/api/worker/logs", &request).await;
        let _: AppendLogsResponse = response.map_err(|error| into_store_error(error, LOGS_LOCATION, LOGS_LOCATION))?;
        Ok(())
    }

    async fn read(&self, execution: ExecutionId, query: &LogQuery) -> Result<LogPage, Error> {
        let position = match query.position {
            LogPosition::After(after) => format!("after={after}&limit={}", query.limit),
            LogPosition::Before(before) => format!("before={before}&limit={}", query.limit),
            LogPosition::End => format!("tail={}", query.limit),
        };
        let mut path = format!("/api/executions/{execution}/logs?{position}");
        let filters = [
            ("step", query.step.as_ref().map(ToString::to_string)),
            ("task", query.task.as_ref().map(ToString::to_string)),
            ("iteration", query.iteration.map(|iteration| iteration.to_string())),
            ("attempt", query.attempt.map(|attempt| attempt.to_string())),
            ("level", query.level.map(|level| level.name().to_owned())),
            ("q", query.text.clone()),
            ("until_time", query.until.map(|until| until.to_string())),
        ];
        for (name, value) in filters {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encode_query_value(&value)));
            }
        }
        let lines = self.client.get(&path).await;
        let lines: LogsResponse = lines.map_err(|error| into_store_error(error, LOGS_LOCATION, LOGS_LOCATION))?;
        Ok(LogPage {
            lines: lines.lines.into_iter().map(to_stored_line).collect(),
            next_after: lines.next_after,
            has_earlier: lines.has_earlier,
        })
    }
}

fn to_stored_line(entry: LogEntry) -> StoredLine {
    StoredLine {
        position: entry.position,
        line: entry.line,
    }
}

/// Percent-encodes a text for a query string.
fn encode_query_value(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let bytes = text.bytes();
    let encoded = bytes.map(|byte| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    encoded.collect()
}
