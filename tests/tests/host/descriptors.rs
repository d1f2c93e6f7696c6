//! A process without free file descriptors: databases and connections cannot be opened, which is no failure of the task.
//!
//! The soft limit of this process is set to zero while a tool is called, and restored afterwards: the same call then
//! succeeds. Each test runs in a process of its own.

use std::path::Path;

use integrations::DuckdbConfig;
use language::template::Piece;
use model::outcome::{Outcome, TaskError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};
use tests::http::FakeHttpServer;
use tests::peers::{NatsServer, PostgresServer};
use tokio_util::sync::CancellationToken;
use tools::{Call, DiscardingLogSink, Registry};

/// The limit of descriptors while it is zero; restored when dropped.
struct NoDescriptors {
    previous: Rlimit,
}

impl NoDescriptors {
    fn set() -> Self {
        let previous = getrlimit(Resource::Nofile);
        let none = Rlimit {
            current: Some(0),
            maximum: previous.maximum,
        };
        setrlimit(Resource::Nofile, none).unwrap();
        Self { previous }
    }
}

impl Drop for NoDescriptors {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.previous).unwrap();
    }
}

/// Tools, and a folder for their files.
struct DescriptorFixture {
    tools: Registry,
    dir: TempDir,
}

impl DescriptorFixture {
    fn new() -> Self {
        let dir = tempdir().unwrap();
        let config = tools::Config {
            scratch_dir: dir.path().to_owned(),
            network: tools::NetworkConfig {
                allow_private: true,
                ..tools::NetworkConfig::default()
            },
            evaluation_program: Some(tests::cli_sandbox::noetl_path()),
            ..tools::Config::default()
        };
        let duckdb = DuckdbConfig {
            library: Some(tests::peers::duckdb()),
            ..DuckdbConfig::default()
        };
        let tools = integrations::build_registry(
            config,
            integrations::Config {
                duckdb,
                ..integrations::Config::default()
            },
        );
        Self { tools, dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn run_call(&self, call: &Call) -> Outcome {
        let tool = self.tools.get(call.kind.as_str()).unwrap();
        tool.call(call.clone(), CancellationToken::new(), &DiscardingLogSink)
            .await
    }

    /// The error of a call without descriptors, and then its result with them.
    async fn check_recovers(&self, call: Call) -> Value {
        let exhausted = {
            let _none = NoDescriptors::set();
            self.run_call(&call).await
        };
        let error: Option<&TaskError> = exhausted.failure();
        let code = error.map(|error| error.code.as_str());
        assert_eq!(code, Some(tools::HOST_EXHAUSTED), "{exhausted:?}");
        match self.run_call(&call).await {
            Outcome::Ok(success) => success.result,
            Outcome::Error(failure) => panic!("{:?}", failure.error),
        }
    }

    fn call(&self, kind: &str, fields: &Value) -> Call {
        let mut call = Call::new(kind);
        self.path().clone_into(&mut call.site.base_dir);
        call.fields.clone_from(fields.as_object().unwrap());
        call
    }

    fn sql(&self, kind: &str, text: &str, fields: &Value) -> Call {
        let mut call = self.call(kind, fields);
        let pieces = vec![vec![Piece::Text(text.to_owned())]];
        call.pieces.insert("command".to_owned(), pieces);
        call
    }
}

#[tokio::test]
async fn a_sqlite_database_is_opened_later() {
    let fixture = DescriptorFixture::new();
    let database = json!({"database": "new.db"});
    let create_sql = "CREATE TABLE t (n); INSERT INTO t VALUES (1); SELECT n FROM t";
    let result = fixture
        .check_recovers(fixture.sql("sqlite", create_sql, &database))
        .await;
    assert_eq!(result["rows"], json!([{"n": 1}]));
    let insert = fixture.sql("sqlite", "INSERT INTO t VALUES (2)", &database);
    assert_eq!(fixture.check_recovers(insert).await["affected_rows"], 1);
    // A database that cannot be opened for another reason stays a failure.
    let folder = fixture.sql("sqlite", "SELECT 1", &json!({"database": "."}));
    let failed = fixture.run_call(&folder).await;
    let code = failed.failure().map(|error| error.code.as_str());
    assert_eq!(code, Some("SQLITE_CANTOPEN"), "{failed:?}");
}

#[tokio::test]
async fn a_duckdb_database_is_opened_later() {
    let fixture = DescriptorFixture::new();
    let database = json!({"database": "new.duckdb"});
    // The library is loaded later, too.
    let create_sql = "CREATE TABLE t (n INT); INSERT INTO t VALUES (1); SELECT n FROM t";
    let result = fixture
        .check_recovers(fixture.sql("duckdb", create_sql, &database))
        .await;
    assert_eq!(result["rows"], json!([{"n": 1}]));
    // Now the library is loaded, and opens the file itself.
    let insert = fixture.sql("duckdb", "INSERT INTO t VALUES (2)", &database);
    assert_eq!(fixture.check_recovers(insert).await["affected_rows"], 1);
    // The library needs a descriptor for a database in memory, too.
    let memory = fixture.sql("duckdb", "SELECT 1 AS n", &json!({}));
    assert_eq!(fixture.check_recovers(memory).await["rows"], json!([{"n": 1}]));
    // A database that cannot be opened for another reason stays a failure.
    let folder = fixture.sql("duckdb", "SELECT 1", &json!({"database": "."}));
    let failed = fixture.run_call(&folder).await;
    let code = failed.failure().map(|error| error.code.as_str());
    assert_eq!(code, Some("DUCKDB_IO"), "{failed:?}");
}

#[tokio::test]
async fn a_file_that_a_duckdb_statement_reads_is_opened_later() {
    let fixture = DescriptorFixture::new();
    let database = json!({"database": "shared.duckdb"});
    let file = fixture.path().join("rows.csv");
    std::fs::write(&file, "n\n3\n").unwrap();
    // As long as this runs, the database is open.
    let endless = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = 7";
    let endless = fixture.sql("duckdb", endless, &database);
    let stop = CancellationToken::new();
    let tool = fixture.tools.get("duckdb").unwrap();
    let running = tool.call(endless, stop.clone(), &DiscardingLogSink);
    let reading = async {
        while !fixture.path().join("shared.duckdb").exists() {
            tokio::task::yield_now().await;
        }
        let read = format!("SELECT n FROM '{}'", file.display());
        let read = fixture.check_recovers(fixture.sql("duckdb", &read, &database)).await;
        stop.cancel();
        read
    };
    let (_, read) = tokio::join!(running, reading);
    assert_eq!(read["rows"], json!([{"n": 3}]));
}

#[tokio::test]
async fn an_http_client_is_made_later() {
    let server = FakeHttpServer::start(|_, _| (200, json!({"n": 1})));
    let fixture = DescriptorFixture::new();
    let fields = json!({"method": "GET", "url": server.url()});
    let result = fixture.check_recovers(fixture.call("http", &fields)).await;
    assert_eq!(result["status_code"], 200, "{result}");
    // Another client, for other options.
    let fields = json!({"method": "GET", "url": server.url(), "verify_ssl": false});
    let result = fixture.check_recovers(fixture.call("http", &fields)).await;
    assert_eq!(result["status_code"], 200, "{result}");
}

#[tokio::test]
async fn a_connection_to_nats_is_made_later() {
    let nats = NatsServer::private();
    let fixture = DescriptorFixture::new();
    let fields = json!({"operation": "publish", "subject": "s", "value": 1, "url": nats.url()});
    let result = fixture.check_recovers(fixture.call("nats", &fields)).await;
    assert_eq!(result["subject"], "s");
}

#[tokio::test]
async fn a_connection_to_postgres_is_made_later() {
    let database = PostgresServer::shared().fresh_database();
    let fixture = DescriptorFixture::new();
    let auth = json!({"auth": {"dsn": database.url()}});
    let result = fixture
        .check_recovers(fixture.sql("postgres", "SELECT 1 AS n", &auth))
        .await;
    assert_eq!(result["rows"], json!([{"n": 1}]));
}

#[tokio::test]
async fn a_process_for_rhai_and_jq_is_started_later() {
    let fixture = DescriptorFixture::new();
    let script = fixture.call("rhai", &json!({"code": "1 + 1"}));
    assert_eq!(fixture.check_recovers(script).await, 2);
}
