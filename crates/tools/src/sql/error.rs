//! Errors of commands that cannot be bound.

/// A command that cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    #[error("the command has a placeholder `{0}`, but `params` has no value for it")]
    Missing(String),
    #[error("a value is not allowed {0}")]
    NotAllowed(&'static str),
    #[error("`{0}` cannot be an identifier")]
    Ident(String),
    #[error("a value contains a NUL character, which SQL does not support")]
    Nul,
    #[error("`$n` cannot be combined with `{{{{ … }}}}` unless the task sets `params`")]
    UnnumberedParam,
    #[error(
        "the statement is a single template, whose value is bound as a parameter and cannot be the statement itself"
    )]
    TemplateStatement,
}
