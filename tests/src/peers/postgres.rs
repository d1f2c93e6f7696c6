//! A real Postgres: one for all tests, or a private one for a test that stops it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;
use tokio_postgres::NoTls;

use super::program::{ProgramUser, Watchdog, find_program, free_port, package_dirs};

const PASSWORD: &str = "a-password-of-the-tests";

/// A running server.
pub struct PostgresServer {
    /// URL of the administrator, without a database.
    admin_url: String,
    cluster: Option<PostgresCluster>,
}

/// A server of this process. The watch ends before the directory is removed.
struct PostgresCluster {
    port: u16,
    user: ProgramUser,
    tools: PathBuf,
    _watchdog: Watchdog,
    dir: TempDir,
}

/// An empty database, dropped with this value.
pub struct TestDatabase {
    admin_url: String,
    name: String,
}

impl PostgresServer {
    /// The shared server: the one that `NOETL_TEST_POSTGRES` names, or else one of this process.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test runner passes the URL of its server in the environment"
    )]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("NOETL_TEST_POSTGRES") {
            Ok(admin) => Self {
                admin_url: admin,
                cluster: None,
            },
            Err(_) => Self::private(),
        })
    }

    /// Starts a private server, which the caller may stop.
    pub fn private() -> Self {
        let user = ProgramUser::unprivileged();
        let tools = find_tools();
        assert!(
            user.may_enter(&tools),
            "Postgres refuses root, and no other user may enter {}: install Postgres from the system's packages \
             (Debian: postgresql), or set CARGO_TARGET_DIR to a folder that everybody may enter",
            tools.display()
        );
        let dir = user.directory();
        let port = free_port();
        init_cluster(user, &tools, dir.path(), port);
        let ctl = tools.join("pg_ctl");
        let start = format!(
            "'{}' -D \"$1/data\" -l \"$1/log\" -w start >/dev/null || {{ cat \"$1/log\" >&2; exit 1; }}",
            ctl.display()
        );
        let stop = format!(
            "'{}' -D \"$1/data\" -m immediate -w stop >/dev/null 2>&1\nrm -rf \"$1/data\"",
            ctl.display()
        );
        let watch = Watchdog::start(user, dir.path(), &start, &stop);
        Self {
            admin_url: format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}"),
            cluster: Some(PostgresCluster {
                port,
                user,
                tools,
                _watchdog: watch,
                dir,
            }),
        }
    }

    /// Password of the administrator: required to connect, and a secret that must not appear in any output.
    pub fn password(&self) -> &'static str {
        PASSWORD
    }

    /// URL of the administrator, in the format of `NOETL_TEST_POSTGRES`.
    pub fn admin_url(&self) -> &str {
        &self.admin_url
    }

    /// Creates an empty database.
    pub fn fresh_database(&self) -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{n}", std::process::id());
        run_admin_sql(&self.admin_url, &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
        run_admin_sql(&self.admin_url, &format!("CREATE DATABASE {name} TEMPLATE template0"));
        TestDatabase {
            admin_url: self.admin_url.clone(),
            name,
        }
    }

    /// The port of a private server.
    pub fn port(&self) -> u16 {
        self.own_cluster().port
    }

    /// Kills all processes of the server, like a crash, and restarts it.
    pub fn restart_immediate(&self) {
        self.run_pg_ctl(&["-m", "immediate", "-w", "restart"]);
    }

    /// Stops the server, like an administrator.
    pub fn stop(&self) {
        self.run_pg_ctl(&["-m", "fast", "-w", "stop"]);
    }

    /// Restarts the server.
    pub fn start(&self) {
        self.run_pg_ctl(&["-w", "start"]);
    }

    /// Installs a certificate and its key, in PEM, and restarts the server.
    pub fn enable_tls(&self, certificate: &str, key: &str) {
        let user = self.own_cluster().user;
        let data = self.data_dir();
        user.write_private(&data.join("server.crt"), certificate);
        user.write_private(&data.join("server.key"), key);
        let file = data.join("postgresql.conf");
        let old = std::fs::read_to_string(&file).expect("a server has a configuration");
        std::fs::write(&file, format!("{old}\nssl = on\n")).expect("the file can be written");
        self.run_pg_ctl(&["-m", "fast", "-w", "restart"]);
    }

    fn data_dir(&self) -> PathBuf {
        self.own_cluster().dir.path().join("data")
    }

    fn own_cluster(&self) -> &PostgresCluster {
        let cluster = self.cluster.as_ref();
        cluster.expect("only a private server can be stopped")
    }

    fn run_pg_ctl(&self, args: &[&str]) {
        let cluster = self.own_cluster();
        let dir = cluster.dir.path();
        let mut command = cluster.user.command(&cluster.tools.join("pg_ctl"), dir);
        let log = dir.join("log");
        command.arg("-D").arg(dir.join("data")).arg("-l").arg(log).args(args);
        run_command(&mut command);
    }
}

impl TestDatabase {
    /// URL of the database.
    pub fn url(&self) -> String {
        format!("{}/{}", self.admin_url, self.name)
    }

    /// Host and port of its server, for a proxy.
    pub fn location(&self) -> String {
        let address = self.admin_url.rsplit_once('@').map(|(_, address)| address);
        address.unwrap_or_default().to_owned()
    }

    /// The URL with another port of this machine.
    pub fn url_at(&self, port: u16) -> String {
        let credentials = self.admin_url.rsplit_once('@').map_or("", |(before, _)| before);
        format!("{credentials}@127.0.0.1:{port}/{}", self.name)
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let sql = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        let admin = self.admin_url.clone();
        // If the test has stopped the server, the database no longer exists.
        let _ = std::thread::spawn(move || try_admin_sql(&admin, &sql)).join();
    }
}

/// Directory of the programs of Postgres.
fn find_tools() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.reverse();
    let wheels = package_dirs()
        .into_iter()
        .map(|folder| folder.join("pgserver/pginstall/bin"));
    folders.extend(wheels);
    let initdb = find_program("initdb", &folders).expect(
        "Postgres not found: install it (Debian: postgresql), or run `cargo xtask test`, which downloads it from PyPI",
    );
    let real = initdb.canonicalize().expect("an existing program has a path");
    real.parent().expect("a program is in a directory").to_owned()
}

fn init_cluster(user: ProgramUser, tools: &Path, dir: &Path, port: u16) {
    let password = dir.join("password");
    std::fs::write(&password, PASSWORD).expect("a temporary directory can be written");
    let data = dir.join("data");
    run_command(
        user.command(&tools.join("initdb"), dir)
            .args([
                "-U",
                "postgres",
                "-A",
                "scram-sha-256",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .arg("--pwfile")
            .arg(&password)
            .arg("-D")
            .arg(&data),
    );
    let file = data.join("postgresql.conf");
    let defaults = std::fs::read_to_string(&file).expect("initdb writes a configuration");
    let ours = format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nmax_connections = 300\n\
         shared_buffers = 64MB\n"
    );
    std::fs::write(&file, format!("{defaults}\n{ours}")).expect("the configuration can be written");
}

fn run_command(command: &mut Command) {
    let output = command.output().expect("Postgres's programs can be started");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run_admin_sql(admin: &str, sql: &str) {
    let (admin, sql) = (admin.to_owned(), sql.to_owned());
    let done = std::thread::spawn(move || try_admin_sql(&admin, &sql)).join();
    done.expect("administration does not panic")
        .expect("the administrator's statement succeeds");
}

/// Runs one statement on a thread of its own, so that callers can be in any runtime.
fn try_admin_sql(admin: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime can be created").block_on(async {
        let (client, connection) = tokio_postgres::connect(&format!("{admin}/postgres"), NoTls).await?;
        let driver = tokio::spawn(connection);
        client.batch_execute(sql).await?;
        drop(client);
        driver.await.expect("the connection does not panic")
    })
}
