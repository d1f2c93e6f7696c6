//! `spec.policy` of a task: rules that choose an action for an outcome.

use model::playbook::{Backoff, Directive};

use crate::playbook::read::key_tables::{ELSE, POLICY, RULE, THEN};
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::read::values::is_template;
use crate::playbook::{JumpTarget, Policy, PolicyRule, RetryRule, RuleAction, UnmatchedAction, WriteTarget};
use crate::template::Tree;
use crate::yaml::{Node, NodeValue};

pub(crate) const DIRECTIVES: &[(&str, Directive)] = &[
    ("continue", Directive::Continue),
    ("retry", Directive::Retry),
    ("jump", Directive::Jump),
    ("break", Directive::Break),
    ("fail", Directive::Fail),
];

pub(crate) const BACKOFFS: &[(&str, Backoff)] = &[
    ("none", Backoff::None),
    ("fixed", Backoff::None),
    ("linear", Backoff::Linear),
    ("exponential", Backoff::Exponential),
];

pub(crate) const UNMATCHED: &[(&str, UnmatchedAction)] =
    &[("continue", UnmatchedAction::Continue), ("fail", UnmatchedAction::Fail)];

impl PlaybookReader {
    pub(crate) fn read_policy(&mut self, node: &Node) -> Policy {
        self.site = TemplateSite::Outcome;
        let fields = self.check_map(node, &POLICY, "task policy");
        let unmatched = fields.get("on_unmatched");
        let unmatched = unmatched
            .and_then(|name| self.read_word(name, "on_unmatched", UNMATCHED))
            .unwrap_or_default();
        let rules = if let Some(rules) = fields.get("rules") {
            self.read_rule_list(rules, "policy.rules", Self::read_rule)
        } else {
            if node.as_map().is_some() {
                let label = "add `rules: [{when: …, then: {do: …}}]`, or remove the policy";
                self.report_error("E0117", "the policy has no `rules`", node.span, label);
            }
            Vec::new()
        };
        Policy { rules, unmatched }
    }

    /// Reads a list of rules with `read_rule`; invalid rules are left out.
    pub(crate) fn read_rule_list<T>(
        &mut self,
        node: &Node,
        subject: &str,
        read_rule: impl Fn(&mut Self, &Node) -> Option<T>,
    ) -> Vec<T> {
        let NodeValue::List(rules) = &node.value else {
            self.report_wrong_type(node, subject, "a list of rules");
            return Vec::new();
        };
        rules.iter().filter_map(|rule| read_rule(self, rule)).collect()
    }

    fn read_rule(&mut self, node: &Node) -> Option<PolicyRule> {
        let fields = self.check_map(node, &RULE, "a rule");
        let (when, then) = match (fields.entry("when"), fields.entry("else")) {
            (Some(when), None) => {
                let when = self.read_condition(&when.value, "when");
                (Some(when), self.read_rule_action(&fields, node)?)
            }
            (None, Some(otherwise)) => {
                let then = if otherwise.value.is_null() {
                    self.read_rule_action(&fields, node)?
                } else {
                    self.read_else(&otherwise.value)?
                };
                (None, then)
            }
            _ => {
                self.report_rule_shape(node, &fields);
                return None;
            }
        };
        let mut then = then;
        if let Some(set) = fields.get("set") {
            then.writes.extend(self.read_writes(set, WriteTarget::Local));
        }
        let when = match when {
            Some(when) => Some(when?),
            None => None,
        };
        if let Some(to) = find_jump_target(node) {
            self.jumps.insert(node.span.start, to.span);
        }
        Some(PolicyRule {
            when,
            action: then,
            span: node.span,
        })
    }

    fn read_rule_action(&mut self, fields: &CheckedMap<'_>, node: &Node) -> Option<RuleAction> {
        match fields.get("then") {
            Some(then) => Some(self.read_then(then)),
            None if fields.get("set").is_some() => Some(empty_action()),
            None => {
                self.report_missing_key("then", "the rule", node.span, "then: {do: continue}");
                None
            }
        }
    }

    /// Reads `else: {then: {do: …}}`, or the keys of `then` directly under `else`.
    fn read_else(&mut self, node: &Node) -> Option<RuleAction> {
        let fields = self.check_map(node, &ELSE, "`else`");
        match fields.get("then") {
            Some(then) => {
                if let Some((name, entry)) = fields.iter().find(|(name, _)| *name != "then") {
                    let message = format!("`{name}` must be inside `then`");
                    self.report_error("E0124", message, entry.span, "move it under `then`");
                }
                Some(self.read_then(then))
            }
            None if node.as_map().is_some() => Some(self.read_directive(&fields, node)),
            None => None,
        }
    }

    fn read_then(&mut self, node: &Node) -> RuleAction {
        if let Some(text) = node.as_str() {
            let message = "`then` must be a map, not text";
            self.report_error("E0124", message, node.span, format!("write `then: {{do: {text}}}`"));
            return empty_action();
        }
        let fields = self.check_map(node, &THEN, "`then`");
        self.read_directive(&fields, node)
    }

    fn read_directive(&mut self, fields: &CheckedMap<'_>, node: &Node) -> RuleAction {
        let mut then = empty_action();
        if let Some(directive_node) = fields.get("do") {
            let directive = self.read_word(directive_node, "do", DIRECTIVES);
            then.directive = directive.unwrap_or(Directive::Continue);
        }
        then.retry = self.read_retry(fields);
        then.to = fields.get("to").and_then(|to| self.read_jump(to));
        if then.directive == Directive::Jump && fields.get("to").is_none() {
            self.report_missing_key("to", "the jump", node.span, "to: <label>");
        }
        self.report_stray_keys(fields, then.directive);
        for (key, target) in [("set_iter", WriteTarget::Iter), ("set_ctx", WriteTarget::Ctx)] {
            if let Some(writes) = fields.get(key) {
                then.writes.extend(self.read_writes_to(writes, target));
            }
        }
        if let Some(set) = fields.get("set") {
            then.writes.extend(self.read_writes(set, WriteTarget::Local));
        }
        then
    }

    fn read_retry(&mut self, fields: &CheckedMap<'_>) -> RetryRule {
        let attempts = fields.get("attempts");
        let delay = fields.get("delay");
        let backoff = fields.get("backoff");
        RetryRule {
            attempts: attempts.and_then(|node| self.read_count(node, "attempts")),
            backoff: backoff
                .and_then(|name| self.read_word(name, "backoff", BACKOFFS))
                .unwrap_or_default(),
            delay: delay.and_then(|node| self.read_delay(node, "delay")),
        }
    }

    /// Reports keys that belong to another action than the one given, because they have no effect.
    fn report_stray_keys(&mut self, fields: &CheckedMap<'_>, directive: Directive) {
        let owners = [
            ("attempts", Directive::Retry, "retry"),
            ("backoff", Directive::Retry, "retry"),
            ("delay", Directive::Retry, "retry"),
            ("to", Directive::Jump, "jump"),
        ];
        for (key, owner, expected_directive) in owners {
            if let Some(entry) = fields.entry(key)
                && directive != owner
            {
                let message = format!("`{key}` needs `do: {expected_directive}`");
                self.report_error(
                    "E0126",
                    message,
                    entry.span,
                    format!("add `do: {expected_directive}`, or remove it"),
                );
            }
        }
    }

    fn read_jump(&mut self, node: &Node) -> Option<JumpTarget> {
        let name = self.read_name(node, "to")?;
        if matches!(name.as_str(), "previous" | "prev") {
            return Some(JumpTarget::Previous);
        }
        if is_template(name.as_str()) {
            return match self.read_tree(node) {
                Tree::Template(template) => Some(JumpTarget::Template(template)),
                _ => None,
            };
        }
        Some(JumpTarget::Label(name))
    }
}

/// Returns the node of a rule's jump target.
fn find_jump_target(rule: &Node) -> Option<&Node> {
    let otherwise = rule.get("else");
    let then = rule
        .get("then")
        .or_else(|| otherwise.and_then(|otherwise| otherwise.get("then")));
    then.or(otherwise)?.get("to")
}

/// The action of a rule that has none.
fn empty_action() -> RuleAction {
    RuleAction {
        directive: Directive::Continue,
        retry: RetryRule::default(),
        to: None,
        writes: Vec::new(),
    }
}
