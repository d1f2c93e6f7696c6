//! Streams a result that does not fit into memory to the body store and extracts the fields and preview of its
//! reference on the way.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use model::playbook::ResultControl;
use model::result_ref::ResultRef;
use model::template::Segment;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, ReadBuf};

use crate::extract::{ALWAYS, extract, listed_keys, preview};
use crate::json::{Glean, Gleaned, SELECTED_BYTES_MAX, Selected, plain};
use crate::keep::{PREVIEW_BYTES_MAX, reference, saturate};
use crate::{Bodies, Error, NotJson, Source, Wish};

/// Limits of the text from which a preview is cut; markup and whitespace need additional space.
const HEAD_BYTES_MIN: usize = 64 * 1024;
const HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Streams the result of one task to the body store.
#[derive(Clone)]
pub struct Keeper {
    /// Body store.
    pub bodies: Arc<dyn Bodies>,
    /// Result settings of the task.
    pub control: ResultControl,
    /// Logical address of the result.
    pub uri: String,
    /// Maximum size of the result.
    pub bytes_max: u64,
    /// Selected paths that match nothing.
    pub missing: MissingPaths,
}

/// Selected paths that match nothing in a streamed result. Clones share the list.
#[derive(Debug, Clone, Default)]
pub struct MissingPaths(Arc<Mutex<Vec<String>>>);

impl MissingPaths {
    fn add(&self, path: &str) {
        self.paths().push(path.to_owned());
    }

    /// Returns and clears the paths.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.paths())
    }

    fn paths(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keeper {
    /// Whether all selected paths can be evaluated in one pass over the text.
    pub fn can_stream(&self) -> bool {
        let mut select = self.control.select.iter();
        select.all(|wanted| plain(&wanted.path).is_some())
    }

    /// Returns the paths to extract. If paths also apply to the result's `data`, they follow again with that prefix.
    fn wanted(&self) -> Vec<Vec<Segment>> {
        let select = self.control.select.iter();
        let paths: Vec<_> = select.filter_map(|wanted| plain(&wanted.path)).collect();
        let data = [Segment::Key("data".to_owned())];
        let in_data = paths.iter().filter(|_| self.control.selects_in_data);
        let in_data: Vec<_> = in_data.map(|path| [&data[..], path].concat()).collect();
        paths.into_iter().chain(in_data).collect()
    }

    /// Stores JSON text of any size in constant memory; the body is durable when this returns.
    pub async fn keep(
        &self,
        text: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<ResultRef, Error> {
        let wanted = self.wanted();
        let preview_bytes_max = self.control.preview_bytes_max;
        let preview_bytes_max = preview_bytes_max.map_or(PREVIEW_BYTES_MAX, saturate);
        let preview_bytes_max = preview_bytes_max.min(HEAD_BYTES_MAX);
        let head = preview_bytes_max.saturating_mul(4);
        let mut text = self.bodies.sieve(text);
        let mut passing = Passing {
            text: &mut *text,
            glean: Glean::new(wanted, head.clamp(HEAD_BYTES_MIN, HEAD_BYTES_MAX)),
            bytes_max: self.bytes_max,
            refusal: None,
        };
        let wish = Wish::of(&self.control);
        let source = Source::Stream(&mut passing);
        let stored = self.bodies.put_as(source, &wish).await;
        let stored = match passing.refusal {
            Some(refusal) => return Err(refusal),
            None => stored?,
        };
        let gleaned = passing.glean.finish().map_err(Error::NotJson)?;
        let preview = preview(&gleaned.sample, saturate(stored.bytes), preview_bytes_max);
        let keys = gleaned.keys.clone();
        let extracted = self.extracted(gleaned)?;
        let keys = listed_keys(keys.iter().map(String::as_str), &extracted);
        Ok(ResultRef {
            extracted,
            keys,
            preview: Some(preview),
            ..reference(stored, self.uri.clone(), &self.control)
        })
    }

    fn extracted(&self, gleaned: Gleaned) -> Result<Map<String, Value>, Error> {
        let scalars = Value::Object(gleaned.scalars);
        let small = extract(&scalars, &ResultControl::default())?;
        if self.control.select.is_empty() {
            return Ok(small);
        }
        let mut fields = Map::new();
        let mut found = gleaned.selected;
        let mut in_data = found
            .split_off(self.control.select.len().min(found.len()))
            .into_iter();
        for (wanted, found) in self.control.select.iter().zip(found) {
            let value = match found.or(in_data.next().flatten()) {
                None => {
                    self.missing.add(&wanted.path);
                    Value::Null
                }
                Some(Selected::Value(value)) => value,
                Some(Selected::TooLarge) => {
                    return Err(Error::SelectTooLarge {
                        path: wanted.path.clone(),
                        bytes_max: SELECTED_BYTES_MAX,
                    });
                }
            };
            fields.insert(wanted.name.to_string(), value);
        }
        for (name, value) in small {
            if ALWAYS.contains(&name.as_str()) && !fields.contains_key(&name) {
                fields.insert(name, value);
            }
        }
        Ok(fields)
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("uri", &self.uri)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// Text that is inspected while it is stored.
struct Passing<'a> {
    text: &'a mut (dyn AsyncRead + Send + Unpin),
    glean: Glean,
    bytes_max: u64,
    refusal: Option<Error>,
}

impl Passing<'_> {
    fn look(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let looked = self.glean.feed(bytes);
        if self.glean.bytes() > self.bytes_max {
            return Err(Error::TooLarge {
                bytes_max: self.bytes_max,
            });
        }
        looked.map_err(Error::NotJson)
    }

    /// An incomplete text must not be stored.
    fn look_at_end(&self) -> Result<(), Error> {
        let at = self.glean.bytes();
        let is_whole = self.glean.is_whole();
        is_whole.then_some(()).ok_or(Error::NotJson(NotJson { at }))
    }
}

impl AsyncRead for Passing<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let passing = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut *passing.text).poll_read(context, buffer))?;
        let bytes = &buffer.filled()[before..];
        let looked = if bytes.is_empty() {
            passing.look_at_end()
        } else {
            passing.look(bytes)
        };
        Poll::Ready(looked.map_err(|refusal| {
            passing.refusal = Some(refusal);
            std::io::ErrorKind::InvalidData.into()
        }))
    }
}

#[cfg(test)]
mod tests;
