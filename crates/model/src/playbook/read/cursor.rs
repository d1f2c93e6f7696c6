//! `loop.cursor`: a statement that claims rows, parsed as a pipeline of one task.

use serde_json::Value as Json;

use crate::id::Name;
use crate::playbook::read::reader::Reader;
use crate::playbook::read::task::Home;
use crate::playbook::read::workbook::Workbook;
use crate::playbook::{
    Admission, Backoff, Claim, Directive, Effect, FailureMode, Policy, Retry, Router, Rule, Step,
    Then, Unmatched,
};
use crate::source::Span;
use crate::template::{Template, Tree};
use crate::yaml::{Entry, Node, Value};

/// The label of the claiming task in the log.
const LABEL: &str = "claim";
/// The rows in its result.
const ROWS: &str = "{{ results.claim.rows }}";
/// The number of rows it changed, in its result.
const AFFECTED: &str = "{{ results.claim.affected_rows | default(0) }}";
/// The variable with the maximum number of rows that a statement may claim.
const MAX_ROWS: &str = "__frame_max_rows";
/// The default maximum number of rows.
const ROWS_MAX: u64 = 100;
/// Tool kinds that can claim rows.
const KINDS: &[(&str, ())] = &[("postgres", ()), ("sqlite", ())];
/// The condition under which a failed claim is retried.
const MAY_RETRY: &str = "outcome.status == 'error' and outcome.error.retryable";
/// The maximum number of attempts of a claim.
const TRIES: u64 = 5;

/// The step of a loop.
pub(crate) struct Around<'a> {
    /// Its name, if it has one.
    pub(crate) name: Name,
    /// The workbook tasks.
    pub(crate) book: &'a Workbook,
}

impl Reader {
    /// Reads `loop.cursor`.
    pub(crate) fn claim(
        &mut self,
        node: &Node,
        max_rows: Option<Tree>,
        around: &Around<'_>,
    ) -> Option<Claim> {
        let Some(entries) = node.as_map() else {
            self.wrong_type(node, "loop.cursor", "a map with `kind`, `auth` and `claim`");
            return None;
        };
        if node.get("claim").is_none() {
            self.missing("claim", "the cursor", node.span, "claim: <SQL>");
            return None;
        }
        if let Some(kind) = node.get("kind") {
            self.word(kind, "loop.cursor.kind", KINDS)?;
        }
        let home = Home {
            inherited: None,
            book: around.book,
        };
        let mut task = self.task(LABEL.into(), &as_task(node, entries), &home)?;
        let says = |key: &str| node.get("spec").is_some_and(|spec| spec.get(key).is_some());
        if task.kind == "postgres" && !says("effect") {
            task.effect = Effect::Transactional;
        }
        if !says("policy") {
            task.policy = patient(node.span);
        }
        let max_rows = max_rows.unwrap_or(Tree::Literal(ROWS_MAX.into()));
        Some(Claim {
            step: Step {
                name: around.name.clone(),
                desc: None,
                admission: Admission::default(),
                joins: true,
                timeout: None,
                schedule_to_start: None,
                failure: FailureMode::FailFast,
                loop_: None,
                input: Some(Tree::Map(vec![(MAX_ROWS.to_owned(), max_rows)])),
                tasks: vec![task],
                set: Vec::new(),
                next: Router::default(),
                span: node.span,
            },
            rows: own(ROWS, node.span),
            affected: own(AFFECTED, node.span),
        })
    }
}

/// Converts the cursor to a task: its statement moves to the key that tasks use.
fn as_task(node: &Node, entries: &[Entry]) -> Node {
    let renamed = entries.iter().map(|entry| match &*entry.key {
        "claim" => Entry {
            key: "command".into(),
            ..entry.clone()
        },
        _ => entry.clone(),
    });
    Node {
        span: node.span,
        value: Value::Map(renamed.collect()),
    }
}

/// Parses a template that this module defines.
fn own(source: &str, span: Span) -> Tree {
    Tree::Template(Template::parse(source, span).expect("the template is valid"))
}

/// Returns a policy that retries transient errors; all other errors fail the step.
fn patient(span: Span) -> Policy {
    let when = Template::condition(MAY_RETRY, span).expect("the condition is valid");
    let retry = Retry {
        attempts: Some(Tree::Literal(Json::from(TRIES))),
        backoff: Backoff::Exponential,
        delay: None,
    };
    Policy {
        rules: vec![Rule {
            when: Some(when),
            then: Then {
                directive: Directive::Retry,
                retry,
                to: None,
                writes: Vec::new(),
            },
            span,
        }],
        unmatched: Unmatched::Fail,
    }
}
