//! Builds the web client in `ui/` with Node.js, and writes a table of its files for `include!`.
//!
//! Without Node.js, with `NOETL_UI=off`, or if the client cannot be built, the table is empty and has the reason: the
//! build of the binary never fails because of the client.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;

/// What the client is built from, relative to `ui/`.
const SOURCES: &[&str] = &[
    "index.html",
    "package.json",
    "package-lock.json",
    ".npmrc",
    "public",
    "src",
];
/// Configuration files of the build, by the start of their names.
const CONFIGURATIONS: &[&str] = &["tsconfig", "vite.config"];
/// How many lines of a failed command a warning shows.
const WARNING_LINES: usize = 12;

fn main() {
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let sources = manifest_dir.join("../../ui");
    let output = PathBuf::from(variable("OUT_DIR"));
    directive("cargo::rerun-if-changed=build.rs");
    directive("cargo::rerun-if-env-changed=NOETL_UI");
    let table = match build_client(&sources, &output) {
        Ok(files) => file_table(&files),
        Err(reason) => {
            if !matches!(reason, Missing::Disabled) {
                warn_each_line(&format!("the binary has no web client: {}", reason.text()));
            }
            format!("Err({:?})", reason.summary())
        }
    };
    fs::write(output.join("files.rs"), table).expect("the output directory is writable");
}

/// Why there is no client.
enum Missing {
    /// `NOETL_UI=off`.
    Disabled,
    /// A program or a file is missing.
    Absent(String),
    /// A command failed; the second text is the end of its output.
    Failed(String, String),
}

impl Missing {
    /// One sentence, for the page that the server shows instead of the client.
    fn summary(&self) -> String {
        match self {
            Self::Disabled => "it was built with NOETL_UI=off".to_owned(),
            Self::Absent(what) => what.clone(),
            Self::Failed(command, _) => format!("`{command}` failed during the build"),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Failed(_, output) => format!("{}\n{output}", self.summary()),
            _ => self.summary(),
        }
    }
}

/// Builds the client in the output directory. Returns its files.
fn build_client(sources: &Path, output: &Path) -> Result<Vec<(String, PathBuf)>, Missing> {
    let inputs = inputs(sources)?;
    for input in &inputs {
        directive(&format!("cargo::rerun-if-changed={}", sources.join(input).display()));
    }
    if variable("NOETL_UI") == "off" {
        return Err(Missing::Disabled);
    }
    for program in ["node", "npm"] {
        if !Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
        {
            return Err(Missing::Absent(format!("`{program}` was not found during the build")));
        }
    }
    // The build writes only below the output directory, never into the sources.
    let work = output.join("ui");
    for input in &inputs {
        copy(&sources.join(input), &work.join(input)).map_err(|error| Missing::Absent(error.to_string()))?;
    }
    install_packages(&work)?;
    run(&work, "node", &["node_modules/vite/bin/vite.js", "build"])?;
    let built = work.join("dist");
    let mut files = Vec::new();
    list_files(&built, &built, &mut files);
    files.sort();
    if files.iter().any(|(path, _)| path == "index.html") {
        Ok(files)
    } else {
        Err(Missing::Absent(
            "the build of the client wrote no index.html".to_owned(),
        ))
    }
}

/// The files and folders that the client is built from.
fn inputs(sources: &Path) -> Result<Vec<String>, Missing> {
    let listing = fs::read_dir(sources);
    let listing = listing.map_err(|_| Missing::Absent("its sources in `ui` were not found".to_owned()))?;
    let names = listing
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let is_input = |name: &String| {
        SOURCES.contains(&name.as_str()) || CONFIGURATIONS.iter().any(|prefix| name.starts_with(prefix))
    };
    let mut names: Vec<String> = names.filter(is_input).collect();
    names.sort();
    Ok(names)
}

/// Installs the packages of the lock file, unless they are installed already.
fn install_packages(work: &Path) -> Result<(), Missing> {
    let lock = fs::read(work.join("package-lock.json"));
    let lock = lock.map_err(|error| Missing::Absent(format!("cannot read package-lock.json: {error}")))?;
    // Written last, so that an interrupted installation is repeated.
    let stamp = work.join("node_modules/.installed-lock.json");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    run(work, "npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    fs::write(&stamp, lock).map_err(|error| Missing::Absent(format!("cannot write {}: {error}", stamp.display())))
}

fn run(work: &Path, program: &str, arguments: &[&str]) -> Result<(), Missing> {
    let command = format!("{program} {}", arguments.join(" "));
    match Command::new(program)
        .args(arguments)
        .env("NO_COLOR", "1")
        .current_dir(work)
        .output()
    {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            let end = lines[lines.len().saturating_sub(WARNING_LINES)..].join("\n");
            Err(Missing::Failed(command, end))
        }
        Err(error) => Err(Missing::Failed(command, error.to_string())),
    }
}

/// Copies a file or a folder. A folder replaces the one that an earlier build copied.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        fs::create_dir_all(to)?;
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to).map(drop)
}

fn list_files(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list_files(root, &path, files);
        } else if let Ok(name) = path.strip_prefix(root) {
            files.push((name.to_string_lossy().replace('\\', "/"), path));
        }
    }
}

/// The table as a Rust expression. Each file is compressed next to itself.
fn file_table(files: &[(String, PathBuf)]) -> String {
    let mut table = String::from("Ok(&[\n");
    for (name, path) in files {
        let bytes = fs::read(path).expect("a file that was just built is readable");
        let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
        compressed.write_all(&bytes).expect("memory is writable");
        let compressed = compressed.finish().expect("memory is writable");
        let target = path.with_file_name(format!("{}.gz", path.file_name().unwrap_or_default().to_string_lossy()));
        fs::write(&target, compressed).expect("the output directory is writable");
        let target = target.display().to_string();
        writeln!(
            table,
            "    File {{ path: {name:?}, gzip: include_bytes!({target:?}) }},"
        )
        .expect("a text is writable");
    }
    table.push_str("])");
    table
}

#[expect(
    clippy::disallowed_methods,
    reason = "cargo passes its parameters in the environment"
)]
fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn warn_each_line(text: &str) {
    for line in text.lines() {
        directive(&format!("cargo::warning={line}"));
    }
}

fn directive(text: &str) {
    println!("{text}");
}
