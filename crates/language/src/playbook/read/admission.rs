//! `spec.policy.admit`: the admission rules of a step.

use crate::playbook::read::key_tables::{ADMIT, ADMIT_RULE, ADMIT_THEN};
use crate::playbook::read::reader::{CheckedMap, PlaybookReader};
use crate::playbook::read::template_uses::TemplateSite;
use crate::playbook::{Admission, AdmitMode, AdmitRule};
use crate::yaml::Node;

pub(crate) const MODES: &[(&str, AdmitMode)] =
    &[("exclusive", AdmitMode::Exclusive), ("inclusive", AdmitMode::Inclusive)];

impl PlaybookReader {
    pub(crate) fn read_admission(&mut self, node: &Node) -> Admission {
        self.site = TemplateSite::Admission;
        let fields = self.check_map(node, &ADMIT, "`admit`");
        let mode = fields.get("mode");
        let mode = mode.and_then(|mode| self.read_word(mode, "admit.mode", MODES));
        let rules = if let Some(rules) = fields.get("rules") {
            self.read_rule_list(rules, "admit.rules", Self::read_admit_rule)
        } else {
            let message = "`admit` has no `rules`";
            let label = "add `rules: [{when: …, then: {allow: true}}]`";
            self.report_error("E0117", message, node.span, label);
            Vec::new()
        };
        Admission {
            mode: mode.unwrap_or_default(),
            rules,
        }
    }

    fn read_admit_rule(&mut self, node: &Node) -> Option<AdmitRule> {
        let fields = self.check_map(node, &ADMIT_RULE, "an admission rule");
        let otherwise = fields.entry("else");
        let then = match (fields.entry("when"), otherwise) {
            (Some(_), None) => fields.get("then"),
            (None, Some(otherwise)) => {
                let inner = otherwise.value.get("then");
                inner.or(fields.get("then")).or(Some(&otherwise.value))
            }
            _ => {
                self.report_rule_shape(node, &fields);
                return None;
            }
        };
        let Some(then) = then.filter(|then| !then.is_null()) else {
            self.report_missing_key("then", "the admission rule", node.span, "then: {allow: true}");
            return None;
        };
        let then_fields = self.check_map(then, &ADMIT_THEN, "an admission rule");
        let Some(allow) = then_fields.get("allow") else {
            if then_fields.has_reported_keys() {
                return None;
            }
            self.report_missing_key("allow", "the admission rule", then.span, "allow: true");
            return None;
        };
        let allow = self.read_boolean(allow, "allow")?;
        let when = match fields.entry("when") {
            Some(when) => Some(self.read_condition(&when.value, "when")?),
            None => None,
        };
        Some(AdmitRule {
            when,
            allow,
            span: node.span,
        })
    }

    /// Reports a rule that is neither `{when, then}` nor `{else}`.
    pub(crate) fn report_rule_shape(&mut self, node: &Node, fields: &CheckedMap<'_>) {
        if node.as_map().is_none() || fields.has_reported_keys() {
            return;
        }
        let message = "a rule needs either `when` or `else`";
        let label = "write `- when: \"{{ … }}\"` with `then`, or `- else: {then: …}`";
        self.report_error("E0124", message, node.span, label);
    }
}
