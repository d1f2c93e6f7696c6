//! `executor`: settings of the whole run.

use model::playbook::FailureMode;

use crate::playbook::Executor;
use crate::playbook::read::key_tables::{DEFAULTS, EXECUTOR, EXECUTOR_POLICY, EXECUTOR_SPEC, FAILURE, LIMITS, RESULTS};
use crate::playbook::read::layers::inheritable_part;
use crate::playbook::read::reader::PlaybookReader;
use crate::yaml::{Node, NodeValue};

/// Kinds of executors, which have no effect.
pub(crate) const KINDS: &[(&str, ())] = &[("local", ()), ("distributed", ()), ("auto", ())];

pub(crate) const FAILURE_MODES: &[(&str, FailureMode)] = &[
    ("fail_fast", FailureMode::FailFast),
    ("best_effort", FailureMode::BestEffort),
];

/// Settings of the run, and the layer of `spec` that every task inherits.
pub(crate) struct ExecutorSection {
    pub(crate) executor: Executor,
    pub(crate) defaults: Option<Node>,
    /// The value of `entry_step`, for diagnostics.
    pub(crate) entry_node: Option<Node>,
    /// The value of `final_step`, for diagnostics.
    pub(crate) final_step_node: Option<Node>,
}

impl Default for ExecutorSection {
    fn default() -> Self {
        Self {
            executor: Executor {
                pool: "default".into(),
                entry_step: None,
                final_step: None,
                no_next_is_error: false,
                failure: FailureMode::BestEffort,
                payload_bytes_max: None,
                step_runs_max: None,
            },
            defaults: None,
            entry_node: None,
            final_step_node: None,
        }
    }
}

impl PlaybookReader {
    pub(crate) fn read_executor(&mut self, node: &Node) -> ExecutorSection {
        let fields = self.check_map(node, &EXECUTOR, "executor");
        if let Some(kind) = fields.get("kind") {
            self.read_word(kind, "executor.kind", KINDS);
        }
        let mut section = ExecutorSection::default();
        if let Some(spec) = fields.get("spec") {
            self.read_executor_spec(spec, &mut section);
        }
        section
    }

    fn read_executor_spec(&mut self, node: &Node, section: &mut ExecutorSection) {
        let fields = self.check_map(node, &EXECUTOR_SPEC, "executor.spec");
        let executor = &mut section.executor;
        if let Some(pool) = fields.get("pool").and_then(|node| self.read_name(node, "pool")) {
            executor.pool = pool;
        }
        if let Some(entry) = fields.get("entry_step") {
            executor.entry_step = self.read_name(entry, "entry_step");
            section.entry_node = Some(entry.clone());
        }
        if let Some(final_step) = fields.get("final_step") {
            executor.final_step = self.read_name(final_step, "final_step");
            section.final_step_node = Some(final_step.clone());
        }
        if let Some(strict) = fields.get("no_next_is_error") {
            executor.no_next_is_error = self.read_boolean(strict, "no_next_is_error").unwrap_or(false);
        }
        if let Some(policy) = fields.get("policy") {
            self.read_executor_policy(policy, section);
        }
    }

    fn read_executor_policy(&mut self, node: &Node, section: &mut ExecutorSection) {
        let fields = self.check_map(node, &EXECUTOR_POLICY, "executor.spec.policy");
        if let Some(results) = fields.get("results") {
            self.read_results(results);
        }
        if let Some(limits) = fields.get("limits") {
            let limits = self.check_map(limits, &LIMITS, "executor.spec.policy.limits");
            let max = limits.get("max_payload_bytes");
            section.executor.payload_bytes_max = max.and_then(|node| self.read_size(node, "max_payload_bytes"));
            let runs = limits.get("max_step_runs");
            section.executor.step_runs_max = runs.and_then(|node| self.read_whole_number(node, "max_step_runs"));
        }
        if let Some(failure) = fields.get("failure") {
            section.executor.failure = self.read_failure_mode(failure, FailureMode::BestEffort);
        }
        if let Some(defaults) = fields.get("defaults") {
            self.check_map(defaults, &DEFAULTS, "executor.spec.policy.defaults");
            section.defaults = Some(inheritable_part(defaults, true));
        }
    }

    fn read_results(&mut self, node: &Node) {
        let fields = self.check_map(node, &RESULTS, "executor.spec.policy.results");
        let Some(reference_first) = fields.get("reference_first") else {
            return;
        };
        if matches!(reference_first.value, NodeValue::Bool(false)) {
            let warning = self
                .diagnostic("W211", "`reference_first: false` has no effect", reference_first.span)
                .with_label("large results are always stored by reference");
            self.report(warning);
        } else {
            self.read_boolean(reference_first, "reference_first");
        }
    }

    /// Reads `failure: {mode: …}` of the executor or a step.
    pub(crate) fn read_failure_mode(&mut self, node: &Node, default: FailureMode) -> FailureMode {
        let fields = self.check_map(node, &FAILURE, "failure");
        fields
            .get("mode")
            .and_then(|mode| self.read_word(mode, "failure.mode", FAILURE_MODES))
            .unwrap_or(default)
    }
}
