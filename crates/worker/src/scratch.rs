//! Writes bodies to files, for programs that read files. The files are deleted when the command ends.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use language::template::{BodyPath, FileContent, FileNeed};
use model::outcome::{ErrorKind, TaskError};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tools::plain_text;

use crate::command_context::{CommandContext, WorkError};
use crate::load;

/// Directories that were not modified for this long belong to dead processes.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum size of a JSON string that is decoded before it is written; longer ones are written with quotes and escapes.
const TEXT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Why a file cannot be created.
enum ScratchError {
    Body(results::Error),
    Disk(PathBuf, std::io::Error),
}

impl From<results::Error> for ScratchError {
    fn from(error: results::Error) -> Self {
        Self::Body(error)
    }
}

/// Creates the directory of one command; it is deleted with the command.
pub(crate) fn create_scratch_dir(parent: &Path) -> Result<TempDir, Box<TaskError>> {
    let created = results::make_private_dir(parent).and_then(|()| {
        remove_stale_dirs(parent);
        tempfile::Builder::new().prefix("run-").tempdir_in(parent)
    });
    created.map_err(|error| Box::new(write_error(parent, &error)))
}

/// Deletes directories of dead processes; failures to delete are ignored.
fn remove_stale_dirs(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        if age.is_some_and(|age| age > AGE_MAX) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Creates a file with a body or value and returns its path.
pub(crate) async fn write_scratch_file(context: &CommandContext, need: &FileNeed) -> Result<String, WorkError> {
    let path = context.next_scratch_path()?;
    match &need.content {
        FileContent::Value(value) => {
            let written = tokio::fs::write(&path, plain_text(value)).await;
            written.map_err(|error| write_error(&path, &error))?;
        }
        FileContent::Body(body_path) => {
            let write = || async {
                match write_body(context, body_path, &path).await {
                    Ok(()) => Ok(None),
                    Err(ScratchError::Disk(path, error)) => Ok(Some((path, error))),
                    Err(ScratchError::Body(error)) => Err(error),
                }
            };
            let failure = load::retry_read(context, &body_path.reference, write).await?;
            if let Some((path, error)) = failure {
                return Err(write_error(&path, &error).into());
            }
        }
    }
    let locked = std::fs::set_permissions(&path, Permissions::from_mode(0o444));
    locked.map_err(|error| write_error(&path, &error))?;
    Ok(path.display().to_string())
}

/// Writes a body, or the part of it that `body_path` selects.
async fn write_body(context: &CommandContext, body_path: &BodyPath, path: &Path) -> Result<(), ScratchError> {
    let bodies = &*context.shared.config.bodies;
    let reference = &body_path.reference;
    let is_whole = body_path.paths.first().is_some_and(Vec::is_empty);
    let located = if is_whole {
        None
    } else {
        match results::locate_value(bodies, reference, &body_path.paths).await {
            // A body that is not JSON has no parts.
            Err(results::Error::NotJson(_)) => None,
            located => located?,
        }
    };
    let range = located.as_ref().map(|located| located.range.clone());
    let is_text = located.is_some_and(|located| located.is_text);
    let mut pieces = bodies.read(reference, range.clone()).await?.chunks;
    let disk = |error| ScratchError::Disk(path.to_owned(), error);
    let mut file = tokio::fs::File::create(path).await.map_err(disk)?;
    if is_text && range.is_some_and(|range| range.end - range.start <= TEXT_BYTES_MAX) {
        let mut quoted = Vec::new();
        while let Some(piece) = results::next_chunk(&mut pieces).await? {
            quoted.extend_from_slice(&piece);
        }
        let text = serde_json::from_slice::<String>(&quoted);
        let text = text.map_or(quoted, String::into_bytes);
        file.write_all(&text).await.map_err(disk)?;
    } else {
        while let Some(piece) = results::next_chunk(&mut pieces).await? {
            file.write_all(&piece).await.map_err(disk)?;
        }
    }
    file.flush().await.map_err(disk)
}

fn write_error(path: &Path, error: &std::io::Error) -> TaskError {
    let message = format!("cannot write `{}`: {error}", path.display());
    TaskError {
        retryable: true,
        ..TaskError::new(ErrorKind::Storage, "STORAGE_UNAVAILABLE", message)
    }
}
