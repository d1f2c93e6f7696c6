//! Runs a program in a scope and returns its value or error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use minijinja::machinery::{eval, make_string_output};
use minijinja::value::Value as Native;
use minijinja::{AutoEscape, Error, ErrorKind};
use serde_json::Value;

use crate::number_range::{NumberRange, RANGE_ITEMS_MAX};
use crate::source::Span;
use crate::template::compile::{Form, Program};
use crate::template::environment::ENVIRONMENT;
use crate::template::names::Roots;
use crate::template::origin::{self, WrittenPiece};
use crate::template::reference::{self, Bound};
use crate::template::scope::{Scope, Unavailable};
use crate::template::session::{self, Guard, Session};
use crate::template::taint::{self, Origin, is_plain_path};
use crate::template::tree::{Piece, RenderError, Rendered, RenderedPieces, Template};
use crate::template::{convert, operators};

/// Longer expressions are not quoted in messages.
const QUOTED_BYTES_MAX: usize = 120;

/// Larger bodies are returned by plain paths without being rendered.
const TAKEN_BYTES_MIN: u64 = 4 * 1024 * 1024;

/// Renders a template to a value.
pub(crate) fn value(template: &Template, scope: &Scope) -> Result<Rendered, RenderError> {
    if template.program().form == Form::Plain {
        let value = Value::String(template.source().to_owned());
        return Ok(Rendered::clean(value));
    }
    if let Some(value) = taken(template, scope) {
        return Ok(Rendered::clean(value));
    }
    let guard = session::enter(scope, false);
    let value = run(template.program(), scope).and_then(|value| convert::to_json(&value));
    let (value, session) = settle(template, guard, value)?;
    let found = taint::of_value(template, &value, &session);
    Ok(Rendered {
        value,
        taint: found.taint,
        secrets: found.secrets,
    })
}

/// Returns the path into a body, if a template is one plain path into it.
pub(crate) fn bound(template: &Template, scope: &Scope) -> Result<Option<Bound>, RenderError> {
    Ok(named(template, scope)?.map(|named| named.bound))
}

/// The value inside a body that a template refers to.
struct Named {
    bound: Bound,
    /// Whether it is an HTTP response with `body` as a second name of `data`.
    names_http_body: bool,
}

fn named(template: &Template, scope: &Scope) -> Result<Option<Named>, RenderError> {
    let program = template.program();
    if program.form != Form::Value || !is_plain_path(template.source()) {
        return Ok(None);
    }
    let guard = session::enter_binding(scope);
    let ran = run(program, scope);
    let session = session::finish(guard);
    match ran {
        _ if !session.needs.is_empty() => Err(RenderError::Needs(session.needs)),
        Ok(value) => Ok(reference::bound(&value).map(|bound| Named {
            bound,
            names_http_body: session.has_http_response,
        })),
        // The later rendering reports the error.
        Err(_) => Ok(None),
    }
}

/// Returns the value of a plain path into a large loaded body. It is not rendered, so its size does not count against
/// the budget.
fn taken(template: &Template, scope: &Scope) -> Option<Value> {
    if scope.loaded.bodies.is_empty() {
        return None;
    }
    let Named {
        bound,
        names_http_body,
    } = named(template, scope).ok()??;
    if bound.reference.meta.bytes <= TAKEN_BYTES_MIN {
        return None;
    }
    let body = scope.loaded.bodies.get(&bound.reference.uri)?.json();
    let mut value = reference::find(body, &bound.paths).cloned()?;
    if names_http_body
        && let Value::Object(response) = &mut value
        && let Some(data) = response.get("data").cloned()
    {
        response.entry("body").or_insert(data);
    }
    Some(value)
}

/// Returns the range, if a template is exactly `range(…)`.
pub(crate) fn number_range(
    template: &Template,
    scope: &Scope,
) -> Result<Option<NumberRange>, RenderError> {
    let Some(program) = &template.program().range_arguments else {
        return Ok(None);
    };
    let guard = session::enter(scope, false);
    let range = run(program, scope).and_then(|arguments| range_of(&arguments));
    let (range, _) = settle(template, guard, range)?;
    let items = range.len();
    if items > RANGE_ITEMS_MAX {
        return Err(RenderError::Failed {
            code: "LIMIT_LOOP_ITEMS",
            message: format!(
                "the range has {items} items; the limit for a loop is {RANGE_ITEMS_MAX}"
            ),
            span: template.span(),
        });
    }
    Ok(Some(range))
}

/// Creates the range from its evaluated arguments.
fn range_of(arguments: &Native) -> Result<NumberRange, Error> {
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
        if let Some(place) = numbers.get_mut(position) {
            *place = Some(number);
        }
    }
    let [first, second, step] = numbers;
    NumberRange::from_arguments(first.unwrap_or(0), second, step)
        .map_err(|error| invalid(error.to_string()))
}

/// Renders a template as a condition.
pub(crate) fn truth(template: &Template, scope: &Scope) -> Result<bool, RenderError> {
    if template.program().form == Form::Plain {
        return Ok(is_true(&Native::from(template.source())));
    }
    let guard = session::enter(scope, false);
    let truth = run(template.program(), scope).map(|value| is_true(&value));
    settle(template, guard, truth).map(|(truth, _)| truth)
}

/// Renders a template to the author's text and the values between, with the origin of each.
pub(crate) fn pieces(template: &Template, scope: &Scope) -> Result<RenderedPieces, RenderError> {
    let program = template.program();
    let source = template.source();
    if program.form == Form::Plain {
        let written = WrittenPiece {
            piece: Piece::Text(source.to_owned()),
            range: 0..source.len(),
            is_json: false,
        };
        let (pieces, origins) = origin::join(vec![written], source);
        return Ok(RenderedPieces {
            pieces,
            origins,
            ..RenderedPieces::default()
        });
    }
    if program.captures {
        return Err(RenderError::Failed {
            code: "TEMPLATE_ERROR",
            message: "a captured block mixes text and values; write its content inline instead"
                .to_owned(),
            span: template.span(),
        });
    }
    let guard = session::enter(scope, true);
    let ran = run(program, scope).and_then(|value| match program.form {
        Form::Value => Ok(vec![WrittenPiece {
            piece: operators::piece(&value)?,
            range: 0..source.len(),
            is_json: value.is_safe(),
        }]),
        Form::Plain | Form::Text => Ok(session::with(|session| {
            session.pieces.take().unwrap_or_default()
        })),
    });
    let (written, session) = settle(template, guard, ran)?;
    let (shown, secrets) = taint::of_pieces(template, &written, &session);
    let (pieces, origins) = origin::join(written, source);
    Ok(RenderedPieces {
        pieces,
        origins,
        shown: shown.map(merge),
        secrets,
    })
}

/// Joins adjacent texts.
fn merge(pieces: Vec<Piece>) -> Vec<Piece> {
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
fn run(program: &Program, scope: &Scope) -> Result<Native, Error> {
    catch_unwind(AssertUnwindSafe(|| evaluate(program, scope))).unwrap_or_else(|_| {
        Err(Error::new(
            ErrorKind::InvalidOperation,
            "the expression cannot be evaluated",
        ))
    })
}

fn evaluate(program: &Program, scope: &Scope) -> Result<Native, Error> {
    let roots = Roots::resolve(&program.roots, scope);
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
            Form::Value => value.unwrap_or_default(),
            Form::Plain | Form::Text => Native::from(text),
        })
    });
    ran.unwrap_or_else(|| Ok(Native::from("")))
}

/// Ends a rendering and returns its result. If values must be loaded first, returns `Needs` before any other error.
fn settle<T>(
    template: &Template,
    guard: Guard,
    result: Result<T, Error>,
) -> Result<(T, Session), RenderError> {
    let session = session::finish(guard);
    if !session.needs.is_empty() {
        return Err(RenderError::Needs(session.needs));
    }
    if let Some(Unavailable { code, message }) = &session.unavailable {
        return Err(RenderError::Failed {
            code,
            message: message.clone(),
            span: template.span(),
        });
    }
    match result {
        Ok(value) => Ok((value, session)),
        Err(error) => Err(failure(template, &error, session.origin)),
    }
}

fn failure(template: &Template, error: &Error, origin: Origin) -> RenderError {
    let code = match error.kind() {
        ErrorKind::UndefinedError => "TEMPLATE_UNDEFINED",
        ErrorKind::OutOfFuel => "TEMPLATE_LIMIT",
        _ => "TEMPLATE_ERROR",
    };
    let detail = error
        .detail()
        .map_or_else(|| error.kind().to_string(), ToOwned::to_owned);
    // The library's messages quote operands, and one of them may be a secret.
    let detail = if origin != Origin::Plain && code == "TEMPLATE_ERROR" {
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
        .map_or(template.span(), |range| place(template, range));
    RenderError::Failed {
        code,
        message,
        span,
    }
}

/// Converts a range of the template's text to a span of the playbook. The lines of a block scalar have the column of
/// the first line and correspond one to one.
fn place(template: &Template, range: std::ops::Range<usize>) -> Span {
    let whole = template.span();
    let small = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let before = template.source().get(..range.start).unwrap_or_default();
    let line = small(before.matches('\n').count());
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    let margin = line.saturating_mul(whole.column.saturating_sub(1));
    let start = whole
        .start
        .saturating_add(margin)
        .saturating_add(small(range.start));
    Span {
        line: whole.line.saturating_add(line),
        column: whole.column.saturating_add(small(column)),
        start,
        end: start.saturating_add(small(range.len())),
    }
}
