//! Reads a step and the layers of `spec` that its tasks inherit.

use std::time::Duration;

use crate::id::Name;
use crate::playbook::read::cursor::Around;
use crate::playbook::read::layers::{inheritable, stack};
use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{LIFECYCLE, STEP, STEP_POLICY, STEP_SPEC};
use crate::playbook::read::task::Home;
use crate::playbook::read::uses::Place;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{Admission, FailureMode, Step, Write, WriteTarget};
use crate::template::Tree;
use crate::yaml::{Node, overlay};

/// The settings of the step itself in `step.spec`.
struct Knobs {
    admission: Admission,
    joins: bool,
    timeout: Option<Duration>,
    schedule_to_start: Option<Duration>,
    failure: FailureMode,
}

impl Reader {
    pub(crate) fn step(
        &mut self,
        node: &Node,
        defaults: Option<&Node>,
        book: &Workbook,
    ) -> Option<Step> {
        let title = match node.get("step").and_then(Node::as_str) {
            Some(name) => format!("step `{name}`"),
            None => "the step".to_owned(),
        };
        let fields = self.fields(node, &STEP, &title);
        let name = self.step_name(&fields, node);
        let knobs = self.step_spec(fields.get("spec"));
        let called = name.clone().unwrap_or_else(|| "step".into());
        let around = Around {
            name: called.clone(),
            book,
        };
        let loop_ = fields.get("loop");
        let loop_ = loop_.map(|node| self.looping(node, &title, &around));
        let inherited = layers(&fields, defaults);
        self.place = Place::Call;
        let input = fields.get("input").map(|input| self.step_input(input));
        let home = Home {
            inherited: inherited.as_ref(),
            book,
        };
        let mut tasks = match fields.get("tool") {
            Some(tool) => self.with_output(tool, &fields, &called, &home),
            None => Vec::new(),
        };
        self.place = Place::Boundary;
        let set = self.step_writes(&fields);
        let set = match tasks.last_mut() {
            Some(last) => share(set, &mut last.set),
            None => self.only_ctx(set),
        };
        let next = fields.get("next").map(|next| self.next(next, &title));
        self.does_something(&fields, node, &title);
        let desc = fields.get("desc").and_then(|desc| self.text(desc, "desc"));
        Some(Step {
            name: name?,
            desc,
            admission: knobs.admission,
            joins: knobs.joins,
            timeout: knobs.timeout,
            schedule_to_start: knobs.schedule_to_start,
            failure: knobs.failure,
            loop_: loop_.flatten(),
            input,
            tasks,
            set,
            next: next.unwrap_or_default(),
            span: fields.get("step").map_or(node.span, |name| name.span),
        })
    }

    /// Reads `set`, and `set_ctx`, whose keys all go to `ctx`.
    fn step_writes(&mut self, fields: &Fields<'_>) -> Vec<Write> {
        let set = fields.get("set");
        let mut writes = set
            .map(|set| self.writes(set, WriteTarget::Ctx))
            .unwrap_or_default();
        if let Some(set) = fields.get("set_ctx") {
            writes.extend(self.writes_to(set, WriteTarget::Ctx));
        }
        writes
    }

    fn step_name(&mut self, fields: &Fields<'_>, node: &Node) -> Option<Name> {
        let name = fields.get("step");
        if name.is_none() && node.as_map().is_some() && !fields.is_misspelled("step") {
            self.missing("step", "the step", node.span, "step: <name>");
        }
        self.name(name?, "the step's name")
    }

    fn step_input(&mut self, node: &Node) -> Tree {
        if node.as_map().is_none() && node.as_str().is_none() {
            self.wrong_type(node, "input", "a map");
        }
        self.tree(node)
    }

    /// Moves `output` of a step to its task; to the last one, if it has several.
    fn with_output(
        &mut self,
        tool: &Node,
        fields: &Fields<'_>,
        name: &Name,
        home: &Home<'_>,
    ) -> Vec<crate::playbook::Task> {
        let mut tasks = self.tool(tool, name, home);
        if let (Some(output), Some(last)) = (fields.get("output"), tasks.last_mut()) {
            let given = self.result(output);
            last.result = std::mem::take(&mut last.result).over(given);
        }
        tasks
    }

    fn does_something(&mut self, fields: &Fields<'_>, node: &Node, title: &str) {
        let is_empty = fields.get("tool").is_none() && fields.get("next").is_none();
        if is_empty && !fields.has_bad_keys() && node.as_map().is_some() {
            let message = format!("{title} has neither `tool` nor `next`");
            let span = fields.get("step").map_or(node.span, |name| name.span);
            self.error("E0120", message, span, "add a tool, or arcs under `next`");
        }
    }

    fn step_spec(&mut self, node: Option<&Node>) -> Knobs {
        let mut knobs = Knobs {
            admission: Admission::default(),
            joins: true,
            timeout: None,
            schedule_to_start: None,
            failure: FailureMode::FailFast,
        };
        let Some(node) = node else {
            return knobs;
        };
        let fields = self.fields(node, &STEP_SPEC, "the step's spec");
        if let Some(join) = fields.get("join") {
            let words = [("each", false), ("merge", true)];
            knobs.joins = self.word(join, "join", &words).unwrap_or(true);
        }
        let timeout = fields.get("timeout");
        knobs.timeout = timeout.and_then(|node| self.duration(node, "timeout"));
        let start = fields.get("schedule_to_start");
        knobs.schedule_to_start = start.and_then(|node| self.duration(node, "schedule_to_start"));
        if let Some(policy) = fields.get("policy") {
            self.step_policy(policy, &mut knobs);
        }
        knobs
    }

    fn step_policy(&mut self, node: &Node, knobs: &mut Knobs) {
        let fields = self.fields(node, &STEP_POLICY, "the step's policy");
        if let Some(admit) = fields.get("admit") {
            knobs.admission = self.admission(admit);
        }
        if let Some(failure) = fields.get("failure") {
            knobs.failure = self.failure(failure, FailureMode::FailFast);
        }
        if let Some(lifecycle) = fields.get("lifecycle") {
            let lifecycle = self.fields(lifecycle, &LIFECYCLE, "lifecycle");
            for key in ["deadline_s", "timeout_s"] {
                let given = lifecycle.get(key);
                let given = given.and_then(|node| self.duration(node, key));
                knobs.timeout = given.or(knobs.timeout);
            }
        }
    }
}

/// Returns the layers that tasks of this step inherit: executor, then step, then loop.
fn layers(fields: &Fields<'_>, defaults: Option<&Node>) -> Option<Node> {
    let own = fields.get("spec").map(|spec| inheritable(spec, false));
    let looped = fields.get("loop").and_then(|node| node.get("spec"));
    let looped = looped.map(|spec| inheritable(spec, false));
    let outer = match (defaults, own) {
        (Some(defaults), Some(own)) => Some(overlay(defaults, &own)),
        (defaults, own) => own.or_else(|| defaults.cloned()),
    };
    stack(outer, looped)
}

/// Moves a step's writes to `iter` and the pipeline to its last task, because both end with the pipeline.
fn share(writes: Vec<Write>, last: &mut Vec<Write>) -> Vec<Write> {
    let (own, inner) = writes
        .into_iter()
        .partition(|write| write.target == WriteTarget::Ctx);
    last.extend::<Vec<Write>>(inner);
    own
}
