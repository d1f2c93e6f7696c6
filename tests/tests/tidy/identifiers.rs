//! Names of variables, parameters and fields: none is a bare participle or a metaphor.
//!
//! The rule reads declarations line by line: `let`, `for`, match arms, parameters of functions and closures, and fields.
//! A name without a declaration, such as a method call, is not checked: it is reported where it is declared.

use std::collections::BTreeSet;

use regex::Regex;

use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Names that do not say what the value is, each with the words to use.
const BANNED_NAMES: &[(&str, &str)] = &[
    ("answer", "response, reply or outcome"),
    ("answers", "responses, replies or outcomes"),
    ("ask", "request or query"),
    ("asked", "request or query"),
    ("begun", "started with its noun"),
    ("beside", "the noun that is next to it"),
    ("desk", "sandbox"),
    ("elsewhere", "remote with its noun"),
    ("found", "the noun that was found"),
    ("gone", "missing or removed with its noun"),
    ("hand", "command, assignment or capacity"),
    ("handed", "assigned with its noun"),
    ("hands", "capacity"),
    ("held", "claim or cached with its noun"),
    ("house", "fixture"),
    ("kept", "stored, cached or retained with its noun"),
    ("known", "the noun that is known"),
    ("place", "location, span, position or context"),
    ("rest", "remaining or tail"),
    ("said", "output, text or message"),
    ("say", "output, text or message"),
    ("seen", "the noun that was observed"),
    ("shelf", "store or queue"),
    ("shown", "json, text or the noun that is displayed"),
    ("spot", "location"),
    ("standing", "status"),
    ("taken", "accepted or removed with its noun"),
    ("tell", "notify or report"),
    ("told", "notice, message or verdict"),
    ("trouble", "error"),
    ("word", "text, name, option, verdict or the kind of token"),
];

/// Words that are also banned as a part of a name, such as `worker_desk`: even with a noun they stay a metaphor.
const BANNED_PARTS: &[&str] = &[
    "asked", "begun", "desk", "gone", "hand", "handed", "hands", "house", "said", "shelf", "spot", "standing", "told",
    "trouble",
];

/// A banned name that files may use, and why.
struct AllowedName {
    name: &'static str,
    /// Prefixes of the paths of these files.
    paths: &'static [&'static str],
    reason: &'static str,
}

const ALLOWED_NAMES: &[AllowedName] = &[
    AllowedName {
        name: "answer",
        paths: &[
            "crates/integrations/src/duckdb/",
            "crates/tools/src/postgres/",
            "crates/tools/src/python/",
            "crates/tools/src/sqlite/",
        ],
        reason: "what a statement returns, `StatementAnswer`, or an interpreter, `RunnerAnswer`",
    },
    AllowedName {
        name: "answers",
        paths: &["crates/tools/src/postgres/"],
        reason: "what several statements return",
    },
    AllowedName {
        name: "held",
        paths: &["crates/engine/src/", "crates/model/src/event/", "crates/model/tests/"],
        reason: "a token is held at the end of a failed step: a term of the glossary, and a field of events and states",
    },
    AllowedName {
        name: "kept",
        paths: &["crates/model/src/event/control.rs"],
        reason: "a field of the serialized event `playbook.switched`",
    },
    AllowedName {
        name: "word",
        paths: &[
            "crates/language/src/playbook/read/",
            "crates/language/src/yaml/scalar.rs",
            "crates/model/src/event/kind.rs",
            "crates/tools/src/python/context.rs",
            "crates/tools/src/sql/",
            "crates/worker/src/secrets/masker.rs",
            "examples/tools/words/",
        ],
        reason: "a word of a text, such as SQL, YAML, Python or the name of an event",
    },
];

/// Declarations whose bindings are a pattern: the text of the first group that matched.
const PATTERNS: &[&str] = &[
    // `let`, also in conditions; a name with a type matches `TYPED_NAME`.
    r"\blet ([^=;]*)",
    r"\bfor ([^;]*?) in ",
    // Parameters of closures.
    r"\|([^|=;]+)\|",
    // An arm of `match`, without its guard.
    r"^\s*([^=;]*?)(?: if .*)? => ",
];

/// A variable, a parameter or a field with a type: a name, and the start of the type.
const TYPED_NAME: &str = r"(?:^\s*|[(,] ?|\blet )(?:pub(?:\([a-z: ]+\))? )?(?:mut )?([a-z_][a-z0-9_]*): (?:&|\*|\[|\(|'|impl |dyn |fn\(|[A-Z]|bool\b|char\b|str\b|[iuf](?:8|16|32|64|128|size)\b)";

/// The names that a line of code declares.
fn declared_names(line: &str, patterns: &[Regex], typed_name: &Regex) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for pattern in patterns {
        for captures in pattern.captures_iter(line) {
            names.extend(bound_names(&captures[1]));
        }
    }
    let typed = typed_name.captures_iter(line);
    names.extend(typed.map(|captures| captures[1].to_owned()));
    names
}

/// The names that a pattern binds: not those of paths, variants and fields, and no types.
fn bound_names(pattern: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut name = String::new();
    let mut before = ' ';
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c.is_alphanumeric() || c == '_' {
            name.push(c);
            continue;
        }
        let is_path_or_field = matches!(c, ':' | '(' | '{' | '!' | '.') && !(c == '.' && chars.peek() == Some(&'.'));
        push_binding(&mut names, &mut name, before, is_path_or_field);
        before = c;
    }
    push_binding(&mut names, &mut name, before, false);
    names
}

fn push_binding(names: &mut Vec<String>, name: &mut String, before: char, is_path_or_field: bool) {
    let is_lower = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if is_lower && !is_path_or_field && !matches!(before, ':' | '.' | '\'') {
        names.push(name.clone());
    }
    name.clear();
}

/// The banned name that a name is or contains, with the words to use.
fn find_banned_name(name: &str) -> Option<(&'static str, &'static str)> {
    let plain = name.trim_start_matches('_');
    let contains = |banned: &str| BANNED_PARTS.contains(&banned) && plain.split('_').any(|part| part == banned);
    let is_banned = |banned: &str| plain == banned || contains(banned);
    BANNED_NAMES.iter().find(|(banned, _)| is_banned(banned)).copied()
}

fn is_allowed(file: &SourceFile, name: &str) -> bool {
    let is_in = |allowed: &AllowedName| allowed.paths.iter().any(|path| file.path.starts_with(path));
    ALLOWED_NAMES
        .iter()
        .any(|allowed| allowed.name == name && is_in(allowed))
}

fn find_banned_identifiers(files: &[SourceFile]) -> Vec<TidyFinding> {
    let patterns: Vec<Regex> = PATTERNS
        .iter()
        .map(|pattern| Regex::new(pattern).expect("the pattern is valid"))
        .collect();
    let typed_name = Regex::new(TYPED_NAME).expect("the pattern is valid");
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, line) in file.code_without_literals().lines().enumerate() {
            for name in declared_names(line, &patterns, &typed_name) {
                let Some((banned, instead)) = find_banned_name(&name).filter(|_| !is_allowed(file, &name)) else {
                    continue;
                };
                let message = format!("`{name}`: `{banned}` does not say what the value is; use {instead}");
                findings.push(file.finding(index + 1, message));
            }
        }
    }
    findings
}

#[test]
fn no_variable_or_field_has_a_banned_name() {
    assert!(BANNED_NAMES.is_sorted(), "the list is in order");
    let has_replacement = |part: &&str| BANNED_NAMES.iter().any(|(name, _)| name == part);
    assert!(
        BANNED_PARTS.iter().all(has_replacement),
        "every part has its replacement"
    );
    assert_clean(find_banned_identifiers);
}

#[test]
fn every_allowed_name_is_in_use() {
    let files = crate::source_files::source_files();
    for allowed in ALLOWED_NAMES {
        for path in allowed.paths {
            let is_used = |file: &SourceFile| file.path.starts_with(path) && file.text.contains(allowed.name);
            assert!(
                files.iter().any(is_used),
                "`{}` in {path}: {}",
                allowed.name,
                allowed.reason
            );
        }
    }
}

#[test]
fn a_banned_identifier_is_caught() {
    assert_catches(
        find_banned_identifiers,
        &[
            ("crates/store/src/a.rs", "    let mut said = run();\n"),
            ("crates/store/src/b.rs", "    let (first, rest) = parts;\n"),
            ("crates/store/src/c.rs", "    let Some(found) = find() else {\n"),
            (
                "crates/store/src/d.rs",
                "    if let Some(Entry { at: place, .. }) = entry {\n",
            ),
            ("crates/store/src/e.rs", "    for (place, lines) in logs {\n"),
            ("crates/store/src/f.rs", "    rows.map(|(_, shown)| shown)\n"),
            (
                "crates/store/src/g.rs",
                "fn parse(text: &str, known: &[Name]) -> Name {\n",
            ),
            ("crates/store/src/h.rs", "    pub(crate) kept: Vec<Row>,\n"),
            ("crates/store/src/i.rs", "        Some(told) if told.is_empty() => {}\n"),
            ("crates/store/src/j.rs", "    let worker_desk = sandbox();\n"),
            ("crates/store/src/k.rs", "    let _held: Guard = lock();\n"),
            ("tests/src/l.rs", "    async fn run(&self, mut ask: Request) {\n"),
        ],
    );
    assert_passes(
        find_banned_identifiers,
        &[
            ("crates/engine/src/state/a.rs", "    pub held: bool,\n"),
            ("crates/store/src/a.rs", "    let is_known = known_fields(found());\n"),
            (
                "crates/store/src/b.rs",
                "    let Entry { place: location, .. } = entry.rest;\n",
            ),
            (
                "crates/store/src/c.rs",
                "    // let said = run();\n    let text = \"let said = 1\";\n",
            ),
            (
                "crates/store/src/d.rs",
                "        Stage::Gone { step } => hand::over(step),\n",
            ),
        ],
    );
}
