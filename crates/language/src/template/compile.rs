//! Checks and compiles templates: parse, rewrite, check; compile on the first run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use minijinja::machinery::ast::{Expr, Stmt};
use minijinja::machinery::{CodeGenerator, Instructions, Token, Tokenizer, parse, parse_expr};
use minijinja::syntax::SyntaxConfig;

use crate::template::budget::{ELIF_MAX, SOURCE_BYTES_MAX, TAG_TOKENS_MAX};
use crate::template::rewrite::{PathUse, Rewriter, ValueUse, byte_range, range_call};
use crate::template::tree::SyntaxError;

/// The type of a program's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputForm {
    /// Plain text without a template; nothing runs.
    Plain,
    /// The value of one expression, with its type.
    Value,
    /// Rendered text.
    Text,
}

/// The instructions of one program, borrowed from its source.
pub(crate) struct CompiledCode<'s> {
    pub(crate) instructions: Instructions<'s>,
    pub(crate) blocks: BTreeMap<&'s str, Instructions<'s>>,
}

self_cell::self_cell!(
    struct Cell {
        owner: Arc<str>,
        #[not_covariant]
        dependent: CompiledCode,
    }
);

/// A checked template. It is compiled when it first runs, because code is large and most templates of a large document
/// never run.
pub(crate) struct Program {
    source: Arc<str>,
    kind: SourceKind,
    code: OnceLock<Cell>,
    pub(crate) form: OutputForm,
    pub(crate) roots: Vec<Arc<str>>,
    pub(crate) paths: Vec<String>,
    pub(crate) uses: Vec<PathUse>,
    pub(crate) has_captures: bool,
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
enum SourceKind {
    Scalar,
    Condition,
    /// A scalar that is exactly `range(…)`; only its arguments run.
    RangeArguments,
}

/// What the rewriter found, without the code.
struct ProgramFindings {
    form: OutputForm,
    roots: Vec<Arc<str>>,
    uses: Vec<PathUse>,
    has_captures: bool,
    has_statements: bool,
    is_range: bool,
}

impl Program {
    /// Checks a scalar.
    pub(crate) fn scalar(source: &Arc<str>) -> Result<Self, SyntaxError> {
        check_size(source)?;
        if !["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
            return Ok(Self::new(source, SourceKind::Scalar, None));
        }
        Self::check(source, SourceKind::Scalar)
    }

    /// Checks a condition.
    pub(crate) fn condition(source: &Arc<str>) -> Result<Self, SyntaxError> {
        check_size(source)?;
        Self::check(source, SourceKind::Condition)
    }

    /// Calls `f` with the code.
    pub(crate) fn with_code<T>(&self, f: impl for<'s> FnOnce(&CompiledCode<'s>) -> T) -> Option<T> {
        if self.form == OutputForm::Plain {
            return None;
        }
        let cell = self.code.get_or_init(|| {
            let source = self.source.clone();
            Cell::try_new(source, |source| self.kind.compile(source).map(|(code, _)| code))
                .expect("a checked template compiles")
        });
        Some(cell.with_dependent(|_, code| f(code)))
    }

    fn check(source: &Arc<str>, kind: SourceKind) -> Result<Self, SyntaxError> {
        let (_, findings) = kind.compile(source)?;
        let is_range = findings.is_range;
        let mut program = Self::new(source, kind, Some(findings));
        if is_range {
            let arguments = Self::check(source, SourceKind::RangeArguments)?;
            program.range_arguments = Some(Box::new(arguments));
        }
        Ok(program)
    }

    fn new(source: &Arc<str>, kind: SourceKind, findings: Option<ProgramFindings>) -> Self {
        let findings = findings.unwrap_or_else(|| ProgramFindings {
            form: OutputForm::Plain,
            roots: Vec::new(),
            uses: Vec::new(),
            has_captures: false,
            has_statements: false,
            is_range: false,
        });
        let paths = findings.uses.iter().map(|path_use| path_use.path.clone());
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
            has_captures: findings.has_captures,
            has_statements: findings.has_statements,
            range_arguments: None,
        }
    }
}

impl SourceKind {
    fn compile(self, source: &str) -> Result<(CompiledCode<'_>, ProgramFindings), SyntaxError> {
        match self {
            Self::Scalar => compile_scalar(source, ValueUse::Required),
            Self::Condition if source.contains("{{") || source.contains("{%") => {
                compile_scalar(source, ValueUse::Optional)
            }
            Self::Condition => {
                check_tags(source, true)?;
                let expr = parse_expr(source).map_err(|error| to_syntax_error(&error))?;
                compile_expr(source, &expr, ValueUse::Optional)
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
            Token::Comma | Token::Colon | Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Float(_) => nesting,
            _ => nesting + 1,
        };
        if nesting > TAG_TOKENS_MAX || branches > ELIF_MAX {
            return Err(SyntaxError {
                message: "the expression is too long; split it with `{% set %}`".to_owned(),
                range: Some(byte_range(span)),
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
        .map_err(|error| to_syntax_error(&error))?;
    check_tags(source, false)?;
    parse(source, "<template>", syntax_config).map_err(|error| to_syntax_error(&error))
}

fn compile_scalar(source: &str, value_use: ValueUse) -> Result<(CompiledCode<'_>, ProgramFindings), SyntaxError> {
    let tree = parse_scalar(source)?;
    let Stmt::Template(template) = &tree else {
        return Err(not_a_template_error());
    };
    if let Some(expr) = only_expression(&template.children) {
        let (code, mut findings) = compile_expr(source, expr, value_use)?;
        findings.is_range = range_call(expr).is_some();
        return Ok((code, findings));
    }
    if value_use == ValueUse::Optional && mixes_text(&template.children) {
        return Err(SyntaxError {
            message: "a condition must be one expression: put all of it inside the braces, or omit the braces"
                .to_owned(),
            range: None,
        });
    }
    let mut rewriter = Rewriter::new(source);
    let body = rewriter.rewrite_body(&template.children)?;
    let mut generator = CodeGenerator::new("<template>", source);
    for statement in &body {
        generator.compile_stmt(statement);
    }
    let mut findings = to_findings(rewriter, OutputForm::Text);
    let is_printed = |child: &Stmt<'_>| matches!(child, Stmt::EmitRaw(_) | Stmt::EmitExpr(_));
    findings.has_statements = !template.children.iter().all(is_printed);
    Ok((finish_code(generator), findings))
}

fn compile_expr<'s>(
    source: &'s str,
    expr: &Expr<'s>,
    value_use: ValueUse,
) -> Result<(CompiledCode<'s>, ProgramFindings), SyntaxError> {
    let mut rewriter = Rewriter::new(source);
    let expr = match value_use {
        ValueUse::Required => rewriter.rewrite_printed(expr)?,
        _ => rewriter.rewrite_expression(expr, value_use)?,
    };
    let mut generator = CodeGenerator::new("<template>", source);
    generator.compile_expr(&expr);
    Ok((finish_code(generator), to_findings(rewriter, OutputForm::Value)))
}

/// Compiles the arguments of a scalar that is exactly `range(…)`, as a list.
fn compile_range_arguments(source: &str) -> Result<(CompiledCode<'_>, ProgramFindings), SyntaxError> {
    let tree = parse_scalar(source)?;
    let Stmt::Template(template) = &tree else {
        return Err(not_a_template_error());
    };
    let call = only_expression(&template.children).and_then(range_call);
    let call = call.ok_or_else(not_a_template_error)?;
    let mut rewriter = Rewriter::new(source);
    let arguments = rewriter.rewrite_range_arguments(call)?;
    let mut generator = CodeGenerator::new("<template>", source);
    generator.compile_expr(&arguments);
    Ok((finish_code(generator), to_findings(rewriter, OutputForm::Value)))
}

fn not_a_template_error() -> SyntaxError {
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
            Stmt::EmitRaw(raw) if only.is_some() && raw.raw.trim_end_matches(['\r', '\n']).is_empty() => {}
            _ => return None,
        }
    }
    only
}

/// Whether values are mixed with text, as in `{{ a }} == 'b'`; such a condition would always be true.
fn mixes_text(children: &[Stmt<'_>]) -> bool {
    let has_value = children.iter().any(|child| matches!(child, Stmt::EmitExpr(_)));
    let has_text = |child: &Stmt<'_>| matches!(child, Stmt::EmitRaw(raw) if !raw.raw.trim().is_empty());
    has_value && children.iter().any(has_text)
}

fn to_findings(rewriter: Rewriter<'_>, form: OutputForm) -> ProgramFindings {
    ProgramFindings {
        form,
        roots: rewriter.roots.iter().map(|root| Arc::from(*root)).collect(),
        uses: rewriter.uses,
        has_captures: rewriter.has_captures,
        has_statements: false,
        is_range: false,
    }
}

fn finish_code(generator: CodeGenerator<'_>) -> CompiledCode<'_> {
    let (instructions, blocks) = generator.finish();
    CompiledCode { instructions, blocks }
}

fn to_syntax_error(error: &minijinja::Error) -> SyntaxError {
    SyntaxError {
        message: error
            .detail()
            .map_or_else(|| error.kind().to_string(), ToOwned::to_owned),
        range: error.range(),
    }
}
