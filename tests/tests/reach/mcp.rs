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
    fn http(mode: McpResponseMode) -> Self {
        let server = McpServer::private(mode);
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
        let server_fields = self.server_fields.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(server_fields);
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
async fn a_server_over_http_responds_with_events() {
    let fixture = McpFixture::http(McpResponseMode::Events);
    check_calls(&fixture).await;
    check_errors(&fixture).await;
}

#[tokio::test]
async fn a_server_over_http_responds_with_documents() {
    check_calls(&McpFixture::http(McpResponseMode::Json)).await;
}

#[tokio::test]
async fn a_server_over_pipes_responds() {
    let fixture = McpFixture::stdio();
    check_calls(&fixture).await;
    check_errors(&fixture).await;
}

#[tokio::test]
async fn a_program_gets_the_variables_it_is_given_and_no_others() {
    let fixture = McpFixture::stdio();
    let variable_fields = |name: &str| json!({"tool": "variable", "arguments": {"name": name}, "env": {"MINE": "yes"}});
    assert_eq!(fixture.call_result(variable_fields("MINE")).await, "yes");
    assert_eq!(
        fixture.call_result(variable_fields("CARGO_MANIFEST_DIR")).await,
        "unset"
    );
}

#[tokio::test]
async fn a_sandboxed_program_has_a_folder_of_its_own() {
    let fixture = McpFixture::stdio();
    let mut call = fixture.new_call(json!({"tool": "variable", "arguments": {"name": "TMPDIR"}}));
    call.spec.insert("sandbox".to_owned(), "basic".into());
    let result = success_value(run_call(&fixture.tool, call).await);
    assert!(result.as_str().unwrap().contains("noetl-"), "{result}");
}

#[tokio::test]
async fn a_program_is_sandboxed_at_the_level_of_the_deployment() {
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
    let outcome = format!("{:?}", run_call(&shut, new_call("mcp", fields)).await);
    // A machine that cannot sandbox the program does not start it.
    assert!(!outcome.contains("canary"), "{outcome}");
    assert!(
        outcome.contains("denied") || outcome.contains("ISOLATION_UNAVAILABLE"),
        "{outcome}"
    );
}

#[tokio::test]
async fn a_program_that_exits_is_reported_with_its_exit_code_and_output() {
    let fixture = McpFixture::stdio();
    let outcome = fixture.run_call(json!({"tool": "die"})).await;
    let failed = failure_error(&outcome);
    assert_eq!(
        (failed.code.as_str(), &failed.details["exit_code"]),
        ("MCP_PROTOCOL", &json!(7))
    );
    assert!(failed.details["stderr"].as_str().unwrap().contains("out of order"));
    let missing = run_call(
        &fixture.tool,
        new_call("mcp", json!({"command": ["/no/such/program"], "tool": "x"})),
    )
    .await;
    assert_eq!(failure_error(&missing).code, "MCP_START");
    let mute = run_call(
        &fixture.tool,
        new_call("mcp", json!({"command": ["/bin/echo", "hello"], "tool": "x"})),
    )
    .await;
    assert_eq!(failure_error(&mute).code, "MCP_PROTOCOL");
}

#[tokio::test]
async fn a_call_has_a_deadline_and_can_be_stopped() {
    for fixture in [McpFixture::http(McpResponseMode::Events), McpFixture::stdio()] {
        let mut slow = fixture.new_call(json!({"tool": "sleep", "arguments": {"seconds": 60}}));
        slow.timeout.total = Some(Duration::from_secs(5));
        assert_eq!(
            failure_error(&run_call(&fixture.tool, slow.clone()).await).code,
            "TIMEOUT"
        );
        let stop = CancellationToken::new();
        stop.cancel();
        let stopped = fixture.tool.call(slow, stop, &DiscardingLogSink).await;
        assert_eq!(failure_error(&stopped).kind, ErrorKind::Cancelled);
    }
}

#[tokio::test]
async fn a_wrong_address_is_named_and_a_forbidden_one_refused() {
    let server = McpServer::private(McpResponseMode::Json);
    let add_at = |url: &str| new_call("mcp", json!({"server": url, "tool": "add"}));
    let unknown_path = server.url().replace("/mcp", "/other");
    let tool = find_tool("mcp");
    assert_eq!(
        failure_error(&run_call(&tool, add_at(&unknown_path)).await).code,
        "HTTP_404"
    );
    assert_eq!(
        failure_error(&run_call(&tool, add_at("not a url")).await).code,
        "TOOL_INPUT"
    );
    assert_eq!(
        failure_error(&run_call(&tool, add_at("http://169.254.169.254/mcp")).await).code,
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
    let outcome = run_call(&closed.get("mcp").unwrap(), add_at(&server.url())).await;
    assert_eq!(failure_error(&outcome).code, "HTTP_ADDRESS_BLOCKED");
}
