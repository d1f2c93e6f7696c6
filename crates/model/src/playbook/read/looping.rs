//! `loop`: runs a step's pipeline for each item.

use crate::playbook::read::cursor::Around;
use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{LOOP, LOOP_FRAME, LOOP_POLICY, LOOP_RESULTS, LOOP_SPEC};
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

/// The settings in `loop.spec`.
#[derive(Default)]
struct Knobs {
    mode: Option<Mode>,
    max_in_flight: Option<Tree>,
    local: bool,
    frame: Frame,
}

/// How a cursor loop claims its rows.
#[derive(Default)]
struct Frame {
    max_rows: Option<Tree>,
    row_concurrency: Option<Tree>,
}

impl Reader {
    pub(crate) fn looping(&mut self, node: &Node, title: &str, step: &Around<'_>) -> Option<Loop> {
        self.place = Place::Loop;
        let title = format!("the loop of {title}");
        if node.as_map().is_none() {
            self.fields(node, &LOOP, &title);
            return None;
        }
        let fields = self.fields(node, &LOOP, &title);
        let knobs = match fields.get("spec") {
            Some(spec) => self.loop_spec(spec, fields.get("cursor")),
            None => Some(Knobs::default()),
        };
        let over = self.over(&fields, knobs.as_ref(), &title, step);
        let iterator = fields.get("iterator");
        if iterator.is_none() && !fields.has_bad_keys() {
            self.missing("iterator", &title, node.span, "iterator: item");
        }
        let iterator = iterator.and_then(|iterator| self.name(iterator, "iterator"));
        let (knobs, over) = (knobs?, over?);
        let is_cursor = matches!(over, Collection::Cursor(_));
        Some(Loop {
            iterator: iterator?,
            mode: match (knobs.mode, is_cursor) {
                (Some(Mode::Plain(mode)), _) => mode,
                (_, true) => LoopMode::Parallel,
                (_, false) => LoopMode::default(),
            },
            max_in_flight: knobs.frame.row_concurrency.or(knobs.max_in_flight),
            local: knobs.local,
            span: node.span,
            over,
        })
    }

    fn over(
        &mut self,
        fields: &Fields<'_>,
        knobs: Option<&Knobs>,
        title: &str,
        step: &Around<'_>,
    ) -> Option<Collection> {
        let advice = "set exactly one of `in` and `cursor`";
        match (fields.get("in"), fields.entry("cursor")) {
            (Some(list), None) => self.collection(list).map(Collection::In),
            (Some(_), Some(cursor)) => {
                let message = format!("{title} has both `in` and `cursor`");
                self.error("E0115", message, cursor.span, advice);
                None
            }
            (None, None) if fields.has_bad_keys() || knobs.is_none() => None,
            (None, None) => {
                let message = format!("{title} has neither `in` nor `cursor`");
                self.error("E0115", message, fields.span, advice);
                None
            }
            (None, Some(cursor)) => {
                let max_rows = knobs.and_then(|knobs| knobs.frame.max_rows.clone());
                let claim = self.claim(&cursor.value, max_rows, step)?;
                Some(Collection::Cursor(Box::new(claim)))
            }
        }
    }

    fn collection(&mut self, node: &Node) -> Option<Tree> {
        let is_list = match &node.value {
            Value::List(_) => true,
            Value::Text(text) => is_template(&text.text),
            _ => false,
        };
        if !is_list {
            self.wrong_type(node, "loop.in", "a list, or a template for one");
            return None;
        }
        Some(self.tree(node))
    }

    /// Returns `None` if it refers to a cursor that the loop does not have.
    fn loop_spec(&mut self, node: &Node, cursor: Option<&Node>) -> Option<Knobs> {
        let fields = self.fields(node, &LOOP_SPEC, "loop.spec");
        let mut knobs = Knobs::default();
        if let Some(max) = fields.get("max_in_flight") {
            knobs.max_in_flight = self.count(max, "max_in_flight");
        }
        if let Some(policy) = fields.get("policy") {
            knobs.local = self.loop_policy(policy);
        }
        let advice = "add `cursor: {kind: postgres, auth: …, claim: …}` to the loop";
        let mut is_whole = true;
        if let Some(mode) = fields.get("mode") {
            knobs.mode = self.word(mode, "loop.spec.mode", MODES);
            if knobs.mode == Some(Mode::Cursor) && cursor.is_none() {
                let message = "`mode: cursor` needs a `cursor` that claims rows";
                self.error("E0116", message, mode.span, advice);
                is_whole = false;
            }
        }
        if let Some(frame) = fields.entry("frame") {
            if cursor.is_none() {
                let message = "`frame` needs a loop with a `cursor`";
                self.error("E0116", message, frame.span, advice);
                is_whole = false;
            }
            knobs.frame = self.frame(&frame.value);
        }
        is_whole.then_some(knobs)
    }

    fn frame(&mut self, node: &Node) -> Frame {
        let fields = self.fields(node, &LOOP_FRAME, "loop.spec.frame");
        if let Some(process) = fields.get("process") {
            self.word(process, "loop.spec.frame.process", &[("row", ())]);
        }
        let mut count = |key: &str| self.count(fields.get(key)?, key);
        Frame {
            max_rows: count("max_rows"),
            row_concurrency: count("row_concurrency"),
        }
    }

    /// Whether one worker runs the whole loop.
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
