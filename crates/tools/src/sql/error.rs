//! Why a command cannot be bound.

/// A command that cannot be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    #[error("the command has a placeholder `{0}`, but `params` has no value for it")]
    Missing(String),
    #[error("a value cannot stand {0}")]
    Place(&'static str),
    #[error("`{0}` cannot be an identifier")]
    Ident(String),
    #[error("a value holds a NUL character, which SQL cannot take")]
    Nul,
    #[error("`$n` needs `params`; it cannot stand beside `{{{{ … }}}}` without them")]
    UnnumberedParam,
    #[error("the statement is one template, which is bound as a value and is no statement")]
    TemplateStatement,
}
