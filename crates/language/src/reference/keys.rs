//! How the keys of a playbook are described: the type of their value, their default, and one sentence.

/// The description of a key.
#[derive(Debug, Clone, Copy)]
pub struct KeyDoc {
    /// The canonical spelling.
    pub key: &'static str,
    /// The type of its value.
    pub value: ValueType,
    /// What applies without the key; empty if nothing does.
    pub default: &'static str,
    /// What it does.
    pub text: &'static str,
}

/// The type of the value of a key.
#[derive(Debug, Clone, Copy)]
pub enum ValueType {
    /// Text, which may be a template.
    Text,
    /// A name, without templates.
    Name,
    /// A program or a statement.
    Code,
    /// A condition: a template with or without braces.
    Condition,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// A duration, such as `30s`.
    Duration,
    /// A size, such as `64KiB`.
    Size,
    /// One of these words. They come from the table with which the parser reads the key.
    Words(fn() -> Vec<&'static str>),
    /// A map whose keys have no meaning to the language.
    FreeMap,
    /// A list of values.
    Values,
    /// Any value.
    Any,
    /// A map with the keys of this section.
    Map(&'static str),
    /// A list of maps with the keys of this section.
    List(&'static str),
    /// A map with the keys of the first section, or a list of maps with the keys of the second.
    MapOrList(&'static str, &'static str),
    /// A task, or a list of labelled tasks.
    Pipeline,
    /// A map of tasks by name.
    NamedTasks,
    /// The name of a tool kind.
    ToolKind,
    /// The name of a step.
    StepName,
    /// The label of a task of the same step.
    TaskLabel,
    /// The name of a task under `workbook`.
    WorkbookTask,
    /// The name of a credential or of an entry of the keychain, or a map.
    Credential,
    /// The path of a playbook in the catalog.
    PlaybookPath,
}

impl ValueType {
    /// The type in a few words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Name => "name",
            Self::Code => "code",
            Self::Condition => "condition",
            Self::Number => "number",
            Self::Bool => "true or false",
            Self::Duration => "duration",
            Self::Size => "size",
            Self::Words(_) => "word",
            Self::FreeMap | Self::Map(_) => "map",
            Self::Values | Self::List(_) => "list",
            Self::Any => "any value",
            Self::MapOrList(..) => "map or list",
            Self::Pipeline => "task or list of tasks",
            Self::NamedTasks => "map of tasks",
            Self::ToolKind => "tool kind",
            Self::StepName => "name of a step",
            Self::TaskLabel => "label of a task",
            Self::WorkbookTask => "name of a workbook task",
            Self::Credential => "name of a credential, or map",
            Self::PlaybookPath => "path of a playbook",
        }
    }

    /// The words that the value can be; empty for other types.
    pub fn words(self) -> Vec<&'static str> {
        match self {
            Self::Words(list) => list(),
            Self::Bool => vec!["true", "false"],
            _ => Vec::new(),
        }
    }

    /// The section with the keys of the value, if it is a map.
    pub fn section(self) -> Option<&'static str> {
        match self {
            Self::Map(section) | Self::List(section) | Self::MapOrList(section, _) => Some(section),
            Self::Pipeline | Self::NamedTasks => Some("task"),
            _ => None,
        }
    }
}

/// Writes a table of keys: `key: type, "default", "text";`.
macro_rules! key_docs {
    ($($key:literal: $value:expr, $default:literal, $text:literal;)*) => {
        &[$($crate::reference::KeyDoc { key: $key, value: $value, default: $default, text: $text }),*]
    };
}

pub(crate) use key_docs;

/// The words of a table of the parser.
pub(crate) fn list_words<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}
