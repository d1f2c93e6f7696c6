//! Files on the worker's machine, addressed by `file://`.

use std::io;
use std::path::Path;

use model::outcome::{ErrorKind, TaskError};
use model::result_ref::IN_MEMORY_BYTES_MAX;
use serde_json::{Value, json};

use crate::regular_file::{self, FileReadError};
use crate::value_text::plain_text;

/// Reads a file: JSON as a value, anything else as text.
pub(super) async fn get(file: &Path) -> Result<Value, TaskError> {
    let bytes = regular_file::read_regular(file, IN_MEMORY_BYTES_MAX).await;
    let bytes = bytes.map_err(|error| file_read_error(file, &error))?;
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    Ok(serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
}

/// Writes a file atomically: text as it is, anything else as JSON. A reader sees either the old or the new content.
pub(super) async fn put(file: &Path, data: &Value) -> Result<Value, TaskError> {
    let text = plain_text(data);
    let bytes = text.len();
    let target = file.to_owned();
    let written = tokio::task::spawn_blocking(move || write_atomically(&target, text.as_bytes())).await;
    let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
    written.map_err(|error| io_error(file, &error))?;
    Ok(json!({"uri": file_uri(file), "size_bytes": bytes}))
}

fn write_atomically(file: &Path, bytes: &[u8]) -> io::Result<()> {
    use io::Write as _;
    let dir = file.parent().unwrap_or(Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(dir)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    draft.persist(file)?;
    Ok(())
}

/// Lists the files in a directory, by name.
pub(super) async fn list(dir: &Path) -> Result<Value, TaskError> {
    let mut entries = tokio::fs::read_dir(dir).await.map_err(|error| io_error(dir, &error))?;
    let mut files = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(|error| io_error(dir, &error))? {
        let meta = entry.metadata().await.map_err(|error| io_error(dir, &error))?;
        if meta.is_file() {
            files.push((file_uri(&entry.path()), meta.len()));
        }
    }
    files.sort();
    let listed_files = files
        .iter()
        .map(|(uri, bytes)| json!({"uri": uri, "size_bytes": bytes}));
    Ok(json!({"data": listed_files.collect::<Vec<_>>(), "count": files.len()}))
}

/// Deletes a file; a missing one is not an error.
pub(super) async fn delete(file: &Path) -> Result<Value, TaskError> {
    let deleted = match tokio::fs::remove_file(file).await {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(io_error(file, &error)),
    };
    Ok(json!({"uri": file_uri(file), "deleted": deleted}))
}

fn file_uri(file: &Path) -> String {
    format!("file://{}", file.display())
}

fn file_read_error(file: &Path, error: &FileReadError) -> TaskError {
    let (code, message) = match error {
        FileReadError::File(error) => return io_error(file, error),
        FileReadError::NotRegular => ("FILE_UNUSABLE", error.to_string()),
        FileReadError::TooLarge(_) => ("BODY_TOO_LARGE", format!("{error}, the limit for reading into memory")),
    };
    let message = format!("`{}`: {message}", file.display());
    TaskError::new(ErrorKind::Storage, code, message)
}

fn io_error(file: &Path, error: &io::Error) -> TaskError {
    let (kind, code) = match error.kind() {
        io::ErrorKind::NotFound => (ErrorKind::NotFound, "FILE_NOT_FOUND"),
        _ => (ErrorKind::Storage, "FILE_UNUSABLE"),
    };
    TaskError::new(kind, code, format!("`{}`: {error}", file.display()))
}
