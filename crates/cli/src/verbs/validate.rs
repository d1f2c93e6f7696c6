//! `noetl validate`: checks playbooks and prints all diagnostics.

use std::path::Path;

use language::diagnostic::Diagnostic;

use crate::app::{App, VerbResult};
use crate::args::ValidateArgs;
use crate::cli_error::{CliError, Exit};
use crate::clock;
use crate::external_kinds::{self, RunLocation};
use crate::inputs;
use crate::render::human;

/// Maximum depth of subdirectories that are searched.
pub(crate) const DEPTH_MAX: usize = 32;

/// Checks files and directories.
pub(crate) fn validate(app: &App, args: &ValidateArgs) -> VerbResult {
    let start = clock::now();
    let mut files = Vec::new();
    for name in &args.files {
        if Path::new(name).is_dir() {
            collect_files(Path::new(name), DEPTH_MAX, &mut files)?;
        } else {
            files.push((name.clone(), true));
        }
    }
    let mut checked = ValidationSummary::default();
    for (name, is_explicit) in files {
        let bytes = inputs::read_file(&name)?;
        // A directory may contain other YAML files; a file that the user named must be a playbook.
        if is_explicit || looks_like_playbook(&bytes) {
            let parsed = external_kinds::parse_playbook(&name, &bytes, &app.settings, RunLocation::Remote);
            checked.add(parsed.diagnostics);
        }
    }
    let took = clock::now().since(start).as_millis();
    checked.print(app, u64::try_from(took).unwrap_or(u64::MAX));
    match checked.errors {
        0 => Ok(Exit::Done),
        _ => Ok(Exit::InvalidPlaybook),
    }
}

#[derive(Default)]
struct ValidationSummary {
    files: usize,
    files_with_findings: usize,
    errors: usize,
    diagnostics: Vec<Diagnostic>,
}

impl ValidationSummary {
    fn add(&mut self, diagnostics: Vec<Diagnostic>) {
        self.files += 1;
        self.files_with_findings += usize::from(!diagnostics.is_empty());
        self.errors += diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count();
        self.diagnostics.extend(diagnostics);
    }

    fn print(&self, app: &App, took_ms: u64) {
        let out = &app.output;
        if out.is_machine() {
            out.print_records(&self.diagnostics);
            return;
        }
        for diagnostic in &self.diagnostics {
            out.print_data(&diagnostic.render(out.stdout.diagnostic_style()));
        }
        out.info(&self.summary(took_ms, out.stderr));
    }

    fn summary(&self, took_ms: u64, style: crate::terminal_style::TerminalStyle) -> String {
        let diagnostics = self.diagnostics.iter();
        let warnings = diagnostics.filter(|diagnostics| diagnostics.is_warning()).count();
        let note_count = self.diagnostics.len() - self.errors - warnings;
        let took = human::format_duration_ms(took_ms);
        let files = human::format_counted(self.files, "file");
        let counts = [(self.errors, "error"), (warnings, "warning"), (note_count, "note")];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, noun)| human::format_counted(count, noun)).collect();
        if counts.is_empty() {
            return format!("{} {files} checked, no problems found ({took})", style.tick());
        }
        let findings = counts.join(", ");
        let mark = if self.errors > 0 { style.cross() } else { style.tick() };
        format!("{mark} {findings} in {} of {files} ({took})", self.files_with_findings)
    }
}

pub(crate) fn collect_files(dir: &Path, depth: usize, files: &mut Vec<(String, bool)>) -> Result<(), CliError> {
    let unreadable = |error: &std::io::Error| CliError::read_error(&dir.display().to_string(), error);
    let entries = std::fs::read_dir(dir).map_err(|error| unreadable(&error))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| unreadable(&error))?.path());
    }
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_yaml = path
            .extension()
            .is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() && !path.is_symlink() && depth > 0 {
            collect_files(&path, depth - 1, files)?;
        } else if is_yaml && path.is_file() {
            files.push((path.display().to_string(), false));
        }
    }
    Ok(())
}

pub(crate) fn looks_like_playbook(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let has_key = |key: &str| text.lines().any(|line| line.starts_with(key));
    has_key("kind: Playbook") || has_key("workflow:") || has_key("apiVersion: noetl.io")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal_style::TerminalStyle;

    #[test]
    fn the_summary_counts_findings_and_the_files_they_are_in() {
        let bad = language::playbook::parse("bad.yaml", b"kind: Playbook\n").diagnostics;
        let mut checked = ValidationSummary::default();
        checked.add(bad);
        checked.add(Vec::new());
        let summary = checked.summary(11, TerminalStyle::PLAIN);
        assert!(summary.starts_with("✗ "), "{summary}");
        assert!(summary.ends_with("in 1 of 2 files (11ms)"), "{summary}");
    }

    #[test]
    fn directories_are_searched_for_playbooks_only() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::create_dir(dir.path().join(".noetl")).unwrap();
        for name in ["a.yaml", "sub/b.yml", "c.txt", ".noetl/d.yaml"] {
            std::fs::write(dir.path().join(name), "x: 1\n").unwrap();
        }
        let mut files = Vec::new();
        collect_files(dir.path(), DEPTH_MAX, &mut files).unwrap();
        let ends: Vec<&str> = files.iter().map(|(name, _)| &name[name.len() - 6..]).collect();
        assert_eq!(ends, ["a.yaml", "/b.yml"]);
        assert!(!looks_like_playbook(b"x: 1\n"));
        assert!(looks_like_playbook(b"apiVersion: noetl.io/v2\nkind: Playbook\n"));
    }
}
