//! Runs a program in a scope and returns its value or error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::machinery::{eval, make_string_output};
use minijinja::value::Value as Native;
use minijinja::{AutoEscape, Error, ErrorKind};
use model::number_range::{NumberRange, RANGE_ITEMS_MAX};
use model::source::Span;
use serde_json::Value;

use crate::template::compile::{OutputForm, Program};
use crate::template::environment::ENVIRONMENT;
use crate::template::names::RootNames;
use crate::template::origin::{self, WrittenPiece};
use crate::template::reference::{self, BodyPath};
use crate::template::scope::{Scope, UnavailableBody};
use crate::template::session::{self, RenderGuard, RenderSession};
use crate::template::taint::{self, SecretOrigin, is_plain_path};
use crate::template::tree::{Piece, RenderError, Rendered, RenderedPieces, Template};
use crate::template::{convert, operators};

/// Longer expressions are not quoted in messages.
const QUOTED_BYTES_MAX: usize = 120;

/// Larger bodies are returned by plain paths without being rendered.
const PASS_THROUGH_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Renders a template to a value.
pub(crate) fn render_value(template: &Template, scope: &Scope) -> Result<Rendered, RenderError> {
    if template.program().form == OutputForm::Plain {
        let value = Value::String(template.source().to_owned());
        return Ok(Rendered::without_secrets(value));
    }
    if let Some(value) = pass_through_value(template, scope) {
        return Ok(Rendered::without_secrets(value));
    }
    let guard = session::start_rendering(scope, false);
    let value = run_program(template.program(), scope).and_then(|value| convert::to_json(&value));
    let (value, session) = finish_rendering(template, guard, value)?;
    let value_taint = taint::taint_of_value(template, &value, &session);
    Ok(Rendered {
        value,
        taint: value_taint.taint,
        secrets: value_taint.secrets,
    })
}

/// Returns the path into a body, if a template is one plain path into it.
pub(crate) fn find_body_path(template: &Template, scope: &Scope) -> Result<Option<BodyPath>, RenderError> {
    Ok(find_named_path(template, scope)?.map(|named_path| named_path.path))
}

/// The value inside a body that a template refers to.
struct NamedBodyPath {
    path: BodyPath,
    /// Whether it is an HTTP response with `body` as a second name of `data`.
    names_http_body: bool,
}

fn find_named_path(template: &Template, scope: &Scope) -> Result<Option<NamedBodyPath>, RenderError> {
    let program = template.program();
    if program.form != OutputForm::Value || !is_plain_path(template.source()) {
        return Ok(None);
    }
    let guard = session::start_binding(scope);
    let ran = run_program(program, scope);
    let session = session::finish_session(guard);
    match ran {
        _ if !session.needs.is_empty() => Err(RenderError::Needs(session.needs)),
        Ok(value) => Ok(reference::body_path(&value).map(|bound| NamedBodyPath {
            path: bound,
            names_http_body: session.has_http_response,
        })),
        // The later rendering reports the error.
        Err(_) => Ok(None),
    }
}

/// Returns the value of a plain path into a large loaded body. It is not rendered, so its size does not count against
/// the budget.
fn pass_through_value(template: &Template, scope: &Scope) -> Option<Value> {
    if scope.loaded.bodies.is_empty() {
        return None;
    }
    let NamedBodyPath {
        path: bound,
        names_http_body,
    } = find_named_path(template, scope).ok()??;
    if bound.reference.meta.bytes <= PASS_THROUGH_BYTES_MIN {
        return None;
    }
    let body = scope.loaded.bodies.get(&bound.reference.uri)?.json();
    let mut value = reference::find_path(body, &bound.paths).cloned()?;
    if names_http_body
        && let Value::Object(response) = &mut value
        && let Some(data) = response.get("data").cloned()
    {
        response.entry("body").or_insert(data);
    }
    Some(value)
}

/// Returns the range, if a template is exactly `range(…)`.
pub(crate) fn render_number_range(template: &Template, scope: &Scope) -> Result<Option<NumberRange>, RenderError> {
    let Some(program) = &template.program().range_arguments else {
        return Ok(None);
    };
    let guard = session::start_rendering(scope, false);
    let range = run_program(program, scope).and_then(|arguments| parse_range(&arguments));
    let (range, _) = finish_rendering(template, guard, range)?;
    let items = range.len();
    if items > RANGE_ITEMS_MAX {
        return Err(RenderError::Failed {
            code: "LIMIT_LOOP_ITEMS",
            message: format!("the range has {items} items; the limit for a loop is {RANGE_ITEMS_MAX}"),
            span: template.span(),
        });
    }
    Ok(Some(range))
}

/// Creates the range from its evaluated arguments.
fn parse_range(arguments: &Native) -> Result<NumberRange, Error> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidOperation, message);
    let mut numbers: [Option<i64>; 3] = [None; 3];
    for (position, argument) in arguments.try_iter()?.enumerate() {
        if argument.is_none() && position > 0 {
            continue;
        }
        let number = i64::try_from(argument.clone()).map_err(|_| {
            let (position, kind) = (position + 1, argument.kind());
            invalid(format!(
                "argument {position} of range() is a {kind}, not a whole number"
            ))
        })?;
        if let Some(slot) = numbers.get_mut(position) {
            *slot = Some(number);
        }
    }
    let [first, second, step] = numbers;
    NumberRange::from_arguments(first.unwrap_or(0), second, step).map_err(|error| invalid(error.to_string()))
}

/// Renders a template as a condition.
pub(crate) fn render_condition(template: &Template, scope: &Scope) -> Result<bool, RenderError> {
    if template.program().form == OutputForm::Plain {
        return Ok(is_true(&Native::from(template.source())));
    }
    let guard = session::start_rendering(scope, false);
    let condition = run_program(template.program(), scope).map(|value| is_true(&value));
    finish_rendering(template, guard, condition).map(|(condition, _)| condition)
}

/// Renders a template to the author's text and the values between, with the origin of each.
pub(crate) fn render_pieces(template: &Template, scope: &Scope) -> Result<RenderedPieces, RenderError> {
    let program = template.program();
    let source = template.source();
    if program.form == OutputForm::Plain {
        let written = WrittenPiece {
            piece: Piece::Text(source.to_owned()),
            range: 0..source.len(),
            is_json: false,
        };
        let (pieces, origins) = origin::join_pieces(vec![written], source);
        return Ok(RenderedPieces {
            pieces,
            origins,
            ..RenderedPieces::default()
        });
    }
    if program.has_captures {
        return Err(RenderError::Failed {
            code: "TEMPLATE_ERROR",
            message: "a captured block mixes text and values; write its content inline instead".to_owned(),
            span: template.span(),
        });
    }
    let guard = session::start_rendering(scope, true);
    let ran = run_program(program, scope).and_then(|value| match program.form {
        OutputForm::Value => Ok(vec![WrittenPiece {
            piece: operators::to_piece(&value)?,
            range: 0..source.len(),
            is_json: value.is_safe(),
        }]),
        OutputForm::Plain | OutputForm::Text => Ok(session::with_session(|session| {
            session.pieces.take().unwrap_or_default()
        })),
    });
    let (written, session) = finish_rendering(template, guard, ran)?;
    let (masked_pieces, secrets) = taint::taint_of_pieces(template, &written, &session);
    let (pieces, origins) = origin::join_pieces(written, source);
    Ok(RenderedPieces {
        pieces,
        origins,
        masked: masked_pieces.map(merge_pieces),
        secrets,
    })
}

/// Joins adjacent texts.
fn merge_pieces(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        match (merged.last_mut(), piece) {
            (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
            (_, piece) => merged.push(piece),
        }
    }
    merged
}

/// The truth of a value in Jinja, with the texts `true` and `false` as booleans.
fn is_true(value: &Native) -> bool {
    match value.as_str().map(str::trim) {
        Some(text) if text.eq_ignore_ascii_case("false") => false,
        Some(text) => !text.is_empty(),
        None => value.is_true(),
    }
}

/// Runs a program. A panic in the library fails the template, not the process.
fn run_program(program: &Program, scope: &Scope) -> Result<Native, Error> {
    catch_unwind(AssertUnwindSafe(|| evaluate(program, scope))).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            "the expression cannot be evaluated",
        ))
    })
}

fn evaluate(program: &Program, scope: &Scope) -> Result<Native, Error> {
    let roots = RootNames::resolve(&program.roots, scope);
    let ran = program.with_code(|code| {
        let mut text = String::new();
        let mut out = make_string_output(&mut text);
        let (value, _) = eval(
            &ENVIRONMENT,
            &code.instructions,
            roots,
            &code.blocks,
            &mut out,
            AutoEscape::None,
        )?;
        drop(out);
        Ok(match program.form {
            OutputForm::Value => value.unwrap_or_default(),
            OutputForm::Plain | OutputForm::Text => Native::from(text),
        })
    });
    ran.unwrap_or_else(|| Ok(Native::from("")))
}

/// Ends a rendering and returns its result. If values must be loaded first, returns `Needs` before any other error.
fn finish_rendering<T>(
    template: &Template,
    guard: RenderGuard,
    result: Result<T, Error>,
) -> Result<(T, RenderSession), RenderError> {
    let session = session::finish_session(guard);
    if !session.needs.is_empty() {
        return Err(RenderError::Needs(session.needs));
    }
    if let Some(UnavailableBody { code, message }) = &session.unavailable {
        return Err(RenderError::Failed {
            code,
            message: message.clone(),
            span: template.span(),
        });
    }
    match result {
        Ok(value) => Ok((value, session)),
        Err(error) => Err(render_failure(template, &error, session.origin)),
    }
}

fn render_failure(template: &Template, error: &Error, origin: SecretOrigin) -> RenderError {
    let code = match error.kind() {
        ErrorKind::UndefinedError => "TEMPLATE_UNDEFINED",
        ErrorKind::OutOfFuel => "TEMPLATE_LIMIT",
        _ => "TEMPLATE_ERROR",
    };
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), ToOwned::to_owned);
    // The library's messages quote operands, and one of them may be a secret.
    let detail = if origin != SecretOrigin::Plain && code == "TEMPLATE_ERROR" {
        "the expression failed; details are hidden because it reads a secret".to_owned()
    } else {
        detail
    };
    let message = match code {
        "TEMPLATE_LIMIT" => format!("the template exceeds its budget: {detail}"),
        "TEMPLATE_UNDEFINED" => detail,
        _ => match error.range().and_then(|range| template.source().get(range)) {
            Some(expression) if expression.len() <= QUOTED_BYTES_MAX => {
                format!("{detail}, in `{expression}`")
            }
            _ => detail,
        },
    };
    let span = error
        .range()
        .map_or(template.span(), |range| source_span(template, range));
    RenderError::Failed { code, message, span }
}

/// Converts a range of the template's text to a span of the playbook. The lines of a block scalar have the column of
/// the first line and correspond one to one.
fn source_span(template: &Template, range: std::ops::Range<usize>) -> Span {
    let span = template.span();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let before = template.source().get(..range.start).unwrap_or_default();
    let line = small(before.matches('\n').count());
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let margin = line.saturating_mul(span.column.saturating_sub(1));
    let start = span.start.saturating_add(margin).saturating_add(small(range.start));
    Span {
        line: span.line.saturating_add(line),
        column: span.column.saturating_add(small(column)),
        start,
        end: start.saturating_add(small(range.len())),
    }
}
