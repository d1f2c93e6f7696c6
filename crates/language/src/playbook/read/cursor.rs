//! `loop.cursor`: a statement that claims rows, parsed as a pipeline of one task.

use model::id::Name;
use model::playbook::{Backoff, Directive, FailureMode};
use model::source::Span;
use serde_json::Value as Json;

use crate::playbook::kinds::KINDS;
use crate::playbook::read::reader::PlaybookReader;
use crate::playbook::read::task::TaskInheritance;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{
    Admission, CursorClaim, Policy, PolicyRule, RetryRule, Router, RuleAction, Step, UnmatchedAction,
};
use crate::template::{Template, Tree};
use crate::yaml::{MapEntry, Node, NodeValue};

/// The label of the claiming task in the log.
const CLAIM_LABEL: &str = "claim";
/// The rows in its result.
const ROWS_KEY: &str = "{{ results.claim.rows }}";
/// The number of rows it changed, in its result.
const AFFECTED_KEY: &str = "{{ results.claim.affected_rows | default(0) }}";
/// The variable with the maximum number of rows that a statement may claim.
const MAX_ROWS_PARAMETER: &str = "__frame_max_rows";
/// The default maximum number of rows.
const ROWS_MAX: u64 = 100;
/// The condition under which a failed claim is retried.
const RETRYABLE_CONDITION: &str = "outcome.status == 'error' and outcome.error.retryable";
/// The maximum number of attempts of a claim.
const CLAIM_ATTEMPTS: u64 = 5;

/// The step of a loop.
pub(crate) struct LoopOwner<'a> {
    /// Its name, if it has one.
    pub(crate) name: Name,
    /// The workbook tasks.
    pub(crate) workbook: &'a Workbook,
}

impl PlaybookReader {
    /// Reads `loop.cursor`.
    pub(crate) fn read_cursor(
        &mut self,
        node: &Node,
        max_rows: Option<Tree>,
        owner: &LoopOwner<'_>,
    ) -> Option<CursorClaim> {
        let Some(entries) = node.as_map() else {
            self.report_wrong_type(node, "loop.cursor", "a map with `kind`, `auth` and `claim`");
            return None;
        };
        if node.get("claim").is_none() {
            self.report_missing_key("claim", "the cursor", node.span, "claim: <SQL>");
            return None;
        }
        if let Some(kind) = node.get("kind") {
            let claiming = KINDS.iter().filter(|kind| kind.claim_effect.is_some());
            let names: Vec<_> = claiming.map(|kind| (kind.name, ())).collect();
            self.read_word(kind, "loop.cursor.kind", &names)?;
        }
        let inheritance = TaskInheritance {
            inherited: None,
            workbook: owner.workbook,
        };
        let mut task = self.read_task(CLAIM_LABEL.into(), &cursor_to_task(node, entries), &inheritance)?;
        let has_setting = |key: &str| node.get("spec").is_some_and(|spec| spec.get(key).is_some());
        if let Some(effect) = task.kind_spec().claim_effect.filter(|_| !has_setting("effect")) {
            task.effect = effect;
        }
        if !has_setting("policy") {
            task.policy = retry_policy(node.span);
        }
        let max_rows = max_rows.unwrap_or(Tree::Literal(ROWS_MAX.into()));
        Some(CursorClaim {
            step: Step {
                name: owner.name.clone(),
                desc: None,
                admission: Admission::default(),
                is_joining: true,
                timeout: None,
                schedule_to_start: None,
                failure: FailureMode::FailFast,
                loop_: None,
                input: Some(Tree::Map(vec![(MAX_ROWS_PARAMETER.to_owned(), max_rows)])),
                tasks: vec![task],
                set: Vec::new(),
                next: Router::default(),
                span: node.span,
            },
            rows: built_in_template(ROWS_KEY, node.span),
            affected: built_in_template(AFFECTED_KEY, node.span),
        })
    }
}

/// Converts the cursor to a task: its statement moves to the key that tasks use.
fn cursor_to_task(node: &Node, entries: &[MapEntry]) -> Node {
    let renamed = entries.iter().map(|entry| match &*entry.key {
        "claim" => MapEntry {
            key: "command".into(),
            ..entry.clone()
        },
        _ => entry.clone(),
    });
    Node {
        span: node.span,
        value: NodeValue::Map(renamed.collect()),
    }
}

/// Parses a template that this module defines.
fn built_in_template(source: &str, span: Span) -> Tree {
    Tree::Template(Template::parse(source, span).expect("the template is valid"))
}

/// Returns a policy that retries transient errors; all other errors fail the step.
fn retry_policy(span: Span) -> Policy {
    let when = Template::condition(RETRYABLE_CONDITION, span).expect("the condition is valid");
    let retry = RetryRule {
        attempts: Some(Tree::Literal(Json::from(CLAIM_ATTEMPTS))),
        backoff: Backoff::Exponential,
        delay: None,
    };
    Policy {
        rules: vec![PolicyRule {
            when: Some(when),
            action: RuleAction {
                directive: Directive::Retry,
                retry,
                to: None,
                writes: Vec::new(),
            },
            span,
        }],
        unmatched: UnmatchedAction::Fail,
    }
}
