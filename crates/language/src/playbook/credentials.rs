//! Credentials by name: where tasks refer to them, which names a step uses, and their substitution by values.
//!
//! A name is under `auth` (or `credential`) of the task, or of its `source`, `target` or `script`: as text, or inside a
//! map as `{credential: name, …}` or, for kinds that attach several, as `{alias: name}`. Any other map is the
//! credential itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::playbook::{Playbook, Step, Task};
use crate::template::{Template, Tree};

/// Keys of a task under which `auth` is allowed.
const AUTH_PARENTS: &[&[&str]] = &[&[], &["source"], &["target"], &["script"], &["script", "source"]];

/// Keys that refer to a credential.
const CREDENTIAL_KEYS: &[&str] = &["auth", "credential"];

/// Kinds whose `auth` maps aliases to credentials.
const ALIASING_KINDS: &[&str] = &["duckdb", "ducklake"];

/// Maximum length of a credential's name.
pub const NAME_BYTES_MAX: usize = 200;

/// Fields of a credential that are not secret: they identify a host, a database or a user.
const PUBLIC_FIELDS: &[&str] = &[
    "type",
    "kind",
    "host",
    "hostname",
    "db_host",
    "port",
    "db_port",
    "user",
    "username",
    "db_user",
    "login",
    "database",
    "db_name",
    "dbname",
    "db_database",
    "schema",
    "sslmode",
    "region",
    "endpoint",
    "token_url",
    "auth_url",
    "auth_uri",
    "token_uri",
    "bucket",
    "account",
    "warehouse",
    "role",
    "driver",
    "provider",
    "service",
    "scheme",
    "header",
    "header_name",
    "in",
    "location",
    "grant_type",
    "token_type",
    "scope",
    "scopes",
    "expires_in",
    "audience",
    "issuer",
    "client_id",
    "project_id",
    "project",
    "client_email",
    "private_key_id",
    "universe_domain",
];

/// Whether a field of a credential, such as `host`, is not secret. Its value is too common to be masked in output.
pub fn is_public_field(key: &str) -> bool {
    PUBLIC_FIELDS.contains(&key.to_ascii_lowercase().as_str())
}

/// Whether a text is a valid credential name: names appear in URLs and in playbooks.
pub fn is_credential_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.:@".contains(c);
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.chars().all(is_plain)
}

/// The credentials that a task or a step uses.
#[derive(Debug, Clone, Default)]
pub struct CredentialUses {
    /// Names as written: credentials and keychain entries.
    pub names: BTreeSet<String>,
    /// The subset of names that templates read as `keychain.<name>`.
    pub keychain: BTreeSet<String>,
    /// Names that are templates.
    pub name_templates: Vec<Tree>,
    /// Whether a template reads a keychain entry whose name is only known after rendering.
    pub reads_any_entry: bool,
}

impl CredentialUses {
    /// Returns the credentials that one task of a step uses.
    pub fn from_task(step: &Step, task: &Task) -> Self {
        let mut opens = Self::default();
        for parent in AUTH_PARENTS {
            for key in CREDENTIAL_KEYS {
                if let Some(tree) = find_auth(task, parent, key) {
                    opens.add_auth(&tree, ALIASING_KINDS.contains(&task.kind.as_str()));
                }
            }
        }
        let trees = task.fields.values().chain(task.knobs.values());
        let inputs = [&step.input, &task.input, &task.timeout];
        for tree in trees.chain(inputs.into_iter().flatten()) {
            tree.walk(&mut |template| opens.add_keychain_reads(template));
        }
        opens
    }

    /// Returns the credentials that all tasks of a step use.
    pub fn from_step(step: &Step) -> Self {
        let mut credential_uses = Self::default();
        for task in step.all_tasks() {
            let opens = Self::from_task(step, task);
            credential_uses.names.extend(opens.names);
            credential_uses.keychain.extend(opens.keychain);
            credential_uses.name_templates.extend(opens.name_templates);
            credential_uses.reads_any_entry |= opens.reads_any_entry;
        }
        credential_uses
    }

    /// Returns all names that the steps of a playbook write literally.
    pub fn names_in_playbook(playbook: &Playbook) -> BTreeSet<String> {
        let steps = playbook.steps.iter();
        steps.flat_map(|step| Self::from_step(step).names).collect()
    }

    /// Whether no credential is used.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.name_templates.is_empty() && !self.reads_any_entry
    }

    fn add_auth(&mut self, tree: &Tree, aliases: bool) {
        match tree {
            Tree::Literal(value) => {
                let mut value = value.clone();
                visit_auth_names(&mut value, aliases, &mut |name| {
                    self.names.insert(name.to_owned());
                    None
                });
            }
            Tree::Template(_) => self.name_templates.push(tree.clone()),
            Tree::List(_) => {}
            Tree::Map(pairs) => {
                let get = |key: &str| pairs.iter().find(|(name, _)| name == key);
                if let Some((_, named)) = get("credential") {
                    return self.add_auth(named, false);
                }
                if get("type").is_none() && aliases {
                    for (_, tree) in pairs {
                        self.add_auth(tree, false);
                    }
                }
            }
        }
    }

    fn add_keychain_reads(&mut self, template: &Template) {
        for entry in keychain_reads(template) {
            match entry {
                KeychainRead::Named(name) => {
                    self.names.insert(name.clone());
                    self.keychain.insert(name);
                }
                KeychainRead::Any => self.reads_any_entry = true,
            }
        }
    }
}

/// A keychain entry that a template reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeychainRead {
    /// The entry with this name.
    Named(String),
    /// An entry whose name is only known after rendering.
    Any,
}

/// Returns the keychain entries that a template reads.
pub fn keychain_reads(template: &Template) -> Vec<KeychainRead> {
    let uses = template.path_uses();
    let expressions = uses
        .iter()
        .filter_map(|path_use| template.source().get(path_use.range.clone()));
    expressions.filter_map(parse_keychain_read).collect()
}

/// Returns the keychain entry of which a template reads a field, if there is one.
pub(crate) fn keychain_field_read(template: &Template) -> Option<String> {
    let uses = template.path_uses();
    let mut expressions = uses
        .iter()
        .filter_map(|path_use| template.source().get(path_use.range.clone()));
    expressions.find_map(|text| match parse_keychain_read(text)? {
        KeychainRead::Named(name) => {
            let suffix = text.trim_start().strip_prefix("keychain")?;
            let after = suffix.split_once(name.as_str())?.1;
            let after = after.trim_start_matches(['"', '\'', ' ', ']']);
            after.starts_with(['.', '[']).then_some(name)
        }
        KeychainRead::Any => None,
    })
}

/// Parses the text of an expression for the keychain entry it reads.
fn parse_keychain_read(text: &str) -> Option<KeychainRead> {
    let suffix = text.trim_start().strip_prefix("keychain")?;
    if suffix.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let suffix = suffix.trim_start();
    if let Some(name) = suffix.strip_prefix('.') {
        let name = name.trim_start();
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = name.find(|c| !is_word(c)).unwrap_or(name.len());
        let (name, after) = name.split_at(end);
        let is_call = after.trim_start().starts_with('(');
        return Some(if is_call {
            KeychainRead::Any
        } else {
            KeychainRead::Named(name.to_owned())
        });
    }
    let quoted = suffix.strip_prefix('[').map(str::trim_start);
    let quote = quoted.and_then(|text| text.chars().next());
    Some(match (quoted, quote) {
        (Some(text), Some(quote @ ('"' | '\''))) => {
            let name = text[1..].split(quote).next().unwrap_or_default();
            KeychainRead::Named(name.to_owned())
        }
        _ => KeychainRead::Any,
    })
}

/// Returns the value at a nested key of a task.
fn find_auth(task: &Task, parent: &[&str], key: &str) -> Option<Tree> {
    let mut path = parent.iter().copied().chain([key]);
    let mut tree = task.fields.get(path.next()?)?.clone();
    for part in path {
        tree = match tree {
            Tree::Map(pairs) => pairs.into_iter().find(|(name, _)| name == part)?.1,
            Tree::Literal(value) => Tree::Literal(value.get(part)?.clone()),
            Tree::Template(_) | Tree::List(_) => return None,
        };
    }
    Some(tree)
}

/// Returns the names of credentials in a task's rendered keys.
pub fn credential_names(kind: &str, fields: &Map<String, Value>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut fields = auth_fields(fields);
    visit_names(kind, &mut fields, &mut |name| {
        names.insert(name.to_owned());
        None
    });
    names
}

/// Returns the names of credentials in one rendered value of `auth`.
pub fn credential_names_in(kind: &str, value: &Value) -> BTreeSet<String> {
    credential_names(kind, &Map::from_iter([("auth".to_owned(), value.clone())]))
}

/// Replaces names by the values of their credentials.
pub fn substitute(kind: &str, fields: &mut Map<String, Value>, find: &mut dyn FnMut(&str) -> Option<Value>) {
    visit_names(kind, fields, find);
}

/// Returns only the keys that may contain names.
fn auth_fields(fields: &Map<String, Value>) -> Map<String, Value> {
    let parents = AUTH_PARENTS.iter().filter_map(|parent| parent.first());
    let keys = CREDENTIAL_KEYS.iter().chain(parents);
    keys.filter_map(|&key| Some((key.to_owned(), fields.get(key)?.clone())))
        .collect()
}

fn visit_names(kind: &str, fields: &mut Map<String, Value>, find: &mut dyn FnMut(&str) -> Option<Value>) {
    let aliases = ALIASING_KINDS.contains(&kind);
    for parent in AUTH_PARENTS {
        let Some(map) = parent
            .iter()
            .try_fold(&mut *fields, |map, part| map.get_mut(*part)?.as_object_mut())
        else {
            continue;
        };
        for key in CREDENTIAL_KEYS {
            if let Some(value) = map.get_mut(*key) {
                visit_auth_names(value, aliases, find);
            }
        }
        // Tools accept only the key `auth`.
        if !map.contains_key("auth")
            && let Some(Value::Object(opened)) = map.get("credential")
        {
            let opened = Value::Object(opened.clone());
            map.remove("credential");
            map.insert("auth".to_owned(), opened);
        }
    }
}

/// Calls `find` for each name in a value of `auth`, and replaces the name by the result.
fn visit_auth_names(value: &mut Value, aliases: bool, find: &mut dyn FnMut(&str) -> Option<Value>) {
    match value {
        Value::String(name) if !name.is_empty() => {
            if let Some(opened) = find(name) {
                *value = opened;
            }
        }
        Value::Object(map) => {
            if let Some(Value::String(name)) = map.get("credential") {
                let opened = find(name);
                if let Some(Value::Object(mut opened)) = opened {
                    map.remove("credential");
                    // Keys that the author wrote beside the name override those of the credential.
                    for (key, own) in std::mem::take(map) {
                        opened.insert(key, own);
                    }
                    *map = opened;
                }
            } else if aliases && !map.contains_key("type") {
                for value in map.values_mut() {
                    visit_auth_names(value, false, find);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn playbook(tool: &str) -> Playbook {
        let text = format!(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: p}}\n\
             keychain: [{{name: k, kind: static, data: {{a: 1}}}}]\n\
             workflow: [{{step: start, tool: {tool}}}]\n"
        );
        let parsed = crate::playbook::parse("p", text.as_bytes());
        parsed.playbook.expect("the text is a playbook")
    }

    fn credential_uses(tool: &str) -> CredentialUses {
        CredentialUses::from_step(&playbook(tool).steps[0])
    }

    fn names(opens: &CredentialUses) -> Vec<&str> {
        opens.names.iter().map(String::as_str).collect()
    }

    #[test]
    fn a_step_opens_what_it_names() {
        let plain = credential_uses("{kind: http, url: 'http://x', auth: api}");
        assert_eq!(names(&plain), ["api"]);
        let mixed = credential_uses("{kind: http, url: 'http://x', auth: {type: bearer, credential: api}}");
        assert_eq!(names(&mixed), ["api"]);
        let inline = credential_uses("{kind: http, url: 'http://x', auth: {type: bearer, token: t}}");
        assert!(inline.is_empty());
        let body = credential_uses("{kind: http, url: 'http://x', json: {auth: word}}");
        assert!(body.is_empty(), "{body:?}");
        let rendered = credential_uses("{kind: http, url: 'http://x', auth: '{{ workload.api }}'}");
        assert_eq!((rendered.names.len(), rendered.name_templates.len()), (0, 1));
    }

    #[test]
    fn templates_open_the_entries_they_read() {
        let read = credential_uses("{kind: noop, input: {x: '{{ keychain.db.password ~ keychain[\"k\"].a }}'}}");
        assert_eq!(names(&read), ["db", "k"]);
        assert!(!read.reads_any_entry);
        let any = credential_uses("{kind: noop, input: {x: '{{ keychain[workload.which].a }}'}}");
        assert!(any.reads_any_entry);
    }

    #[test]
    fn a_field_under_auth_is_distinguished_from_an_entry() {
        for (text, entry) in [
            ("{{ keychain.k.a }}", Some("k")),
            ("x-{{ keychain['k'].a }}", Some("k")),
            ("{{ keychain.k[\"a\"] }}", Some("k")),
            ("{{ keychain.k }}", None),
            ("{{ keychain['k'] }}", None),
            ("{{ workload.a.b }}", None),
        ] {
            let template = Template::parse(text, model::source::Span::default());
            let template = template.expect("the text is a template");
            assert_eq!(keychain_field_read(&template).as_deref(), entry, "{text}");
        }
    }

    #[test]
    fn names_are_replaced_and_other_keys_stay() {
        let data = || json!({"type": "postgres", "db_host": "h", "schema": "a"});
        let mut find = |name: &str| (name == "pg").then(data);
        let mut fields = json!({"auth": "pg", "source": {"credential": "pg"}, "json": {"auth": "pg"}});
        let map = fields.as_object_mut().expect("a map");
        assert_eq!(credential_names("transfer", map), BTreeSet::from(["pg".to_owned()]));
        substitute("transfer", map, &mut find);
        let expected = json!({"auth": data(), "source": {"auth": data()}, "json": {"auth": "pg"}});
        assert_eq!(fields, expected);
        let mut fields = json!({"auth": {"credential": "pg", "schema": "b"}});
        substitute("postgres", fields.as_object_mut().expect("a map"), &mut find);
        assert_eq!(fields["auth"]["schema"], "b");
        let mut fields = json!({"auth": {"one": "pg", "two": {"type": "s3", "key": "pg"}}});
        substitute("duckdb", fields.as_object_mut().expect("a map"), &mut find);
        assert_eq!(fields["auth"]["one"], data());
        assert_eq!(fields["auth"]["two"]["key"], "pg");
    }
}
