//! `spec.policy` of a task: rules that choose an action for an outcome.

use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{ELSE, POLICY, RULE, THEN};
use crate::playbook::read::uses::Place;
use crate::playbook::read::values::is_template;
use crate::playbook::{
    Backoff, Directive, Jump, Policy, Retry, Rule, Then, Unmatched, WriteTarget,
};
use crate::template::Tree;
use crate::yaml::{Node, Value};

const DIRECTIVES: &[(&str, Directive)] = &[
    ("continue", Directive::Continue),
    ("retry", Directive::Retry),
    ("jump", Directive::Jump),
    ("break", Directive::Break),
    ("fail", Directive::Fail),
];

const BACKOFFS: &[(&str, Backoff)] = &[
    ("none", Backoff::None),
    ("fixed", Backoff::None),
    ("linear", Backoff::Linear),
    ("exponential", Backoff::Exponential),
];

const UNMATCHED: &[(&str, Unmatched)] =
    &[("continue", Unmatched::Continue), ("fail", Unmatched::Fail)];

impl Reader {
    pub(crate) fn policy(&mut self, node: &Node) -> Policy {
        self.place = Place::Outcome;
        let fields = self.fields(node, &POLICY, "task policy");
        let unmatched = fields.get("on_unmatched");
        let unmatched = unmatched
            .and_then(|word| self.word(word, "on_unmatched", UNMATCHED))
            .unwrap_or_default();
        let rules = match fields.get("rules") {
            Some(Node {
                value: Value::List(rules),
                ..
            }) => rules.iter().filter_map(|rule| self.rule(rule)).collect(),
            Some(other) => {
                self.wrong_type(other, "policy.rules", "a list of rules");
                Vec::new()
            }
            None => {
                if node.as_map().is_some() {
                    let label = "add `rules: [{when: …, then: {do: …}}]`, or remove the policy";
                    self.error("E0117", "the policy has no `rules`", node.span, label);
                }
                Vec::new()
            }
        };
        Policy { rules, unmatched }
    }

    fn rule(&mut self, node: &Node) -> Option<Rule> {
        let fields = self.fields(node, &RULE, "a rule");
        let (when, then) = match (fields.entry("when"), fields.entry("else")) {
            (Some(when), None) => {
                let when = self.condition(&when.value, "when");
                (Some(when), self.then_of(&fields, node)?)
            }
            (None, Some(otherwise)) => {
                let then = if otherwise.value.is_null() {
                    self.then_of(&fields, node)?
                } else {
                    self.otherwise(&otherwise.value)?
                };
                (None, then)
            }
            _ => {
                self.rule_shape(node, &fields);
                return None;
            }
        };
        let mut then = then;
        if let Some(set) = fields.get("set") {
            then.writes.extend(self.writes(set, WriteTarget::Local));
        }
        let when = match when {
            Some(when) => Some(when?),
            None => None,
        };
        if let Some(to) = target(node) {
            self.jumps.insert(node.span.start, to.span);
        }
        Some(Rule {
            when,
            then,
            span: node.span,
        })
    }

    fn then_of(&mut self, fields: &Fields<'_>, node: &Node) -> Option<Then> {
        match fields.get("then") {
            Some(then) => Some(self.then(then)),
            None if fields.get("set").is_some() => Some(plain()),
            None => {
                self.missing("then", "the rule", node.span, "then: {do: continue}");
                None
            }
        }
    }

    /// Reads `else: {then: {do: …}}`, or the keys of `then` directly under `else`.
    fn otherwise(&mut self, node: &Node) -> Option<Then> {
        let fields = self.fields(node, &ELSE, "`else`");
        match fields.get("then") {
            Some(then) => {
                if let Some((name, entry)) = fields.iter().find(|(name, _)| *name != "then") {
                    let message = format!("`{name}` must be inside `then`");
                    self.error("E0124", message, entry.span, "move it under `then`");
                }
                Some(self.then(then))
            }
            None if node.as_map().is_some() => Some(self.directive(&fields, node)),
            None => None,
        }
    }

    fn then(&mut self, node: &Node) -> Then {
        if let Some(word) = node.as_str() {
            let message = "`then` must be a map, not text";
            self.error(
                "E0124",
                message,
                node.span,
                format!("write `then: {{do: {word}}}`"),
            );
            return plain();
        }
        let fields = self.fields(node, &THEN, "`then`");
        self.directive(&fields, node)
    }

    fn directive(&mut self, fields: &Fields<'_>, node: &Node) -> Then {
        let mut then = plain();
        if let Some(word) = fields.get("do") {
            let directive = self.word(word, "do", DIRECTIVES);
            then.directive = directive.unwrap_or(Directive::Continue);
        }
        then.retry = self.retry(fields);
        then.to = fields.get("to").and_then(|to| self.jump(to));
        if then.directive == Directive::Jump && fields.get("to").is_none() {
            self.missing("to", "the jump", node.span, "to: <label>");
        }
        self.stray(fields, then.directive);
        for (key, target) in [
            ("set_iter", WriteTarget::Iter),
            ("set_ctx", WriteTarget::Ctx),
        ] {
            if let Some(writes) = fields.get(key) {
                then.writes.extend(self.writes_to(writes, target));
            }
        }
        if let Some(set) = fields.get("set") {
            then.writes.extend(self.writes(set, WriteTarget::Local));
        }
        then
    }

    fn retry(&mut self, fields: &Fields<'_>) -> Retry {
        let attempts = fields.get("attempts");
        let delay = fields.get("delay");
        let backoff = fields.get("backoff");
        Retry {
            attempts: attempts.and_then(|node| self.count(node, "attempts")),
            backoff: backoff
                .and_then(|word| self.word(word, "backoff", BACKOFFS))
                .unwrap_or_default(),
            delay: delay.and_then(|node| self.delay(node, "delay")),
        }
    }

    /// Reports keys that belong to another action than the one given, because they have no effect.
    fn stray(&mut self, fields: &Fields<'_>, directive: Directive) {
        let owners = [
            ("attempts", Directive::Retry, "retry"),
            ("backoff", Directive::Retry, "retry"),
            ("delay", Directive::Retry, "retry"),
            ("to", Directive::Jump, "jump"),
        ];
        for (key, owner, word) in owners {
            if let Some(entry) = fields.entry(key)
                && directive != owner
            {
                let message = format!("`{key}` needs `do: {word}`");
                self.error(
                    "E0126",
                    message,
                    entry.span,
                    format!("add `do: {word}`, or remove it"),
                );
            }
        }
    }

    fn jump(&mut self, node: &Node) -> Option<Jump> {
        let name = self.name(node, "to")?;
        if matches!(name.as_str(), "previous" | "prev") {
            return Some(Jump::Previous);
        }
        if is_template(name.as_str()) {
            return match self.tree(node) {
                Tree::Template(template) => Some(Jump::Template(template)),
                _ => None,
            };
        }
        Some(Jump::Label(name))
    }
}

/// Returns the node of a rule's jump target.
fn target(rule: &Node) -> Option<&Node> {
    let otherwise = rule.get("else");
    let then = rule
        .get("then")
        .or_else(|| otherwise.and_then(|otherwise| otherwise.get("then")));
    then.or(otherwise)?.get("to")
}

/// The action of a rule that has none.
fn plain() -> Then {
    Then {
        directive: Directive::Continue,
        retry: Retry::default(),
        to: None,
        writes: Vec::new(),
    }
}
