//! Renders a call: evaluates a task's keys, input, knobs and timeout.
//!
//! Input: a step, one of its tasks and the template scope. Output: values, or a list of everything that must be loaded
//! first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use language::playbook::kinds::{CodeLanguage, FieldMode, field_mode};
use language::playbook::{Step, Task};
use language::template::{
    CodePiece, LazyValue, MASK, Need, Piece, PieceOrigin, RenderError, Rendered, RenderedPieces, Scope, SecretOrigin,
    Taint, Tree,
};
use model::outcome::TaskError;
use model::raw::RawJson;
use model::source::Span;
use serde_json::{Map, Value, json};
use sha2::Digest as _;
use tools::{Call, Timeout, plain_text};

use crate::secrets::SecretMasker;

/// Larger inputs are recorded as size and hash only.
const INPUTS_BYTES_MAX: usize = 2 * 1024;

/// A rendered call.
#[derive(Default)]
pub(crate) struct RenderedCall {
    /// Keys of the tool kind.
    pub(crate) fields: Map<String, Value>,
    /// Keys whose author text and values stay separate.
    pub(crate) pieces: BTreeMap<String, Vec<Vec<Piece>>>,
    /// Origins of these pieces.
    pub(crate) origins: BTreeMap<String, Vec<Vec<PieceOrigin>>>,
    /// Step input with the task input merged over it; `None` if neither exists.
    pub(crate) input: Option<LazyValue>,
    /// Input as `task.started` shows it.
    pub(crate) recorded_input: Option<RawJson>,
    /// Knobs from `spec`.
    pub(crate) knobs: Map<String, Value>,
    /// Timeouts of the call.
    pub(crate) timeout: Timeout,
    /// Masked copies of the keys and knobs that contain secrets.
    pub(crate) masked_parts: MaskedCallParts,
    /// Texts in the call that were derived from secrets.
    pub(crate) secrets: Vec<String>,
    /// Masks for these texts.
    pub(crate) masker: Option<Arc<SecretMasker>>,
}

/// Masked copies of the parts of a call that contain secrets; other parts are not copied.
#[derive(Debug, Default)]
pub(crate) struct MaskedCallParts {
    pub(crate) fields: Map<String, Value>,
    pub(crate) pieces: BTreeMap<String, Vec<Vec<Piece>>>,
    pub(crate) knobs: Map<String, Value>,
}

impl RenderedCall {
    /// Replaces values that contain secrets by their masked copies, for tasks that record their input.
    pub(crate) fn replace_with_masked(&mut self) {
        self.fields.append(&mut self.masked_parts.fields);
        self.pieces.append(&mut self.masked_parts.pieces);
        self.knobs.append(&mut self.masked_parts.knobs);
        if let Some(input) = self.input.take_if(|input| input.is_tainted()) {
            self.input = Some(LazyValue::new(input.masked()));
        }
    }

    /// Returns a rendered value and records its masked copy.
    fn record_masked_copy(&mut self, key: &str, rendered: Rendered) -> Value {
        if rendered.is_tainted() {
            self.masked_parts.fields.insert(key.to_owned(), rendered.masked());
        }
        self.secrets.extend(rendered.secrets);
        rendered.value
    }

    /// Adds lists of pieces and records their masked copies.
    fn add_pieces(&mut self, key: &str, lists: Vec<RenderedPieces>) {
        if lists.iter().any(|list| list.masked.is_some()) {
            let masked_values = lists.iter().map(|list| {
                let masked_values = list.masked.as_ref();
                masked_values.unwrap_or(&list.pieces).clone()
            });
            self.masked_parts.pieces.insert(key.to_owned(), masked_values.collect());
        }
        let (mut pieces, mut origins) = (Vec::new(), Vec::new());
        for list in lists {
            self.secrets.extend(list.secrets);
            pieces.push(list.pieces);
            origins.push(list.origins);
        }
        self.pieces.insert(key.to_owned(), pieces);
        self.origins.insert(key.to_owned(), origins);
    }
}

/// Renders everything that a call needs.
pub(crate) fn render_call(step: &Step, task: &Task, scope: &Scope) -> Result<RenderedCall, RenderError> {
    let mut rendered_call = RenderedCall::default();
    if step.input.is_some() || task.input.is_some() {
        let mut scope = scope.clone();
        scope.reveals_secrets = true;
        // A child playbook is not a program: its input is recorded as its workload.
        scope.names_http_body = !task.kind_spec().starts_playbook;
        let input = render_input(step, task, &mut scope, &mut rendered_call.secrets)?;
        scope.names_http_body = false;
        rendered_call.recorded_input = Some(to_recorded_input(&input.masked()));
        scope.input = input.clone();
        rendered_call.input = Some(input);
        render_fields(task, &scope, &mut rendered_call)?;
    } else if scope.keychain.is_some() {
        let mut scope = scope.clone();
        scope.reveals_secrets = true;
        render_fields(task, &scope, &mut rendered_call)?;
    } else {
        render_fields(task, scope, &mut rendered_call)?;
    }
    Ok(rendered_call)
}

/// Renders the step's input and merges the task's input over it. The task's input may use the step's.
fn render_input(
    step: &Step,
    task: &Task,
    scope: &mut Scope,
    secrets: &mut Vec<String>,
) -> Result<LazyValue, RenderError> {
    let mut values = Map::new();
    let mut taints = BTreeMap::new();
    for tree in [&step.input, &task.input].into_iter().flatten() {
        let rendered = tree.render(scope)?;
        secrets.extend(rendered.secrets);
        match rendered.value {
            Value::Object(map) => {
                add_taints(&mut taints, &map, rendered.taint);
                values.extend(map);
            }
            Value::Null => {}
            _ => {
                return Err(template_error("`input` must be a map".to_owned(), task.span));
            }
        }
        let taint = if taints.values().all(Taint::is_clean) {
            Taint::Clean
        } else {
            Taint::Map(taints.clone())
        };
        scope.input = LazyValue::with_taint(Value::Object(values.clone()), taint);
    }
    Ok(scope.input.clone())
}

/// Updates the taints after a map was merged over another one.
fn add_taints(taints: &mut BTreeMap<String, Taint>, map: &Map<String, Value>, taint: Taint) {
    match taint {
        Taint::Map(mut fields) => {
            for key in map.keys() {
                taints.insert(key.clone(), fields.remove(key).unwrap_or_default());
            }
        }
        Taint::Whole {
            masked: masked_value,
            origin,
        } => {
            for key in map.keys() {
                let masked_value = masked_value.get(key).cloned().unwrap_or_else(|| MASK.into());
                taints.insert(
                    key.clone(),
                    Taint::Whole {
                        masked: masked_value,
                        origin,
                    },
                );
            }
        }
        Taint::Clean | Taint::List(_) => {
            for key in map.keys() {
                taints.remove(key);
            }
        }
    }
}

/// Renders keys, knobs and timeout; collects the needs of all of them.
fn render_fields(task: &Task, scope: &Scope, rendered_call: &mut RenderedCall) -> Result<(), RenderError> {
    let mut needs = Vec::new();
    for (key, tree) in &task.fields {
        let rendered = match field_mode(task.kind.as_str(), key) {
            FieldMode::Pieces => {
                if let Some(lists) = collect_needs(&mut needs, render_pieces(tree, scope))? {
                    rendered_call.add_pieces(key, lists);
                }
                continue;
            }
            FieldMode::Endpoint => render_transfer_end(key, tree, scope, rendered_call),
            FieldMode::Reference => render_reference(tree, scope),
            FieldMode::Code(language) => render_code(tree, language, scope),
            FieldMode::Value => tree.render(scope),
        };
        if let Some(rendered) = collect_needs(&mut needs, rendered)? {
            let value = rendered_call.record_masked_copy(key, rendered);
            rendered_call.fields.insert(key.clone(), value);
        }
    }
    for (key, tree) in &task.knobs {
        if let Some(rendered) = collect_needs(&mut needs, tree.render(scope))? {
            if rendered.is_tainted() {
                rendered_call.masked_parts.knobs.insert(key.clone(), rendered.masked());
            }
            rendered_call.secrets.extend(rendered.secrets);
            rendered_call.knobs.insert(key.clone(), rendered.value);
        }
    }
    if let Some(tree) = &task.timeout
        && let Some(rendered) = collect_needs(&mut needs, tree.render(scope))?
    {
        rendered_call.timeout = parse_timeout(&rendered, task.span)?;
    }
    if needs.is_empty() {
        Ok(())
    } else {
        Err(RenderError::Needs(needs))
    }
}

/// Collects needs, so that one round of loading covers the whole call.
fn collect_needs<T>(needs: &mut Vec<Need>, rendered: Result<T, RenderError>) -> Result<Option<T>, RenderError> {
    match rendered {
        Ok(value) => Ok(Some(value)),
        Err(RenderError::Needs(more)) => {
            needs.extend(more);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the reference if a template names a body, otherwise the value.
fn render_reference(tree: &Tree, scope: &Scope) -> Result<Rendered, RenderError> {
    match tree.body_path(scope)? {
        Some(body_path) => Ok(Rendered::without_secrets(Call::body_path_field(&body_path))),
        None => tree.render(scope),
    }
}

/// Returns one list of pieces per command.
fn render_pieces(tree: &Tree, scope: &Scope) -> Result<Vec<RenderedPieces>, RenderError> {
    Ok(match tree {
        Tree::Template(template) => vec![template.rendered_pieces(scope)?],
        Tree::Literal(Value::Array(items)) => items.iter().map(literal_pieces).collect(),
        Tree::Literal(value) => vec![literal_pieces(value)],
        Tree::List(items) => {
            let mut lists = Vec::with_capacity(items.len());
            for item in items {
                lists.extend(render_pieces(item, scope)?);
            }
            lists
        }
        Tree::Map(_) => {
            let rendered = tree.render(scope)?;
            let text = |value: &Value| vec![Piece::Text(value.to_string())];
            vec![RenderedPieces {
                pieces: text(&rendered.value),
                origins: Vec::new(),
                masked: rendered.is_tainted().then(|| text(&rendered.masked())),
                secrets: rendered.secrets,
            }]
        }
    })
}

/// Writes the values of a template into code as literals of its language.
type LiteralWriter = fn(&[CodePiece]) -> Result<String, TaskError>;

/// Renders a program; every value becomes a literal.
fn render_code(tree: &Tree, language: CodeLanguage, scope: &Scope) -> Result<Rendered, RenderError> {
    let Tree::Template(template) = tree else {
        return tree.render(scope);
    };
    let rendered = template.rendered_pieces(scope)?;
    let masked_code = rendered.masked_code();
    let (write_code, error_code): (LiteralWriter, _) = match language {
        CodeLanguage::Python => (tools::python_code, "PYTHON_VALUE"),
        CodeLanguage::Rhai => (tools::rhai_script, "RHAI_VALUE"),
        CodeLanguage::Jq => (tools::jq_program, "JQ_VALUE"),
    };
    let masked_code = masked_code.as_deref().map(write_code);
    let code = write_code(&rendered.code_pieces());
    let code = code.map_err(|error| RenderError::Failed {
        code: error_code,
        // The message quotes a value, which may be a secret.
        message: match &masked_code {
            None => error.message,
            Some(Err(error)) => error.message.clone(),
            Some(Ok(_)) => "a value derived from a secret cannot be used here".to_owned(),
        },
        span: template.span(),
    })?;
    let taint = match masked_code {
        None => Taint::Clean,
        Some(masked_code) => Taint::Whole {
            masked: masked_code.unwrap_or_else(|_| MASK.to_owned()).into(),
            origin: SecretOrigin::Secret,
        },
    };
    Ok(Rendered {
        value: code.into(),
        taint,
        secrets: rendered.secrets,
    })
}

/// Renders a map whose statements stay in pieces, under `<key>.query` or `<key>.command`.
fn render_transfer_end(
    key: &str,
    tree: &Tree,
    scope: &Scope,
    rendered_call: &mut RenderedCall,
) -> Result<Rendered, RenderError> {
    let is_statement = |name: &str| matches!(name, "query" | "command");
    let entries = match tree {
        Tree::Map(entries) => entries.clone(),
        Tree::Literal(Value::Object(map)) => {
            let entry = |(name, value): (&String, &Value)| (name.clone(), Tree::Literal(value.clone()));
            map.iter().map(entry).collect()
        }
        other => return other.render(scope),
    };
    let mut needs = Vec::new();
    let mut values = Vec::new();
    for (name, tree) in entries {
        if !is_statement(&name) {
            values.push((name, tree));
        } else if let Some(lists) = collect_needs(&mut needs, render_pieces(&tree, scope))? {
            rendered_call.add_pieces(&format!("{key}.{name}"), lists);
        }
    }
    let rendered = collect_needs(&mut needs, Tree::Map(values).render(scope))?;
    match rendered {
        Some(rendered) if needs.is_empty() => Ok(rendered),
        _ => Err(RenderError::Needs(needs)),
    }
}

fn literal_pieces(value: &Value) -> RenderedPieces {
    RenderedPieces {
        pieces: vec![Piece::Text(plain_text(value))],
        ..RenderedPieces::default()
    }
}

fn parse_timeout(rendered: &Rendered, span: Span) -> Result<Timeout, RenderError> {
    let value = &rendered.value;
    let parse = |value: &Value| -> Result<Option<Duration>, RenderError> {
        if value.is_null() {
            return Ok(None);
        }
        let invalid = || {
            let quoted = if rendered.is_tainted() {
                MASK.to_owned()
            } else {
                value.to_string()
            };
            template_error(
                format!("invalid `timeout` {quoted}: expected a duration such as `30s`"),
                span,
            )
        };
        model::duration::parse(value).map(Some).ok_or_else(invalid)
    };
    let Value::Object(parts) = value else {
        return Ok(Timeout {
            total: parse(value)?,
            ..Timeout::default()
        });
    };
    let parse_part = |key: &str| parts.get(key).map_or(Ok(None), parse);
    Ok(Timeout {
        total: parse_part("total")?,
        connect: parse_part("connect")?,
        read: parse_part("read")?,
    })
}

fn template_error(message: String, span: Span) -> RenderError {
    RenderError::Failed {
        code: "TEMPLATE_ERROR",
        message,
        span,
    }
}

/// Returns the input as the log shows it.
fn to_recorded_input(input: &Value) -> RawJson {
    let raw = RawJson::from_serializable(input);
    let bytes = raw.text().len();
    if bytes <= INPUTS_BYTES_MAX {
        return raw;
    }
    let sha256 = hex::encode(sha2::Sha256::digest(raw.text().as_bytes()));
    RawJson::from_serializable(&json!({"truncated": true, "bytes": bytes, "sha256": sha256}))
}
