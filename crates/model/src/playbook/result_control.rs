//! How the result of a task is stored.

use std::time::Duration;

use crate::id::Name;
use crate::manifest::Accumulate;
use crate::playbook::selection::SelectEntry;
use crate::result_ref::BodyScope;

/// How a task's result is stored: `task.spec.result`.
#[derive(Debug, Clone, Default)]
pub struct ResultControl {
    /// The maximum size of an inline body.
    pub inline_bytes_max: Option<u64>,
    /// The maximum size of the preview.
    pub preview_bytes_max: Option<u64>,
    /// The requested store, if any.
    pub store: Option<Name>,
    /// How long the body is retained.
    pub scope: Option<BodyScope>,
    /// A shorter lifetime.
    pub ttl: Option<Duration>,
    /// Values to extract.
    pub select: Vec<SelectEntry>,
    /// Whether paths without a match are also tried inside the result's `data`; true for HTTP responses.
    pub selects_in_data: bool,
    /// The requested compression, if any.
    pub compression: Option<Name>,
    /// How the results of several visits are combined, if they are.
    pub accumulate: Option<Accumulate>,
}

impl ResultControl {
    /// Merges this with `base`: keys that are not set here come from `base`.
    #[must_use]
    pub fn with_base(self, base: Self) -> Self {
        Self {
            inline_bytes_max: self.inline_bytes_max.or(base.inline_bytes_max),
            preview_bytes_max: self.preview_bytes_max.or(base.preview_bytes_max),
            store: self.store.or(base.store),
            scope: self.scope.or(base.scope),
            ttl: self.ttl.or(base.ttl),
            select: if self.select.is_empty() {
                base.select
            } else {
                self.select
            },
            selects_in_data: self.selects_in_data,
            compression: self.compression.or(base.compression),
            accumulate: self.accumulate.or(base.accumulate),
        }
    }
}
