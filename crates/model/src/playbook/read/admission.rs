//! `spec.policy.admit`: the admission rules of a step.

use crate::playbook::read::reader::{Fields, Reader};
use crate::playbook::read::shapes::{ADMIT, ADMIT_RULE, ADMIT_THEN};
use crate::playbook::read::uses::Place;
use crate::playbook::{Admission, AdmitMode, AdmitRule};
use crate::yaml::{Node, Value};

const MODES: &[(&str, AdmitMode)] = &[
    ("exclusive", AdmitMode::Exclusive),
    ("inclusive", AdmitMode::Inclusive),
];

impl Reader {
    pub(crate) fn admission(&mut self, node: &Node) -> Admission {
        self.place = Place::Admission;
        let fields = self.fields(node, &ADMIT, "`admit`");
        let mode = fields.get("mode");
        let mode = mode.and_then(|mode| self.word(mode, "admit.mode", MODES));
        let rules = match fields.get("rules") {
            Some(Node {
                value: Value::List(rules),
                ..
            }) => rules
                .iter()
                .filter_map(|rule| self.admit_rule(rule))
                .collect(),
            Some(other) => {
                self.wrong_type(other, "admit.rules", "a list of rules");
                Vec::new()
            }
            None => {
                let message = "`admit` has no `rules`";
                let label = "add `rules: [{when: …, then: {allow: true}}]`";
                self.error("E0117", message, node.span, label);
                Vec::new()
            }
        };
        Admission {
            mode: mode.unwrap_or_default(),
            rules,
        }
    }

    fn admit_rule(&mut self, node: &Node) -> Option<AdmitRule> {
        let fields = self.fields(node, &ADMIT_RULE, "an admission rule");
        let otherwise = fields.entry("else");
        let then = match (fields.entry("when"), otherwise) {
            (Some(_), None) => fields.get("then"),
            (None, Some(otherwise)) => {
                let inner = otherwise.value.get("then");
                inner.or(fields.get("then")).or(Some(&otherwise.value))
            }
            _ => {
                self.rule_shape(node, &fields);
                return None;
            }
        };
        let Some(then) = then.filter(|then| !then.is_null()) else {
            self.missing(
                "then",
                "the admission rule",
                node.span,
                "then: {allow: true}",
            );
            return None;
        };
        let answer = self.fields(then, &ADMIT_THEN, "an admission rule");
        let Some(allow) = answer.get("allow") else {
            if answer.has_bad_keys() {
                return None;
            }
            self.missing("allow", "the admission rule", then.span, "allow: true");
            return None;
        };
        let allow = self.boolean(allow, "allow")?;
        let when = match fields.entry("when") {
            Some(when) => Some(self.condition(&when.value, "when")?),
            None => None,
        };
        Some(AdmitRule {
            when,
            allow,
            span: node.span,
        })
    }

    /// Reports a rule that is neither `{when, then}` nor `{else}`.
    pub(crate) fn rule_shape(&mut self, node: &Node, fields: &Fields<'_>) {
        if node.as_map().is_none() || fields.has_bad_keys() {
            return;
        }
        let message = "a rule needs either `when` or `else`";
        let label = "write `- when: \"{{ … }}\"` with `then`, or `- else: {then: …}`";
        self.error("E0124", message, node.span, label);
    }
}
