//! Runs one `mcp` call: opens a session, sends one request and closes the session.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::outcome::{ErrorKind, Outcome, TaskError};
use reqwest::Url;
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::call::{Call, LogSink, Tool, cancelled, timed_out};
use crate::http::{Auth, Clients, Manner, headers};
use crate::isolation::{Abilities, Limits, Sandbox, SandboxLevel};
use crate::mcp::asked::Asked;
use crate::mcp::http::HttpLine;
use crate::mcp::message::{chosen, hello, notification, request};
use crate::mcp::result::result;
use crate::mcp::stdio::{Server, StdioLine};
use crate::python::request::environment;

/// Default timeout of a call.
const TOTAL: Duration = Duration::from_secs(120);

/// Maximum number of pages of a list.
const PAGES_MAX: u32 = 100;

/// The `mcp` tool.
pub(crate) struct Mcp {
    clients: Arc<Clients>,
    /// Environment variables that programs inherit.
    env: BTreeMap<String, String>,
    demanded: SandboxLevel,
}

/// A session.
enum Line {
    Http(Box<HttpLine>),
    Stdio(Box<StdioLine>),
}

impl Mcp {
    pub(crate) fn new(
        clients: Arc<Clients>,
        env: BTreeMap<String, String>,
        demanded: SandboxLevel,
    ) -> Self {
        Self {
            clients,
            env,
            demanded,
        }
    }

    async fn run(&self, call: &Call, log: &dyn LogSink) -> Result<Value, TaskError> {
        let asked = Asked::of(call)?;
        let mut line = self.connect(call).await?;
        let answer = line.converse(&asked, log).await;
        line.close(log).await;
        result(&asked.method, answer?)
    }

    async fn connect(&self, call: &Call) -> Result<Line, TaskError> {
        let command = command(call)?;
        match (call.text("server")?, command) {
            (Some(url), None) => self.http(call, url).map(|line| Line::Http(Box::new(line))),
            (None, Some(command)) => {
                let line = self.stdio(call, &command).await?;
                Ok(Line::Stdio(Box::new(line)))
            }
            (Some(_), Some(_)) => {
                let message = "`server` and `command` are mutually exclusive in an `mcp` task";
                Err(TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message))
            }
            (None, None) => Err(call.missing(
                "server",
                "set it to an http(s) URL, or set `command` to a program",
            )),
        }
    }

    async fn stdio(&self, call: &Call, command: &[String]) -> Result<StdioLine, TaskError> {
        let limits = Limits::of(call)?;
        let sandbox = Sandbox::of(call, self.demanded, Abilities::here())?;
        let own = sandbox.own_dir()?;
        let dir = own.as_ref().map(TempDir::path);
        let mut env = self.env.clone();
        if let Some(dir) = dir {
            env.insert("TMPDIR".to_owned(), dir.display().to_string());
        }
        env.extend(environment(call)?);
        let cwd = match (call.text("cwd")?, dir) {
            (Some(path), _) => call.resolve(path),
            (None, Some(dir)) if sandbox.is_strict() => dir.to_owned(),
            (None, _) => call.place.base_dir.clone(),
        };
        let confines = sandbox.confines(dir, &[]);
        let server = Server {
            command,
            env: &env,
            cwd: &cwd,
            limits: &limits,
            confines: &confines,
            own,
        };
        StdioLine::start(server).await
    }

    fn http(&self, call: &Call, url: &str) -> Result<HttpLine, TaskError> {
        let url = Url::parse(url.trim()).map_err(|error| {
            let message = format!("`server`: `{url}` is not a valid URL: {error}");
            TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with("key", "server")
        })?;
        Ok(HttpLine {
            clients: self.clients.clone(),
            url,
            headers: headers(call)?,
            auth: Auth::of(call)?,
            pace: Manner::new(call, &self.clients.limits)?.pace(),
            session: None,
            version: None,
        })
    }
}

impl Line {
    /// Initializes the session, sends the request and returns the response.
    async fn converse(&mut self, asked: &Asked, log: &dyn LogSink) -> Result<Value, TaskError> {
        let answer = self
            .ask(0, &request(0, "initialize", &hello()), log)
            .await?;
        let version = chosen(&answer)?;
        if let Self::Http(line) = self {
            line.version = HeaderValue::from_str(&version).ok();
        }
        self.tell(&notification("notifications/initialized"))
            .await?;
        let Some(list) = asked.paged() else {
            let message = request(1, &asked.method, &asked.page(None));
            return self.ask(1, &message, log).await;
        };
        self.pages(asked, list, log).await
    }

    /// Requests every page of a list.
    async fn pages(
        &mut self,
        asked: &Asked,
        list: &str,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        let mut items = Vec::new();
        let mut cursor = asked.params.get("cursor").cloned();
        for page in 1..=u64::from(PAGES_MAX) {
            let message = request(page, &asked.method, &asked.page(cursor.as_ref()));
            let mut answer = self.ask(page, &message, log).await?;
            if let Value::Array(more) = answer[list].take() {
                items.extend(more);
            }
            cursor = Some(answer["nextCursor"].take()).filter(|cursor| !cursor.is_null());
            if cursor.is_none() {
                break;
            }
        }
        let count = items.len();
        Ok(json!({list: items, "count": count, "next_cursor": cursor}))
    }

    async fn ask(
        &mut self,
        id: u64,
        message: &Value,
        log: &dyn LogSink,
    ) -> Result<Value, TaskError> {
        match self {
            Self::Http(line) => line.ask(id, message, log).await,
            Self::Stdio(line) => line.ask(id, message, log).await,
        }
    }

    async fn tell(&mut self, message: &Value) -> Result<(), TaskError> {
        match self {
            Self::Http(line) => line.tell(message).await,
            Self::Stdio(line) => line.tell(message).await,
        }
    }

    async fn close(self, log: &dyn LogSink) {
        match self {
            Self::Http(line) => line.close().await,
            Self::Stdio(line) => line.close(log).await,
        }
    }
}

#[async_trait]
impl Tool for Mcp {
    fn is_pure(&self) -> bool {
        false
    }

    async fn call(&self, call: Call, stop: CancellationToken, log: &dyn LogSink) -> Outcome {
        let limit = call.timeout.total.unwrap_or(TOTAL);
        let run = self.run(&call, log);
        // Dropping the session kills its program.
        let outcome = tokio::select! {
            biased;
            outcome = run => outcome,
            () = stop.cancelled() => Err(cancelled()),
            () = tokio::time::sleep(limit) => Err(timed_out(limit)),
        };
        outcome.map_or_else(Outcome::error, Outcome::ok)
    }
}

/// Program of a call: a list of words, or one word.
fn command(call: &Call) -> Result<Option<Vec<String>>, TaskError> {
    match call.field("command") {
        None => Ok(None),
        Some(Value::String(program)) => Ok(Some(vec![program.clone()])),
        Some(Value::Array(words)) => {
            let word = |word: &Value| match word {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            Ok(Some(words.iter().map(word).collect()))
        }
        Some(other) => Err(call.wrong_type("command", "a list of words", other)),
    }
}
