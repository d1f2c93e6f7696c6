//! Writes an example playbook and a configuration file.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::args::InitTemplate;
use crate::cli_error::{CliError, Exit};
use crate::config::DEFAULT_CONFIG;

impl InitTemplate {
    /// Returns the name of the file.
    fn file_name(self) -> &'static str {
        match self {
            Self::Hello => "hello.yaml",
            Self::Pagination => "pagination.yaml",
            Self::FanOut => "fan-out.yaml",
            Self::Retry => "retry.yaml",
        }
    }

    /// Returns the text of the playbook.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hello => include_str!("../templates/hello.yaml"),
            Self::Pagination => include_str!("../templates/pagination.yaml"),
            Self::FanOut => include_str!("../templates/fan-out.yaml"),
            Self::Retry => include_str!("../templates/retry.yaml"),
        }
    }
}

/// Writes the files of a template and returns their names, the playbook first. Never changes existing files.
pub(crate) fn write_template(dir: &Path, template: InitTemplate) -> Result<Vec<&'static str>, CliError> {
    fs::create_dir_all(dir).map_err(|error| CliError::write_error(&dir.display().to_string(), &error))?;
    if dir.join(template.file_name()).exists() {
        let name = dir.join(template.file_name()).display().to_string();
        let problem = CliError::new(Exit::NotAllowed, "FILE_EXISTS", format!("`{name}` already exists"));
        return Err(problem.help("choose another directory, or another --template"));
    }
    write_new_file(dir, template.file_name(), template.text())?;
    let mut written_files = vec![template.file_name()];
    for (name, text) in [
        ("noetl.toml", commented_defaults()),
        (".gitignore", ".noetl/\n".to_owned()),
    ] {
        if !dir.join(name).exists() {
            write_new_file(dir, name, &text)?;
            written_files.push(name);
        }
    }
    Ok(written_files)
}

fn write_new_file(dir: &Path, name: &str, text: &str) -> Result<(), CliError> {
    let path = dir.join(name);
    let result = fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    result.map_err(|error| CliError::write_error(&path.display().to_string(), &error))
}

/// Returns the default settings commented out, so that new defaults of later versions apply.
fn commented_defaults() -> String {
    let comment = |line: &str| match line {
        line if line.is_empty() || line.starts_with('#') => format!("{line}\n"),
        line => format!("# {line}\n"),
    };
    DEFAULT_CONFIG.lines().map(comment).collect()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_template_is_a_playbook_without_a_warning() {
        for template in InitTemplate::value_variants() {
            let parsed = language::playbook::parse(template.file_name(), template.text().as_bytes());
            let style = language::diagnostic::DiagnosticStyle::default();
            let diagnostics: Vec<String> = parsed.diagnostics.iter().map(|d| d.render(style)).collect();
            assert!(diagnostics.is_empty(), "{}", diagnostics.join("\n"));
        }
    }

    #[test]
    fn existing_files_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("noetl.toml"), "slots = 2\n").unwrap();
        let written = write_template(dir.path(), InitTemplate::Hello).unwrap();
        assert_eq!(written, ["hello.yaml", ".gitignore"]);
        let config_text = fs::read_to_string(dir.path().join("noetl.toml")).unwrap();
        assert_eq!(config_text, "slots = 2\n");
        let error = write_template(dir.path(), InitTemplate::Hello).unwrap_err();
        assert_eq!(error.code, "FILE_EXISTS");
    }

    #[test]
    fn the_generated_configuration_has_only_defaults() {
        let parsed: toml::Table = toml::from_str(&commented_defaults()).unwrap();
        assert!(parsed.is_empty());
    }
}
