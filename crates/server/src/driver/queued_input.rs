//! The inputs of an execution: queued, and decided but not durable yet.

use engine::Input;
use model::command::Fence;
use model::id::{EventId, Seq};
use store::Priority;
use tokio::sync::oneshot;

use crate::driver::effect::{Effect, Reply};
use crate::driver::handle::{InputAttachments, InputError, InputReply, input_priority};
use crate::loading::EventPosition;

/// A queued input.
pub(super) struct QueuedInput {
    pub(super) input: Input,
    pub(super) attachments: InputAttachments,
    pub(super) reply: Option<oneshot::Sender<Result<InputReply, InputError>>>,
    /// First events of the commits that contained the input and whose outcome is unknown.
    pub(super) unconfirmed: Vec<EventPosition>,
    /// Whether the state was loaded after the input arrived.
    pub(super) is_checked: bool,
}

/// An input that is decided but not durable yet.
pub(super) struct DecidedInput {
    pub(super) queued_input: QueuedInput,
    /// Commands for the reporting worker; they are sent in the reply.
    pub(super) assigned: Vec<Fence>,
    /// The reported command, needed for the verdict.
    pub(super) command: Option<Seq>,
    /// Seqs of its events whose IDs came from a client.
    pub(super) recorded: Vec<(EventId, Seq)>,
}

impl QueuedInput {
    /// Priority of the input: `Control` for a control request, or for an input that a control request depends on.
    pub(super) fn priority(&self) -> Priority {
        match self.attachments.priority {
            Priority::Control => Priority::Control,
            Priority::Normal => input_priority(&self.input),
        }
    }

    /// The reply to its caller, if one waits.
    pub(super) fn into_reply(self, result: Result<InputReply, InputError>) -> Option<Effect> {
        let sender = self.reply?;
        Some(Effect::Reply(Reply::Input(sender, result)))
    }

    /// The reply to an input that had no effect.
    pub(super) fn into_unchanged_reply(self) -> Option<Effect> {
        self.into_reply(Ok(InputReply::unchanged()))
    }

    /// The decided input, before anything follows from it.
    pub(super) fn into_decided(self) -> DecidedInput {
        let command = match &self.input {
            Input::Report(report) => Some(report.command),
            _ => None,
        };
        DecidedInput {
            queued_input: self,
            assigned: Vec::new(),
            command,
            recorded: Vec::new(),
        }
    }

    /// An input with a caller that waits for the reply.
    pub(super) fn with_reply(
        input: Input,
        attachments: InputAttachments,
        reply: oneshot::Sender<Result<InputReply, InputError>>,
    ) -> Self {
        Self {
            attachments,
            reply: Some(reply),
            ..Self::new(input)
        }
    }

    /// An input without a caller.
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            attachments: InputAttachments::default(),
            reply: None,
            unconfirmed: Vec::new(),
            is_checked: false,
        }
    }
}
