//! Two dialects, one model: every accepted spelling parses to the same playbook as its canonical form.

use language::diagnostic::DiagnosticStyle;
use language::playbook::{Playbook, parse};
use regex::Regex;

/// Parses a text that must have no errors.
pub(crate) fn parse_valid(text: &str) -> Playbook {
    let parsed = parse("test.yaml", text.as_bytes());
    let diagnostics: String = parsed
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.render(DiagnosticStyle::default()))
        .collect();
    parsed.playbook.unwrap_or_else(|| panic!("{diagnostics}{text}"))
}

pub(crate) const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test}\n";

/// The content of a playbook, without positions.
fn parsed_form(text: &str) -> String {
    let playbook = parse_valid(text);
    let form = format!(
        "{:?}",
        (
            &playbook.steps,
            &playbook.executor,
            &playbook.metadata,
            &playbook.workload
        )
    );
    let places = Regex::new(r"Span \{[^}]*\}|code_line: [^,]*, |command_lines: \[[^\]]*\], |range: \d+\.\.\d+");
    let places = places.expect("the pattern is valid");
    places.replace_all(&form, "").into_owned()
}

fn assert_same(canonical: &str, others: &[&str]) {
    let expected = parsed_form(&format!("{HEAD}{canonical}"));
    for other in others {
        assert_eq!(parsed_form(&format!("{HEAD}{other}")), expected, "{other}");
    }
}

/// A step with the given keys, followed by the steps `b` and `c`.
fn step_playbook(keys: &str) -> String {
    format!(
        "workflow:\n  - {{step: a, {keys}}}\n  - {{step: b, tool: {{kind: noop}}}}\n  - {{step: c, tool: {{kind: noop}}}}\n"
    )
}

fn assert_same_step(canonical: &str, others: &[&str]) {
    let others: Vec<String> = others.iter().map(|keys| step_playbook(keys)).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_same(&step_playbook(canonical), &others);
}

fn assert_same_task(canonical: &str, others: &[&str]) {
    let task = |keys: &str| format!("tool: [{{t: {{{keys}}}}}]");
    let others: Vec<String> = others.iter().map(|keys| task(keys)).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    assert_same_step(&task(canonical), &others);
}

#[test]
fn workbook_tasks_are_accepted_in_three_forms() {
    let flow = "workflow:\n  - {step: a, tool: [{t: {kind: workbook, name: load}}]}\n";
    let with = |book: &str| format!("workbook: {book}\n{flow}");
    let task = "{kind: http, url: 'https://example.com'}";
    assert_same(
        "workflow:\n  - {step: a, tool: [{t: {kind: http, url: 'https://example.com'}}]}\n",
        &[
            &with(&format!("{{tasks: {{load: {task}}}}}")),
            &with(&format!("{{load: {task}}}")),
            &with(&format!("[{{name: load, tool: {task}}}]")),
        ],
    );
}

#[test]
fn the_profile_is_the_executors_kind() {
    let flow = "workflow:\n  - {step: a, tool: {kind: noop}}\n";
    assert_same(
        &format!("executor: {{kind: local}}\n{flow}"),
        &[&format!("executor: {{profile: local}}\n{flow}")],
    );
}

#[test]
fn a_steps_input_may_be_called_args() {
    assert_same_step(
        "input: {x: 1}, tool: {kind: noop}",
        &["args: {x: 1}, tool: {kind: noop}"],
    );
}

#[test]
fn a_steps_output_is_the_result_policy_of_its_task() {
    assert_same_step(
        "tool: [{a: {kind: noop, spec: {result: {inline_max_bytes: 10}}}}]",
        &["tool: {kind: noop}, output: {inline_max_bytes: 10}"],
    );
}

#[test]
fn a_tool_may_be_one_map_or_name_its_tasks() {
    assert_same_step(
        "tool: [{a: {kind: noop}}]",
        &["tool: {kind: noop}", "tool: [{name: a, kind: noop}]"],
    );
    assert_same_step("tool: [{task_0: {kind: noop}}]", &["tool: [{kind: noop}]"]);
}

#[test]
fn keys_of_a_task_have_aliases() {
    let python = "kind: python, code: 'result = 1'";
    let also = |keys: &str| format!("{python}, {keys}");
    assert_same_task(&also("input: {x: 1}"), &[&also("args: {x: 1}")]);
    assert_same_task(&also("auth: key"), &[&also("credential: key")]);
    assert_same_task(
        &also("spec: {timeout: 5}"),
        &[&also("timeout: 5"), &also("timeout_seconds: 5")],
    );
    assert_same_task(
        &also("spec: {result: {scope: step}}"),
        &[&also("output: {scope: step}")],
    );
    assert_same_task(
        &also("spec: {result: {select: [{path: $.a.b, as: b}, {path: '$.c[0]', as: c}]}}"),
        &[
            &also("output_select: [a.b, 'c[0]']"),
            &also("spec: {result: {select: [a.b, 'c[0]']}}"),
        ],
    );
    assert_same_task(python, &["kind: python, spec: {code: 'result = 1'}"]);
}

#[test]
fn keys_of_a_kind_have_aliases() {
    assert_same_task("kind: http, url: 'https://e'", &["kind: http, endpoint: 'https://e'"]);
    assert_same_task(
        "kind: sqlite, command: 'select 1'",
        &["kind: sqlite, query: 'select 1'", "kind: sqlite, commands: 'select 1'"],
    );
    assert_same_task("kind: shell, command: [ls]", &["kind: shell, cmds: [ls]"]);
    assert_same_task(
        "kind: playbook, path: p, input: {x: 1}",
        &[
            "kind: playbook, path: p, args: {x: 1}",
            "kind: playbook, path: p, payload: {x: 1}",
        ],
    );
}

#[test]
fn the_last_rule_may_be_written_in_three_ways() {
    let policy = |rules: &str| format!("kind: noop, spec: {{policy: {{rules: [{rules}]}}}}");
    assert_same_task(
        &policy("{else: {then: {do: fail}}}"),
        &[&policy("{else: {do: fail}}"), &policy("{else: , then: {do: fail}}")],
    );
    assert_same_task(
        &policy("{when: 'true', then: {do: fail}}"),
        &[&policy("{when: true, then: {do: fail}}")],
    );
    let back = |to: &str| {
        let rule = format!("{{when: 'ctx.x', then: {{do: jump, to: {to}}}}}, {{else: {{do: fail}}}}");
        format!("tool: [{{s: {{kind: noop}}}}, {{t: {{{}}}}}]", policy(&rule))
    };
    assert_same_step(&back("previous"), &[&back("prev")]);
}

#[test]
fn set_keys_name_the_target_of_a_write() {
    let policy = |then: &str| {
        format!(
            "loop: {{in: [1], iterator: i}}, tool: [{{t: {{kind: noop, spec: {{policy: {{rules: [{{else: {{then: {{do: continue, {then}}}}}}}]}}}}}}}}]"
        )
    };
    assert_same_step(
        &policy("set_iter: {x: 1}, set_ctx: {y: 2}"),
        &[
            &policy("set: {iter.x: 1, ctx.y: 2}"),
            &policy("set: {iter: {x: 1}, ctx: {y: 2}}"),
        ],
    );
    assert_same_step(&policy("set: {z: 1}"), &[&policy("set: {step.z: 1}")]);
    assert_same_step(
        "tool: {kind: noop}, set: {ctx.x: 1}",
        &["tool: {kind: noop}, set: {x: 1}"],
    );
    assert_same_step(
        "tool: {kind: noop}, next: {arcs: [{step: b, set: {ctx.x: 1}}]}",
        &["tool: {kind: noop}, next: {arcs: [{step: b, set: {x: 1}}]}"],
    );
}

#[test]
fn next_may_be_a_list_of_arcs_or_one_name() {
    let next = |next: &str| format!("tool: {{kind: noop}}, next: {next}");
    assert_same_step(
        &next("{spec: {mode: exclusive}, arcs: [{step: b}]}"),
        &[
            &next("{arcs: [{step: b}]}"),
            &next("[{step: b}]"),
            &next("b"),
            &next("{spec: {policy: {}}, arcs: [{step: b}]}"),
        ],
    );
    assert_same_step(
        &next("{spec: {mode: inclusive}, arcs: [{step: b}, {step: c}]}"),
        &[
            &next("{spec: {mode: all}, arcs: [{step: b}, {step: c}]}"),
            &next("{spec: {mode: parallel}, arcs: [{step: b}, {step: c}]}"),
        ],
    );
}

#[test]
fn an_arc_to_end_needs_no_such_step() {
    let playbook = parse_valid(&format!(
        "{HEAD}workflow:\n  - {{step: a, tool: {{kind: noop}}, next: end}}\n"
    ));
    assert_eq!(playbook.steps[0].next.arcs[0].step, "end");
}

#[test]
fn durations_have_many_formats() {
    let spec = |timeout: &str| format!("spec: {{timeout: {timeout}}}, tool: {{kind: noop}}");
    assert_same_step(
        &spec("5400"),
        &[
            &spec("1h 30m"),
            &spec("PT1H30M"),
            &spec("5400s"),
            &spec("5400000ms"),
            &spec("90m"),
        ],
    );
    assert_same_step(
        &spec("60"),
        &["spec: {policy: {lifecycle: {timeout_s: 60}}}, tool: {kind: noop}"],
    );
}

#[test]
fn loops_take_lists_and_templates() {
    for keys in [
        "loop: {in: [1, 2], iterator: i}",
        "loop: {in: '{{ workload.items }}', iterator: i, spec: {mode: parallel, max_in_flight: '{{ workload.n }}'}}",
        "loop: {in: [1], iterator: i, spec: {policy: {exec: local, results: {preserve_order: true}}}}",
    ] {
        let text = step_playbook(&format!("{keys}, tool: {{kind: noop}}"));
        assert!(parse_valid(&format!("{HEAD}{text}")).steps[0].loop_.is_some(), "{keys}");
    }
}

#[test]
fn stores_have_other_names() {
    let result = |store: &str| format!("kind: noop, spec: {{result: {{store: {store}}}}}");
    assert_same_task(
        &result("{kind: nats_kv}"),
        &[&result("nats_kv"), &result("kv"), &result("{kind: kv}")],
    );
    assert_same_task(&result("inline"), &[&result("memory")]);
    assert_same_task(&result("disk"), &[&result("object")]);
}

#[test]
fn an_older_version_of_the_language_is_read_with_a_note() {
    let flow = "kind: Playbook\nmetadata: {name: test}\nworkflow:\n  - {step: a, tool: {kind: noop}}\n";
    for version in ["noetl.io/v1", "noetl.io/v10"] {
        let text = format!("apiVersion: {version}\n{flow}");
        let parsed = parse("test.yaml", text.as_bytes());
        let codes: Vec<_> = parsed.diagnostics.iter().map(|one| one.code).collect();
        assert_eq!(codes, ["N101"]);
        assert!(
            parsed
                .diagnostics
                .iter()
                .all(|one| !one.is_error() && !one.is_warning())
        );
    }
    let text = format!("apiVersion: noetl.io/v3\n{flow}");
    assert!(parse("test.yaml", text.as_bytes()).has_errors());
}

#[test]
fn a_step_accepts_set_ctx_and_result_as_aliases() {
    assert_same_step(
        "tool: {kind: noop}, set: {ctx.n: 1, m: 2}",
        &[
            "tool: {kind: noop}, set_ctx: {n: 1, m: 2}",
            "tool: {kind: noop}, set: {n: 1}, set_ctx: {m: 2}",
        ],
    );
    assert_same_step(
        "tool: {kind: noop}, output: {inline_max_bytes: 10}",
        &["tool: {kind: noop}, result: {inline_max_bytes: 10}"],
    );
}

#[test]
fn an_arc_accepts_cond_as_an_alias_of_when() {
    assert_same_step(
        "tool: {kind: noop}, next: {arcs: [{step: b, when: '{{ ctx.n }}'}, {step: c}]}",
        &["tool: {kind: noop}, next: {arcs: [{step: b, cond: '{{ ctx.n }}'}, {step: c}]}"],
    );
}

#[test]
fn modes_of_older_runtimes_mean_the_default() {
    let retry = |backoff: &str| {
        format!(
            "kind: noop, spec: {{policy: {{rules: [{{else: {{do: retry, attempts: 2, backoff: {backoff}, delay: 1}}}}]}}}}"
        )
    };
    assert_same_task(&retry("none"), &[&retry("fixed")]);
    assert_same_step(
        "tool: {kind: noop}, next: {spec: {on_no_match: end}, arcs: [{step: b}]}",
        &["tool: {kind: noop}, next: {spec: {on_no_match: quiet}, arcs: [{step: b}]}"],
    );
    let claimed = |frame: &str| {
        format!(
            "loop: {{cursor: {{kind: sqlite, claim: select 1}}, iterator: row, spec: {{mode: cursor, frame: {{{frame}}}}}}}, tool: {{kind: noop}}"
        )
    };
    assert_same_step(
        &claimed("max_rows: 2"),
        &[&claimed("max_rows: 2, process: row, lease_seconds: 60")],
    );
}

#[test]
fn keys_of_every_task_may_be_in_its_spec() {
    assert_same_task(
        "kind: http, url: 'https://e', input: {a: 1}, auth: k",
        &[
            "kind: http, spec: {url: 'https://e', input: {a: 1}, auth: k}",
            "kind: http, url: 'https://e', spec: {args: {a: 1}, credential: k}",
        ],
    );
    assert_same_task(
        "kind: sqlite, command: select 1",
        &[
            "kind: sqlite, command: select 1, pool: {}",
            "kind: sqlite, command: select 1, spec: {pool: {size: 3}, tracing: true}",
        ],
    );
}

#[test]
fn fields_may_be_selected_by_a_map() {
    assert_same_task(
        "kind: noop, output_select: [{path: $.a.b, as: x}, {path: '$.c[0]', as: y}]",
        &[
            "kind: noop, output_select: {x: a.b, y: 'c[0]'}",
            "kind: noop, spec: {result: {select: {x: $.a.b, y: '$.c[0]'}}}",
        ],
    );
    assert_same_task(
        "kind: noop, output_select: [{path: $.a, as: x}]",
        &["kind: noop, output_select: {path: $.a, as: x}"],
    );
    assert_same_task(
        "kind: noop",
        &["kind: noop, output_select: {strategy: size_threshold, threshold_kb: 100}"],
    );
}

#[test]
fn an_inline_script_is_the_program_of_its_kind() {
    assert_same_task(
        "kind: python, code: 'result = 1'",
        &[
            "kind: python, script: {uri: inline, source: {type: inline, code: 'result = 1'}}",
            "kind: python, script: {source: inline, code: 'result = 1'}",
        ],
    );
    assert_same_task(
        "kind: shell, command: ls",
        &["kind: shell, script: {source: {type: inline, code: ls}}"],
    );
    assert_same_task(
        "kind: postgres, auth: k, command: select 1",
        &["kind: postgres, auth: k, script: {source: {type: inline, code: select 1}}"],
    );
    assert_same_task(
        "kind: http, url: 'https://e', body: text",
        &["kind: http, url: 'https://e', script: {source: {type: inline, code: text}}"],
    );
}

#[test]
fn an_artifact_may_have_its_reference_under_input() {
    assert_same_task(
        "kind: artifact, action: get, ref: '{{ a._ref }}', input: {x: 1}",
        &["kind: artifact, action: get, input: {x: 1, result_ref: '{{ a._ref }}'}"],
    );
}

#[test]
fn braces_that_are_no_template_stay_in_a_program() {
    let text = format!(
        "{HEAD}workload: {{a: 1}}\nworkflow:\n  - {{step: s, tool: {{kind: shell, command: \"docker ps --format '{{{{.Names}}}}' {{{{ a }}}}\"}}}}\n"
    );
    let parsed = parse("test.yaml", text.as_bytes());
    let codes: Vec<_> = parsed.diagnostics.iter().map(|one| one.code).collect();
    assert_eq!(codes, ["W231"]);
    assert!(parsed.playbook.is_some());
}

#[test]
fn ctx_and_templates_among_the_defaults_are_read() {
    let text = format!(
        "{HEAD}ctx: {{page: 1}}\nworkload: {{name: 'run_{{{{ execution_id }}}}', region: \"{{{{ env.REGION | default('eu') }}}}\"}}\nworkflow:\n  - {{step: s, tool: {{kind: noop, message: '{{{{ ctx.page }}}} {{{{ name }}}}'}}}}\n"
    );
    let parsed = parse("test.yaml", text.as_bytes());
    assert_eq!(parsed.diagnostics, []);
    let playbook = parsed.playbook.expect("the playbook has no errors");
    assert_eq!(playbook.default_templates.len(), 2);
    assert_eq!(playbook.ctx["page"], 1);
}
