//! Checks the programs and libraries that tasks use.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::app::App;
use crate::config::variables;
use crate::doctor::Check;

/// Usual directories of libraries.
const LIBRARIES: [&str; 5] = [
    "/usr/lib",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/opt/homebrew/lib",
];

/// Checks Python, the shell, `DuckDB`, container clients and external tools.
pub(crate) fn check_programs(app: &App) -> Vec<Check> {
    let mut checks = check_python(app);
    checks.push(check_shell());
    checks.push(check_duckdb(app));
    checks.push(check_optional_program(
        app,
        "docker",
        "install Docker if playbooks use `kind: container`",
    ));
    checks.push(check_optional_program(
        app,
        "kubectl",
        "install kubectl if playbooks use `kind: container` on Kubernetes",
    ));
    checks.extend(check_external_tools(app));
    checks
}

fn check_python(app: &App) -> Vec<Check> {
    let python = &app.settings.python;
    let run_python = |code: &str| program_output(app, python, &["-c", code]);
    let remedy = "install Python 3.8 or newer (for example `apt install python3`), or set NOETL_PYTHON";
    let version = run_python("import sys; print('%d.%d.%d' % sys.version_info[:3], sys.executable)");
    let Some(version) = version else {
        let detail = format!("cannot run `{}`", python.display());
        return vec![Check::fail("python", detail, remedy)];
    };
    let is_new = run_python("import sys; print(sys.version_info >= (3, 8))").is_some_and(|output| output == "True");
    let mut checks = vec![if is_new {
        Check::ok("python", version)
    } else {
        Check::fail("python", version, remedy)
    }];
    checks.push(match run_python("import venv, ensurepip; print(ensurepip.version())") {
        Some(pip) => Check::ok("python venv", format!("with pip {pip}")),
        None => Check::warn(
            "python venv",
            "modules venv and ensurepip not found; `libs` cannot be installed",
            "install them (for example `apt install python3-venv`)",
        ),
    });
    checks
}

fn check_shell() -> Check {
    let ran = Command::new("/bin/sh").args(["-c", "true"]).status();
    match ran {
        Ok(status) if status.success() => Check::ok("shell", "/bin/sh"),
        _ => Check::fail("shell", "cannot run /bin/sh", "install a POSIX shell"),
    }
}

fn check_duckdb(app: &App) -> Check {
    const NAME: &str = "duckdb";
    let remedy = "install libduckdb and set NOETL_DUCKDB_LIB to its path if playbooks use `kind: duckdb`";
    if let Some(named) = app.environment.get(variables::DUCKDB_LIB) {
        return if Path::new(named).is_file() {
            Check::ok(NAME, named)
        } else {
            Check::fail(NAME, format!("library `{named}` of NOETL_DUCKDB_LIB not found"), remedy)
        };
    }
    let files = LIBRARIES.iter().flat_map(|dir| {
        let dir = Path::new(dir);
        ["libduckdb.so", "libduckdb.dylib"].map(|name| dir.join(name))
    });
    match files.into_iter().find(|file| file.is_file()) {
        Some(file) => Check::ok(NAME, file.display().to_string()),
        None => Check::warn(NAME, "library not found", remedy),
    }
}

fn check_optional_program(app: &App, name: &'static str, remedy: &'static str) -> Check {
    match app.environment.find_program(name) {
        Some(path) => Check::ok(name, path.display().to_string()),
        None => Check::warn(name, "not in PATH", remedy),
    }
}

/// Checks the programs of external tools.
fn check_external_tools(app: &App) -> Vec<Check> {
    let manifests = app.settings.external.iter();
    let checks = manifests.map(|manifest| {
        let program = manifest.program_path();
        let is_there = program.is_file()
            || program
                .to_str()
                .is_some_and(|name| app.environment.find_program(name).is_some());
        let detail = format!("{} {}: {}", manifest.name, manifest.version, program.display());
        if is_there {
            Check::ok("tool", detail)
        } else {
            Check::fail(
                "tool",
                format!("{detail} not found"),
                "correct `command` in its manifest",
            )
        }
    });
    checks.collect()
}

/// Runs a program in the environment of tasks and returns its output; `None` if it fails.
pub(super) fn program_output(app: &App, program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .envs(app.environment.task_variables())
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
