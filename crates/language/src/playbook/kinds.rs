//! The table of built-in tool kinds: their names, their keys and how each key is rendered.
//!
//! The parser checks playbooks against it, and workers render tasks with it.

use crate::playbook::definition::Effect;

/// A built-in tool kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the properties of a kind are independent")]
pub struct KindSpec {
    /// The name.
    pub name: &'static str,
    /// Its own keys, besides those that all tasks accept.
    pub keys: &'static [KeySpec],
    /// Keys of which exactly one is required; may be empty.
    pub one_of: &'static [&'static str],
    /// Groups of keys; of each group at most one key is allowed.
    pub at_most_one_of: &'static [&'static [&'static str]],
    /// Whether it has no side effects, so that it may run again.
    pub is_pure: bool,
    /// Values of `action` without side effects; the first is the default.
    pub read_actions: &'static [&'static str],
    /// Keys that only another runtime uses.
    pub ignored_keys: &'static [&'static str],
    /// Keys that may also be under `input`.
    pub keys_in_input: &'static [&'static str],
    /// Whether `command` is SQL.
    pub runs_sql: bool,
    /// The effect of a statement that claims rows for a cursor loop; `None` if it cannot claim rows.
    pub claim_effect: Option<Effect>,
    /// Whether its code can read `context`.
    pub reads_context: bool,
    /// Whether the result has a body under `data`, in which `select` looks as well.
    pub selects_in_data: bool,
    /// Whether it starts another playbook, whose workload is the task's input.
    pub starts_playbook: bool,
}

/// A key of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySpec {
    /// The canonical spelling.
    pub name: &'static str,
    /// Other spellings.
    pub aliases: &'static [&'static str],
    /// Whether the key is required.
    pub is_required: bool,
    /// How its value is rendered.
    pub mode: FieldMode,
}

/// How the value of a key is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldMode {
    /// To a value with its native type.
    Value,
    /// To the author's text and the values between, which the worker quotes or binds according to their position.
    Pieces,
    /// Unchanged if it contains neither `{{` nor `{%`; otherwise as pieces whose values become literals of that
    /// language.
    Code(CodeLanguage),
    /// To a map whose `query` and `command` are pieces and whose other keys are values.
    Endpoint,
    /// To a reference, without loading the body, if the value is a stored body; otherwise to a value.
    Reference,
}

/// The language of a program in a playbook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CodeLanguage {
    /// `code` of a `python` task.
    Python,
    /// `code` of a `rhai` task.
    Rhai,
    /// `jq` of a `transform` task.
    Jq,
}

impl CodeLanguage {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "Python",
            Self::Rhai => "rhai",
            Self::Jq => "jq",
        }
    }

    /// The filter that marks a value as a program of this language.
    pub fn raw_filter(self) -> &'static str {
        match self {
            Self::Python => "raw_py",
            Self::Rhai => "raw_rhai",
            Self::Jq => "raw_jq",
        }
    }
}

impl KindSpec {
    /// Finds a key by canonical name.
    pub fn key(&self, name: &str) -> Option<&'static KeySpec> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// Finds a key by name or alias.
    pub fn find_key(&self, name: &str) -> Option<&'static KeySpec> {
        let mut keys = self.keys.iter();
        keys.find(|key| key.name == name || key.aliases.contains(&name))
    }
}

/// Other names of kinds.
const ALIASES: &[(&str, &str)] = &[("result", "artifact"), ("resolve", "artifact")];

/// Finds a kind by name or alias.
pub fn find_kind(name: &str) -> Option<&'static KindSpec> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let name = alias.map_or(name, |(_, name)| name);
    KINDS.iter().find(|kind| kind.name == name)
}

/// The prefix of external tool kinds.
pub const EXTERNAL_PREFIX: &str = "x-";

/// Whether a kind is an external tool. Its manifest defines its keys, so the parser does not check them.
pub fn is_external(name: &str) -> bool {
    let suffix = name.strip_prefix(EXTERNAL_PREFIX).unwrap_or_default();
    let mut letters = suffix.chars();
    letters.next().is_some_and(|c| c.is_ascii_lowercase())
        && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c))
}

/// The specification of all external tool kinds.
pub(crate) const EXTERNAL: KindSpec = spec("external", &[]);

/// Returns how a field of a kind is rendered.
pub fn field_mode(kind_name: &str, field: &str) -> FieldMode {
    find_kind(kind_name)
        .and_then(|kind| kind.key(field))
        .map_or(FieldMode::Value, |key| key.mode)
}

/// Kinds of the language that this version does not include.
pub const NOT_BUILT_IN: &[&str] = &["snowflake", "ducklake"];

const fn key(name: &'static str) -> KeySpec {
    key_with_aliases(name, &[])
}

const fn key_with_aliases(name: &'static str, aliases: &'static [&'static str]) -> KeySpec {
    KeySpec {
        name,
        aliases,
        is_required: false,
        mode: FieldMode::Value,
    }
}

const fn required(key: KeySpec) -> KeySpec {
    KeySpec {
        is_required: true,
        ..key
    }
}

const fn code(key: KeySpec, language: CodeLanguage) -> KeySpec {
    KeySpec {
        mode: FieldMode::Code(language),
        ..key
    }
}

const fn pieces(key: KeySpec) -> KeySpec {
    KeySpec {
        mode: FieldMode::Pieces,
        ..key
    }
}

const fn reference(key: KeySpec) -> KeySpec {
    KeySpec {
        mode: FieldMode::Reference,
        ..key
    }
}

const fn endpoint(key: KeySpec) -> KeySpec {
    KeySpec {
        mode: FieldMode::Endpoint,
        ..key
    }
}

const fn spec(name: &'static str, keys: &'static [KeySpec]) -> KindSpec {
    KindSpec {
        name,
        keys,
        one_of: &[],
        at_most_one_of: &[],
        is_pure: false,
        read_actions: &[],
        ignored_keys: &[],
        keys_in_input: &[],
        runs_sql: false,
        claim_effect: None,
        reads_context: false,
        selects_in_data: false,
        starts_playbook: false,
    }
}

/// The keys of the kinds for objects in buckets.
const OBJECT_KEYS: &[KeySpec] = &[
    key("action"),
    required(key("uri")),
    reference(key("source")),
    key("data"),
    key("content_type"),
    key("format"),
    key("range"),
    key("limit"),
    key("after"),
    key("expires"),
    key("method"),
];

/// Every built-in kind.
pub const KINDS: &[KindSpec] = &[
    KindSpec {
        is_pure: true,
        ..spec("noop", &[key("message"), key("result")])
    },
    KindSpec {
        one_of: &["code", "script"],
        ignored_keys: &["assert"],
        reads_context: true,
        ..spec(
            "python",
            &[
                code(key("code"), CodeLanguage::Python),
                key("script"),
                key("libs"),
                key("env"),
                key("cwd"),
            ],
        )
    },
    KindSpec {
        one_of: &["command", "script"],
        ..spec(
            "shell",
            &[
                pieces(key_with_aliases("command", &["cmds"])),
                key("script"),
                key("env"),
                key("cwd"),
                key("shell"),
                key("stdin"),
            ],
        )
    },
    KindSpec {
        at_most_one_of: &[
            &["json", "payload", "body", "data", "form", "script"],
            // `files` can be combined with `form` and `data`, whose fields become parts of the same form.
            &["files", "json", "payload", "body", "script"],
        ],
        selects_in_data: true,
        ..spec(
            "http",
            &[
                required(key_with_aliases("url", &["endpoint"])),
                key("method"),
                key("headers"),
                key("params"),
                key("json"),
                key("payload"),
                key("body"),
                key("data"),
                key("form"),
                key("files"),
                key("script"),
                key("verify_ssl"),
                key("follow_redirects"),
                key("response_type"),
                key("ok_status"),
            ],
        )
    },
    KindSpec {
        one_of: &["path", "catalog_id"],
        ignored_keys: &["task"],
        starts_playbook: true,
        ..spec(
            "playbook",
            &[
                key("path"),
                key("catalog_id"),
                key("version"),
                key("return_step"),
                key("wait"),
            ],
        )
    },
    spec("workbook", &[required(key("name"))]),
    KindSpec {
        one_of: &["duration", "until", "signal", "approval"],
        ..spec("wait", &[key("duration"), key("until"), key("signal"), key("approval")])
    },
    KindSpec {
        one_of: &["jq", "select"],
        is_pure: true,
        ..spec("transform", &[code(key("jq"), CodeLanguage::Jq), key("select")])
    },
    KindSpec {
        is_pure: true,
        ..spec("rhai", &[required(code(key("code"), CodeLanguage::Rhai))])
    },
    KindSpec {
        at_most_one_of: &[&["ref", "uri"]],
        read_actions: &["get", "list"],
        keys_in_input: &["ref", "result_ref", "uri"],
        ..spec(
            "artifact",
            &[
                key("action"),
                reference(key_with_aliases("ref", &["result_ref"])),
                key("uri"),
                key("data"),
                key("slice"),
                key("compress"),
            ],
        )
    },
    KindSpec {
        one_of: &["command", "script"],
        ignored_keys: &["pool"],
        runs_sql: true,
        claim_effect: Some(Effect::Transactional),
        ..spec(
            "postgres",
            &[
                pieces(key_with_aliases("command", &["query", "commands"])),
                key("script"),
                key("params"),
                key("schema"),
            ],
        )
    },
    KindSpec {
        one_of: &["command", "script"],
        ignored_keys: &["pool"],
        runs_sql: true,
        claim_effect: Some(Effect::AtLeastOnce),
        ..spec(
            "sqlite",
            &[
                pieces(key_with_aliases("command", &["query", "commands"])),
                key("script"),
                key("params"),
                key("database"),
            ],
        )
    },
    KindSpec {
        one_of: &["command", "script"],
        ignored_keys: &["pool"],
        runs_sql: true,
        ..spec(
            "duckdb",
            &[
                pieces(key_with_aliases("command", &["query", "commands"])),
                key("script"),
                key("params"),
                key("database"),
                key("memory_limit"),
                key("threads"),
            ],
        )
    },
    spec(
        "transfer",
        &[
            required(endpoint(key("source"))),
            required(endpoint(key("target"))),
            key("mode"),
            key("key"),
            key("chunk_size"),
        ],
    ),
    KindSpec {
        at_most_one_of: &[&["source", "data"]],
        ..spec("s3", OBJECT_KEYS)
    },
    KindSpec {
        at_most_one_of: &[&["source", "data"]],
        ..spec("gcs", OBJECT_KEYS)
    },
    spec(
        "nats",
        &[
            required(key_with_aliases("operation", &["action"])),
            key_with_aliases("url", &["nats_url"]),
            key("bucket"),
            key("key"),
            key_with_aliases("value", &["data", "payload", "message"]),
            key_with_aliases("object", &["object_name"]),
            key("file"),
            key("description"),
            key("subject"),
            key("stream"),
            key_with_aliases("consumer", &["durable"]),
            key_with_aliases("batch", &["max_messages", "limit"]),
            key("wait"),
            key("ack"),
            key_with_aliases("sequence", &["seq"]),
            key("revision"),
            key("expected_last_revision"),
            key("expected_last_sequence"),
            key("msg_id"),
            key("headers"),
            key("encoding"),
            key_with_aliases("filter", &["pattern"]),
            key("create"),
        ],
    ),
    KindSpec {
        one_of: &["server", "command"],
        at_most_one_of: &[&["tool", "prompt", "uri"]],
        ..spec(
            "mcp",
            &[
                key_with_aliases("server", &["endpoint", "url"]),
                key("command"),
                key("env"),
                key("cwd"),
                key("tool"),
                key("prompt"),
                key("uri"),
                key("arguments"),
                key("method"),
                key("params"),
                key("headers"),
                key("verify_ssl"),
            ],
        )
    },
    spec(
        "container",
        &[
            required(key("image")),
            key("command"),
            key("args"),
            key("env"),
            key("resources"),
            key("runtime"),
            key("workdir"),
            key("user"),
            key("network"),
            key("pull"),
            key("namespace"),
            key("service_account"),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_alias_belongs_to_two_keys_of_a_kind() {
        for kind in KINDS {
            let mut names: Vec<_> = kind.keys.iter().map(|key| key.name).collect();
            names.extend(kind.keys.iter().flat_map(|key| key.aliases));
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{}", kind.name);
        }
    }

    #[test]
    fn choices_name_keys_of_their_kind() {
        for kind in KINDS {
            let groups = kind.at_most_one_of.iter().copied().flatten();
            for name in kind.one_of.iter().chain(groups) {
                assert!(kind.key(name).is_some(), "{}.{name}", kind.name);
            }
        }
    }

    #[test]
    fn an_external_kind_is_recognized_by_its_name() {
        assert!(is_external("x-crm") && is_external("x-a_1-b"));
        for name in ["x-", "crm", "X-crm", "x-1", "x-a.b", "x-a b"] {
            assert!(!is_external(name), "{name}");
        }
    }

    #[test]
    fn commands_are_kept_in_pieces_and_code_only_where_it_has_templates() {
        assert_eq!(field_mode("shell", "command"), FieldMode::Pieces);
        assert_eq!(field_mode("sqlite", "command"), FieldMode::Pieces);
        assert_eq!(field_mode("python", "code"), FieldMode::Code(CodeLanguage::Python));
        assert_eq!(field_mode("rhai", "code"), FieldMode::Code(CodeLanguage::Rhai));
        assert_eq!(field_mode("http", "url"), FieldMode::Value);
    }
}
