//! The web client in a real browser, against a real server. `ui/browser` has the scenarios.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

    fn node_command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("node");
        command
            .args(arguments)
            .current_dir(&self.client)
            .env("CHROMIUM", &self.browser);
        command
    }

    fn node(&self, arguments: &[&str]) {
        Self::check_exit(arguments, &mut self.node_command(arguments));
    }

    fn check_exit(arguments: &[&str], command: &mut Command) {
        let output = command.output().expect("node starts");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(output.status.success(), "{arguments:?} failed:\n{text}");
    }

    fn run_scenario(&self, name: &str, url: &str, tokens: &str) {
        self.node(&["browser/run.mjs", name, url, tokens]);
    }
}

/// Runs a scenario, and kills and restarts the server whenever the scenario prints `restart`.
fn run_with_restarts(scenario: &str) {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    let mut server = ServerProcess::start(&sandbox, &[]);
    let url = server.url.clone();
    let mut command = tools.node_command(&["browser/run.mjs", scenario, &url]);
    let mut node = command.stdout(Stdio::piped()).spawn().expect("node starts");
    let stdout = node.stdout.take().expect("its output is piped");
    let mut restarts = 0;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        assert_eq!(line, "restart", "the only request of a scenario");
        server = server.restart(&sandbox);
        restarts += 1;
    }
    let status = node.wait().expect("node ends");
    assert!(
        status.success() && restarts > 0,
        "{scenario} failed after {restarts} restarts"
    );
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
fn every_tab_shows_the_run_at_the_chosen_event() {
    run_on_open_server("time_travel");
}

#[test]
fn followed_output_continues_after_the_server_was_killed() {
    run_with_restarts("interrupted_logs");
}

#[test]
fn a_playbook_is_compared_run_by_its_form_and_rerun_as_previewed() {
    run_on_open_server("versions");
}

#[test]
fn a_long_loop_is_shown_as_the_api_counts_it() {
    run_on_open_server("loops");
}

#[test]
fn the_runs_with_a_label_are_cancelled_together() {
    run_on_open_server("bulk");
}

#[test]
fn a_waiting_run_is_answered_in_the_inbox() {
    run_on_open_server("inbox");
}

#[test]
fn a_playbook_is_written_repaired_saved_and_run_in_the_browser() {
    run_on_open_server("editor");
}

#[test]
fn the_client_works_behind_a_path_prefix() {
    run_on_open_server("prefix");
}

#[test]
fn lists_keys_and_controls_work_as_people_use_them() {
    run_on_open_server("interaction");
}

#[test]
fn the_numbers_of_the_client_match_the_api_and_the_log() {
    run_on_open_server("numbers");
}

/// With `NOETL_ACCEPT` set, the pictures of the documentation are replaced; `cargo xtask pictures` does that.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn each_picture_of_the_documentation_can_be_taken() {
    let tools = BrowserTools::find();
    let sandbox = CliSandbox::new();
    let server = ServerProcess::start(&sandbox, &[]);
    let documented = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    let folder = match std::env::var_os("NOETL_ACCEPT") {
        Some(_) => documented.clone(),
        None => sandbox.path("pictures"),
    };
    let folder_name = folder.display().to_string();
    let arguments = ["browser/run.mjs", "pictures", &server.url, "{}"];
    let mut command = tools.node_command(&arguments);
    BrowserTools::check_exit(&arguments, command.env("NOETL_PICTURES", folder_name));
    assert_eq!(
        list_pictures(&folder),
        list_pictures(&documented),
        "run `cargo xtask pictures`"
    );
}

/// The names of the pictures in a folder.
fn list_pictures(folder: &Path) -> BTreeSet<String> {
    let listing = std::fs::read_dir(folder).expect("the folder exists");
    let names = listing.map(|entry| entry.expect("the folder is readable").file_name());
    let names = names.map(|name| name.into_string().expect("names are UTF-8"));
    names
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "png"))
        .collect()
}

/// Runs a scenario with tokens of the roles admin, operator and viewer.
fn run_on_guarded_server(scenario: &str) {
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
    tools.run_scenario(scenario, &server.url, &tokens.to_string());
}

#[test]
fn a_viewer_signs_in_and_is_offered_no_action() {
    run_on_guarded_server("sign_in");
}

#[test]
fn an_admin_manages_credentials_and_tokens_and_sees_why_a_task_waits() {
    run_on_guarded_server("administration");
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
