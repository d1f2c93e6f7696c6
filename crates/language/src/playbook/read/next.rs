//! `next`: the arcs of a step.

use model::playbook::RouteMode;
use model::source::Span;

use crate::playbook::read::key_tables::{ARC, NEXT, NEXT_SPEC};
use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::{NetArc, Router, WriteTarget};
use crate::yaml::{Node, NodeValue};

pub(crate) const MODES: &[(&str, RouteMode)] = &[
    ("exclusive", RouteMode::Exclusive),
    ("inclusive", RouteMode::Inclusive),
    ("all", RouteMode::Inclusive),
    ("parallel", RouteMode::Inclusive),
];

pub(crate) const NO_MATCH: &[(&str, bool)] = &[
    ("end", false),
    ("continue", false),
    ("complete", false),
    ("ignore", false),
    ("quiet", false),
    ("error", true),
    ("fail", true),
];

impl PlaybookReader {
    pub(crate) fn read_next(&mut self, node: &Node, title: &str) -> Router {
        self.site = TemplateSite::Boundary;
        match &node.value {
            NodeValue::Text(_) => Router {
                arcs: self.read_bare_arc(node).into_iter().collect(),
                ..Router::default()
            },
            NodeValue::List(arcs) => Router {
                arcs: self.read_arcs(arcs),
                ..Router::default()
            },
            _ => self.read_router(node, title),
        }
    }

    fn read_router(&mut self, node: &Node, title: &str) -> Router {
        let fields = self.check_map(node, &NEXT, &format!("next of {title}"));
        let mut router = Router::default();
        if let Some(spec) = fields.get("spec") {
            let spec = self.check_map(spec, &NEXT_SPEC, "next.spec");
            let mode = spec.get("mode");
            let mode = mode.and_then(|mode| self.read_word(mode, "next.spec.mode", MODES));
            router.mode = mode.unwrap_or_default();
            router.no_match_is_error = spec
                .get("on_no_match")
                .and_then(|word| self.read_word(word, "on_no_match", NO_MATCH));
            if let Some(policy) = spec.get("policy")
                && policy.as_map().is_none_or(|map| !map.is_empty())
            {
                let message = "next.spec.policy is reserved";
                self.report_error("E0101", message, policy.span, "write `{}`, or remove it");
            }
        }
        match fields.get("arcs") {
            Some(Node {
                value: NodeValue::List(arcs),
                ..
            }) => router.arcs = self.read_arcs(arcs),
            Some(other) => {
                self.report_wrong_type(other, "next.arcs", "a list of `{step, when, args}`");
            }
            None if node.as_map().is_some() && fields.iter().all(|(name, _)| name == "spec") => {
                self.report_missing_key("arcs", "next", node.span, "arcs: [{step: …}]");
            }
            None => {}
        }
        router
    }

    fn read_arcs(&mut self, nodes: &[Node]) -> Vec<NetArc> {
        nodes.iter().filter_map(|node| self.read_arc(node)).collect()
    }

    fn read_bare_arc(&mut self, node: &Node) -> Option<NetArc> {
        Some(NetArc {
            step: self.read_name(node, "next")?,
            when: None,
            args: None,
            set: Vec::new(),
            span: node.span,
        })
    }

    fn read_arc(&mut self, node: &Node) -> Option<NetArc> {
        if let Some(name) = node.as_str() {
            let label = format!("write `- step: {name}`");
            self.report_error("E0121", "`next` lists a step name instead of an arc", node.span, label);
            return None;
        }
        let fields = self.check_map(node, &ARC, "an arc");
        let step = fields.get("step");
        if step.is_none() && node.as_map().is_some() && !fields.has_reported_keys() {
            self.report_missing_key("step", "the arc", node.span, "step: <name>");
        }
        let step = step.and_then(|step| Some((self.read_name(step, "step")?, step.span)));
        let when = fields.get("when");
        let when = when.map(|when| self.read_condition(when, "when"));
        let args = fields.get("args").map(|args| {
            if args.as_map().is_none() && args.as_str().is_none() {
                self.report_wrong_type(args, "args", "a map");
            }
            self.read_tree(args)
        });
        let set = fields.get("set");
        let set = set
            .map(|set| self.read_writes(set, WriteTarget::Ctx))
            .unwrap_or_default();
        let set = self.accept_ctx_writes(set);
        let (step, span): (_, Span) = step?;
        Some(NetArc {
            step,
            when: when.flatten(),
            args,
            set,
            span,
        })
    }
}
