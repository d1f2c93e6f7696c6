//! The graph of a playbook without a run: its steps, tasks and arcs with their positions in the text.
//!
//! Input: a playbook, which may have errors. Output: a [`PlaybookGraph`] in which nothing has been reached. The cost is
//! linear in the number of steps, tasks and arcs.

use language::playbook::{NetArc, Playbook, PolicyRule, Step, Task};
use wire::api::{
    GraphArc, GraphLoop, GraphPolicyRule, GraphStatus, GraphStep, GraphStepKind, GraphTask, PlaybookGraph,
};

/// Builds the static graph of a playbook. The playbook may be a draft with errors: an arc may then name a step that the
/// graph does not contain, and a name may occur twice.
pub(crate) fn build_playbook_graph(playbook: &Playbook) -> PlaybookGraph {
    let entry = playbook.executor.entry_step.as_ref();
    let entry = entry.and_then(|name| playbook.steps.find(name.as_str()));
    let arcs = playbook.steps.iter().flat_map(|step| {
        let arcs = step.next.arcs.iter().zip(0..);
        arcs.map(|(arc, index)| new_arc(step, index, arc))
    });
    PlaybookGraph {
        entry: entry.or(playbook.steps.first()).map(|step| step.name.clone()),
        steps: playbook.steps.iter().map(new_step).collect(),
        arcs: arcs.collect(),
    }
}

fn new_step(step: &Step) -> GraphStep {
    let kind = match &step.tasks[..] {
        _ if step.loop_.is_some() => GraphStepKind::Loop,
        [] => GraphStepKind::Route,
        [_] => GraphStepKind::Task,
        _ => GraphStepKind::Pipeline,
    };
    GraphStep {
        step: step.name.clone(),
        description: step.desc.clone(),
        kind,
        line: step.span.line,
        column: step.span.column,
        runs: 0,
        status: GraphStatus::NotReached,
        is_reused: false,
        started_at: None,
        ended_at: None,
        tasks: step.tasks.iter().map(new_task).collect(),
        loop_: step.loop_.is_some().then(GraphLoop::default),
        error: None,
    }
}

fn new_task(task: &Task) -> GraphTask {
    GraphTask {
        label: task.label.clone(),
        kind: task.kind.clone(),
        line: task.span.line,
        column: task.span.column,
        status: GraphStatus::NotReached,
        attempts: 0,
        rules: task.policy.rules.iter().map(to_policy_rule).collect(),
    }
}

fn to_policy_rule(rule: &PolicyRule) -> GraphPolicyRule {
    GraphPolicyRule {
        when: rule.when.as_ref().map(|when| when.source().to_owned()),
        action: rule.action.directive,
        line: rule.span.line,
        column: rule.span.column,
    }
}

fn new_arc(step: &Step, index: u32, arc: &NetArc) -> GraphArc {
    GraphArc {
        from: step.name.clone(),
        to: arc.step.clone(),
        index,
        when: arc.when.as_ref().map(|when| when.source().to_owned()),
        line: arc.span.line,
        column: arc.span.column,
        followed: 0,
        refused: 0,
        last: None,
    }
}
