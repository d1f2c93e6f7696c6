//! The tables of `docs/reference/configuration.md`, from `default.toml` and `variables.rs` in `crates/cli/src/config`.
//!
//! The compiler checks that a variable has a definition: `Environment` returns only variables of `variables.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;

use crate::assert_current;

/// Sections of `variables.rs` after the settings, in the order of the tables on the page.
const SECTIONS: [&str; 5] = ["commands", "credentials", "network", "tools", "stores"];

fn config_source(name: &str) -> String {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/cli/src/config");
    std::fs::read_to_string(cli.join(name)).expect("the source file exists")
}

/// A key of `default.toml`.
struct SettingKey {
    key: String,
    default: String,
    meaning: String,
}

/// Reads the keys of `default.toml`: a comment, then the key with its default, or with an example in a comment.
fn setting_keys(text: &str) -> Vec<SettingKey> {
    let entry = Regex::new(r"^(# )?([a-z_]+) = (.+)$").expect("a valid pattern");
    let mut keys = Vec::new();
    for paragraph in text.split("\n\n") {
        let lines: Vec<&str> = paragraph.lines().collect();
        let Some((last, comment)) = lines.split_last() else {
            continue;
        };
        let Some(captures) = entry.captures(last) else {
            continue;
        };
        let is_example = captures.get(1).is_some();
        let default = format!("`{}`", captures[3].trim_matches('"'));
        keys.push(SettingKey {
            key: captures[2].to_owned(),
            default: if is_example { "none".to_owned() } else { default },
            meaning: join_comment(comment, "#"),
        });
    }
    keys
}

/// Joins the lines of a comment to one text without a final period.
fn join_comment(lines: &[&str], marker: &str) -> String {
    let lines = lines.iter().map(|line| {
        let line = line.trim().strip_prefix(marker);
        line.expect("a line of a comment").trim()
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_suffix('.').unwrap_or(&text).to_owned()
}

/// A definition in `variables.rs`: one variable, a list of them, or a prefix.
struct VariableDefinition {
    section: String,
    names: Vec<String>,
    meaning: String,
    default: Option<String>,
}

/// Reads all definitions, in the order of the file.
fn variable_definitions(source: &str) -> Vec<VariableDefinition> {
    let block =
        Regex::new(r"(?m)^// Section: (\w+)\.$|((?:^///.*\n)+)^pub\(crate\) const (\w+): [^=]*Variable[^=]*=([^;]+);");
    let mut section = String::new();
    let mut definitions = Vec::new();
    let mut constants = BTreeMap::new();
    for captures in block.expect("a valid pattern").captures_iter(source) {
        if let Some(title) = captures.get(1) {
            title.as_str().clone_into(&mut section);
            continue;
        }
        let names = variable_names(&captures[4], &constants);
        constants.insert(captures[3].to_owned(), names[0].clone());
        let lines: Vec<&str> = captures[2].lines().collect();
        let is_default = |line: &&str| line.starts_with("/// Default: ");
        let (comment, default) = match lines.split_last() {
            Some((last, comment)) if is_default(last) => (comment, last.strip_prefix("/// Default: ")),
            _ => (&lines[..], None),
        };
        definitions.push(VariableDefinition {
            section: section.clone(),
            names,
            meaning: join_comment(comment, "///"),
            default: default.map(|text| text.trim_end_matches('.').to_owned()),
        });
    }
    definitions
}

/// Names in the value of a constant: literals, prefixes, and names of constants above it.
fn variable_names(value: &str, constants: &BTreeMap<String, String>) -> Vec<String> {
    let name = Regex::new(r#"Variable\("(\w+)"\)|VariablePrefix\("(\w+)"\)|\b([A-Z][A-Z_]+)\b"#);
    let name = name.expect("a valid pattern");
    let names = name.captures_iter(value).map(|captures| {
        if let Some(prefix) = captures.get(2) {
            return format!("{}…", prefix.as_str());
        }
        let constant = captures.get(3).map(|constant| &constants[constant.as_str()]);
        constant.cloned().unwrap_or_else(|| captures[1].to_owned())
    });
    names.collect()
}

fn settings_table(keys: &[SettingKey], definitions: &[VariableDefinition]) -> String {
    let mut table = String::from("| Key | Variable | Option | Default | Meaning |\n|---|---|---|---|---|\n");
    for SettingKey { key, default, meaning } in keys {
        let overrides = format!("Overrides `{key}`");
        let definition = definitions.iter().find_map(|definition| {
            let options = definition.meaning.strip_prefix(&overrides)?;
            Some((&definition.names[0], options))
        });
        let (variable, options) = definition.unwrap_or_else(|| panic!("no variable for `{key}`"));
        let options = options.strip_prefix("; overridden by").unwrap_or(options);
        let options = options.trim();
        writeln!(table, "| `{key}` | `{variable}` | {options} | {default} | {meaning} |").expect("text grows");
    }
    table
}

fn variables_table(section: &str, definitions: &[VariableDefinition]) -> String {
    let mut table = String::from("| Variable | Default | Meaning |\n|---|---|---|\n");
    for definition in definitions.iter().filter(|definition| definition.section == section) {
        let names: Vec<String> = definition.names.iter().map(|name| format!("`{name}`")).collect();
        let names = names.join(", ");
        let default = definition.default.as_ref();
        let default = default.unwrap_or_else(|| panic!("{names} has no line `Default: …`"));
        writeln!(table, "| {names} | {default} | {} |", definition.meaning).expect("text grows");
    }
    table
}

#[test]
fn the_page_of_the_configuration_lists_every_setting_and_variable() {
    let keys = setting_keys(&config_source("default.toml"));
    let definitions = variable_definitions(&config_source("variables.rs"));
    let mut parts = vec![settings_table(&keys, &definitions)];
    parts.extend(SECTIONS.map(|section| variables_table(section, &definitions)));
    assert_current("docs/reference/configuration.md", &parts);

    let sections = definitions.iter().map(|definition| definition.section.as_str());
    let listed = SECTIONS.into_iter().chain(["settings"]);
    assert_eq!(sections.collect::<BTreeSet<_>>(), listed.collect());
}

#[test]
fn the_default_settings_have_every_key_of_a_settings_file() {
    let file = config_source("files.rs");
    let (_, fields) = file
        .split_once("pub(crate) struct ConfigFile {")
        .expect("the type exists");
    let (fields, _) = fields.split_once('}').expect("the type ends");
    let field = Regex::new(r"(?m)^    pub\(super\) (\w+):").expect("a valid pattern");
    let fields: BTreeSet<String> = field
        .captures_iter(fields)
        .map(|captures| captures[1].to_owned())
        .collect();
    let keys = setting_keys(&config_source("default.toml"))
        .into_iter()
        .map(|entry| entry.key);
    assert_eq!(keys.collect::<BTreeSet<_>>(), fields);
}

#[test]
fn every_constant_of_a_variable_is_read_as_a_definition() {
    let source = config_source("variables.rs");
    let constants = source.lines().filter(|line| line.starts_with("pub(crate) const "));
    assert_eq!(variable_definitions(&source).len(), constants.count());

    let source = "// Section: tools.\n\n/// One\n/// meaning.\n/// Default: 4.\npub(crate) const ONE: Variable = Variable(\"A_1\");\n\
        /// Both.\npub(crate) const BOTH: [Variable; 2] = [ONE, Variable(\"b\")];\n";
    let [one, both] = &variable_definitions(source)[..] else {
        panic!("the text has two definitions")
    };
    assert_eq!(
        (one.meaning.as_str(), one.default.as_deref()),
        ("One meaning", Some("4"))
    );
    assert_eq!(
        (one.section.as_str(), &both.names[..]),
        ("tools", &["A_1".to_owned(), "b".to_owned()][..])
    );
}
