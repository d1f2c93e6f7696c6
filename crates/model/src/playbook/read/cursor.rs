//! `loop.cursor`: a statement that claims rows, as a pipeline of one task.

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

/// What the task that claims is called in the log.
const LABEL: &str = "claim";
/// Where its result has the rows.
const ROWS: &str = "{{ results.claim.rows }}";
/// Where its result has how many rows it changed.
const AFFECTED: &str = "{{ results.claim.affected_rows | default(0) }}";
/// What a statement calls the number of rows it may claim.
const MAX_ROWS: &str = "__frame_max_rows";
/// So many rows, where the loop does not say.
const ROWS_MAX: u64 = 100;
/// Kinds that can claim.
const KINDS: &[(&str, ())] = &[("postgres", ()), ("sqlite", ())];
/// A claim that failed so may be made again.
const MAY_RETRY: &str = "outcome.status == 'error' and outcome.error.retryable";
/// How often a claim is tried.
const TRIES: u64 = 5;

/// The step that a loop belongs to.
pub(crate) struct Around<'a> {
    /// Its name, as far as it has one.
    pub(crate) name: Name,
    /// The named tasks.
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

/// The cursor as a task: its statement goes by the name that tasks give it.
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

/// A template of the house.
fn own(source: &str, span: Span) -> Tree {
    Tree::Template(Template::parse(source, span).expect("the template is whole"))
}

/// Tries again what may succeed later; everything else fails the step.
fn patient(span: Span) -> Policy {
    let when = Template::condition(MAY_RETRY, span).expect("the condition is whole");
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
