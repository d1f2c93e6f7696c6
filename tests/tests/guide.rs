//! Runs the documentation: the blocks of the tutorial and of the cluster guides in order, and every other guide and the
//! pages of tool kinds, whose output must match the page.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tests::cli_sandbox::noetl_path;
use tests::peers::{NatsServer, PostgresServer};

/// Guides whose `bash test` blocks form one example, in this order.
const CLUSTER_PAGES: [&str; 4] = [
    "docs/guide/deploy/cluster.md",
    "docs/guide/deploy/upgrade.md",
    "docs/guide/deploy/tls-and-tokens.md",
    "docs/guide/deploy/monitoring.md",
];

/// Ports that the tutorial uses.
const TUTORIAL_PORTS: [&str; 2] = ["8000", "8082"];

fn root() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests are below the root")
}

fn free_port() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr();
    address.expect("a bound socket has an address").port().to_string()
}

/// A free port whose digits contain none of these.
fn free_port_without(documented: &[&str]) -> String {
    loop {
        let port = free_port();
        if !documented.iter().any(|digits| port.contains(digits)) {
            return port;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the commands of the guides are on the `PATH`")]
fn path_with_noetl() -> std::ffi::OsString {
    let binary = noetl_path();
    let folder = binary.parent().expect("a binary is in a directory");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()].into_iter().chain(std::env::split_paths(&path));
    std::env::join_paths(folders).expect("directories can be joined to a path")
}

/// The script that runs the `bash test` blocks of pages.
fn guide_script(pages: &[PathBuf]) -> Command {
    let mut script = Command::new("bash");
    script
        .arg(root().join("tests/guide.sh"))
        .args(pages)
        .env("PATH", path_with_noetl())
        .env("NO_COLOR", "1");
    script
}

/// Runs pages that need a database, NATS and two ports.
fn run_cluster_pages(pages: &[PathBuf]) -> Output {
    let database = PostgresServer::shared().fresh_database();
    let nats = NatsServer::private();
    guide_script(pages)
        .env("PGURL", database.url())
        .env("PORT_A", free_port())
        .env("PORT_B", free_port())
        .env("NATS_URL", nats.url())
        .output()
        .expect("a shell can be started")
}

/// Runs a page of the tutorial on free ports.
fn run_tutorial_page(text: &str) -> Output {
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let text = TUTORIAL_PORTS.iter().fold(text.to_owned(), |text, port| {
        text.replace(port, &free_port_without(&TUTORIAL_PORTS))
    });
    guide_script(&[write_page(dir.path(), &text)])
        .output()
        .expect("a shell can be started")
}

/// Runs the `console` blocks of a page and compares their output with the page.
#[expect(
    clippy::disallowed_methods,
    reason = "accepting is requested through the environment, because test runners pass no flags"
)]
fn run_page(page: &Path) -> Output {
    let mut command = Command::new("python3");
    command.arg(root().join("tests/pages.py"));
    if std::env::var_os("NOETL_ACCEPT").is_some() && page.starts_with(root()) {
        command.arg("--accept");
    }
    command
        .arg(page)
        .env("PATH", path_with_noetl())
        .output()
        .expect("Python can be started")
}

fn assert_success(output: &Output, hint: &str) {
    assert!(
        output.status.success(),
        "{}\n{}\n{hint}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Defines one test for each page of a directory, and the list of their names.
macro_rules! pages {
    ($list:ident in $directory:literal: $($test:ident => $page:literal,)*) => {
        const $list: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                let page = root().join(concat!($directory, "/", $page, ".md"));
                let hint = "if the program is right, accept its output: NOETL_ACCEPT=1";
                assert_success(&run_page(&page), hint);
            }
        )*
    };
}

pages! {
    GUIDES in "docs/guide":
    the_guide_to_approvals_prints_what_it_shows => "approvals",
    the_guide_to_branches_prints_what_it_shows => "branches",
    the_guide_to_credentials_prints_what_it_shows => "credentials",
    the_guide_to_cursor_loops_prints_what_it_shows => "cursor-loops",
    the_guide_to_external_tools_prints_what_it_shows => "external-tools",
    the_guide_to_failed_runs_prints_what_it_shows => "fix-a-failed-run",
    the_guide_to_large_results_prints_what_it_shows => "large-results",
    the_guide_to_loops_prints_what_it_shows => "loops",
    the_guide_to_network_access_prints_what_it_shows => "network-access",
    the_guide_to_pagination_prints_what_it_shows => "pagination",
    the_guide_to_passing_data_prints_what_it_shows => "pass-data",
    the_guide_to_python_packages_prints_what_it_shows => "python-packages",
    the_guide_to_retries_prints_what_it_shows => "retries",
    the_guide_to_the_sandbox_prints_what_it_shows => "sandbox",
    the_guide_to_sub_playbooks_prints_what_it_shows => "sub-playbooks",
    the_guide_to_troubleshooting_prints_what_it_shows => "troubleshooting",
}

pages! {
    TOOL_PAGES in "docs/reference/tools":
    the_page_of_artifact_prints_what_it_shows => "artifact",
    the_page_of_http_prints_what_it_shows => "http",
    the_page_of_mcp_prints_what_it_shows => "mcp",
    the_page_of_noop_prints_what_it_shows => "noop",
    the_page_of_objects_prints_what_it_shows => "objects",
    the_page_of_python_prints_what_it_shows => "python",
    the_page_of_rhai_prints_what_it_shows => "rhai",
    the_page_of_shell_prints_what_it_shows => "shell",
    the_page_of_sqlite_prints_what_it_shows => "sqlite",
    the_page_of_transfer_prints_what_it_shows => "transfer",
    the_page_of_transform_prints_what_it_shows => "transform",
    the_page_of_wait_prints_what_it_shows => "wait",
    the_page_of_workbook_prints_what_it_shows => "workbook",
}

/// Names of the pages in a directory that have a `console` block.
fn pages_with_console(directory: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(directory)).expect("the directory exists");
    let pages = entries.map(|entry| entry.expect("the directory is readable").path());
    pages
        .filter(|page| page.extension().is_some_and(|end| end == "md"))
        .filter(|page| {
            let text = std::fs::read_to_string(page).expect("the page is readable");
            text.lines().any(|line| line == "```console")
        })
        .filter_map(|page| Some(page.file_stem()?.to_string_lossy().into_owned()))
        .collect()
}

#[test]
fn every_guide_and_tool_page_with_a_console_block_has_a_test() {
    for (directory, tested) in [("docs/guide", GUIDES), ("docs/reference/tools", TOOL_PAGES)] {
        let tested = tested.iter().map(|page| (*page).to_owned()).collect();
        assert_eq!(pages_with_console(directory), tested, "{directory}");
    }
}

#[test]
fn the_cluster_guides_work_as_written() {
    let pages = CLUSTER_PAGES.map(|page| root().join(page));
    let hint = "the guides also need `curl` and `openssl`";
    assert_success(&run_cluster_pages(&pages), hint);
}

fn assert_tutorial_works(page: &str) {
    let text = std::fs::read_to_string(root().join(page)).expect("the page exists");
    let hint = format!("{page} also needs `curl` and `python3`");
    assert_success(&run_tutorial_page(&text), &hint);
}

#[test]
fn the_quickstart_works() {
    assert_tutorial_works("docs/start/quickstart.md");
}

#[test]
fn the_first_playbook_works() {
    assert_tutorial_works("docs/start/first-playbook.md");
}

#[test]
fn the_page_about_a_server_works() {
    assert_tutorial_works("docs/start/server.md");
}

#[test]
fn a_page_of_the_tutorial_whose_command_fails_is_noticed() {
    let output = run_tutorial_page("# Wrong\n\n```bash test\nnoetl show 7\necho still here\n```\n");
    assert!(!output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("still here"));
}

/// Creates a page with this text.
fn write_page(dir: &Path, text: &str) -> PathBuf {
    let page = dir.join("page.md");
    std::fs::write(&page, text).expect("a page can be written");
    page
}

#[test]
fn a_guide_whose_command_fails_is_noticed() {
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let page = write_page(dir.path(), "```bash test\nnoetl show 7\necho still here\n```\n");
    let done = run_cluster_pages(&[page]);
    assert!(!done.status.success());
    assert!(!String::from_utf8_lossy(&done.stdout).contains("still here"));
}

#[test]
fn a_page_that_shows_other_output_is_noticed() {
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    for (block, is_right) in [
        ("```console\n$ echo one; echo two\none\ntwo\n```\n", true),
        ("```console\n$ echo one; echo two\n...\ntwo\n```\n", true),
        ("```console\n$ echo one\ntwo\n```\n", false),
        ("```console\n$ echo one; echo two\none\n```\n", false),
        ("```console\n$ false\n```\n", false),
        (
            "```yaml file=a.yaml\na: 1\n```\n\n```console\n$ cat a.yaml\na: 1\n```\n",
            true,
        ),
        ("```text\nnothing to run\n```\n", false),
    ] {
        let output = run_page(&write_page(dir.path(), block));
        assert_eq!(output.status.success(), is_right, "{block}\n{output:?}");
    }
}
