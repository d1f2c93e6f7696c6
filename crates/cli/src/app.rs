//! Runs the command that the command line selects, with settings, environment and output.

use std::future::Future;
use std::path::PathBuf;

use language::playbook::SharedPlaybooks;
use tokio::runtime::Builder;

use crate::args::{Cli, ColorWhen, Verb};
use crate::cli_error::{CliError, Exit};
use crate::config::{Environment, Settings};
use crate::output::Output;
use crate::remote;
use crate::verbs;

/// Shared context of all commands.
pub(crate) struct App {
    /// Effective settings.
    pub(crate) settings: Settings,
    /// Environment variables.
    pub(crate) environment: Environment,
    /// Output streams.
    pub(crate) output: Output,
    /// Parsed playbooks, shared by the parts of this process.
    pub(crate) playbooks: SharedPlaybooks,
}

/// Result of a command.
pub(crate) type VerbResult = Result<Exit, CliError>;

/// Runs the parsed command line and returns the exit code.
pub(crate) fn run(cli: Cli) -> Exit {
    let environment = Environment::read();
    crate::memory::limit_heaps(&environment);
    let current_dir = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let settings = Settings::load(&cli.global, &environment, &current_dir);
    let color = settings.as_ref().map_or(ColorWhen::Auto, |settings| settings.color);
    let out = Output::new(cli.global.format(), color, cli.global.quiet, &environment);
    let settings = match settings {
        Ok(settings) => settings,
        Err(problem) => {
            out.print_error(&problem);
            return problem.exit;
        }
    };
    crate::trace::start_tracing(cli.global.verbose, &environment, out.stderr.has_color);
    let app = App {
        settings,
        environment,
        output: out,
        playbooks: SharedPlaybooks::default(),
    };
    let result = run_verb(&app, cli.verb);
    let exit = result.unwrap_or_else(|problem| {
        let problem = remote::add_context_help(problem, app.settings.server.as_ref());
        app.output.print_error(&problem);
        problem.exit
    });
    match exit {
        Exit::Done if app.output.has_failed() => Exit::NotAllowed,
        exit => exit,
    }
}

fn run_verb(app: &App, verb: Verb) -> VerbResult {
    match verb {
        Verb::Run(args) => block_on(verbs::run::run(app, &args)),
        Verb::Resume(args) => block_on(verbs::resume::resume(app, &args)),
        Verb::Retry(args) => block_on(verbs::retry::retry(app, &args)),
        Verb::Rerun(args) => block_on(verbs::rerun::rerun(app, &args)),
        Verb::Cancel(args) => block_on(verbs::control::cancel(app, &args)),
        Verb::Pause(args) => block_on(verbs::control::pause(app, &args)),
        Verb::Signal(args) => block_on(verbs::control::signal(app, &args)),
        Verb::Serve(args) => block_on_every_core(verbs::serve::serve(app, &args)),
        Verb::Worker(args) => block_on_every_core(verbs::worker::worker(app, &args)),
        Verb::Runs(args) => block_on(verbs::runs::runs(app, &args)),
        Verb::Show(args) => block_on(verbs::show::show(app, &args)),
        Verb::Events(args) => block_on(verbs::events::events(app, &args)),
        Verb::Logs(args) => block_on(verbs::logs::logs(app, &args)),
        Verb::Result(args) => block_on(verbs::result::result(app, &args)),
        Verb::Open(args) => block_on(verbs::open::open(app, &args)),
        Verb::Register(args) => block_on(verbs::register::register(app, &args)),
        Verb::Catalog(verb) => block_on(verbs::catalog::catalog(app, &verb)),
        Verb::Secret(verb) => block_on(verbs::secret::secret(app, verb)),
        Verb::Token(verb) => block_on(verbs::token::token(app, verb)),
        Verb::Context(verb) => verbs::context::context(app, &verb),
        Verb::Validate(args) => verbs::validate::validate(app, &args),
        Verb::Gc(args) => block_on(verbs::gc::gc(app, &args)),
        Verb::Doctor(args) => block_on(verbs::doctor::doctor(app, &args)),
        Verb::Graph(args) => verbs::graph::graph(app, &args),
        Verb::Init(args) => verbs::init::init(app, &args),
        Verb::Explain(args) => verbs::explain::explain(app, &args),
        Verb::Completions(args) => Ok(verbs::completions::completions(app, &args)),
    }
}

/// Runs an asynchronous command on two threads. Synchronous commands start no runtime.
fn block_on(verb: impl Future<Output = VerbResult>) -> VerbResult {
    run_on(Builder::new_multi_thread().worker_threads(2), verb)
}

/// Runs a long-lived process (`serve`, `worker`) with a thread for each core.
fn block_on_every_core(verb: impl Future<Output = VerbResult>) -> VerbResult {
    run_on(&mut Builder::new_multi_thread(), verb)
}

fn run_on(threads: &mut Builder, verb: impl Future<Output = VerbResult>) -> VerbResult {
    let runtime = threads.enable_all().build().map_err(|error| {
        let message = format!("cannot start threads: {error}");
        CliError::new(Exit::NotAllowed, "NO_THREADS", message)
    })?;
    let result = runtime.block_on(verb);
    // A pending read of standard input must not keep the process alive.
    runtime.shutdown_background();
    result
}
