//! The iterations of loops as cells, their durations, and the timeline of a run.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::cli_sandbox::CliSandbox;
use tests::server_process::ServerProcess;

use crate::fixture::{ApiFixture, ApiResponse, http_client, read_response};

const LOOP: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: looped, path: demo/looped }
workload: { items: 30 }
workflow:
  - step: each
    loop: { in: \"{{ range(workload.items) }}\", iterator: n, spec: { mode: parallel } }
    tool: { kind: noop }
";

/// Two loops: one continues after failures, the other stops at one, and an arc handles that.
const FAILING: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: failing, path: demo/failing }
workflow:
  - step: each
    spec: { policy: { failure: { mode: best_effort } } }
    loop: { in: \"{{ range(300) }}\", iterator: n, spec: { mode: parallel } }
    tool: { kind: noop, spec: { policy: { rules: [{ when: \"{{ iter.n % 100 == 1 }}\", then: { do: fail } }] } } }
    next: { arcs: [{ step: stopped }] }
  - step: stopped
    loop: { in: \"{{ range(50) }}\", iterator: n }
    tool: { kind: noop, spec: { policy: { rules: [{ when: \"{{ iter.n == 10 }}\", then: { do: fail } }] } } }
    next: { arcs: [{ step: last, when: \"{{ event.name == 'step.failed' }}\" }] }
  - step: last
    tool: { kind: noop }
";

/// A server with a worker, and a run that has ended.
struct EndedRun {
    sandbox: CliSandbox,
    server: ServerProcess,
    id: String,
}

impl EndedRun {
    fn start(playbook: &str) -> Self {
        let sandbox = CliSandbox::new();
        sandbox.write("playbook.yaml", playbook);
        let server = ServerProcess::start_as_context(&sandbox, &[]);
        let run = sandbox.run_json(&["run", "playbook.yaml", "--detach", "-o", "json"]);
        let id = run["execution_id"].as_str().unwrap().to_owned();
        Self { sandbox, server, id }
    }

    async fn get(&self, path: &str) -> Value {
        let url = format!("{}/api/executions/{}{path}", self.server.url, self.id);
        let response = http_client().get(url).send().await.unwrap();
        let response: ApiResponse = read_response(response).await;
        assert_eq!(response.status, StatusCode::OK, "{path}: {:?}", response.body);
        response.body
    }

    async fn wait_for_end(&self) {
        assert!(self.sandbox.path("playbook.yaml").exists());
        while self.get("/status").await["status"] == "RUNNING" {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

fn letters(cells: &Value) -> &str {
    cells["statuses"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn iterations_that_never_ran_wait_until_the_run_is_cancelled() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(LOOP).await;
    let path = format!("/api/executions/{execution}/loops/each/cells");
    let cells = fixture.get(&path).await.body;
    assert_eq!(letters(&cells), "w".repeat(30), "{cells}");
    assert_eq!(
        (&cells["totals"]["waiting"], &cells["cell_size"]),
        (&json!(30), &json!(1))
    );
    assert_eq!((&cells["run"], &cells["runs"]), (&json!(1), &json!([1])));
    let part = fixture.get(&format!("{path}?from=25&limit=10")).await.body;
    assert_eq!(
        (&part["from"], &part["to"], letters(&part)),
        (&json!(25), &json!(30), "wwwww")
    );
    let timeline = fixture.get(&format!("/api/executions/{execution}/timeline")).await.body;
    let step = &timeline["steps"][0];
    assert_eq!((&step["loop"]["total"], &step["ended_at"]), (&json!(30), &Value::Null));
    assert_eq!(
        (&step["is_critical"], &step["loop"]["measured"]),
        (&json!(true), &json!(0))
    );

    let cancelled = fixture
        .post(
            &format!("/api/executions/{execution}/cancel"),
            &json!({"reason": "enough"}),
        )
        .await;
    assert_eq!(cancelled.status, StatusCode::OK);
    fixture.wait_for_end(&format!("/api/executions/{execution}")).await;
    assert_eq!(letters(&fixture.get(&path).await.body), "c".repeat(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_range_and_a_missing_loop_are_named() {
    let fixture = ApiFixture::open().await;
    let execution = fixture.execute(LOOP).await;
    let loops = format!("/api/executions/{execution}/loops");
    for (path, status, code) in [
        ("/each/cells?limit=0", 422, "PARAMETER_INVALID"),
        ("/each/cells?limit=10000001", 422, "PARAMETER_INVALID"),
        ("/each/cells?by=color", 422, "PARAMETER_INVALID"),
        ("/each/cells?page=2", 422, "PARAMETER_INVALID"),
        ("/each/durations?by=status", 422, "PARAMETER_INVALID"),
        ("/each/cells?run=2", 404, "LOOP_NOT_FOUND"),
        ("/none/cells", 404, "LOOP_NOT_FOUND"),
        ("/none/durations", 404, "LOOP_NOT_FOUND"),
    ] {
        let response = fixture.get(&format!("{loops}{path}")).await;
        assert_eq!(
            (response.status.as_u16(), response.error_code()),
            (status, code),
            "{path}"
        );
    }
    for path in ["loops/each/cells", "loops/each/durations", "timeline"] {
        let response = fixture.get(&format!("/api/executions/1/{path}")).await;
        assert_eq!(response.error_code(), "EXECUTION_NOT_FOUND", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_and_durations_of_ended_loops_agree_with_their_counts() {
    let run = EndedRun::start(FAILING);
    run.wait_for_end().await;
    let counts = run.get("/loops/each").await;
    let cells = run.get("/loops/each/cells?by=duration").await;
    let failed: Vec<usize> = letters(&cells).match_indices('e').map(|(index, _)| index).collect();
    assert_eq!(failed, [1, 101, 201]);
    assert_eq!(letters(&cells).matches('s').count(), 297);
    assert_eq!(
        (&cells["totals"]["error"], &cells["total"]),
        (&counts["failed"], &counts["total"])
    );
    assert_eq!(
        (&cells["is_complete"], &cells["is_sampled"]),
        (&json!(true), &json!(false))
    );
    let attempts = cells["attempts"].as_array().unwrap();
    assert!(attempts.len() == 300 && attempts.iter().all(|count| *count == 1));
    let measured = cells["durations_us"].as_array().unwrap();
    let longest = measured.iter().map(|duration| duration.as_u64().unwrap()).max();

    let durations = run.get("/loops/each/durations").await;
    assert_eq!(
        (&durations["measured"], &durations["is_complete"]),
        (&json!(300), &json!(true))
    );
    assert_eq!(durations["max_us"].as_u64(), longest);
    let sum = |field: &str| -> u64 {
        let bins = durations["bins"].as_array().unwrap().iter();
        bins.map(|bin| bin[field].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("count"), sum("failed")), (300, 3));

    let stopped = run.get("/loops/stopped/cells").await;
    let expected = format!("{}e{}", "s".repeat(10), "c".repeat(39));
    assert_eq!(
        (letters(&stopped), &stopped["is_complete"]),
        (expected.as_str(), &json!(true))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeline_folds_loops_and_marks_the_critical_path() {
    let run = EndedRun::start(FAILING);
    run.wait_for_end().await;
    let timeline = run.get("/timeline").await;
    let steps = timeline["steps"].as_array().unwrap();
    let statuses: Vec<_> = steps
        .iter()
        .map(|step| {
            (
                step["step"].as_str().unwrap(),
                step["status"].as_str().unwrap(),
                step["is_critical"] == true,
            )
        })
        .collect();
    assert_eq!(
        statuses,
        [
            ("each", "success", true),
            ("stopped", "error", true),
            ("last", "success", true)
        ]
    );
    let each = &steps[0]["loop"];
    let ended = |status: &str| -> u64 {
        let bins = each["band"][status].as_array().unwrap().iter();
        bins.map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!((ended("success"), ended("error")), (297, 3));
    assert_eq!(
        (&each["succeeded"], &each["failed"], &each["is_complete"]),
        (&json!(297), &json!(3), &json!(true))
    );
    let listed = each["iterations"].as_array().unwrap();
    let failed = listed.iter().filter(|entry| entry["status"] == "error");
    assert_eq!((listed.len(), failed.count()), (50, 3));
    let task = &steps[2]["tasks"][0];
    assert_eq!(
        (&task["status"], task["attempts"].as_array().unwrap().len()),
        (&json!("success"), 1)
    );
}
