//! Loads the files of the project, and reports what a rule finds in them.

use std::fmt;
use std::fs;
use std::path::Path;

use regex::{Captures, Regex};

/// Comments, string literals and character literals. Character literals come before strings, because they may contain a
/// quote.
pub(crate) const COMMENTS_AND_LITERALS: &str =
    r###"(?s)//[^\n]*|'(?:\\.[^'\n]*|[^\\'])'|r##".*?"##|r#".*?"#|r"[^"]*"|"(?:\\.|[^"\\])*""###;

/// A text file: its path relative to the root, with forward slashes, and its content.
pub(crate) struct SourceFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TidyFinding {
    path: String,
    line: usize,
    message: String,
}

impl fmt::Display for TidyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

impl SourceFile {
    /// Creates a file for a negative control.
    pub(crate) fn new_seeded(path: &str, text: &str) -> Self {
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Creates a violation in this file; `line` starts at 1.
    pub(crate) fn finding(&self, line: usize, message: impl Into<String>) -> TidyFinding {
        TidyFinding {
            path: self.path.clone(),
            line,
            message: message.into(),
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.extension() == "rs"
    }

    pub(crate) fn is_markdown(&self) -> bool {
        self.extension() == "md"
    }

    fn extension(&self) -> &str {
        self.path.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Workspace crate of the file: `engine` for `crates/engine/src/lib.rs`.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test_code(&self) -> bool {
        self.name() == "tests.rs" || self.path.split('/').any(|part| part == "tests")
    }

    /// Numbered lines, without comments and inline test modules.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.numbered_lines()
            .take_while(|(_, line)| line.trim_end() != "mod tests {")
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// The code with comments and literals replaced by empty ones, on the same lines.
    pub(crate) fn code_without_literals(&self) -> String {
        let pattern = Regex::new(COMMENTS_AND_LITERALS).expect("the pattern is valid");
        let blank = |captures: &Captures<'_>| {
            let quote = if captures[0].starts_with("//") { "" } else { "\"\"" };
            let line_breaks = "\n".repeat(captures[0].matches('\n').count());
            format!("{quote}{line_breaks}")
        };
        pattern.replace_all(&self.text, blank).into_owned()
    }

    /// Lines with their numbers, from 1.
    pub(crate) fn numbered_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The root directory of the project.
pub(crate) fn project_root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the tests package is in the root directory")
}

/// Reads every text file of the project.
pub(crate) fn source_files() -> Vec<SourceFile> {
    let root = project_root();
    let mut files = Vec::new();
    collect_files(root, root, &mut files);
    assert!(files.len() > 50, "too few files found");
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect_files(root: &Path, directory: &Path, files: &mut Vec<SourceFile>) {
    const SKIPPED: &[&str] = &["target", ".git", ".noetl", "node_modules", "dist", "__pycache__"];
    const READ: &[&str] = &["rs", "md", "toml", "yaml", "yml", "txt", "py", "sh"];
    for entry in fs::read_dir(directory).expect("the directory is readable") {
        let path = entry.expect("the directory is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&name.as_ref()) {
                collect_files(root, &path, files);
            }
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        let is_script = directory.file_name().is_some_and(|name| name == ".ci");
        if !is_script && !READ.contains(&extension.as_ref()) {
            continue;
        }
        if let Ok(text) = fs::read_to_string(&path) {
            let relative = path.strip_prefix(root).expect("every path starts with the root");
            let path = relative.to_string_lossy().replace('\\', "/");
            files.push(SourceFile { path, text });
        }
    }
}

/// Applies a rule to this project and panics with all findings.
pub(crate) fn assert_clean(rule: fn(&[SourceFile]) -> Vec<TidyFinding>) {
    let findings = rule(&source_files());
    let lines: Vec<String> = findings.iter().map(TidyFinding::to_string).collect();
    assert!(lines.is_empty(), "{} findings\n{}", lines.len(), lines.join("\n"));
}

/// Panics unless the rule has exactly one finding in each seeded file.
pub(crate) fn assert_catches(rule: fn(&[SourceFile]) -> Vec<TidyFinding>, seeds: &[(&str, &str)]) {
    for (path, text) in seeds {
        let findings = rule(&[SourceFile::new_seeded(path, text)]);
        assert_eq!(findings.len(), 1, "{path}: {findings:?}\n{text}");
    }
}

/// Panics if the rule has a finding in a seeded file.
pub(crate) fn assert_passes(rule: fn(&[SourceFile]) -> Vec<TidyFinding>, seeds: &[(&str, &str)]) {
    for (path, text) in seeds {
        let findings = rule(&[SourceFile::new_seeded(path, text)]);
        assert_eq!(findings, [], "{path}\n{text}");
    }
}
