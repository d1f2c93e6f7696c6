//! `next`: the arcs of a step.

use crate::playbook::read::reader::Reader;
use crate::playbook::read::shapes::{ARC, NEXT, NEXT_SPEC};
use crate::playbook::read::uses::Place;
use crate::playbook::{Arc, RouteMode, Router, WriteTarget};
use crate::source::Span;
use crate::yaml::{Node, Value};

const MODES: &[(&str, RouteMode)] = &[
    ("exclusive", RouteMode::Exclusive),
    ("inclusive", RouteMode::Inclusive),
    ("all", RouteMode::Inclusive),
    ("parallel", RouteMode::Inclusive),
];

const NO_MATCH: &[(&str, bool)] = &[
    ("end", false),
    ("continue", false),
    ("complete", false),
    ("ignore", false),
    ("quiet", false),
    ("error", true),
    ("fail", true),
];

impl Reader {
    pub(crate) fn next(&mut self, node: &Node, title: &str) -> Router {
        self.place = Place::Boundary;
        match &node.value {
            Value::Text(_) => Router {
                arcs: self.bare_arc(node).into_iter().collect(),
                ..Router::default()
            },
            Value::List(arcs) => Router {
                arcs: self.arcs(arcs),
                ..Router::default()
            },
            _ => self.router(node, title),
        }
    }

    fn router(&mut self, node: &Node, title: &str) -> Router {
        let fields = self.fields(node, &NEXT, &format!("next of {title}"));
        let mut router = Router::default();
        if let Some(spec) = fields.get("spec") {
            let spec = self.fields(spec, &NEXT_SPEC, "next.spec");
            let mode = spec.get("mode");
            let mode = mode.and_then(|mode| self.word(mode, "next.spec.mode", MODES));
            router.mode = mode.unwrap_or_default();
            router.no_match_is_error = spec
                .get("on_no_match")
                .and_then(|word| self.word(word, "on_no_match", NO_MATCH));
            if let Some(policy) = spec.get("policy")
                && policy.as_map().is_none_or(|map| !map.is_empty())
            {
                let message = "next.spec.policy is reserved";
                self.error("E0101", message, policy.span, "write `{}`, or remove it");
            }
        }
        match fields.get("arcs") {
            Some(Node {
                value: Value::List(arcs),
                ..
            }) => router.arcs = self.arcs(arcs),
            Some(other) => self.wrong_type(other, "next.arcs", "a list of `{step, when, args}`"),
            None if node.as_map().is_some() && fields.iter().all(|(name, _)| name == "spec") => {
                self.missing("arcs", "next", node.span, "arcs: [{step: …}]");
            }
            None => {}
        }
        router
    }

    fn arcs(&mut self, nodes: &[Node]) -> Vec<Arc> {
        nodes.iter().filter_map(|node| self.arc(node)).collect()
    }

    fn bare_arc(&mut self, node: &Node) -> Option<Arc> {
        Some(Arc {
            step: self.name(node, "next")?,
            when: None,
            args: None,
            set: Vec::new(),
            span: node.span,
        })
    }

    fn arc(&mut self, node: &Node) -> Option<Arc> {
        if let Some(name) = node.as_str() {
            let label = format!("write `- step: {name}`");
            self.error(
                "E0121",
                "`next` lists a step name instead of an arc",
                node.span,
                label,
            );
            return None;
        }
        let fields = self.fields(node, &ARC, "an arc");
        let step = fields.get("step");
        if step.is_none() && node.as_map().is_some() && !fields.has_bad_keys() {
            self.missing("step", "the arc", node.span, "step: <name>");
        }
        let step = step.and_then(|step| Some((self.name(step, "step")?, step.span)));
        let when = fields.get("when");
        let when = when.map(|when| self.condition(when, "when"));
        let args = fields.get("args").map(|args| {
            if args.as_map().is_none() && args.as_str().is_none() {
                self.wrong_type(args, "args", "a map");
            }
            self.tree(args)
        });
        let set = fields.get("set");
        let set = set
            .map(|set| self.writes(set, WriteTarget::Ctx))
            .unwrap_or_default();
        let set = self.only_ctx(set);
        let (step, span): (_, Span) = step?;
        Some(Arc {
            step,
            when: when.flatten(),
            args,
            set,
            span,
        })
    }
}
