//! Generates small random playbooks with branches, joins, cycles, gates, loops, retries, waits, signals and children.

use std::fmt::Write as _;

use crate::sim::random::SeededRandom;

/// The playbook that `kind: playbook` tasks start.
pub(crate) const CHILD: &str = "apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child}
workflow:
  - step: first
    tool: {kind: noop}
    next: second
  - step: second
    tool: {kind: wait, duration: 7s}
";

const HEAD: &str = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: drawn}\n";

/// Shapes that random playbooks seldom have; every tenth seed uses one of them.
const FIXED: &[&str] = &[
    "workflow:
  - step: start
    next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}
  - {step: a, tool: {kind: noop}, next: join}
  - {step: b, tool: {kind: playbook, path: child}, next: join}
  - {step: c, tool: {kind: wait, signal: go, timeout: 20s}, next: join}
  - {step: join, tool: {kind: noop}, set: {n: {$add: 1}}}
",
    "workflow:
  - step: each
    loop: {in: [1, 2, 3, 4, 5, 6, 7], iterator: n, spec: {mode: parallel, max_in_flight: 3}}
    spec: {policy: {failure: {mode: best_effort}}}
    tool:
      - nap: {kind: wait, duration: \"{{ 3 + n }}s\"}
      - add: {kind: noop, set: {ctx.sum: {$add: 1}, ctx.all: {$append: \"{{ n }}\"}}}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop}}
",
    "workflow:
  - step: each
    loop: {in: [1, 2, 3], iterator: n}
    tool:
      - call: {kind: playbook, path: child}
      - add: {kind: noop, set: {ctx.last: \"{{ n }}\"}}
    next: {arcs: [{step: after, when: \"{{ event.name == 'step.failed' }}\"}]}
  - {step: after, tool: {kind: noop}}
",
    "workflow:
  - step: start
    tool: {kind: noop, set: {ctx.n: {$add: 1}}}
    next: {spec: {mode: inclusive}, arcs: [{step: gated}, {step: round}]}
  - step: round
    tool: {kind: noop, set: {ctx.n: {$add: 1}}}
    next: {arcs: [{step: round, when: \"{{ (ctx.n | default(0)) < 4 }}\"}, {step: end}]}
  - step: gated
    spec: {policy: {admit: {rules: [{when: \"{{ (ctx.n | default(0)) > 2 }}\", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
    tool: {kind: noop}
    next: end
  - {step: end, tool: {kind: noop}}
",
    "workflow:
  - {step: ping, tool: {kind: noop}, next: pong}
  - {step: pong, next: ping}
",
    "workflow:
  - step: start
    tool:
      - make: {kind: noop, set: {ctx.page: \"{{ 'x' * 5000 }}\"}}
    set: {copy: \"{{ ctx.page ~ '!' }}\", n: {$add: 1}}
    next: {spec: {mode: inclusive}, arcs: [{step: each, when: \"{{ ctx.copy | length == 5001 }}\"}, {step: late}]}
  - step: each
    loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: noop, set: {ctx.sum: {$add: \"{{ x }}\"}}}
    set: {go_seen: \"{{ ctx.go }}\"}
    next: {arcs: [{step: join, when: \"{{ event.name == 'step.failed' }}\"}, {step: join}]}
  - step: late
    tool: {kind: noop}
    set: {went: \"{{ ctx.go }}\"}
    next: join
  - {step: join, set: {length: \"{{ ctx.page | length }}\"}, next: end}
  - {step: end, tool: {kind: noop}}
",
];

/// The playbook for a seed.
pub(crate) fn draw_playbook(random: &mut SeededRandom) -> String {
    let mut text = HEAD.to_owned();
    if random.percent(10) {
        let fixed: &str = random.pick::<&str>(FIXED);
        text.push_str(fixed);
        return text;
    }
    let count = 2 + random.index(5);
    let has_final = random.percent(15);
    let mut spec = Vec::new();
    if has_final {
        spec.push("final_step: last".to_owned());
    }
    if random.percent(15) {
        spec.push("policy: {failure: {mode: fail_fast}}".to_owned());
    }
    if !spec.is_empty() {
        let _ = writeln!(text, "executor: {{spec: {{{}}}}}", spec.join(", "));
    }
    text.push_str("workflow:\n");
    for index in 0..count {
        write_step(&mut text, random, index, count);
    }
    if has_final {
        text.push_str("  - {step: last, tool: {kind: noop}}\n");
    }
    text
}

fn write_step(text: &mut String, random: &mut SeededRandom, index: usize, count: usize) {
    let _ = writeln!(text, "  - step: s{index}");
    let is_last = index + 1 == count;
    let mut spec = Vec::new();
    let draw = random.below(100);
    let is_routing = draw < 10 && !is_last;
    if index > 0 && random.percent(10) {
        spec.push("policy: {admit: {rules: [{when: \"{{ ctx.go is defined }}\", then: {allow: true}}, {else: {then: {allow: false}}}]}}".to_owned());
    } else if (55..80).contains(&draw) && random.percent(50) {
        spec.push("policy: {failure: {mode: best_effort}}".to_owned());
    }
    if random.percent(8) && !is_routing {
        spec.push("timeout: 12s".to_owned());
    }
    if random.percent(10) {
        spec.push("join: each".to_owned());
    }
    if !spec.is_empty() {
        let _ = writeln!(text, "    spec: {{{}}}", spec.join(", "));
    }
    match draw {
        _ if is_routing => {}
        0..=54 => write_tasks(text, random, false),
        55..=79 => {
            write_loop(text, random);
            write_tasks(text, random, true);
        }
        80..=87 => text.push_str("    tool: {kind: playbook, path: child}\n"),
        88..=93 => text.push_str("    tool: {kind: wait, signal: go, timeout: 15s}\n"),
        _ => text.push_str("    tool: {kind: wait, duration: 6s}\n"),
    }
    if random.percent(20) && !is_routing {
        let key = if random.percent(40) { "go" } else { "n" };
        let _ = writeln!(text, "    set: {{{key}: {{$add: 1}}}}");
    }
    if !is_last {
        write_arcs(text, random, index, count);
    }
}

fn write_loop(text: &mut String, random: &mut SeededRandom) {
    let length = random.below(6);
    let items: Vec<String> = (0..length).map(|n| n.to_string()).collect();
    let mode = if random.percent(60) { "parallel" } else { "sequential" };
    let width = 1 + random.below(3);
    let _ = writeln!(
        text,
        "    loop: {{in: [{}], iterator: item, spec: {{mode: {mode}, max_in_flight: {width}}}}}",
        items.join(", ")
    );
}

fn write_tasks(text: &mut String, random: &mut SeededRandom, in_loop: bool) {
    text.push_str("    tool:\n");
    let count = 1 + random.index(2);
    for index in 0..count {
        if index > 0 && random.percent(15) {
            let _ = writeln!(text, "      - w{index}: {{kind: wait, duration: 6s}}");
            continue;
        }
        let mut rules = Vec::new();
        if random.percent(40) {
            let delay = random.pick(&["0", "1", "8"]);
            rules.push(format!(
                "{{when: \"{{{{ outcome.status == 'error' }}}}\", then: {{do: retry, attempts: 3, delay: {delay}}}}}"
            ));
        }
        if random.percent(30) {
            rules.push("{when: \"{{ outcome.result == 'again' }}\", then: {do: jump, to: t0}}".to_owned());
        }
        if random.percent(20) {
            rules.push("{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}".to_owned());
        }
        let policy = if rules.is_empty() {
            String::new()
        } else {
            format!(", spec: {{policy: {{rules: [{}]}}}}", rules.join(", "))
        };
        let set = match random.below(10) {
            0 | 1 => ", set: {ctx.n: {$add: 1}}",
            2 if in_loop => ", set: {ctx.same: 1}",
            3 => ", set: {iter.x: 1}",
            _ => "",
        };
        // Sometimes the result is stored as a body.
        let output = if random.percent(15) {
            ", output: {inline_max_bytes: 3}"
        } else {
            ""
        };
        let _ = writeln!(text, "      - t{index}: {{kind: noop{set}{output}{policy}}}");
    }
}

fn write_arcs(text: &mut String, random: &mut SeededRandom, index: usize, count: usize) {
    let mode = if random.percent(50) { "inclusive" } else { "exclusive" };
    let mut arcs = Vec::new();
    for _ in 0..=random.index(3) {
        let target = index + 1 + random.index(count - index - 1);
        let when = match random.below(10) {
            0..=5 => "",
            6 => ", when: \"{{ event.name == 'step.failed' }}\"",
            7 => ", when: \"{{ outcome.status == 'error' or true }}\"",
            8 => ", when: \"{{ ctx.n is defined }}\"",
            _ => ", when: \"{{ workload.off is defined }}\"",
        };
        arcs.push(format!("{{step: s{target}{when}}}"));
    }
    if random.percent(12) {
        let target = random.index(index + 1);
        arcs.insert(
            0,
            format!(
                "{{step: s{target}, when: \"{{{{ (ctx.round | default(0)) < 2 }}}}\", set: {{ctx.round: {{$add: 1}}}}}}"
            ),
        );
    }
    let _ = writeln!(
        text,
        "    next: {{spec: {{mode: {mode}}}, arcs: [{}]}}",
        arcs.join(", ")
    );
}
