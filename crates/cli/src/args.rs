//! Command-line arguments of `noetl`. The help texts are the doc comments of fields and variants, or
//! `help` if the text names a variable.

mod runs;
mod secret;
mod serve;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use model::event::EventKind;
use serde::Deserialize;

pub(crate) use self::runs::{OpenArgs, RunsArgs, parse_labels};
pub(crate) use self::secret::SecretVerb;
pub(crate) use self::serve::{DEFAULT_LISTEN, DoctorArgs, GcArgs, ServeArgs, SingleSignOnArgs, WorkerArgs};

/// Run workflows written as YAML playbooks.
#[derive(Debug, Parser)]
#[command(name = "noetl", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct GlobalArgs {
    /// Output format
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<OutputFormat>,
    /// Same as -o json
    #[arg(short, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Do not print progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Increase log verbosity (-v info, -vv debug, -vvv trace)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colors
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help = "Local store directory; `serve` also takes a `postgres://` URL [env: NOETL_STORE] [default: ./.noetl]"
    )]
    pub(crate) store: Option<PathBuf>,
    #[arg(
        long,
        global = true,
        value_name = "URL",
        value_delimiter = ',',
        help = "Server URL; a comma-separated list fails over to the next one [env: NOETL_SERVER]"
    )]
    pub(crate) server: Vec<String>,
    /// File with the access token; `serve` creates it and writes the first admin token to it
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help = "Directory of external tool manifests [env: NOETL_TOOLS_DIR]"
    )]
    pub(crate) tools: Option<PathBuf>,
}

impl GlobalArgs {
    /// Returns the output format that `-o` and `-j` select.
    pub(crate) fn format(&self) -> OutputFormat {
        match self.output {
            Some(format) => format,
            None if self.json => OutputFormat::Json,
            None => OutputFormat::Table,
        }
    }
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Human-readable text
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    Ndjson,
}

/// When to use colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ColorWhen {
    /// Only on a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// A command.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a playbook and print its result
    #[command(visible_alias = "exec")]
    Run(RunArgs),
    /// Resume a paused or interrupted run
    Resume(ResumeArgs),
    /// Retry the failed steps of a run
    Retry(RetryArgs),
    /// Start a new run from an earlier one, optionally reusing results up to a step
    Rerun(RerunArgs),
    /// Cancel a run
    Cancel(CancelArgs),
    /// Pause a run
    Pause(PauseArgs),
    /// Send a signal to a waiting run
    Signal(SignalArgs),
    /// Start the API server; with a local store it also runs tasks
    Serve(ServeArgs),
    /// Start a worker that runs tasks for a server
    Worker(WorkerArgs),
    /// List runs, newest first
    Runs(RunsArgs),
    /// Show the status, steps and errors of a run
    #[command(visible_alias = "status")]
    Show(ShowArgs),
    /// Print the event log of a run
    Events(EventsArgs),
    /// Print the stdout and stderr of the tasks of a run
    Logs(LogsArgs),
    /// Print the result of a run or of one of its steps
    Result(ResultArgs),
    /// Open the web client in a browser
    Open(OpenArgs),
    /// Register playbooks and credentials
    Register(RegisterArgs),
    /// List and print registered playbooks
    #[command(subcommand)]
    Catalog(CatalogVerb),
    /// Create, list and remove credentials
    #[command(subcommand)]
    Secret(SecretVerb),
    /// Create, list and revoke access tokens
    #[command(subcommand)]
    Token(TokenVerb),
    /// Manage contexts (named servers)
    #[command(subcommand)]
    Context(ContextVerb),
    /// Check playbooks for errors without running them
    Validate(ValidateArgs),
    /// Draw the graph of a playbook
    Graph(GraphArgs),
    /// Delete expired results from the local store
    Gc(GcArgs),
    /// Check this machine and report what is missing
    Doctor(DoctorArgs),
    /// Create a project with an example playbook
    Init(InitArgs),
    /// Explain an error code and how to fix it
    Explain(ExplainArgs),
    /// Print shell completions
    Completions(CompletionsArgs),
}

/// Inputs of a run, or data of a signal.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct InputArgs {
    /// Set an input, parsed as YAML; `a.b=1` sets a nested key (repeatable)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set an input as a string (repeatable)
    #[arg(long, value_name = "KEY=TEXT")]
    pub(crate) set_string: Vec<String>,
    /// Inputs: a YAML or JSON file, `-` for standard input, or JSON text
    #[arg(long, visible_aliases = ["payload", "workload"], value_name = "FILE")]
    pub(crate) input: Option<String>,
}

/// Options for running a playbook and waiting for its end.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DriveArgs {
    /// Stop waiting after this time, for example 30s; the run continues in the background (exit code 7)
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Maximum number of steps to run at once [default: 32]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
    /// Run in the background and print the run ID
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Playbook: a file, `-` for standard input, or PATH[@VERSION] of a registered playbook
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) values: InputArgs,
    /// Label of the run; replaces a label of the playbook with the same key (repeatable)
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    #[command(flatten)]
    pub(crate) drive_args: DriveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// Run ID, a unique prefix or suffix of one, or `last` [default: the latest unfinished run]
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) drive_args: DriveArgs,
    /// Run without a terminal; `--detach` starts a process with this flag
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Playbook version to continue with [default: the current version of the run]
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) drive_args: DriveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Step to start from; results of earlier steps are reused
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    /// Loop iteration of that step to start from; results of earlier iterations are reused
    #[arg(long, value_name = "N", requires = "from")]
    pub(crate) iteration: Option<u64>,
    /// Playbook version to run [default: the current version of the run]
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    /// Print what would be reused, run and changed; start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) values: InputArgs,
    #[command(flatten)]
    pub(crate) drive_args: DriveArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Do not cancel child runs
    #[arg(long)]
    pub(crate) no_cascade: bool,
    /// Reason, recorded in the event log
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Reason, recorded in the event log
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Signal name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) values: InputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Only failed steps, with all errors in full
    #[arg(long)]
    pub(crate) failed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Keep printing until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of these types, comma-separated
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = parse_kind)]
    pub(crate) kinds: Vec<EventKind>,
    /// Only events after this sequence number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Keep printing until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only lines of this step
    #[arg(long)]
    pub(crate) step: Option<String>,
    /// Only lines of this task
    #[arg(long)]
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResultArgs {
    /// Run ID or `last`, optionally with a step, iteration and task, for example last/fetch#0/save
    #[arg(
        allow_negative_numbers = true,
        default_value = "last",
        value_name = "RUN[/STEP[#ITERATION][/TASK]]"
    )]
    pub(crate) id: String,
    /// Step whose result to print instead of the run's
    pub(crate) step: Option<String>,
    /// Task whose result to print
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// Iteration number, from 0
    #[arg(long, value_name = "N")]
    pub(crate) iteration: Option<u64>,
    /// Page number
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) page: Option<i64>,
    /// Attempt number, from 1 [default: the latest successful attempt]
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// Part of the result, for example rows[0].id
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// List the matching results and where they are stored
    #[arg(long, conflicts_with_all = ["path", "raw", "tree"])]
    pub(crate) list: bool,
    /// Write the raw bytes, unformatted
    #[arg(long, conflicts_with_all = ["path", "tree"])]
    pub(crate) raw: bool,
    /// Print a tree even if stdout is not a terminal
    #[arg(long)]
    pub(crate) tree: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Playbook files, directories, or `-` for standard input
    #[arg(required = true)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// Playbook and credential files, or `-` for standard input
    #[arg(required_unless_present_any = ["dir", "file"], value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// Same as FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Vec<String>,
    /// Directory to search recursively for playbooks and credentials
    #[arg(short, long, value_name = "DIR")]
    pub(crate) dir: Vec<String>,
}

/// Subcommands of `noetl catalog`.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogVerb {
    /// List all playbook paths with their latest version
    List,
    /// Print the text of a playbook
    Get {
        /// PATH or PATH@VERSION
        path: String,
    },
}

/// Subcommands of `noetl token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Create an access token and print it; it cannot be shown again
    Create {
        /// Token name, shown by `token list`
        name: String,
        /// Role: worker, viewer, operator, author or admin
        #[arg(long, value_name = "ROLE")]
        role: wire::api::Role,
        /// Lifetime, for example 30d [default: does not expire]
        #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
        expires: Option<Duration>,
    },
    /// List access tokens
    List,
    /// Revoke an access token
    Revoke {
        /// Token ID, shown by `token list`
        id: String,
    },
}

/// Subcommands of `noetl context`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextVerb {
    /// Add a context; the first one you add becomes the current context
    Add {
        /// Context name
        name: String,
    },
    /// Switch the current context; `local` selects the local store
    Use {
        /// Context name
        name: String,
    },
    /// List contexts
    List,
    /// Remove a context
    Rm {
        /// Context name
        name: String,
    },
    /// Show which server or store commands use
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Playbook file, or `-` for standard input
    pub(crate) file: String,
    /// Graph format
    #[arg(long, value_enum, default_value = "ascii")]
    pub(crate) format: GraphFormat,
}

/// Graph format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// Text for the terminal
    Ascii,
    /// Mermaid flowchart
    Mermaid,
    /// Graphviz source
    Dot,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Directory; created if it does not exist
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Example playbook to create
    #[arg(long, value_enum, default_value = "hello")]
    pub(crate) template: InitTemplate,
}

/// Example playbook of `noetl init`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitTemplate {
    /// One input, two steps, one result
    Hello,
    /// Pagination with a jump inside a pipeline
    Pagination,
    /// Parallel branches and a parallel loop, joined at the end
    FanOut,
    /// Retry rules, and an arc that handles a failure
    Retry,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Error code, for example E0107 or TIMEOUT
    pub(crate) code: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    model::duration::parse_text(text)
        .ok_or_else(|| format!("invalid duration `{text}`: use for example 500ms, 30s or `1h 30m`"))
}

fn parse_kind(text: &str) -> Result<EventKind, String> {
    text.parse()
        .map_err(|error: model::event::UnknownKindError| error.to_string())
}

#[cfg(test)]
mod tests {
    use model::status::RunStatus;

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_latest_run_can_be_called_minus_one() {
        let cli = Cli::try_parse_from(["noetl", "show", "-1", "--failed"]).unwrap();
        let Verb::Show(show) = cli.verb else {
            panic!("the verb is not `show`")
        };
        assert_eq!((show.id.as_str(), show.failed), ("-1", true));
    }

    #[test]
    fn old_spellings_of_verbs_and_flags_still_work() {
        let line = ["noetl", "exec", "a.yaml", "--payload", "p.json", "-j"];
        let cli = Cli::try_parse_from(line).unwrap();
        assert_eq!(cli.global.format(), OutputFormat::Json);
        let Verb::Run(run) = cli.verb else {
            panic!("the verb is not `run`")
        };
        assert_eq!(run.values.input.as_deref(), Some("p.json"));
        assert!(Cli::try_parse_from(["noetl", "status", "last"]).is_ok());
    }

    #[test]
    fn statuses_are_separated_by_commas() {
        let cli = Cli::try_parse_from(["noetl", "runs", "--status", "failed,cancelled"]).unwrap();
        let Verb::Runs(runs) = cli.verb else {
            panic!("the verb is not `runs`")
        };
        assert_eq!(runs.status, [RunStatus::Failed, RunStatus::Cancelled]);
    }
}
