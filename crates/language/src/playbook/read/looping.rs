//! `loop`: runs a step's pipeline for each item.

use model::playbook::LoopMode;

use crate::playbook::read::cursor::LoopOwner;
use crate::playbook::read::key_tables::{LOOP, LOOP_FRAME, LOOP_POLICY, LOOP_RESULTS, LOOP_SPEC};
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::read::values::is_template;
use crate::playbook::{Collection, Loop};
use crate::template::Tree;
use crate::yaml::{Node, NodeValue};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopKind {
    Plain(LoopMode),
    Cursor,
}

pub(crate) const MODES: &[(&str, LoopKind)] = &[
    ("sequential", LoopKind::Plain(LoopMode::Sequential)),
    ("parallel", LoopKind::Plain(LoopMode::Parallel)),
    ("cursor", LoopKind::Cursor),
];

/// How the rows of a frame are processed.
pub(crate) const FRAME_PROCESSES: &[(&str, ())] = &[("row", ())];

/// Where a loop runs, and whether that is one worker.
pub(crate) const PLACEMENTS: &[(&str, bool)] = &[("distributed", false), ("local", true)];

/// The settings in `loop.spec`.
#[derive(Default)]
struct LoopSpec {
    mode: Option<LoopKind>,
    max_in_flight: Option<Tree>,
    is_local: bool,
    frame: CursorFrame,
}

/// How a cursor loop claims its rows.
#[derive(Default)]
struct CursorFrame {
    max_rows: Option<Tree>,
    row_concurrency: Option<Tree>,
}

impl PlaybookReader {
    pub(crate) fn read_loop(&mut self, node: &Node, title: &str, step: &LoopOwner<'_>) -> Option<Loop> {
        self.site = TemplateSite::Loop;
        let title = format!("the loop of {title}");
        if node.as_map().is_none() {
            self.check_map(node, &LOOP, &title);
            return None;
        }
        let fields = self.check_map(node, &LOOP, &title);
        let loop_spec = match fields.get("spec") {
            Some(spec) => self.read_loop_spec(spec, fields.get("cursor")),
            None => Some(LoopSpec::default()),
        };
        let collection = self.read_collection_or_cursor(&fields, loop_spec.as_ref(), &title, step);
        let iterator = fields.get("iterator");
        if iterator.is_none() && !fields.has_reported_keys() {
            self.report_missing_key("iterator", &title, node.span, "iterator: item");
        }
        let iterator = iterator.and_then(|iterator| self.read_name(iterator, "iterator"));
        let (loop_spec, collection) = (loop_spec?, collection?);
        let is_cursor = matches!(collection, Collection::Cursor(_));
        Some(Loop {
            iterator: iterator?,
            mode: match (loop_spec.mode, is_cursor) {
                (Some(LoopKind::Plain(mode)), _) => mode,
                (_, true) => LoopMode::Parallel,
                (_, false) => LoopMode::default(),
            },
            max_in_flight: loop_spec.frame.row_concurrency.or(loop_spec.max_in_flight),
            is_local: loop_spec.is_local,
            span: node.span,
            collection,
        })
    }

    fn read_collection_or_cursor(
        &mut self,
        fields: &CheckedMap<'_>,
        loop_spec: Option<&LoopSpec>,
        title: &str,
        step: &LoopOwner<'_>,
    ) -> Option<Collection> {
        let advice = "set exactly one of `in` and `cursor`";
        match (fields.get("in"), fields.entry("cursor")) {
            (Some(list), None) => self.read_collection(list).map(Collection::In),
            (Some(_), Some(cursor)) => {
                let message = format!("{title} has both `in` and `cursor`");
                self.report_error("E0115", message, cursor.span, advice);
                None
            }
            (None, None) if fields.has_reported_keys() || loop_spec.is_none() => None,
            (None, None) => {
                let message = format!("{title} has neither `in` nor `cursor`");
                self.report_error("E0115", message, fields.span, advice);
                None
            }
            (None, Some(cursor)) => {
                let max_rows = loop_spec.and_then(|loop_spec| loop_spec.frame.max_rows.clone());
                let claim = self.read_cursor(&cursor.value, max_rows, step)?;
                Some(Collection::Cursor(Box::new(claim)))
            }
        }
    }

    fn read_collection(&mut self, node: &Node) -> Option<Tree> {
        let is_list = match &node.value {
            NodeValue::List(_) => true,
            NodeValue::Text(text) => is_template(&text.text),
            _ => false,
        };
        if !is_list {
            self.report_wrong_type(node, "loop.in", "a list, or a template for one");
            return None;
        }
        Some(self.read_tree(node))
    }

    /// Returns `None` if it refers to a cursor that the loop does not have.
    fn read_loop_spec(&mut self, node: &Node, cursor: Option<&Node>) -> Option<LoopSpec> {
        let fields = self.check_map(node, &LOOP_SPEC, "loop.spec");
        let mut loop_spec = LoopSpec::default();
        if let Some(max) = fields.get("max_in_flight") {
            loop_spec.max_in_flight = self.read_count(max, "max_in_flight");
        }
        if let Some(policy) = fields.get("policy") {
            loop_spec.is_local = self.read_loop_policy(policy);
        }
        let advice = "add `cursor: {kind: postgres, auth: …, claim: …}` to the loop";
        let mut is_whole = true;
        if let Some(mode) = fields.get("mode") {
            loop_spec.mode = self.read_word(mode, "loop.spec.mode", MODES);
            if loop_spec.mode == Some(LoopKind::Cursor) && cursor.is_none() {
                let message = "`mode: cursor` needs a `cursor` that claims rows";
                self.report_error("E0116", message, mode.span, advice);
                is_whole = false;
            }
        }
        if let Some(frame) = fields.entry("frame") {
            if cursor.is_none() {
                let message = "`frame` needs a loop with a `cursor`";
                self.report_error("E0116", message, frame.span, advice);
                is_whole = false;
            }
            loop_spec.frame = self.read_frame(&frame.value);
        }
        is_whole.then_some(loop_spec)
    }

    fn read_frame(&mut self, node: &Node) -> CursorFrame {
        let fields = self.check_map(node, &LOOP_FRAME, "loop.spec.frame");
        if let Some(process) = fields.get("process") {
            self.read_word(process, "loop.spec.frame.process", FRAME_PROCESSES);
        }
        let mut count = |key: &str| self.read_count(fields.get(key)?, key);
        CursorFrame {
            max_rows: count("max_rows"),
            row_concurrency: count("row_concurrency"),
        }
    }

    /// Whether one worker runs the whole loop.
    fn read_loop_policy(&mut self, node: &Node) -> bool {
        let fields = self.check_map(node, &LOOP_POLICY, "loop.spec.policy");
        if let Some(results) = fields.get("results") {
            let results = self.check_map(results, &LOOP_RESULTS, "loop.spec.policy.results");
            if let Some(preserve_order) = results.get("preserve_order") {
                self.read_boolean(preserve_order, "preserve_order");
            }
        }
        let exec = fields.get("exec");
        exec.and_then(|exec| self.read_word(exec, "exec", PLACEMENTS))
            .unwrap_or(false)
    }
}
