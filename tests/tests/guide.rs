//! The guide to a cluster does what it says: its blocks are run in order, on a Postgres and a NATS of the test's own.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use tests::binary::noetl;
use tests::peers::{Nats, Postgres};

fn house() -> &'static Path {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().expect("tests lie in the house")
}

fn free_port() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let address = listener.local_addr();
    address.expect("a bound socket has one").port().to_string()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the guide's commands are found where the test's are"
)]
fn path_with_noetl() -> std::ffi::OsString {
    let binary = noetl();
    let folder = binary.parent().expect("a binary lies in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [folder.to_owned()]
        .into_iter()
        .chain(std::env::split_paths(&path));
    std::env::join_paths(folders).expect("folders of a path can be joined")
}

fn guide(page: &Path) -> std::process::Output {
    let database = Postgres::shared().fresh_database();
    let nats = Nats::private();
    Command::new("bash")
        .arg(house().join("tests/guide.sh"))
        .arg(page)
        .env("PATH", path_with_noetl())
        .env("PGURL", database.url())
        .env("PORT_A", free_port())
        .env("PORT_B", free_port())
        .env("NATS_URL", nats.url())
        .env("NO_COLOR", "1")
        .output()
        .expect("a shell can be started")
}

#[test]
fn the_guide_to_a_cluster_does_what_it_says() {
    let done = guide(&house().join("docs/guide/cluster.md"));
    assert!(
        done.status.success(),
        "{}\n{}\nthe guide needs `curl` and `openssl` besides",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn a_guide_whose_command_fails_is_noticed() {
    let dir = tempfile::tempdir().expect("there is room for a folder");
    let page = dir.path().join("page.md");
    let text = "# Wrong\n\n```bash test\nnoetl show 7\necho still here\n```\n";
    std::fs::write(&page, text).expect("a page can be written");
    let done = guide(&page);
    assert!(!done.status.success());
    assert!(!String::from_utf8_lossy(&done.stdout).contains("still here"));
}
