//! The real binary with a cloud tier: a large result is passed on by reference, and outlives the worker's cache.

use serde_json::{Value, json};
use tests::cli_sandbox::{CliSandbox, RunningCommand};
use tests::peers::{PostgresServer, S3Server};

use crate::remote_worker::{KillableProcess, free_address, wait_until};

const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: hand, path: hand}
workflow:
  - step: start
    tool: {kind: python, code: 'result = {\"rows\": [{\"id\": n, \"text\": \"some text\"} for n in range(9000)]}'}
    next: [{step: count}]
  - step: count
    tool: {kind: python, input: {rows: '{{ start.rows }}'}, code: 'result = {\"count\": len(rows)}'}
";

fn variables(s3: &S3Server, sandbox: &CliSandbox) -> Vec<(&'static str, String)> {
    vec![
        ("NOETL_STORAGE_CLOUD_TIER", "s3".to_owned()),
        ("NOETL_STORAGE_S3_BUCKET", S3Server::BUCKET.to_owned()),
        ("NOETL_STORAGE_S3_ENDPOINT", s3.url()),
        ("NOETL_STORAGE_S3_REGION", "us-east-1".to_owned()),
        (
            "NOETL_STORAGE_LOCAL_CACHE_DIR",
            sandbox.path("cache").display().to_string(),
        ),
        ("AWS_ACCESS_KEY_ID", "tests".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", s3.secret().to_owned()),
    ]
}

fn start_process(sandbox: &CliSandbox, args: &[&str], variables: &[(&str, String)]) -> KillableProcess {
    let mut command = sandbox.command(args);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    KillableProcess(Some(RunningCommand::spawn(command)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_in_the_cloud_tier_is_passed_on_and_outlives_the_cache() {
    let database = PostgresServer::shared().fresh_database();
    let (s3, sandbox) = (S3Server::private(), CliSandbox::new());
    let variables = variables(&s3, &sandbox);
    let (address, store) = (free_address(), database.url());
    let url = format!("http://{address}");
    let _server = start_process(
        &sandbox,
        &["serve", "--store", &store, "--listen", &address],
        &variables,
    );
    wait_until(&url, "/readyz", |_| true).await;
    let _worker = start_process(&sandbox, &["worker", "--server", &url], &variables);
    let client = wire::Client::new(std::slice::from_ref(&url), None).unwrap();
    let request = json!({"path": "hand", "playbook": PLAYBOOK});
    let started: Value = client.post("/api/execute", &request).await.unwrap();
    let id = started["execution_id"].as_str().unwrap();
    let over = |run: &Value| run["status"] == "COMPLETED";
    wait_until(&url, &format!("/api/executions/{id}/status"), over).await;
    let list = wait_until(&url, &format!("/api/result/{id}/list"), |_| true).await;
    let reference = &list["results"][0]["reference"];
    assert_eq!(reference["store"], "s3");
    assert_eq!(reference["meta"]["bucket"], S3Server::BUCKET);
    let key = reference["meta"]["key"].as_str().unwrap();
    assert!(s3.get_object(key).is_some(), "the bucket holds {key}");
    assert_eq!(reference["meta"]["compression"], "zstd");
    std::fs::remove_dir_all(sandbox.path("cache")).unwrap();
    let uri = reference["ref"].as_str().unwrap();
    let body = wait_until(&url, &format!("/api/result/resolve?ref={uri}"), |_| true).await;
    assert_eq!(body["rows"].as_array().unwrap().len(), 9000);
}

const LARGE: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: large}
workflow:
  - step: start
    tool:
      kind: python
      code: 'result = {\"text\": \"x\" * 300000}'
      spec: {result: {store: {kind: pvc, compression: gzip}}}
";

#[test]
fn a_store_that_is_not_configured_is_warned_of_and_one_that_is_takes_the_body() {
    let sandbox = CliSandbox::new();
    sandbox.write("large.yaml", LARGE);
    let output = sandbox.run(&["validate", "large.yaml"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    let all = format!("{}{}", output.stdout, output.stderr);
    assert!(
        all.contains("warning[W233]") && all.contains("NOETL_STORAGE_DIR"),
        "{all}"
    );
    let output = sandbox.run(&["run", "large.yaml"]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(output.stderr.contains("1 warning"), "{output:?}");
    let mut command = sandbox.command(&["run", "large.yaml", "-o", "json"]);
    command.env("NOETL_STORAGE_DIR", sandbox.path("shared"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let packed = std::fs::read_dir(sandbox.path("shared/bodies")).unwrap();
    assert_eq!(packed.count(), 2, "the directory of the body, and that of drafts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("xxxxxxxx"), "{stdout}");
}
