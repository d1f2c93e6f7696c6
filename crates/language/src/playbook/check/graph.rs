//! Checks the net: targets of arcs, entries and jumps exist, and steps and arcs can be reached.

use std::collections::{BTreeMap, BTreeSet};

use model::playbook::RouteMode;
use model::source::Span;

use crate::playbook::check::conditions::is_always;
use crate::playbook::read::PlaybookReader;
use crate::playbook::{JumpTarget, NetArc, Playbook, PolicyRule, Step};
use crate::yaml::Node;

/// An arc to this name ends the branch if no step has the name.
const END_STEP: &str = "end";

pub(crate) fn check(playbook: &Playbook, step_nodes: &[(&str, Node)], reader: &mut PlaybookReader) {
    let steps = playbook.steps.iter().enumerate();
    let step_indices: BTreeMap<&str, usize> = steps.map(|(index, step)| (step.name.as_str(), index)).collect();
    for (key, node) in step_nodes {
        if let Some(name) = node.as_str()
            && !step_indices.contains_key(name)
        {
            let message = format!("`{key}` names the step `{name}`, which does not exist");
            let label = suggest_step(reader, name, &step_indices);
            reader.report_error("E0113", message, node.span, label);
        }
    }
    for step in &playbook.steps {
        check_arcs(step, &step_indices, reader);
        let labels: BTreeSet<&str> = step.tasks.iter().map(|task| task.label.as_str()).collect();
        for rule in step.tasks.iter().flat_map(|task| &task.policy.rules) {
            if let Some(JumpTarget::Label(label)) = &rule.action.to
                && !labels.contains(label.as_str())
            {
                report_unknown_label(playbook, step, rule, label.as_str(), reader);
            }
        }
        check_first_previous(step, reader);
    }
    // With errors, an arc that could not be parsed may be the one that leads there.
    if !reader.has_errors() {
        for step in &playbook.steps {
            check_unreachable_arcs(step, reader);
        }
        check_endless_cycles(playbook, &step_indices, reader);
        check_unreached_steps(playbook, &step_indices, reader);
    }
}

fn suggest_step(reader: &PlaybookReader, name: &str, step_indices: &BTreeMap<&str, usize>) -> String {
    match reader.suggest(name, step_indices.keys().copied()) {
        Some(suggestion) => format!("did you mean `{suggestion}`?"),
        None => "no step has this name".to_owned(),
    }
}

fn check_arcs(step: &Step, step_indices: &BTreeMap<&str, usize>, reader: &mut PlaybookReader) {
    for arc in &step.next.arcs {
        let target = arc.step.as_str();
        if !step_indices.contains_key(target) && target != END_STEP {
            let message = format!(
                "an arc of step `{}` points to `{target}`, which does not exist",
                step.name
            );
            let label = suggest_step(reader, target, step_indices);
            reader.report_error("E0112", message, arc.span, label);
        }
    }
}

fn check_unreachable_arcs(step: &Step, reader: &mut PlaybookReader) {
    if step.next.mode != RouteMode::Exclusive {
        return;
    }
    let arcs = &step.next.arcs;
    let Some(sure) = arcs.iter().position(|arc| is_always(arc.when.as_ref())) else {
        return;
    };
    let line = arcs[sure].span.line;
    for arc in &arcs[sure + 1..] {
        let message = format!("the arc to `{}` is unreachable", arc.step);
        let warning = reader
            .diagnostic("W205", message, arc.span)
            .with_label(format!("the arc on line {line} always matches first"))
            .with_help("add a `when` to that arc, move it last, or use `spec: {mode: inclusive}`   noetl explain W205");
        reader.report(warning);
    }
}

/// Returns the arcs that always match when a step succeeds.
fn certain_arcs<'a>(playbook: &Playbook, step: &'a Step) -> Vec<&'a NetArc> {
    let is_final = playbook.executor.final_step.as_ref() == Some(&step.name);
    if is_final || !step.admission.rules.is_empty() {
        return Vec::new();
    }
    let is_sure = |arc: &&NetArc| is_always(arc.when.as_ref());
    match step.next.mode {
        RouteMode::Exclusive => step.next.arcs.first().filter(is_sure).into_iter().collect(),
        RouteMode::Inclusive => step.next.arcs.iter().filter(is_sure).collect(),
    }
}

/// Warns about cycles in which every arc always matches.
fn check_endless_cycles(playbook: &Playbook, step_indices: &BTreeMap<&str, usize>, reader: &mut PlaybookReader) {
    #[derive(Clone, Copy, PartialEq)]
    enum VisitState {
        Unvisited,
        OnPath,
        Done,
    }
    let arcs: Vec<Vec<&NetArc>> = playbook.steps.iter().map(|step| certain_arcs(playbook, step)).collect();
    let mut visits = vec![VisitState::Unvisited; arcs.len()];
    for start in 0..arcs.len() {
        if visits[start] != VisitState::Unvisited {
            continue;
        }
        visits[start] = VisitState::OnPath;
        let mut path = vec![(start, 0)];
        while let Some((index, next)) = path.last_mut() {
            let index = *index;
            let Some(arc) = arcs[index].get(*next) else {
                visits[index] = VisitState::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let Some(target) = step_indices.get(arc.step.as_str()).copied() else {
                continue;
            };
            match visits[target] {
                VisitState::Unvisited => {
                    visits[target] = VisitState::OnPath;
                    path.push((target, 0));
                }
                VisitState::OnPath => report_endless_cycle(&playbook.steps[index], arc, reader),
                VisitState::Done => {}
            }
        }
    }
}

fn report_endless_cycle(step: &Step, arc: &NetArc, reader: &mut PlaybookReader) {
    let message = format!("the arc from `{}` to `{}` closes an endless cycle", step.name, arc.step);
    let warning = reader
        .diagnostic("W240", message, arc.span)
        .with_label("every arc of the cycle always matches")
        .with_help("add a `when` to an arc of the cycle   noetl explain W240");
    reader.report(warning);
}

fn check_first_previous(step: &Step, reader: &mut PlaybookReader) {
    let Some(task) = step.tasks.first() else {
        return;
    };
    for rule in &task.policy.rules {
        if matches!(rule.action.to, Some(JumpTarget::Previous)) {
            let message = format!(
                "task `{}` is the first of its step, so there is no previous task",
                task.label
            );
            let span = target_span(rule, reader);
            reader.report_error("E0114", message, span, "jump to a label instead");
        }
    }
}

fn report_unknown_label(playbook: &Playbook, step: &Step, rule: &PolicyRule, label: &str, reader: &mut PlaybookReader) {
    let labels = step.tasks.iter().map(|task| task.label.as_str());
    let mut other_steps = playbook.steps.iter().filter(|step| step.task(label).is_some());
    let advice = if let Some(other) = other_steps.next() {
        format!(
            "this is a task of step `{}`; a rule can only jump within its step",
            other.name
        )
    } else if let Some(suggestion) = reader.suggest(label, labels.clone()) {
        format!("did you mean `{suggestion}`?")
    } else {
        format!("(step has: {})", labels.collect::<Vec<_>>().join(" "))
    };
    let message = format!("step `{}` has no task `{label}` to jump to", step.name);
    let span = target_span(rule, reader);
    reader.report_error("E0114", message, span, advice);
}

/// Returns the span of a rule's jump target.
fn target_span(rule: &PolicyRule, reader: &PlaybookReader) -> Span {
    let target = reader.jumps.get(&rule.span.start);
    target.copied().unwrap_or(rule.span)
}

fn check_unreached_steps(playbook: &Playbook, step_indices: &BTreeMap<&str, usize>, reader: &mut PlaybookReader) {
    if playbook.steps.is_empty() {
        return;
    }
    let mut is_reached = vec![false; playbook.steps.len()];
    let last = playbook.executor.final_step.as_ref();
    let roots = [Some(&playbook.entry().name), last];
    let mut open: Vec<usize> = roots
        .into_iter()
        .flatten()
        .filter_map(|name| step_indices.get(name.as_str()).copied())
        .collect();
    while let Some(index) = open.pop() {
        if std::mem::replace(&mut is_reached[index], true) {
            continue;
        }
        let arcs = playbook.steps[index].next.arcs.iter();
        open.extend(arcs.filter_map(|arc| step_indices.get(arc.step.as_str()).copied()));
    }
    for (step, _) in playbook
        .steps
        .iter()
        .zip(is_reached)
        .filter(|(_, is_reached)| !is_reached)
    {
        if step_indices
            .get(step.name.as_str())
            .is_none_or(|index| playbook.steps[*index].span != step.span)
        {
            continue;
        }
        let warning = reader
            .diagnostic("W209", format!("step `{}` is never reached", step.name), step.span)
            .with_label("no path of arcs leads here from the first step");
        reader.report(warning);
    }
}
