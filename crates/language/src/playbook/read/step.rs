//! Reads a step and the layers of `spec` that its tasks inherit.

use std::time::Duration;

use model::id::Name;
use model::playbook::FailureMode;

use crate::playbook::read::cursor::LoopOwner;
use crate::playbook::read::key_tables::{LIFECYCLE, STEP, STEP_POLICY, STEP_SPEC};
use crate::playbook::read::layers::{inheritable_part, overlay_layers};
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::playbook::read::task::TaskInheritance;
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{Admission, SetEntry, Step, WriteTarget};
use crate::template::Tree;
use crate::yaml::{Node, overlay};

/// How branches that meet are joined, and whether they are merged.
pub(crate) const JOINS: &[(&str, bool)] = &[("each", false), ("merge", true)];

/// The settings of the step itself in `step.spec`.
struct StepSpec {
    admission: Admission,
    joins: bool,
    timeout: Option<Duration>,
    schedule_to_start: Option<Duration>,
    failure: FailureMode,
}

impl PlaybookReader {
    pub(crate) fn read_step(&mut self, node: &Node, defaults: Option<&Node>, workbook: &Workbook) -> Option<Step> {
        let title = match node.get("step").and_then(Node::as_str) {
            Some(name) => format!("step `{name}`"),
            None => "the step".to_owned(),
        };
        let fields = self.check_map(node, &STEP, &title);
        let name = self.read_step_name(&fields, node);
        let step_spec = self.read_step_spec(fields.get("spec"));
        let label = name.clone().unwrap_or_else(|| "step".into());
        let owner = LoopOwner {
            name: label.clone(),
            workbook,
        };
        let loop_ = fields.get("loop");
        let loop_ = loop_.map(|node| self.read_loop(node, &title, &owner));
        let inherited = task_layers(&fields, defaults);
        self.site = TemplateSite::Call;
        let input = fields.get("input").map(|input| self.read_step_input(input));
        let inheritance = TaskInheritance {
            inherited: inherited.as_ref(),
            workbook,
        };
        let mut tasks = match fields.get("tool") {
            Some(tool) => self.apply_step_output(tool, &fields, &label, &inheritance),
            None => Vec::new(),
        };
        self.site = TemplateSite::Boundary;
        let set = self.read_step_writes(&fields);
        let set = match tasks.last_mut() {
            Some(last) => split_writes(set, &mut last.set),
            None => self.accept_ctx_writes(set),
        };
        let next = fields.get("next").map(|next| self.read_next(next, &title));
        self.check_has_effect(&fields, node, &title);
        let desc = fields.get("desc").and_then(|desc| self.read_text(desc, "desc"));
        Some(Step {
            name: name?,
            desc,
            admission: step_spec.admission,
            is_joining: step_spec.joins,
            timeout: step_spec.timeout,
            schedule_to_start: step_spec.schedule_to_start,
            failure: step_spec.failure,
            loop_: loop_.flatten(),
            input,
            tasks,
            set,
            next: next.unwrap_or_default(),
            span: fields.get("step").map_or(node.span, |name| name.span),
        })
    }

    /// Reads `set`, and `set_ctx`, whose keys all go to `ctx`.
    fn read_step_writes(&mut self, fields: &CheckedMap<'_>) -> Vec<SetEntry> {
        let set = fields.get("set");
        let mut writes = set
            .map(|set| self.read_writes(set, WriteTarget::Ctx))
            .unwrap_or_default();
        if let Some(set) = fields.get("set_ctx") {
            writes.extend(self.read_writes_to(set, WriteTarget::Ctx));
        }
        writes
    }

    fn read_step_name(&mut self, fields: &CheckedMap<'_>, node: &Node) -> Option<Name> {
        let name = fields.get("step");
        if name.is_none() && node.as_map().is_some() && !fields.is_misspelled("step") {
            self.report_missing_key("step", "the step", node.span, "step: <name>");
        }
        self.read_name(name?, "the step's name")
    }

    fn read_step_input(&mut self, node: &Node) -> Tree {
        if node.as_map().is_none() && node.as_str().is_none() {
            self.report_wrong_type(node, "input", "a map");
        }
        self.read_tree(node)
    }

    /// Moves `output` of a step to its task; to the last one, if it has several.
    fn apply_step_output(
        &mut self,
        tool: &Node,
        fields: &CheckedMap<'_>,
        name: &Name,
        inheritance: &TaskInheritance<'_>,
    ) -> Vec<crate::playbook::Task> {
        let mut tasks = self.read_tool(tool, name, inheritance);
        if let (Some(output), Some(last)) = (fields.get("output"), tasks.last_mut()) {
            let step_result = self.read_result(output);
            last.result = std::mem::take(&mut last.result).with_base(step_result);
        }
        tasks
    }

    fn check_has_effect(&mut self, fields: &CheckedMap<'_>, node: &Node, title: &str) {
        let is_empty = fields.get("tool").is_none() && fields.get("next").is_none();
        if is_empty && !fields.has_reported_keys() && node.as_map().is_some() {
            let message = format!("{title} has neither `tool` nor `next`");
            let span = fields.get("step").map_or(node.span, |name| name.span);
            self.report_error("E0120", message, span, "add a tool, or arcs under `next`");
        }
    }

    fn read_step_spec(&mut self, node: Option<&Node>) -> StepSpec {
        let mut step_spec = StepSpec {
            admission: Admission::default(),
            joins: true,
            timeout: None,
            schedule_to_start: None,
            failure: FailureMode::FailFast,
        };
        let Some(node) = node else {
            return step_spec;
        };
        let fields = self.check_map(node, &STEP_SPEC, "the step's spec");
        if let Some(join) = fields.get("join") {
            step_spec.joins = self.read_word(join, "join", JOINS).unwrap_or(true);
        }
        let timeout = fields.get("timeout");
        step_spec.timeout = timeout.and_then(|node| self.read_duration(node, "timeout"));
        let start = fields.get("schedule_to_start");
        step_spec.schedule_to_start = start.and_then(|node| self.read_duration(node, "schedule_to_start"));
        if let Some(policy) = fields.get("policy") {
            self.read_step_policy(policy, &mut step_spec);
        }
        step_spec
    }

    fn read_step_policy(&mut self, node: &Node, step_spec: &mut StepSpec) {
        let fields = self.check_map(node, &STEP_POLICY, "the step's policy");
        if let Some(admit) = fields.get("admit") {
            step_spec.admission = self.read_admission(admit);
        }
        if let Some(failure) = fields.get("failure") {
            step_spec.failure = self.read_failure_mode(failure, FailureMode::FailFast);
        }
        if let Some(lifecycle) = fields.get("lifecycle") {
            let lifecycle = self.check_map(lifecycle, &LIFECYCLE, "lifecycle");
            for key in ["deadline_s", "timeout_s"] {
                let duration_node = lifecycle.get(key);
                let duration_node = duration_node.and_then(|node| self.read_duration(node, key));
                step_spec.timeout = duration_node.or(step_spec.timeout);
            }
        }
    }
}

/// Returns the layers that tasks of this step inherit: executor, then step, then loop.
fn task_layers(fields: &CheckedMap<'_>, defaults: Option<&Node>) -> Option<Node> {
    let own = fields.get("spec").map(|spec| inheritable_part(spec, false));
    let loop_spec = fields.get("loop").and_then(|node| node.get("spec"));
    let loop_layer = loop_spec.map(|spec| inheritable_part(spec, false));
    let outer = match (defaults, own) {
        (Some(defaults), Some(own)) => Some(overlay(defaults, &own)),
        (defaults, own) => own.or_else(|| defaults.cloned()),
    };
    overlay_layers(outer, loop_layer)
}

/// Moves a step's writes to `iter` and the pipeline to its last task, because both end with the pipeline.
fn split_writes(writes: Vec<SetEntry>, last: &mut Vec<SetEntry>) -> Vec<SetEntry> {
    let (own, inner) = writes.into_iter().partition(|write| write.target == WriteTarget::Ctx);
    last.extend::<Vec<SetEntry>>(inner);
    own
}
