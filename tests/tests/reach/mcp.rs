//! `mcp`: a server based on the official package of the protocol, over HTTP with both response formats, and over pipes.

use std::time::Duration;

use model::outcome::ErrorKind;
use serde_json::json;
use tests::peers::{McpResponseMode, McpServer};

use super::*;

/// A server, and the keys of a call that name it.
struct McpFixture {
    tool: Arc<dyn Tool>,
    server_fields: Value,
    _server: Option<McpServer>,
}

impl McpFixture {
    fn http(answers: McpResponseMode) -> Self {
        let server = McpServer::private(answers);
        Self {
            tool: find_tool("mcp"),
            server_fields: json!({"server": server.url()}),
            _server: Some(server),
        }
    }

    fn stdio() -> Self {
        Self {
            tool: find_tool("mcp"),
            server_fields: json!({"command": McpServer::command()}),
            _server: None,
        }
    }

    fn new_call(&self, mut fields: Value) -> Call {
        let place = self.server_fields.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(place);
        new_call("mcp", fields)
    }

    async fn run_call(&self, fields: Value) -> Outcome {
        run_call(&self.tool, self.new_call(fields)).await
    }

    async fn call_result(&self, fields: Value) -> Value {
        success_value(self.run_call(fields).await)
    }
}

async fn check_calls(fixture: &McpFixture) {
    assert_eq!(
        fixture
            .call_result(json!({"tool": "add", "arguments": {"a": 2, "b": 40}}))
            .await,
        json!({"result": 42})
    );
    let point = fixture
        .call_result(json!({"tool": "point", "arguments": {"x": 1.5}}))
        .await;
    assert_eq!(point, json!({"x": 1.5, "where": {"deep": [1, 2]}}));
    assert_eq!(
        fixture
            .call_result(json!({"tool": "describe", "arguments": {"name": "n"}}))
            .await["name"],
        "n"
    );
    assert_eq!(
        fixture
            .call_result(json!({"tool": "say", "arguments": {"text": "plain words"}}))
            .await,
        "plain words"
    );
    let failed = fixture
        .run_call(json!({"tool": "fail", "arguments": {"why": "because"}}))
        .await;
    assert_eq!(failure_error(&failed).code, "MCP_TOOL_ERROR");
    assert!(
        failure_error(&failed).message.contains("because"),
        "{}",
        failure_error(&failed).message
    );
    let unknown = fixture.run_call(json!({"tool": "fly"})).await;
    assert!(
        ["MCP_TOOL_ERROR", "MCP_REFUSED"].contains(&failure_error(&unknown).code.as_str()),
        "{unknown:?}"
    );
    let tools = fixture.call_result(json!({"method": "tools/list"})).await;
    let names: Vec<_> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"add") && tools["count"] == names.len(), "{names:?}");
    assert_eq!(
        fixture.call_result(json!({"uri": "config://settings"})).await,
        json!({"color": "green"})
    );
    let prompt = fixture
        .call_result(json!({"prompt": "greet", "arguments": {"name": "Ada"}}))
        .await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Say hello to Ada.");
    let refused = fixture.run_call(json!({"method": "no/such"})).await;
    assert_eq!(failure_error(&refused).code, "MCP_REFUSED");
    assert!(failure_error(&refused).details["rpc_code"].is_i64());
}

async fn check_errors(fixture: &McpFixture) {
    let lines = CapturedLines::default();
    let call = fixture.new_call(json!({"tool": "chatty"}));
    let outcome = fixture.tool.call(call, CancellationToken::new(), &lines).await;
    assert_eq!(success_value(outcome), json!({"result": "done"}));
    let lines = lines.0.lock().unwrap();
    assert!(lines.iter().any(|line| line.contains("on my way")), "{lines:?}");
}

#[tokio::test]
async fn a_server_over_http_answers_with_events() {
    let site = McpFixture::http(McpResponseMode::Events);
    check_calls(&site).await;
    check_errors(&site).await;
}

#[tokio::test]
async fn a_server_over_http_answers_with_documents() {
    check_calls(&McpFixture::http(McpResponseMode::Json)).await;
}

#[tokio::test]
async fn a_server_over_pipes_answers() {
    let site = McpFixture::stdio();
    check_calls(&site).await;
    check_errors(&site).await;
}

#[tokio::test]
async fn a_program_gets_the_variables_it_is_given_and_no_others() {
    let site = McpFixture::stdio();
    let asked = |name: &str| json!({"tool": "variable", "arguments": {"name": name}, "env": {"MINE": "yes"}});
    assert_eq!(site.call_result(asked("MINE")).await, "yes");
    assert_eq!(site.call_result(asked("CARGO_MANIFEST_DIR")).await, "unset");
}

#[tokio::test]
async fn a_program_has_a_folder_of_its_own_where_it_is_shut_in() {
    let site = McpFixture::stdio();
    let mut asked = site.new_call(json!({"tool": "variable", "arguments": {"name": "TMPDIR"}}));
    asked.spec.insert("sandbox".to_owned(), "basic".into());
    let told = success_value(run_call(&site.tool, asked).await);
    assert!(told.as_str().unwrap().contains("noetl-"), "{told}");
}

#[tokio::test]
async fn a_program_is_shut_in_as_far_as_the_deployment_demands() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "canary").unwrap();
    let script = format!("cat '{}' >&2; exit 3", file.path().display());
    let fields = json!({"command": ["/bin/sh", "-c", script], "tool": "x"});
    let free = run_call(&find_tool("mcp"), new_call("mcp", fields.clone())).await;
    assert_eq!(failure_error(&free).code, "MCP_PROTOCOL");
    assert!(format!("{free:?}").contains("canary"), "{free:?}");
    let config = tools::Config {
        sandbox: tools::SandboxLevel::Strict,
        ..tools::Config::default()
    };
    let shut = build_registry(config, integrations::Config::default())
        .get("mcp")
        .unwrap();
    let told = format!("{:?}", run_call(&shut, new_call("mcp", fields)).await);
    // A machine that cannot sandbox the program does not start it.
    assert!(!told.contains("canary"), "{told}");
    assert!(
        told.contains("denied") || told.contains("ISOLATION_UNAVAILABLE"),
        "{told}"
    );
}

#[tokio::test]
async fn a_program_that_ends_says_why() {
    let site = McpFixture::stdio();
    let outcome = site.run_call(json!({"tool": "die"})).await;
    let failed = failure_error(&outcome);
    assert_eq!(
        (failed.code.as_str(), &failed.details["exit_code"]),
        ("MCP_PROTOCOL", &json!(7))
    );
    assert!(failed.details["stderr"].as_str().unwrap().contains("out of order"));
    let missing = run_call(
        &site.tool,
        new_call("mcp", json!({"command": ["/no/such/program"], "tool": "x"})),
    )
    .await;
    assert_eq!(failure_error(&missing).code, "MCP_START");
    let mute = run_call(
        &site.tool,
        new_call("mcp", json!({"command": ["/bin/echo", "hello"], "tool": "x"})),
    )
    .await;
    assert_eq!(failure_error(&mute).code, "MCP_PROTOCOL");
}

#[tokio::test]
async fn a_call_has_a_deadline_and_can_be_stopped() {
    for site in [McpFixture::http(McpResponseMode::Events), McpFixture::stdio()] {
        let mut slow = site.new_call(json!({"tool": "sleep", "arguments": {"seconds": 60}}));
        slow.timeout.total = Some(Duration::from_secs(5));
        assert_eq!(failure_error(&run_call(&site.tool, slow.clone()).await).code, "TIMEOUT");
        let stop = CancellationToken::new();
        stop.cancel();
        let stopped = site.tool.call(slow, stop, &DiscardingLogSink).await;
        assert_eq!(failure_error(&stopped).kind, ErrorKind::Cancelled);
    }
}

#[tokio::test]
async fn a_wrong_address_is_named_and_a_forbidden_one_refused() {
    let server = McpServer::private(McpResponseMode::Json);
    let ask = |url: &str| new_call("mcp", json!({"server": url, "tool": "add"}));
    let elsewhere = server.url().replace("/mcp", "/other");
    let tool = find_tool("mcp");
    assert_eq!(failure_error(&run_call(&tool, ask(&elsewhere)).await).code, "HTTP_404");
    assert_eq!(
        failure_error(&run_call(&tool, ask("not a url")).await).code,
        "TOOL_INPUT"
    );
    assert_eq!(
        failure_error(&run_call(&tool, ask("http://169.254.169.254/mcp")).await).code,
        "HTTP_ADDRESS_BLOCKED"
    );
    let config = tools::Config {
        network: tools::NetworkConfig {
            allow_private: false,
            ..tools::NetworkConfig::default()
        },
        ..tools::Config::default()
    };
    let closed = build_registry(config, integrations::Config::default());
    let outcome = run_call(&closed.get("mcp").unwrap(), ask(&server.url())).await;
    assert_eq!(failure_error(&outcome).code, "HTTP_ADDRESS_BLOCKED");
}
