//! Streams a result that does not fit into memory to the body store and extracts the fields and preview of its
//! reference on the way.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use model::playbook::ResultControl;
use model::result_ref::PathSegment;
use model::result_ref::ResultRef;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};

use crate::extract::{ALWAYS_EXTRACTED, build_preview, extract_fields, listed_keys};
use crate::json::{ExtractedFields, JsonExtractor, SELECTED_BYTES_MAX, SelectedValue, parse_plain_path};
use crate::large_result::{PREVIEW_BYTES_MAX, saturating_usize};
use crate::{BodySource, BodyStore, Error, JsonScanError, StorageOptions};

/// Limits of the text from which a preview is cut; markup and whitespace need additional space.
const HEAD_BYTES_MIN: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Streams the result of one task to the body store.
#[derive(Clone)]
pub struct ResultWriter {
    /// Body store.
    pub store: Arc<dyn BodyStore>,
    /// Result settings of the task.
    pub control: ResultControl,
    /// Logical address of the result.
    pub uri: String,
    /// Maximum size of the result.
    pub bytes_max: u64,
    /// Selected paths that match nothing.
    pub missing_paths: MissingPaths,
}

/// Selected paths that match nothing in a streamed result. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct MissingPaths(Arc<Mutex<Vec<String>>>);

impl MissingPaths {
    fn add(&self, path: &str) {
        self.lock_paths().push(path.to_owned());
    }

    /// Returns and clears the paths.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lock_paths())
    }

    fn lock_paths(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResultWriter {
    /// Whether all selected paths can be evaluated in one pass over the text.
    pub fn can_stream(&self) -> bool {
        let mut entries = self.control.select.iter();
        entries.all(|entry| parse_plain_path(&entry.path).is_some())
    }

    /// Returns the paths to extract. If paths also apply to the result's `data`, they follow again with that prefix.
    fn selected_paths(&self) -> Vec<Vec<PathSegment>> {
        let entries = self.control.select.iter();
        let paths: Vec<_> = entries.filter_map(|entry| parse_plain_path(&entry.path)).collect();
        let data = [PathSegment::Key("data".to_owned())];
        let in_data = paths.iter().filter(|_| self.control.selects_in_data);
        let in_data: Vec<_> = in_data.map(|path| [&data[..], path].concat()).collect();
        paths.into_iter().chain(in_data).collect()
    }

    /// Stores JSON text of any size in constant memory; the body is durable when this returns.
    pub async fn write(&self, text: &mut (dyn AsyncRead + Send + Unpin)) -> Result<ResultRef, Error> {
        let paths = self.selected_paths();
        let preview_bytes_max = self.control.preview_bytes_max;
        let preview_bytes_max = preview_bytes_max.map_or(PREVIEW_BYTES_MAX, saturating_usize);
        let preview_bytes_max = preview_bytes_max.min(HEAD_BYTES_MAX);
        let head = preview_bytes_max.saturating_mul(4);
        let mut text = self.store.as_stored(text);
        let mut reader = InspectingReader {
            source: &mut *text,
            extractor: JsonExtractor::new(paths, head.clamp(HEAD_BYTES_MIN, HEAD_BYTES_MAX)),
            bytes_max: self.bytes_max,
            error: None,
        };
        let options = StorageOptions::from_control(&self.control);
        let source = BodySource::Stream(&mut reader);
        let stored = self.store.put_with(source, &options).await;
        let stored = match reader.error {
            Some(error) => return Err(error),
            None => stored?,
        };
        let fields = reader.extractor.finish().map_err(Error::NotJson)?;
        let preview = build_preview(&fields.sample, saturating_usize(stored.bytes), preview_bytes_max);
        let keys = fields.keys.clone();
        let extracted = self.extracted_fields(fields)?;
        let keys = listed_keys(keys.iter().map(String::as_str), &extracted);
        Ok(ResultRef {
            extracted,
            keys,
            preview: Some(preview),
            ..stored.into_reference(self.uri.clone(), self.control.scope.unwrap_or_default())
        })
    }

    fn extracted_fields(&self, scanned: ExtractedFields) -> Result<Map<String, Value>, Error> {
        let scalars = Value::Object(scanned.scalars);
        let default_fields = extract_fields(&scalars, &ResultControl::default())?;
        if self.control.select.is_empty() {
            return Ok(default_fields);
        }
        let mut fields = Map::new();
        let mut selected = scanned.selected;
        let mut in_data = selected
            .split_off(self.control.select.len().min(selected.len()))
            .into_iter();
        for (entry, selected) in self.control.select.iter().zip(selected) {
            let value = match selected.or(in_data.next().flatten()) {
                None => {
                    self.missing_paths.add(&entry.path);
                    Value::Null
                }
                Some(SelectedValue::Value(value)) => value,
                Some(SelectedValue::TooLarge) => {
                    return Err(Error::SelectTooLarge {
                        path: entry.path.clone(),
                        bytes_max: SELECTED_BYTES_MAX,
                    });
                }
            };
            fields.insert(entry.name.to_string(), value);
        }
        for (name, value) in default_fields {
            if ALWAYS_EXTRACTED.contains(&name.as_str()) && !fields.contains_key(&name) {
                fields.insert(name, value);
            }
        }
        Ok(fields)
    }
}

impl fmt::Debug for ResultWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultWriter")
            .field("uri", &self.uri)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// Text that is inspected while it is stored.
struct InspectingReader<'a> {
    source: &'a mut (dyn AsyncRead + Send + Unpin),
    extractor: JsonExtractor,
    bytes_max: u64,
    error: Option<Error>,
}

impl InspectingReader<'_> {
    fn inspect(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let result = self.extractor.feed(bytes);
        if self.extractor.bytes() > self.bytes_max {
            return Err(Error::TooLarge {
                bytes_max: self.bytes_max,
            });
        }
        result.map_err(Error::NotJson)
    }

    /// Returns an error if the text is incomplete: it must not be stored.
    fn inspect_end(&self) -> Result<(), Error> {
        let offset = self.extractor.bytes();
        let is_complete = self.extractor.is_complete();
        is_complete
            .then_some(())
            .ok_or(Error::NotJson(JsonScanError { offset }))
    }
}

impl AsyncRead for InspectingReader<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let reader = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *reader.source).poll_read(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        let inspected = if bytes.is_empty() {
            reader.inspect_end()
        } else {
            reader.inspect(bytes)
        };
        Poll::Ready(inspected.map_err(|error| {
            reader.error = Some(error);
            std::io::ErrorKind::InvalidData.into()
        }))
    }
}

#[cfg(test)]
mod tests;
