//! Loops whose results are too many or too large for one event: whoever reads them reads all of them.

use serde_json::json;
use tests::binary::Desk;

const PLAYBOOK: &str = r#"
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large, path: tests/large}
workload: {count: 1500, size: 1}
workflow:
  - step: many
    loop:
      in: "{{ range(workload.count | int) | list }}"
      iterator: n
      spec: {mode: parallel, max_in_flight: 8}
    tool:
      - part:
          kind: noop
          result: {n: "{{ iter.n }}", text: "{{ 'x' * (workload.size | int) }}"}
    next:
      arcs:
        - step: end
          args:
            count: "{{ many.data | length }}"
            sum: "{{ many.data | map(attribute='n') | sum }}"
            last: "{{ (many.data | last).n }}"
  - step: end
    tool:
      - report:
          kind: noop
          result:
            arc: "{{ args }}"
            step: "{{ many.data | map(attribute='n') | sum }}"
"#;

fn run(count: u64, size: u64) {
    let desk = Desk::new();
    desk.write("large.yaml", PLAYBOOK);
    let (count_is, size_is) = (format!("count={count}"), format!("size={size}"));
    let args = ["run", "large.yaml", "--set", &count_is, "--set", &size_is];
    let sum = count * (count - 1) / 2;
    let arc = json!({"count": count, "sum": sum, "last": count - 1});
    assert_eq!(desk.json(&args), json!({"arc": arc, "step": sum}));
}

#[test]
fn more_results_than_fit_into_one_event_are_all_there() {
    run(1_500, 1);
}

#[test]
fn larger_results_than_fit_into_one_event_are_all_there() {
    run(40, 4_000);
}
