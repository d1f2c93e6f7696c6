//! Task logs behind a server's API.

use async_trait::async_trait;
use model::id::{ExecutionId, Name};
use model::task_log::LogLine;
use results::{Error, LogAsk, LogPage, TaskLogs};
use wire::Client;
use wire::api::{LogLines, LogsRequest, LogsTaken};

use super::refusal::failed;

/// Name of the store in errors.
const PLACE: &str = "the server's task logs";

/// Sends and reads task logs through a server.
pub struct ServerLogs {
    client: Client,
}

impl ServerLogs {
    /// Creates task logs that use the servers of `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[async_trait]
impl TaskLogs for ServerLogs {
    async fn append(&self, lines: &[LogLine]) -> Result<(), Error> {
        let request = LogsRequest {
            lines: lines.to_vec(),
        };
        let taken = self.client.post("/api/worker/logs", &request).await;
        let _: LogsTaken = taken.map_err(|error| failed(error, PLACE, PLACE))?;
        Ok(())
    }

    async fn read(&self, execution: ExecutionId, ask: &LogAsk) -> Result<LogPage, Error> {
        let mut path = format!(
            "/api/executions/{execution}/logs?after={}&limit={}",
            ask.after, ask.limit
        );
        for (name, value) in [("step", &ask.step), ("task", &ask.task)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", encode(value)));
            }
        }
        let lines = self.client.get(&path).await;
        let lines: LogLines = lines.map_err(|error| failed(error, PLACE, PLACE))?;
        Ok(LogPage {
            lines: lines.lines,
            next_after: lines.next_after,
        })
    }
}

/// Percent-encodes a name for a query string.
fn encode(name: &Name) -> String {
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
