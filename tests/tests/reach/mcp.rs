//! `mcp`: a server based on the official package of the protocol, over HTTP with both response formats, and over pipes.

use std::time::Duration;

use model::outcome::ErrorKind;
use serde_json::json;
use tests::peers::{Answers, Mcp};

use super::*;

/// A server, and the keys of a call that name it.
struct Site {
    tool: Arc<dyn Tool>,
    place: Value,
    _server: Option<Mcp>,
}

impl Site {
    fn http(answers: Answers) -> Self {
        let server = Mcp::private(answers);
        Self {
            tool: tool("mcp"),
            place: json!({"server": server.url()}),
            _server: Some(server),
        }
    }

    fn stdio() -> Self {
        Self {
            tool: tool("mcp"),
            place: json!({"command": Mcp::command()}),
            _server: None,
        }
    }

    fn call(&self, mut fields: Value) -> Call {
        let place = self.place.as_object().unwrap().clone();
        fields.as_object_mut().unwrap().extend(place);
        call("mcp", fields)
    }

    async fn run(&self, fields: Value) -> Outcome {
        run(&self.tool, self.call(fields)).await
    }

    async fn ok(&self, fields: Value) -> Value {
        result(self.run(fields).await)
    }
}

async fn speaks(site: &Site) {
    assert_eq!(
        site.ok(json!({"tool": "add", "arguments": {"a": 2, "b": 40}}))
            .await,
        json!({"result": 42})
    );
    let point = site
        .ok(json!({"tool": "point", "arguments": {"x": 1.5}}))
        .await;
    assert_eq!(point, json!({"x": 1.5, "where": {"deep": [1, 2]}}));
    assert_eq!(
        site.ok(json!({"tool": "describe", "arguments": {"name": "n"}}))
            .await["name"],
        "n"
    );
    assert_eq!(
        site.ok(json!({"tool": "say", "arguments": {"text": "plain words"}}))
            .await,
        "plain words"
    );
    let failed = site
        .run(json!({"tool": "fail", "arguments": {"why": "because"}}))
        .await;
    assert_eq!(error(&failed).code, "MCP_TOOL_ERROR");
    assert!(
        error(&failed).message.contains("because"),
        "{}",
        error(&failed).message
    );
    let unknown = site.run(json!({"tool": "fly"})).await;
    assert!(
        ["MCP_TOOL_ERROR", "MCP_REFUSED"].contains(&error(&unknown).code.as_str()),
        "{unknown:?}"
    );
    let tools = site.ok(json!({"method": "tools/list"})).await;
    let names: Vec<_> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(
        names.contains(&"add") && tools["count"] == names.len(),
        "{names:?}"
    );
    assert_eq!(
        site.ok(json!({"uri": "config://settings"})).await,
        json!({"color": "green"})
    );
    let prompt = site
        .ok(json!({"prompt": "greet", "arguments": {"name": "Ada"}}))
        .await;
    assert_eq!(
        prompt["messages"][0]["content"]["text"],
        "Say hello to Ada."
    );
    let refused = site.run(json!({"method": "no/such"})).await;
    assert_eq!(error(&refused).code, "MCP_REFUSED");
    assert!(error(&refused).details["rpc_code"].is_i64());
}

async fn tells(site: &Site) {
    let lines = Lines::default();
    let call = site.call(json!({"tool": "chatty"}));
    let outcome = site.tool.call(call, CancellationToken::new(), &lines).await;
    assert_eq!(result(outcome), json!({"result": "done"}));
    let lines = lines.0.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.contains("on my way")),
        "{lines:?}"
    );
}

#[tokio::test]
async fn a_server_over_http_answers_with_events() {
    let site = Site::http(Answers::Events);
    speaks(&site).await;
    tells(&site).await;
}

#[tokio::test]
async fn a_server_over_http_answers_with_documents() {
    speaks(&Site::http(Answers::Json)).await;
}

#[tokio::test]
async fn a_server_over_pipes_answers() {
    let site = Site::stdio();
    speaks(&site).await;
    tells(&site).await;
}

#[tokio::test]
async fn a_program_gets_the_variables_it_is_given_and_no_others() {
    let site = Site::stdio();
    let asked = |name: &str| json!({"tool": "variable", "arguments": {"name": name}, "env": {"MINE": "yes"}});
    assert_eq!(site.ok(asked("MINE")).await, "yes");
    assert_eq!(site.ok(asked("CARGO_MANIFEST_DIR")).await, "unset");
}

#[tokio::test]
async fn a_program_has_a_folder_of_its_own_where_it_is_shut_in() {
    let site = Site::stdio();
    let mut asked = site.call(json!({"tool": "variable", "arguments": {"name": "TMPDIR"}}));
    asked.knobs.insert("sandbox".to_owned(), "basic".into());
    let told = result(run(&site.tool, asked).await);
    assert!(told.as_str().unwrap().contains("noetl-"), "{told}");
}

#[tokio::test]
async fn a_program_is_shut_in_as_far_as_the_deployment_demands() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "canary").unwrap();
    let script = format!("cat '{}' >&2; exit 3", file.path().display());
    let fields = json!({"command": ["/bin/sh", "-c", script], "tool": "x"});
    let free = run(&tool("mcp"), call("mcp", fields.clone())).await;
    assert_eq!(error(&free).code, "MCP_PROTOCOL");
    assert!(format!("{free:?}").contains("canary"), "{free:?}");
    let config = tools::Config {
        sandbox: tools::SandboxLevel::Strict,
        ..tools::Config::default()
    };
    let shut = Registry::builtin(config).get("mcp").unwrap();
    let told = format!("{:?}", run(&shut, call("mcp", fields)).await);
    // A machine that cannot sandbox the program does not start it.
    assert!(!told.contains("canary"), "{told}");
    assert!(
        told.contains("denied") || told.contains("ISOLATION_UNAVAILABLE"),
        "{told}"
    );
}

#[tokio::test]
async fn a_program_that_ends_says_why() {
    let site = Site::stdio();
    let outcome = site.run(json!({"tool": "die"})).await;
    let failed = error(&outcome);
    assert_eq!(
        (failed.code.as_str(), &failed.details["exit_code"]),
        ("MCP_PROTOCOL", &json!(7))
    );
    assert!(
        failed.details["stderr"]
            .as_str()
            .unwrap()
            .contains("out of order")
    );
    let missing = run(
        &site.tool,
        call("mcp", json!({"command": ["/no/such/program"], "tool": "x"})),
    )
    .await;
    assert_eq!(error(&missing).code, "MCP_START");
    let mute = run(
        &site.tool,
        call(
            "mcp",
            json!({"command": ["/bin/echo", "hello"], "tool": "x"}),
        ),
    )
    .await;
    assert_eq!(error(&mute).code, "MCP_PROTOCOL");
}

#[tokio::test]
async fn a_call_has_a_deadline_and_can_be_stopped() {
    for site in [Site::http(Answers::Events), Site::stdio()] {
        let mut slow = site.call(json!({"tool": "sleep", "arguments": {"seconds": 60}}));
        slow.timeout.total = Some(Duration::from_secs(5));
        assert_eq!(error(&run(&site.tool, slow.clone()).await).code, "TIMEOUT");
        let stop = CancellationToken::new();
        stop.cancel();
        let stopped = site.tool.call(slow, stop, &NoLog).await;
        assert_eq!(error(&stopped).kind, ErrorKind::Cancelled);
    }
}

#[tokio::test]
async fn a_wrong_address_is_named_and_a_forbidden_one_refused() {
    let server = Mcp::private(Answers::Json);
    let ask = |url: &str| call("mcp", json!({"server": url, "tool": "add"}));
    let elsewhere = server.url().replace("/mcp", "/other");
    let tool = tool("mcp");
    assert_eq!(error(&run(&tool, ask(&elsewhere)).await).code, "HTTP_404");
    assert_eq!(
        error(&run(&tool, ask("not a url")).await).code,
        "TOOL_INPUT"
    );
    assert_eq!(
        error(&run(&tool, ask("http://169.254.169.254/mcp")).await).code,
        "HTTP_ADDRESS_BLOCKED"
    );
    let closed = Registry::builtin(tools::Config {
        network: tools::Network {
            allow_private: false,
            ..tools::Network::default()
        },
        ..tools::Config::default()
    });
    let outcome = run(&closed.get("mcp").unwrap(), ask(&server.url())).await;
    assert_eq!(error(&outcome).code, "HTTP_ADDRESS_BLOCKED");
}
