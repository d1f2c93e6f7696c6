//! The log line of a stream that waits for disk space, as something that a test can wait for.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// The message that a stream logs once when it starts to wait.
const MESSAGE: &str = "waiting for disk space";

/// A subscriber that notifies when a stream on this thread starts to wait.
pub(crate) struct SpaceWaits(Arc<Notify>);

impl SpaceWaits {
    /// Watches this thread until the guard is dropped.
    pub(crate) fn watch() -> (Arc<Notify>, DefaultGuard) {
        let started = Arc::new(Notify::new());
        let guard = tracing::subscriber::set_default(Self(started.clone()));
        (started, guard)
    }
}

impl Subscriber for SpaceWaits {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(false);
        event.record(&mut message);
        if message.0 {
            self.0.notify_one();
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Whether an event has the message.
struct Message(bool);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}") == MESSAGE;
    }
}
