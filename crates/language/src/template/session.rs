//! State of one rendering: what it may read, and what it has read so far.
//!
//! Values are shared between renderings, so the state of a rendering (loaded bodies, taint, budget) cannot be part of
//! the values. It is stored per thread, from `start_rendering` until the guard is dropped.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};

use minijinja::Error;
use minijinja::Value as Native;
use model::outcome::Outcome;
use model::time::Time;
use serde_json::Value;

use crate::template::budget;
use crate::template::convert;
use crate::template::filters::CompiledPattern;
use crate::template::origin::WrittenPiece;
use crate::template::scope::{LoadedValues, Need, Scope, UnavailableBody};
use crate::template::taint::SecretOrigin;
use crate::template::tree::Piece;

/// State of one rendering.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a fact of its own about the rendering"
)]
pub(crate) struct RenderSession {
    pub(crate) loaded: Arc<LoadedValues>,
    pub(crate) now: Option<Time>,
    pub(crate) reveals_secrets: bool,
    /// Taint of the rendering so far.
    pub(crate) origin: SecretOrigin,
    /// Taint of the value that is printed next.
    origin_of_value: SecretOrigin,
    /// Ranges of the text that contain secrets.
    pub(crate) printed_secrets: Vec<(Range<usize>, SecretOrigin)>,
    /// Pieces that contain secrets, by index.
    pub(crate) secret_pieces: Vec<(usize, SecretOrigin)>,
    pub(crate) needs: Vec<Need>,
    /// Whether an HTTP response used as a whole has `body` as a second name of `data`.
    pub(crate) names_http_body: bool,
    /// Whether an HTTP response that is not loaded was used as a whole.
    pub(crate) has_http_response: bool,
    /// Why a requested body is unavailable.
    pub(crate) unavailable: Option<UnavailableBody>,
    /// Whether bodies are returned as paths and not loaded.
    pub(crate) is_binding: bool,
    /// The pieces so far, if the caller wants pieces.
    pub(crate) pieces: Option<Vec<WrittenPiece>>,
    /// Position in the template of the expression that is printed next.
    pub(crate) expression: Range<usize>,
    /// The most recently compiled patterns.
    pub(crate) patterns: VecDeque<CompiledPattern>,
    allocated_bytes: usize,
    output_bytes: usize,
    work_units: usize,
    result_bytes: usize,
}

impl RenderSession {
    /// Records that a secret was read.
    pub(crate) fn record_secret(&mut self, origin: SecretOrigin) {
        self.origin = self.origin.max(origin);
        self.origin_of_value = self.origin_of_value.max(origin);
    }

    /// Records that a value was printed, as the last `bytes` of the charged text.
    fn record_printed(&mut self, bytes: usize) {
        let origin = std::mem::take(&mut self.origin_of_value);
        if origin != SecretOrigin::Plain {
            let range = self.output_bytes.saturating_sub(bytes)..self.output_bytes;
            self.printed_secrets.push((range, origin));
        }
    }

    /// Adds a piece: the author's text, or an evaluated value.
    fn add_piece(&mut self, written: WrittenPiece) {
        let pieces = self.pieces.get_or_insert_default();
        if !matches!(written.piece, Piece::Text(_)) {
            let origin = std::mem::take(&mut self.origin_of_value);
            if origin != SecretOrigin::Plain {
                self.secret_pieces.push((pieces.len(), origin));
            }
        }
        pieces.push(written);
    }
}

/// Number of converted outcomes that a thread caches.
const CONVERTED_MAX: usize = 4;

thread_local! {
    static CURRENT: RefCell<Option<RenderSession>> = const { RefCell::new(None) };
    static CONVERTED: RefCell<VecDeque<(Weak<Outcome>, Native)>> = const { RefCell::new(VecDeque::new()) };
}

/// Ends the rendering when dropped, also after a panic.
pub(crate) struct RenderGuard(());

impl Drop for RenderGuard {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = None);
    }
}

/// Ends the rendering and returns its state.
pub(crate) fn finish_session(guard: RenderGuard) -> RenderSession {
    let session = CURRENT.with(|current| current.borrow_mut().take());
    drop(guard);
    session.unwrap_or_default()
}

/// Starts a rendering on this thread. `collects_pieces` requests the text as pieces.
pub(crate) fn start_rendering(scope: &Scope, collects_pieces: bool) -> RenderGuard {
    let session = RenderSession {
        loaded: scope.loaded.clone(),
        now: scope.now,
        reveals_secrets: scope.reveals_secrets,
        names_http_body: scope.names_http_body,
        pieces: collects_pieces.then(Vec::new),
        ..RenderSession::default()
    };
    CURRENT.with(|current| *current.borrow_mut() = Some(session));
    RenderGuard(())
}

/// Starts a rendering that returns paths of bodies and does not load them.
pub(crate) fn start_binding(scope: &Scope) -> RenderGuard {
    let guard = start_rendering(scope, false);
    with_session(|session| session.is_binding = true);
    guard
}

/// Reads or changes the current rendering. Outside of a rendering, the state is empty and changes are lost.
pub(crate) fn with_session<T>(f: impl FnOnce(&mut RenderSession) -> T) -> T {
    CURRENT.with(|current| match current.borrow_mut().as_mut() {
        Some(session) => f(session),
        None => f(&mut RenderSession::default()),
    })
}

/// Charges `bytes` that are about to be built.
pub(crate) fn charge_allocation(bytes: usize) -> Result<(), Error> {
    with_session(|session| budget::ALLOCATION_LIMIT.charge(&mut session.allocated_bytes, bytes))
}

/// Checks that `bytes` fit into the budget. They are charged with the value once it exists.
pub(crate) fn check_room(bytes: usize) -> Result<(), Error> {
    with_session(|session| budget::ALLOCATION_LIMIT.check(session.allocated_bytes, bytes))
}

/// Charges `bytes` that are about to be printed.
pub(crate) fn charge_output(bytes: usize) -> Result<(), Error> {
    with_session(|session| budget::OUTPUT_LIMIT.charge(&mut session.output_bytes, bytes))
}

/// Charges the text of a value that is about to be printed.
pub(crate) fn charge_printed(bytes: usize) -> Result<(), Error> {
    charge_output(bytes)?;
    with_session(|session| session.record_printed(bytes));
    Ok(())
}

/// Charges and adds a piece.
pub(crate) fn add_piece(written: WrittenPiece) -> Result<(), Error> {
    charge_output(written.piece.size())?;
    with_session(|session| session.add_piece(written));
    Ok(())
}

/// Charges `bytes` of a value that is about to be returned as data.
pub(crate) fn charge_result(bytes: usize) -> Result<(), Error> {
    with_session(|session| budget::RESULT_LIMIT.charge(&mut session.result_bytes, bytes))
}

/// Checks that `bytes` more may be returned as data.
pub(crate) fn check_result_room(bytes: usize) -> Result<(), Error> {
    with_session(|session| budget::RESULT_LIMIT.check(session.result_bytes, bytes))
}

/// Charges `units` that are about to be read.
pub(crate) fn charge_work(units: usize) -> Result<(), Error> {
    with_session(|session| budget::WORK_LIMIT.charge(&mut session.work_units, units))
}

/// Returns an outcome's result as a template value. Several rules read the same outcome, so the latest ones are cached.
pub(crate) fn converted_result(outcome: &Arc<Outcome>, result: &Value) -> Native {
    CONVERTED.with(|converted| {
        let mut converted = converted.borrow_mut();
        let address = Arc::as_ptr(outcome);
        // The cache holds a weak pointer, so the address is not reused and an equal address is the same outcome.
        if let Some((_, native)) = converted.iter().find(|(cached, _)| cached.as_ptr() == address) {
            return native.clone();
        }
        let native = convert::to_native(result);
        if converted.len() == CONVERTED_MAX {
            converted.pop_front();
        }
        converted.push_back((Arc::downgrade(outcome), native.clone()));
        native
    })
}

/// Records a value that must be loaded first.
pub(crate) fn record_need(need: Need) {
    with_session(|session| {
        if !session.needs.contains(&need) {
            session.needs.push(need);
        }
    });
}
