//! Task logs behind a server's API.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::LogLine;
use results::{Error, LogPage, LogQuery, TaskLogs};
use wire::Client;
use wire::api::{AppendLogsRequest, AppendLogsResponse, LogsResponse};

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
        let mut path = format!(
            "/api/executions/{execution}/logs?after={}&limit={}",
            query.after, query.limit
        );
        for (name, value) in [("step", &query.step), ("task", &query.task)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encode_query_value(value)));
            }
        }
        let lines = self.client.get(&path).await;
        let lines: LogsResponse = lines.map_err(|error| into_store_error(error, LOGS_LOCATION, LOGS_LOCATION))?;
        Ok(LogPage {
            lines: lines.lines,
            next_after: lines.next_after,
        })
    }
}

/// Percent-encodes a name for a query string.
fn encode_query_value(name: &Name) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let bytes = name.as_str().bytes();
    let encoded = bytes.map(|byte| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    encoded.collect()
}
