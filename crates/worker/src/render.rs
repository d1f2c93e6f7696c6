//! Rendering a call: a task's keys, input, knobs and timeout become values.
//!
//! Enters: a step, one of its tasks, what their templates see. Leaves: values, or all that has to be loaded first.

use std::collections::BTreeMap;
use std::time::Duration;

use model::playbook::kinds::{FieldMode, field_mode};
use model::playbook::{Step, Task};
use model::raw::Raw;
use model::source::Span;
use model::template::{Data, Need, Piece, PieceOrigin, RenderError, Scope, Tree};
use serde_json::{Map, Value, json};
use sha2::Digest as _;
use tools::{Call, Timeout};

/// A snapshot of the input longer than this is replaced by its size and hash.
const INPUTS_BYTES_MAX: usize = 2 * 1024;

/// A call, rendered.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    /// The kind's own keys.
    pub(crate) fields: Map<String, Value>,
    /// Keys kept as author text and values.
    pub(crate) pieces: BTreeMap<String, Vec<Vec<Piece>>>,
    /// Where those pieces come from.
    pub(crate) origins: BTreeMap<String, Vec<Vec<PieceOrigin>>>,
    /// The task's input over the step's; none where neither has one.
    pub(crate) input: Option<Data>,
    /// What `task.started` shows of the input.
    pub(crate) inputs: Option<Raw>,
    /// `spec` knobs.
    pub(crate) knobs: Map<String, Value>,
    /// How long it may take.
    pub(crate) timeout: Timeout,
}

/// Renders everything a call takes.
pub(crate) fn render(step: &Step, task: &Task, scope: &Scope) -> Result<Ready, RenderError> {
    let mut ready = Ready::default();
    if step.input.is_some() || task.input.is_some() {
        let mut scope = scope.clone();
        scope.reveals_secrets = true;
        // A child playbook is no program: what it gets is recorded as its workload.
        scope.names_http_body = task.kind != "playbook";
        let (input, tainted) = input(step, task, &mut scope)?;
        ready.inputs = Some(if tainted {
            scope.reveals_secrets = false;
            scope.input = Data::default();
            snapshot(&self::input(step, task, &mut scope)?.0)
        } else {
            snapshot(&input)
        });
        scope.reveals_secrets = true;
        scope.names_http_body = false;
        scope.input = Data::new(Value::Object(input));
        ready.input = Some(scope.input.clone());
        rest(task, &scope, &mut ready)?;
    } else if scope.keychain.is_some() {
        let mut scope = scope.clone();
        scope.reveals_secrets = true;
        rest(task, &scope, &mut ready)?;
    } else {
        rest(task, scope, &mut ready)?;
    }
    Ok(ready)
}

/// The step's input with the task's over it. The task's own may use the step's.
fn input(
    step: &Step,
    task: &Task,
    scope: &mut Scope,
) -> Result<(Map<String, Value>, bool), RenderError> {
    let mut all = Map::new();
    let mut tainted = false;
    for tree in [&step.input, &task.input].into_iter().flatten() {
        let rendered = tree.render(scope)?;
        tainted |= rendered.tainted;
        match rendered.value {
            Value::Object(map) => all.extend(map),
            Value::Null => {}
            _ => return Err(wrong("`input` must come to a map".to_owned(), task.span)),
        }
        scope.input = Data::new(Value::Object(all.clone()));
    }
    Ok((all, tainted))
}

/// Keys, knobs and timeout; what any of them needs is asked for in one go.
fn rest(task: &Task, scope: &Scope, ready: &mut Ready) -> Result<(), RenderError> {
    let mut needs = Vec::new();
    for (key, tree) in &task.fields {
        let value = match field_mode(task.kind.as_str(), key) {
            FieldMode::Pieces => {
                if let Some(lists) = gather(&mut needs, pieces(tree, scope))? {
                    ready.add_pieces(key, lists);
                }
                continue;
            }
            FieldMode::End => {
                let rendered = end(key, tree, scope, ready);
                if let Some(value) = gather(&mut needs, rendered)? {
                    ready.fields.insert(key.clone(), value);
                }
                continue;
            }
            FieldMode::Reference => reference(tree, scope),
            FieldMode::Code => code(tree, scope),
            FieldMode::Value | FieldMode::Verbatim => value(tree, scope),
        };
        if let Some(value) = gather(&mut needs, value)? {
            ready.fields.insert(key.clone(), value);
        }
    }
    for (key, tree) in &task.knobs {
        if let Some(value) = gather(&mut needs, value(tree, scope))? {
            ready.knobs.insert(key.clone(), value);
        }
    }
    if let Some(tree) = &task.timeout
        && let Some(value) = gather(&mut needs, value(tree, scope))?
    {
        ready.timeout = timeout(&value, task.span)?;
    }
    if needs.is_empty() {
        Ok(())
    } else {
        Err(RenderError::Needs(needs))
    }
}

/// Puts needs aside, so that one round of loading serves the whole call.
fn gather<T>(
    needs: &mut Vec<Need>,
    rendered: Result<T, RenderError>,
) -> Result<Option<T>, RenderError> {
    match rendered {
        Ok(value) => Ok(Some(value)),
        Err(RenderError::Needs(more)) => {
            needs.extend(more);
            Ok(None)
        }
        Err(failed) => Err(failed),
    }
}

fn value(tree: &Tree, scope: &Scope) -> Result<Value, RenderError> {
    match tree {
        Tree::Literal(value) => Ok(value.clone()),
        tree => tree.render(scope).map(|rendered| rendered.value),
    }
}

/// The reference of what a template names, where that is a body; else its value.
fn reference(tree: &Tree, scope: &Scope) -> Result<Value, RenderError> {
    match tree.bound(scope)? {
        Some(bound) => Ok(Call::bound_field(&bound)),
        None => value(tree, scope),
    }
}

impl Ready {
    fn add_pieces(&mut self, key: &str, commands: Vec<RenderedCommand>) {
        let (pieces, origins) = commands.into_iter().unzip();
        self.pieces.insert(key.to_owned(), pieces);
        self.origins.insert(key.to_owned(), origins);
    }
}

/// A command in pieces, and where each comes from.
type RenderedCommand = (Vec<Piece>, Vec<PieceOrigin>);

/// One list of pieces per command.
fn pieces(tree: &Tree, scope: &Scope) -> Result<Vec<RenderedCommand>, RenderError> {
    let plain = |piece: Piece| (vec![piece], Vec::new());
    Ok(match tree {
        Tree::Template(template) => vec![template.pieces_with_origins(scope)?],
        Tree::Literal(Value::Array(items)) => {
            items.iter().map(|item| plain(literal(item))).collect()
        }
        Tree::Literal(value) => vec![plain(literal(value))],
        Tree::List(items) => {
            let mut lists = Vec::with_capacity(items.len());
            for item in items {
                lists.extend(pieces(item, scope)?);
            }
            lists
        }
        Tree::Map(_) => vec![plain(Piece::Text(tree.render(scope)?.value.to_string()))],
    })
}

/// Python code with every value placed as a literal.
fn code(tree: &Tree, scope: &Scope) -> Result<Value, RenderError> {
    let Tree::Template(template) = tree else {
        return value(tree, scope);
    };
    let code = tools::python_code(&template.code_pieces(scope)?);
    let code = code.map_err(|error| RenderError::Failed {
        code: "PYTHON_VALUE",
        message: error.message,
        span: template.span(),
    })?;
    Ok(code.into())
}

/// A map of which statements are kept in pieces, under `<key>.query`.
fn end(key: &str, tree: &Tree, scope: &Scope, ready: &mut Ready) -> Result<Value, RenderError> {
    let is_statement = |name: &str| matches!(name, "query" | "command");
    let entries = match tree {
        Tree::Map(entries) => entries.clone(),
        Tree::Literal(Value::Object(map)) => {
            let entry =
                |(name, value): (&String, &Value)| (name.clone(), Tree::Literal(value.clone()));
            map.iter().map(entry).collect()
        }
        other => return value(other, scope),
    };
    let mut map = Map::new();
    let mut needs = Vec::new();
    for (name, tree) in &entries {
        if is_statement(name) {
            if let Some(lists) = gather(&mut needs, pieces(tree, scope))? {
                ready.add_pieces(&format!("{key}.{name}"), lists);
            }
        } else if let Some(value) = gather(&mut needs, value(tree, scope))? {
            map.insert(name.clone(), value);
        }
    }
    if needs.is_empty() {
        Ok(Value::Object(map))
    } else {
        Err(RenderError::Needs(needs))
    }
}

fn literal(value: &Value) -> Piece {
    match value {
        Value::String(text) => Piece::Text(text.clone()),
        other => Piece::Text(other.to_string()),
    }
}

fn timeout(value: &Value, span: Span) -> Result<Timeout, RenderError> {
    let read = |value: &Value| -> Result<Option<Duration>, RenderError> {
        if value.is_null() {
            return Ok(None);
        }
        let span_of = || wrong(format!("`timeout` is {value}, which is no duration"), span);
        model::duration::parse(value).map(Some).ok_or_else(span_of)
    };
    let Value::Object(parts) = value else {
        return Ok(Timeout {
            total: read(value)?,
            ..Timeout::default()
        });
    };
    let part = |key: &str| parts.get(key).map_or(Ok(None), read);
    Ok(Timeout {
        total: part("total")?,
        connect: part("connect")?,
        read: part("read")?,
    })
}

fn wrong(message: String, span: Span) -> RenderError {
    RenderError::Failed {
        code: "TEMPLATE_ERROR",
        message,
        span,
    }
}

/// The input as the log shows it.
fn snapshot(input: &Map<String, Value>) -> Raw {
    let raw = Raw::of(input);
    let bytes = raw.text().len();
    if bytes <= INPUTS_BYTES_MAX {
        return raw;
    }
    let sha256 = hex::encode(sha2::Sha256::digest(raw.text().as_bytes()));
    Raw::of(&json!({"truncated": true, "bytes": bytes, "sha256": sha256}))
}
