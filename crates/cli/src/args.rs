//! The command line as it is typed.

mod secret;
mod serving;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use model::event::Kind;
use model::status::RunStatus;

pub(crate) use self::secret::SecretVerb;
pub(crate) use self::serving::{DoctorArgs, GcArgs, ServeArgs, WorkerArgs};

/// Run workflows written as YAML playbooks.
#[derive(Debug, Parser)]
#[command(
    name = "noetl",
    version,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// Flags that every verb takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// How data is printed
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
    /// The same as -o json
    #[arg(short, global = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// Print no progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Print what the engine does (twice: in detail)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// When to use colours
    #[arg(long, global = true, value_enum, value_name = "WHEN")]
    pub(crate) color: Option<ColorWhen>,
    /// The directory that runs are kept in [default: ./.noetl]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) store: Option<PathBuf>,
    /// The server that runs are on, or several with commas; whichever answers is asked
    #[arg(long, global = true, value_name = "URL", value_delimiter = ',')]
    pub(crate) server: Vec<String>,
    /// A file with the token for the server; of `serve`, the admin's, made if it does not exist
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// A directory of programs that add tool kinds
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) tools: Option<PathBuf>,
}

impl Global {
    /// How data is printed.
    pub(crate) fn format(&self) -> Format {
        match self.output {
            Some(format) => format,
            None if self.json => Format::Json,
            None => Format::Table,
        }
    }
}

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Table,
    /// One JSON document
    Json,
    /// One JSON document per line
    Ndjson,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal
    Auto,
    /// Everywhere
    Always,
    /// Nowhere
    Never,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Run a playbook to its end and print its result
    #[command(visible_alias = "exec")]
    Run(RunArgs),
    /// Go on with a run after a pause or a crash
    Resume(ResumeArgs),
    /// Do the failed work of a run again, in the same run
    Retry(RetryArgs),
    /// Do a run once more as a new run, from its beginning or from a step
    Rerun(RerunArgs),
    /// Stop a run for good
    Cancel(CancelArgs),
    /// Stop a run for a while
    Pause(PauseArgs),
    /// Send a signal to a run that waits for it
    Signal(SignalArgs),
    /// Serve the API, and work, until stopped
    Serve(ServeArgs),
    /// Work for a server
    Worker(WorkerArgs),
    /// List runs, newest first
    Runs(RunsArgs),
    /// Show how a run stands and where it failed
    #[command(visible_alias = "status")]
    Show(ShowArgs),
    /// Print the log of a run
    Events(EventsArgs),
    /// Print what the tasks of a run wrote to their output
    Logs(LogsArgs),
    /// Print the result of a run, or of one of its steps
    Result(ResultArgs),
    /// Put playbooks into the catalog, and credentials into the store
    Register(RegisterArgs),
    /// Look at the playbooks in the catalog
    #[command(subcommand)]
    Catalog(CatalogVerb),
    /// Set, list and remove credentials
    #[command(subcommand)]
    Secret(SecretVerb),
    /// Make, list and take back tokens
    #[command(subcommand)]
    Token(TokenVerb),
    /// Say which server is meant when none is named
    #[command(subcommand)]
    Context(ContextVerb),
    /// Check playbooks and report every mistake
    Validate(ValidateArgs),
    /// Draw a playbook
    Graph(GraphArgs),
    /// Remove results that nothing needs any more from this machine's store
    Gc(GcArgs),
    /// Check this machine and say what is missing
    Doctor(DoctorArgs),
    /// Begin with a playbook that runs
    Init(InitArgs),
    /// Say what an error code means and what to do
    Explain(ExplainArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

/// Values for a playbook or a signal.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Values {
    /// Set a value, read as YAML; dots reach into maps
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set a value, taken as text
    #[arg(long, value_name = "KEY=TEXT")]
    pub(crate) set_string: Vec<String>,
    /// Values as a YAML or JSON file, `-` for standard input, or JSON text
    #[arg(long, visible_aliases = ["payload", "workload"], value_name = "FILE")]
    pub(crate) input: Option<String>,
}

/// How a run is driven from here.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Driving {
    /// Wait at most so long, such as 30s or 5m; the run can be resumed
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// How many tasks run at once [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
    /// Let templates read this environment variable as `env.NAME`
    #[arg(long, value_name = "NAME")]
    pub(crate) allow_env: Vec<String>,
    /// Print the id and go on in the background
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The playbook: a file, `-` for standard input, or PATH[@VERSION] in the catalog
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) values: Values,
    #[command(flatten)]
    pub(crate) driving: Driving,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run [default: the latest that has not ended]
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) driving: Driving,
    /// Drive the run without a terminal; what `--detach` starts
    #[arg(long, hide = true)]
    pub(crate) background: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RetryArgs {
    /// The run
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Go on with this version of the playbook
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) driving: Driving,
}

#[derive(Debug, Args)]
pub(crate) struct RerunArgs {
    /// The run
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// The first step that runs again; what ran before it is taken over
    #[arg(long, value_name = "STEP")]
    pub(crate) from: Option<String>,
    /// The first iteration of that step's loop that runs again
    #[arg(long, value_name = "N", requires = "from")]
    pub(crate) iteration: Option<u64>,
    /// Use this version of the playbook
    #[arg(long, value_name = "N")]
    pub(crate) version: Option<u32>,
    #[command(flatten)]
    pub(crate) values: Values,
    #[command(flatten)]
    pub(crate) driving: Driving,
}

#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Let the runs it started go on
    #[arg(long)]
    pub(crate) no_cascade: bool,
    /// Why, for the log
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The run
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// Why, for the log
    #[arg(long)]
    pub(crate) reason: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct SignalArgs {
    /// The run
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: String,
    /// The signal's name
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) values: Values,
}

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Only those that stand so; several with commas
    #[arg(long, value_delimiter = ',', value_parser = status)]
    pub(crate) status: Vec<RunStatus>,
    /// Only those started within this time, such as 24h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    /// Only those of this playbook path
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Only what failed, with every error in full
    #[arg(long)]
    pub(crate) failed: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The run
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Go on printing until the run ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of this type; several with commas
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = kind)]
    pub(crate) kinds: Vec<Kind>,
    /// Only events after this seq
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    pub(crate) after: u64,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The run
    #[arg(allow_negative_numbers = true, default_value = "last")]
    pub(crate) id: String,
    /// Go on printing until the run ends
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
    /// The run, or RUN/STEP, RUN/STEP#ITERATION, RUN/STEP#ITERATION/TASK
    #[arg(
        allow_negative_numbers = true,
        default_value = "last",
        value_name = "RUN[/STEP[#ITERATION][/TASK]]"
    )]
    pub(crate) id: String,
    /// A step, in place of the whole run
    pub(crate) step: Option<String>,
    /// The result of this task
    #[arg(long)]
    pub(crate) task: Option<String>,
    /// The result of this iteration, from 0
    #[arg(long, value_name = "N")]
    pub(crate) iteration: Option<u64>,
    /// The result of this page
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) page: Option<i64>,
    /// The result of this try, from 1; the one that ended well unless said
    #[arg(long, value_name = "N")]
    pub(crate) attempt: Option<u32>,
    /// A part of the result, such as rows[0].id
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// List the results that fit, and where they are
    #[arg(long, conflicts_with_all = ["path", "raw", "tree"])]
    pub(crate) list: bool,
    /// The bytes as they are, however many
    #[arg(long, conflicts_with_all = ["path", "tree"])]
    pub(crate) raw: bool,
    /// As a tree, also where nobody sits at a terminal
    #[arg(long)]
    pub(crate) tree: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Playbooks, directories of them, or `-`
    #[arg(required = true)]
    pub(crate) files: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RegisterArgs {
    /// Playbooks and credentials, or `-`
    #[arg(required_unless_present_any = ["dir", "file"], value_name = "FILE")]
    pub(crate) files: Vec<String>,
    /// The same as FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Vec<String>,
    /// Every playbook and credential in this directory and below
    #[arg(short, long, value_name = "DIR")]
    pub(crate) dir: Vec<String>,
}

/// What to look at in the catalog.
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogVerb {
    /// List every path with its latest version
    List,
    /// Print the text of a playbook
    Get {
        /// PATH, or PATH@VERSION
        path: String,
    },
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenVerb {
    /// Make a token; it is printed once
    Create {
        /// What people call it
        name: String,
        /// What it allows: worker, viewer, operator, author or admin
        #[arg(long, value_name = "ROLE")]
        role: wire::api::Role,
        /// How long it lives, such as 30d [default: for ever]
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        expires: Option<Duration>,
    },
    /// List tokens
    List,
    /// Take a token back
    Revoke {
        /// Its id, as `list` shows it
        id: String,
    },
}

/// What to do with contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContextVerb {
    /// Name a server; the first one named is used from then on
    Add {
        /// What to call it
        name: String,
    },
    /// Use this one; `local` means no server
    Use {
        /// Which
        name: String,
    },
    /// List all of them
    List,
    /// Forget one
    Rm {
        /// Which
        name: String,
    },
    /// Show which server is meant now
    Show,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// The playbook, or `-`
    pub(crate) file: String,
    /// How to draw it
    #[arg(long, value_enum, default_value = "ascii")]
    pub(crate) format: Drawing,
}

/// How a graph is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Drawing {
    /// On the terminal
    Ascii,
    /// As a Mermaid flowchart
    Mermaid,
    /// As Graphviz source
    Dot,
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where; made if it does not exist
    #[arg(default_value = ".")]
    pub(crate) dir: PathBuf,
    /// What to begin with
    #[arg(long, value_enum, default_value = "hello")]
    pub(crate) template: Template,
}

/// A playbook to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// One input, two steps, one result
    Hello,
    /// Pages read by jumping back inside a pipeline
    Pagination,
    /// Branches and a parallel loop that meet again
    FanOut,
    /// Retries by policy, and a failure that an arc handles
    Retry,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The code, such as E0107 or TIMEOUT
    pub(crate) code: String,
}

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    model::duration::parse_text(text)
        .ok_or_else(|| format!("`{text}` is not a duration such as 500ms, 30s or `1h 30m`"))
}

fn status(text: &str) -> Result<RunStatus, String> {
    // People say how a run ended in more than one way.
    match text.to_ascii_lowercase().as_str() {
        "succeeded" | "success" | "ok" | "done" => Ok(RunStatus::Completed),
        "error" => Ok(RunStatus::Failed),
        "canceled" => Ok(RunStatus::Cancelled),
        _ => text
            .parse()
            .map_err(|error: model::status::UnknownStatus| error.to_string()),
    }
}

fn kind(text: &str) -> Result<Kind, String> {
    text.parse()
        .map_err(|error: model::event::UnknownKind| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_latest_run_can_be_called_minus_one() {
        let cli = Cli::try_parse_from(["noetl", "show", "-1", "--failed"]).unwrap();
        let Verb::Show(show) = cli.verb else {
            panic!("show was asked for")
        };
        assert_eq!((show.id.as_str(), show.failed), ("-1", true));
    }

    #[test]
    fn old_spellings_of_verbs_and_flags_still_work() {
        let line = ["noetl", "exec", "a.yaml", "--payload", "p.json", "-j"];
        let cli = Cli::try_parse_from(line).unwrap();
        assert_eq!(cli.global.format(), Format::Json);
        let Verb::Run(run) = cli.verb else {
            panic!("run was asked for")
        };
        assert_eq!(run.values.input.as_deref(), Some("p.json"));
        assert!(Cli::try_parse_from(["noetl", "status", "last"]).is_ok());
    }

    #[test]
    fn several_statuses_are_told_apart_by_commas() {
        let cli = Cli::try_parse_from(["noetl", "runs", "--status", "failed,cancelled"]).unwrap();
        let Verb::Runs(runs) = cli.verb else {
            panic!("runs was asked for")
        };
        assert_eq!(runs.status, [RunStatus::Failed, RunStatus::Cancelled]);
    }
}
