//! `loop`: run a step's pipeline for each element.

use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{LOOP, LOOP_POLICY, LOOP_RESULTS, LOOP_SPEC};
use crate::playbook::read::uses::Place;
use crate::playbook::read::values::is_template;
use crate::playbook::{Collection, Loop, LoopMode};
use crate::template::Tree;
use crate::yaml::{Node, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Plain(LoopMode),
    Cursor,
}

const MODES: &[(&str, Mode)] = &[
    ("sequential", Mode::Plain(LoopMode::Sequential)),
    ("parallel", Mode::Plain(LoopMode::Parallel)),
    ("cursor", Mode::Cursor),
];

/// What `loop.spec` says.
#[derive(Default)]
struct Knobs {
    mode: LoopMode,
    max_in_flight: Option<Tree>,
    local: bool,
}

impl Reader {
    pub(crate) fn looping(&mut self, node: &Node, title: &str) -> Option<Loop> {
        self.place = Place::Loop;
        let title = format!("the loop of {title}");
        if node.as_map().is_none() {
            self.fields(node, &LOOP, &title);
            return None;
        }
        let fields = self.fields(node, &LOOP, &title);
        let knobs = match fields.get("spec") {
            Some(spec) => self.loop_spec(spec),
            None => Some(Knobs::default()),
        };
        let over = self.over(&fields, knobs.is_none(), &title);
        let iterator = fields.get("iterator");
        if iterator.is_none() && fields.get("cursor").is_none() && !fields.has_bad_keys() {
            self.missing("iterator", &title, node.span, "iterator: item");
        }
        let iterator = iterator.and_then(|iterator| self.name(iterator, "iterator"));
        let knobs = knobs?;
        Some(Loop {
            over: Collection::In(over?),
            iterator: iterator?,
            mode: knobs.mode,
            max_in_flight: knobs.max_in_flight,
            local: knobs.local,
            span: node.span,
        })
    }

    fn over(&mut self, fields: &Fields<'_>, is_cursor: bool, title: &str) -> Option<Tree> {
        let advice = "give it one of `in` and `cursor`";
        match (fields.get("in"), fields.entry("cursor")) {
            (Some(list), None) => self.collection(list),
            (Some(_), Some(cursor)) => {
                let message = format!("{title} has both `in` and `cursor`");
                self.error("E0115", message, cursor.span, advice);
                None
            }
            (None, None) if fields.has_bad_keys() || is_cursor => None,
            (None, None) => {
                let message = format!("{title} has neither `in` nor `cursor`");
                self.error("E0115", message, fields.span, advice);
                None
            }
            (None, Some(cursor)) => {
                self.no_cursor(&cursor.value);
                None
            }
        }
    }

    fn no_cursor(&mut self, node: &Node) {
        let message = "cursor loops are not built into this version";
        let label = "read the rows in a task, and loop over them with `in`";
        self.error("E0116", message, node.span, label);
    }

    fn collection(&mut self, node: &Node) -> Option<Tree> {
        let is_list = match &node.value {
            Value::List(_) => true,
            Value::Text(text) => is_template(&text.text),
            _ => false,
        };
        if !is_list {
            self.wrong_type(node, "loop.in", "a list, or a template that gives one");
            return None;
        }
        Some(self.tree(node))
    }

    /// Nothing for a cursor loop, which is reported.
    fn loop_spec(&mut self, node: &Node) -> Option<Knobs> {
        let fields = self.fields(node, &LOOP_SPEC, "loop.spec");
        let mut knobs = Knobs::default();
        if let Some(max) = fields.get("max_in_flight") {
            knobs.max_in_flight = self.count(max, "max_in_flight");
        }
        if let Some(policy) = fields.get("policy") {
            knobs.local = self.loop_policy(policy);
        }
        let mode = fields.get("mode");
        match mode.and_then(|mode| self.word(mode, "loop.spec.mode", MODES)) {
            Some(Mode::Cursor) => {
                if let Some(mode) = mode {
                    self.no_cursor(mode);
                }
                return None;
            }
            Some(Mode::Plain(mode)) => knobs.mode = mode,
            None => {}
        }
        if let Some(frame) = fields.entry("frame") {
            let message = "`frame` belongs to cursor loops, which are not built into this version";
            self.error("E0116", message, frame.span, "remove it");
        }
        Some(knobs)
    }

    /// Whether one worker takes the whole loop.
    fn loop_policy(&mut self, node: &Node) -> bool {
        let fields = self.fields(node, &LOOP_POLICY, "loop.spec.policy");
        if let Some(results) = fields.get("results") {
            let results = self.fields(results, &LOOP_RESULTS, "loop.spec.policy.results");
            if let Some(order) = results.get("preserve_order") {
                self.boolean(order, "preserve_order");
            }
        }
        let exec = fields.get("exec");
        exec.and_then(|exec| self.word(exec, "exec", &[("distributed", false), ("local", true)]))
            .unwrap_or(false)
    }
}
