//! The web client in a real browser, against a real server. `ui/browser` has the scenarios.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use tests::cli_sandbox::CliSandbox;
use tests::server_process::ServerProcess;

/// The copy of the client with its packages, and the browser; `cargo xtask test` prepares them.
struct BrowserTools {
    client: PathBuf,
    browser: String,
}

#[expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask test` names the browser in the environment"
)]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; run the tests with `cargo xtask test`"))
}

impl BrowserTools {
    fn find() -> Self {
        let search_path = variable("PATH");
        let name = variable("NOETL_TEST_BROWSER");
        let mut files = search_path.split(':').map(|folder| PathBuf::from(folder).join(&name));
        let browser = files.find(|file| file.is_file()).expect("the browser is in PATH");
        Self {
            client: variable("NOETL_TEST_CLIENT").into(),
            browser: browser.display().to_string(),
        }
    }

    fn node(&self, arguments: &[&str]) {
        let output = Command::new("node")
            .args(arguments)
            .current_dir(&self.client)
            .env("CHROMIUM", &self.browser)
            .output()
            .expect("node starts");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{arguments:?} failed:\n{text}");
    }

    fn run_scenario(&self, name: &str, url: &str, tokens: &str) {
        self.node(&["browser/run.mjs", name, url, tokens]);
    }
}

fn run_on_open_server(scenario: &str) {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    let server = ServerProcess::start(&sandbox, &[]);
    tools.run_scenario(scenario, &server.url, "{}");
}

#[test]
fn a_first_visit_leads_from_an_empty_store_to_a_repaired_run() {
    run_on_open_server("journey");
}

#[test]
fn every_view_is_accessible_in_both_themes_and_by_keyboard() {
    run_on_open_server("accessibility");
}

#[test]
fn the_client_works_behind_a_path_prefix() {
    run_on_open_server("prefix");
}

#[test]
fn a_viewer_signs_in_and_is_offered_no_action() {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    let server = ServerProcess::start(&sandbox, &["--token-file", "admin.token"]);
    let admin = sandbox.read("admin.token");
    let create = |role: &str| {
        let create = ["token", "create", role, "--role", role, "-j"];
        let target = ["--server", &server.url, "--token-file", "admin.token"];
        let created = sandbox.run_json(&[&create[..], &target].concat());
        created["token"].as_str().expect("the token is printed once").to_owned()
    };
    let tokens = serde_json::json!({
        "admin": admin.trim(),
        "viewer": create("viewer"),
        "operator": create("operator"),
    });
    tools.run_scenario("sign_in", &server.url, &tokens.to_string());
}

/// A port that is free now.
fn find_free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound address").port()
}

#[test]
fn people_sign_in_at_an_identity_provider() {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    // `localhost` is another site than `127.0.0.1`, as a provider usually is.
    let issuer = format!("http://localhost:{}", find_free_port());
    let address = format!("127.0.0.1:{}", find_free_port());
    let settings = format!(
        "public_url = \"http://{address}\"\noidc_issuer = \"{issuer}\"\noidc_client_id = \"noetl\"\n\
         oidc_client_secret_file = \"client.secret\"\noidc_name = \"Example\"\n\
         oidc_roles = {{ noetl-admins = \"admin\", staff = \"viewer\" }}\n"
    );
    sandbox.write("noetl.toml", &settings);
    sandbox.write("client.secret", "a-secret-of-the-test\n");
    let server = ServerProcess::start_on_address(&sandbox, &address, &[]);
    let tokens = serde_json::json!({"issuer": issuer, "clientSecret": "a-secret-of-the-test"});
    tools.run_scenario("oidc", &server.url, &tokens.to_string());
}

#[test]
fn the_types_of_the_client_match_the_api() {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    sandbox.write("openapi.json", server::Server::api_document());
    let document = sandbox.path("openapi.json").display().to_string();
    tools.node(&["dev/schema.mjs", "--check", &document]);
}
