//! Runs one `mcp` call: opens a session, sends one request and closes the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tools::http::{HttpAuth, HttpClients, RequestOptions, parse_headers};
use tools::{Call, LogSink, ProgramSetup, SandboxLevel, Tool, ToolResult, plain_text, run_within_limit};

use crate::mcp::http::HttpSession;
use crate::mcp::message::{initialize, negotiated_version, notification_message, request_message};
use crate::mcp::method_call::MethodCall;
use crate::mcp::result::method_result;
use crate::mcp::stdio::StdioSession;

/// Default timeout of a call.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum number of pages of a list.
const PAGES_MAX: u32 = 100;

/// The `mcp` tool.
pub(crate) struct McpTool {
    clients: Arc<HttpClients>,
    /// Environment variables that programs inherit.
    env: BTreeMap<String, String>,
    sandbox_level_min: SandboxLevel,
}

/// A session.
enum McpSession {
    Http(Box<HttpSession>),
    Stdio(Box<StdioSession>),
}

impl McpTool {
    pub(crate) fn new(
        clients: Arc<HttpClients>,
        env: BTreeMap<String, String>,
        sandbox_level_min: SandboxLevel,
    ) -> Self {
        Self {
            clients,
            env,
            sandbox_level_min,
        }
    }

    async fn run_call(&self, call: &Call, log: &dyn LogSink) -> Result<Value, TaskError> {
        let method_call = MethodCall::from_call(call)?;
        let mut session = self.connect(call).await?;
        let result = session.run_exchange(&method_call, log).await;
        session.close(log).await;
        method_result(&method_call.method, result?)
    }

    async fn connect(&self, call: &Call) -> Result<McpSession, TaskError> {
        let command = command_words(call)?;
        match (call.text_field("server")?, command) {
            (Some(url), None) => self
                .open_http(call, url)
                .map(|session| McpSession::Http(Box::new(session))),
            (None, Some(command)) => {
                let session = self.start_stdio(call, &command).await?;
                Ok(McpSession::Stdio(Box::new(session)))
            }
            (Some(_), Some(_)) => {
                let message = "`server` and `command` are mutually exclusive in an `mcp` task";
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message))
            }
            (None, None) => {
                Err(call.missing_key_error("server", "set it to an http(s) URL, or set `command` to a program"))
            }
        }
    }

    async fn start_stdio(&self, call: &Call, command: &[String]) -> Result<StdioSession, TaskError> {
        let setup = ProgramSetup::from_call(call, &self.env, self.sandbox_level_min)?;
        StdioSession::start(command, setup).await
    }

    fn open_http(&self, call: &Call, url: &str) -> Result<HttpSession, TaskError> {
        let url = Url::parse(url.trim()).map_err(|error| {
            let message = format!("`server`: `{url}` is not a valid URL: {error}");
            TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "server")
        })?;
        Ok(HttpSession {
            clients: self.clients.clone(),
            url,
            headers: parse_headers(call)?,
            auth: HttpAuth::from_call(call)?,
            timeouts: RequestOptions::new(call, &self.clients.limits)?.timeouts(),
            session: None,
            version: None,
        })
    }
}

impl McpSession {
    /// Initializes the session, sends the request and returns the response.
    async fn run_exchange(&mut self, method_call: &MethodCall, log: &dyn LogSink) -> Result<Value, TaskError> {
        let result = self
            .request(0, &request_message(0, "initialize", &initialize()), log)
            .await?;
        let version = negotiated_version(&result)?;
        if let Self::Http(session) = self {
            session.version = HeaderValue::from_str(&version).ok();
        }
        self.notify(&notification_message("notifications/initialized")).await?;
        let Some(list) = method_call.page_key() else {
            let message = request_message(1, &method_call.method, &method_call.page_params(None));
            return self.request(1, &message, log).await;
        };
        self.request_pages(method_call, list, log).await
    }

    /// Requests every page of a list.
    async fn request_pages(
        &mut self,
        method_call: &MethodCall,
        list: &str,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        let mut items = Vec::new();
        let mut cursor = method_call.params.get("cursor").cloned();
        for page in 1..=u64::from(PAGES_MAX) {
            let message = request_message(page, &method_call.method, &method_call.page_params(cursor.as_ref()));
            let mut result = self.request(page, &message, log).await?;
            if let Value::Array(more) = result[list].take() {
                items.extend(more);
            }
            cursor = Some(result["nextCursor"].take()).filter(|cursor| !cursor.is_null());
            if cursor.is_none() {
                break;
            }
        }
        let count = items.len();
        Ok(json!({list: items, "count": count, "next_cursor": cursor}))
    }

    async fn request(&mut self, id: u64, message: &Value, log: &dyn LogSink) -> Result<Value, TaskError> {
        match self {
            Self::Http(session) => session.request(id, message, log).await,
            Self::Stdio(session) => session.request(id, message, log).await,
        }
    }

    async fn notify(&mut self, message: &Value) -> Result<(), TaskError> {
        match self {
            Self::Http(session) => session.notify(message).await,
            Self::Stdio(session) => session.notify(message).await,
        }
    }

    async fn close(self, log: &dyn LogSink) {
        match self {
            Self::Http(session) => session.close().await,
            Self::Stdio(session) => session.close(log).await,
        }
    }
}

#[async_trait]
impl Tool for McpTool {
    async fn run(&self, call: Call, stop: &CancellationToken, log: &dyn LogSink) -> ToolResult {
        // Dropping the session kills its program.
        let result = run_within_limit(
            Some(call.timeout.total.unwrap_or(TOTAL_TIMEOUT)),
            stop,
            Box::pin(self.run_call(&call, log)),
        )
        .await?;
        Ok(Outcome::ok(result))
    }
}

/// Program of a call: a list of words, or one word.
fn command_words(call: &Call) -> Result<Option<Vec<String>>, TaskError> {
    match call.field("command") {
        None => Ok(None),
        Some(Value::String(program)) => Ok(Some(vec![program.clone()])),
        Some(Value::Array(words)) => Ok(Some(words.iter().map(plain_text).collect())),
        Some(other) => Err(call.wrong_type_error("command", "a list of words", other)),
    }
}
