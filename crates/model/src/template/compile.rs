//! Checks and compiles templates: parse, rewrite, check; compile on the first run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{CodeGenerator, Instructions, Token, Tokenizer, parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

use crate::template::budget::{ELIF_MAX, SOURCE_BYTES_MAX, TAG_TOKENS_MAX};
use crate::template::rewrite::{PathUse, Rewriter, Taken, range, range_call};
use crate::template::tree::SyntaxError;

/// The type of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Plain text without a template; nothing runs.
    Plain,
    /// The value of one expression, with its type.
    Value,
    /// Rendered text.
    Text,
}

/// The instructions of one program, borrowed from its source.
pub(crate) struct Code<'s> {
    pub(crate) instructions: Instructions<'s>,
    pub(crate) blocks: BTreeMap<&'s str, Instructions<'s>>,
}

self_cell::self_cell!(
    struct Cell {
        owner: Arc<str>,
        #[not_covariant]
        dependent: Code,
    }
);

/// A checked template. It is compiled when it first runs, because code is large and most templates of a large document
/// never run.
pub(crate) struct Program {
    source: Arc<str>,
    kind: Kind,
    code: OnceLock<Cell>,
    pub(crate) form: Form,
    pub(crate) roots: Vec<Arc<str>>,
    pub(crate) paths: Vec<String>,
    pub(crate) uses: Vec<PathUse>,
    pub(crate) captures: bool,
    /// Whether it contains more than text and printed values.
    pub(crate) has_statements: bool,
    /// For exactly `range(…)`: the program that returns its arguments as a list.
    pub(crate) range_arguments: Option<Box<Program>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("form", &self.form)
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

/// How a source is parsed.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Scalar,
    Condition,
    /// A scalar that is exactly `range(…)`; only its arguments run.
    RangeArguments,
}

/// What the rewriter found, without the code.
struct Findings {
    form: Form,
    roots: Vec<Arc<str>>,
    uses: Vec<PathUse>,
    captures: bool,
    has_statements: bool,
    is_range: bool,
}

impl Program {
    /// Checks a scalar.
    pub(crate) fn scalar(source: &Arc<str>) -> Result<Self, SyntaxError> {
        check_size(source)?;
        if !["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
            return Ok(Self::new(source, Kind::Scalar, None));
        }
        Self::check(source, Kind::Scalar)
    }

    /// Checks a condition.
    pub(crate) fn condition(source: &Arc<str>) -> Result<Self, SyntaxError> {
        check_size(source)?;
        Self::check(source, Kind::Condition)
    }

    /// Calls `f` with the code.
    pub(crate) fn with_code<T>(&self, f: impl for<'s> FnOnce(&Code<'s>) -> T) -> Option<T> {
        if self.form == Form::Plain {
            return None;
        }
        let cell = self.code.get_or_init(|| {
            let source = self.source.clone();
            Cell::try_new(source, |source| {
                self.kind.compile(source).map(|(code, _)| code)
            })
            .expect("a checked template compiles")
        });
        Some(cell.with_dependent(|_, code| f(code)))
    }

    fn check(source: &Arc<str>, kind: Kind) -> Result<Self, SyntaxError> {
        let (_, findings) = kind.compile(source)?;
        let is_range = findings.is_range;
        let mut program = Self::new(source, kind, Some(findings));
        if is_range {
            let arguments = Self::check(source, Kind::RangeArguments)?;
            program.range_arguments = Some(Box::new(arguments));
        }
        Ok(program)
    }

    fn new(source: &Arc<str>, kind: Kind, findings: Option<Findings>) -> Self {
        let findings = findings.unwrap_or_else(|| Findings {
            form: Form::Plain,
            roots: Vec::new(),
            uses: Vec::new(),
            captures: false,
            has_statements: false,
            is_range: false,
        });
        let paths = findings.uses.iter().map(|found| found.path.clone());
        let mut paths: Vec<_> = paths.collect();
        paths.sort();
        paths.dedup();
        Self {
            source: source.clone(),
            kind,
            code: OnceLock::new(),
            form: findings.form,
            roots: findings.roots,
            paths,
            uses: findings.uses,
            captures: findings.captures,
            has_statements: findings.has_statements,
            range_arguments: None,
        }
    }
}

impl Kind {
    fn compile(self, source: &str) -> Result<(Code<'_>, Findings), SyntaxError> {
        match self {
            Self::Scalar => compile_scalar(source, Taken::Used),
            Self::Condition if source.contains("{{") || source.contains("{%") => {
                compile_scalar(source, Taken::Maybe)
            }
            Self::Condition => {
                check_tags(source, true)?;
                let expr = parse_expr(source).map_err(|error| syntax(&error))?;
                compile_expr(source, &expr, Taken::Maybe)
            }
            Self::RangeArguments => compile_range_arguments(source),
        }
    }
}

/// Whether a text can be parsed; the names in it are not checked.
pub(crate) fn is_syntax(source: &str) -> bool {
    let config = SyntaxConfig::default();
    check_tags(source, false).is_ok() && parse(source, "<template>", config).is_ok()
}

fn check_size(source: &str) -> Result<(), SyntaxError> {
    if source.len() > SOURCE_BYTES_MAX {
        return Err(SyntaxError {
            message: "the template exceeds 64 KiB".to_owned(),
            range: None,
        });
    }
    Ok(())
}

/// Rejects long chains of operators. The parser builds them in a loop, but the deep tree overflows a small stack when
/// it is walked or dropped.
fn check_tags(source: &str, in_expression: bool) -> Result<(), SyntaxError> {
    let mut tokens = Tokenizer::new(source, "<template>", in_expression, SyntaxConfig::default());
    let (mut nesting, mut branches) = (0, 0);
    while let Ok(Some((token, span))) = tokens.next_token() {
        if matches!(token, Token::Ident("elif")) {
            branches += 1;
        }
        nesting = match token {
            Token::VariableStart | Token::BlockStart => 0,
            Token::Comma
            | Token::Colon
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Float(_) => nesting,
            _ => nesting + 1,
        };
        if nesting > TAG_TOKENS_MAX || branches > ELIF_MAX {
            return Err(SyntaxError {
                message: "the expression is too long; split it with `{% set %}`".to_owned(),
                range: Some(range(span)),
            });
        }
    }
    Ok(())
}

/// Parses a scalar as a whole template.
fn parse_scalar(source: &str) -> Result<Stmt<'_>, SyntaxError> {
    let syntax_config = SyntaxConfig::builder()
        .keep_trailing_newline(true)
        .build()
        .map_err(|error| syntax(&error))?;
    check_tags(source, false)?;
    parse(source, "<template>", syntax_config).map_err(|error| syntax(&error))
}

fn compile_scalar(source: &str, taken: Taken) -> Result<(Code<'_>, Findings), SyntaxError> {
    let tree = parse_scalar(source)?;
    let Stmt::Template(template) = &tree else {
        return Err(not_a_template());
    };
    if let Some(expr) = only_expression(&template.children) {
        let (code, mut findings) = compile_expr(source, expr, taken)?;
        findings.is_range = range_call(expr).is_some();
        return Ok((code, findings));
    }
    if taken == Taken::Maybe && mixes_text(&template.children) {
        return Err(SyntaxError {
            message:
                "a condition must be one expression: put all of it inside the braces, or omit the braces"
                    .to_owned(),
            range: None,
        });
    }
    let mut rewriter = Rewriter::new(source);
    let body = rewriter.body(&template.children)?;
    let mut generator = CodeGenerator::new("<template>", source);
    for statement in &body {
        generator.compile_stmt(statement);
    }
    let mut findings = found(rewriter, Form::Text);
    let is_printed = |child: &Stmt<'_>| matches!(child, Stmt::EmitRaw(_) | Stmt::EmitExpr(_));
    findings.has_statements = !template.children.iter().all(is_printed);
    Ok((finish(generator), findings))
}

fn compile_expr<'s>(
    source: &'s str,
    expr: &Expr<'s>,
    taken: Taken,
) -> Result<(Code<'s>, Findings), SyntaxError> {
    let mut rewriter = Rewriter::new(source);
    let expr = match taken {
        Taken::Used => rewriter.printed(expr)?,
        _ => rewriter.expression(expr, taken)?,
    };
    let mut generator = CodeGenerator::new("<template>", source);
    generator.compile_expr(&expr);
    Ok((finish(generator), found(rewriter, Form::Value)))
}

/// Compiles the arguments of a scalar that is exactly `range(…)`, as a list.
fn compile_range_arguments(source: &str) -> Result<(Code<'_>, Findings), SyntaxError> {
    let tree = parse_scalar(source)?;
    let Stmt::Template(template) = &tree else {
        return Err(not_a_template());
    };
    let call = only_expression(&template.children).and_then(range_call);
    let call = call.ok_or_else(not_a_template)?;
    let mut rewriter = Rewriter::new(source);
    let arguments = rewriter.range_arguments(call)?;
    let mut generator = CodeGenerator::new("<template>", source);
    generator.compile_expr(&arguments);
    Ok((finish(generator), found(rewriter, Form::Value)))
}

fn not_a_template() -> SyntaxError {
    SyntaxError {
        message: "this is not a template".to_owned(),
        range: None,
    }
}

/// Returns the expression of a scalar that is exactly one `{{ … }}`; line ends after it, as in a block scalar, are
/// ignored.
fn only_expression<'a, 's>(children: &'a [Stmt<'s>]) -> Option<&'a Expr<'s>> {
    let mut only = None;
    for child in children {
        match child {
            Stmt::EmitExpr(node) if only.is_none() => only = Some(&node.expr),
            Stmt::EmitRaw(raw)
                if only.is_some() && raw.raw.trim_end_matches(['\r', '\n']).is_empty() => {}
            _ => return None,
        }
    }
    only
}

/// Whether values are mixed with text, as in `{{ a }} == 'b'`; such a condition would always be true.
fn mixes_text(children: &[Stmt<'_>]) -> bool {
    let has_value = children
        .iter()
        .any(|child| matches!(child, Stmt::EmitExpr(_)));
    let has_text =
        |child: &Stmt<'_>| matches!(child, Stmt::EmitRaw(raw) if !raw.raw.trim().is_empty());
    has_value && children.iter().any(has_text)
}

fn found(rewriter: Rewriter<'_>, form: Form) -> Findings {
    Findings {
        form,
        roots: rewriter.roots.iter().map(|root| Arc::from(*root)).collect(),
        uses: rewriter.uses,
        captures: rewriter.captures,
        has_statements: false,
        is_range: false,
    }
}

fn finish(generator: CodeGenerator<'_>) -> Code<'_> {
    let (instructions, blocks) = generator.finish();
    Code {
        instructions,
        blocks,
    }
}

fn syntax(error: &minijinja::Error) -> SyntaxError {
    SyntaxError {
        message: error
            .detail()
            .map_or_else(|| error.kind().to_string(), ToOwned::to_owned),
        range: error.range(),
    }
}
