//! The list of commands and options in `docs/reference/cli.md`, from `noetl COMMAND --help`.

use std::fmt::Write as _;
use std::process::Command;

use tests::cli_sandbox::noetl_path;

use crate::assert_current;

/// An argument, an option or a subcommand in a help text.
#[derive(Debug, PartialEq, Eq)]
struct HelpEntry {
    name: String,
    meaning: String,
}

/// The parts of a help text.
#[derive(Debug, Default, PartialEq, Eq)]
struct HelpText {
    about: String,
    usage: String,
    commands: Vec<HelpEntry>,
    arguments: Vec<HelpEntry>,
}

/// The section that a line of a help text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HelpSection {
    About,
    Commands,
    Arguments,
}

impl HelpText {
    fn read(path: &[&str]) -> Self {
        let output = Command::new(noetl_path())
            .args(path)
            .arg("--help")
            .env_clear()
            .output()
            .expect("the binary starts");
        Self::parse(&String::from_utf8(output.stdout).expect("help is text"))
    }

    fn parse(text: &str) -> Self {
        let mut help = Self::default();
        let mut section = HelpSection::About;
        for line in text.lines() {
            let indent = line.len() - line.trim_start().len();
            let line = line.trim();
            if let Some(usage) = line.strip_prefix("Usage: ") {
                usage.clone_into(&mut help.usage);
            } else if indent == 0 && line == "Commands:" {
                section = HelpSection::Commands;
            } else if indent == 0 && matches!(line, "Arguments:" | "Options:") {
                section = HelpSection::Arguments;
            } else if line.is_empty() {
            } else if section == HelpSection::About {
                help.about.push_str(line);
            } else if section == HelpSection::Commands {
                let (name, meaning) = line.split_once(' ').expect("a command has a meaning");
                help.commands.push(HelpEntry::new(name, meaning.trim()));
            } else if indent < 10 {
                help.arguments.push(HelpEntry::new(line, ""));
            } else {
                let entry = help.arguments.last_mut();
                entry.expect("a meaning follows a name").append(line);
            }
        }
        help
    }
}

impl HelpEntry {
    fn new(name: &str, meaning: &str) -> Self {
        Self {
            name: name.to_owned(),
            meaning: meaning.to_owned(),
        }
    }

    /// Adds a line of the meaning; of a possible value, only its name.
    fn append(&mut self, line: &str) {
        let value = line.strip_prefix("- ").and_then(|value| value.split_once(':'));
        let separator = match (self.meaning.as_str(), value) {
            ("", _) => "",
            (text, _) if line == "Possible values:" && !text.ends_with('.') => ". ",
            (text, Some(_)) if !text.ends_with(':') => ", ",
            _ => " ",
        };
        self.meaning.push_str(separator);
        match value {
            Some((name, _)) => self.meaning.push_str(&format!("`{name}`")),
            None => self.meaning.push_str(line),
        }
    }
}

/// The table of these entries; empty if there are none.
fn entries_table(entries: &[&HelpEntry]) -> String {
    let mut table = String::new();
    if !entries.is_empty() {
        table.push_str("\n| Argument or option | Meaning |\n|---|---|\n");
    }
    for entry in entries {
        let cell = |text: &str| text.replace('|', "\\|");
        let (name, meaning) = (cell(&entry.name), cell(&entry.meaning));
        writeln!(table, "| `{name}` | {meaning} |").expect("text grows");
    }
    table
}

/// Adds the sections of a command and its subcommands. `global` are the options of all commands.
fn append_command(page: &mut String, path: &[&str], global: &[HelpEntry]) {
    let help = HelpText::read(path);
    if help.commands.is_empty() {
        let own: Vec<_> = help.arguments.iter().filter(|entry| !global.contains(entry)).collect();
        let table = entries_table(&own);
        let HelpText { about, usage, .. } = &help;
        write!(page, "\n### `noetl {}`\n\n{about}: `{usage}`\n{table}", path.join(" ")).expect("text grows");
    }
    for command in &help.commands {
        append_command(page, &[path, &[command.name.as_str()]].concat(), global);
    }
}

#[test]
fn the_page_of_the_command_line_lists_every_command_and_option() {
    let root = HelpText::read(&[]);
    let global: Vec<&HelpEntry> = root.arguments.iter().collect();
    let mut page = format!("### All commands\n{}", entries_table(&global));
    append_command(&mut page, &[], &root.arguments);
    assert_current("docs/reference/cli.md", &[page]);
}

#[test]
fn a_help_text_is_read_with_wrapped_lines_and_possible_values() {
    let text = "Draw a graph\n\nUsage: noetl graph [OPTIONS] <FILE>\n\nArguments:\n  <FILE>\n          A file that is\n          \
        here\n\nOptions:\n      --format <FORMAT>\n          Graph format\n\n          Possible values:\n          - ascii: Text\n          \
        - dot:   Graphviz\n          \n          [default: ascii]\n";
    let help = HelpText::parse(text);
    assert_eq!(help.about, "Draw a graph");
    assert_eq!(help.usage, "noetl graph [OPTIONS] <FILE>");
    let format = "Graph format. Possible values: `ascii`, `dot` [default: ascii]";
    let arguments = [
        HelpEntry::new("<FILE>", "A file that is here"),
        HelpEntry::new("--format <FORMAT>", format),
    ];
    assert_eq!(help.arguments, arguments);
}
