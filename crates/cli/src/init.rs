//! Writes an example playbook and a configuration file.

use std::fs;
use std::io::Write;
use std::path::Path;

use crate::args::Template;
use crate::config::DEFAULTS;
use crate::problem::{Exit, Problem};

impl Template {
    /// Returns the name of the file.
    fn file(self) -> &'static str {
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
pub(crate) fn write(dir: &Path, template: Template) -> Result<Vec<&'static str>, Problem> {
    fs::create_dir_all(dir)
        .map_err(|error| Problem::unwritable(&dir.display().to_string(), &error))?;
    if dir.join(template.file()).exists() {
        let name = dir.join(template.file()).display().to_string();
        let problem = Problem::new(
            Exit::NotAllowed,
            "FILE_EXISTS",
            format!("`{name}` already exists"),
        );
        return Err(problem.help("choose another directory, or another --template"));
    }
    put(dir, template.file(), template.text())?;
    let mut written = vec![template.file()];
    for (name, text) in [
        ("noetl.toml", commented()),
        (".gitignore", ".noetl/\n".to_owned()),
    ] {
        if !dir.join(name).exists() {
            put(dir, name, &text)?;
            written.push(name);
        }
    }
    Ok(written)
}

fn put(dir: &Path, name: &str, text: &str) -> Result<(), Problem> {
    let path = dir.join(name);
    let made = fs::File::create_new(&path).and_then(|mut file| file.write_all(text.as_bytes()));
    made.map_err(|error| Problem::unwritable(&path.display().to_string(), &error))
}

/// Returns the default settings commented out, so that new defaults of later versions apply.
fn commented() -> String {
    let comment = |line: &str| match line {
        line if line.is_empty() || line.starts_with('#') => format!("{line}\n"),
        line => format!("# {line}\n"),
    };
    DEFAULTS.lines().map(comment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn every_template_is_a_playbook_without_a_warning() {
        for template in Template::value_variants() {
            let parsed = model::playbook::parse(template.file(), template.text().as_bytes());
            let style = model::diagnostic::Style::default();
            let shown: Vec<String> = parsed.diagnostics.iter().map(|d| d.render(style)).collect();
            assert!(shown.is_empty(), "{}", shown.join("\n"));
        }
    }

    #[test]
    fn files_that_exist_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("noetl.toml"), "slots = 2\n").unwrap();
        let written = write(dir.path(), Template::Hello).unwrap();
        assert_eq!(written, ["hello.yaml", ".gitignore"]);
        let kept = fs::read_to_string(dir.path().join("noetl.toml")).unwrap();
        assert_eq!(kept, "slots = 2\n");
        let again = write(dir.path(), Template::Hello).unwrap_err();
        assert_eq!(again.code, "FILE_EXISTS");
    }

    #[test]
    fn the_configuration_written_changes_nothing_by_itself() {
        let parsed: toml::Table = toml::from_str(&commented()).unwrap();
        assert!(parsed.is_empty());
    }
}
