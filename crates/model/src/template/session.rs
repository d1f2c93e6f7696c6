//! What one rendering may see and has touched so far.
//!
//! Values are shared between renderings, so what belongs to one of them (loaded bodies, the taint, the budget) cannot
//! hang on values. It lives here, for the thread that renders, from `enter` until the guard is dropped.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Weak};

use minijinja::Error;
use minijinja::Value as Native;
use serde_json::Value;

use crate::outcome::Outcome;
use crate::template::budget::{
    self, ALLOCATION_BYTES_MAX, OUTPUT_BYTES_MAX, RESULT_BYTES_MAX, WORK_MAX,
};
use crate::template::convert;
use crate::template::filters::CompiledPattern;
use crate::template::origin::WrittenPiece;
use crate::template::scope::{Loaded, Need, Scope, Unavailable};
use crate::template::taint::Origin;
use crate::template::tree::Piece;
use crate::time::Time;

/// One rendering.
#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is a fact of its own about the rendering"
)]
pub(crate) struct Session {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) now: Option<Time>,
    pub(crate) reveals_secrets: bool,
    /// How far the rendering depends on secrets so far.
    pub(crate) origin: Origin,
    /// The same for the value that is printed next.
    origin_of_value: Origin,
    /// Where in the text values stand that came of secrets.
    pub(crate) printed_secrets: Vec<(Range<usize>, Origin)>,
    /// Which of the pieces came of secrets.
    pub(crate) secret_pieces: Vec<(usize, Origin)>,
    pub(crate) needs: Vec<Need>,
    /// Whether an HTTP response used whole has `body` beside `data`.
    pub(crate) names_http_body: bool,
    /// Whether an HTTP response that is not loaded was used whole.
    pub(crate) has_http_response: bool,
    /// Why a body that was touched cannot be had.
    pub(crate) unavailable: Option<Unavailable>,
    /// Whether bodies are only named, so that whoever asks gets to them without the template.
    pub(crate) is_binding: bool,
    /// The pieces so far, where pieces are asked for.
    pub(crate) pieces: Option<Vec<WrittenPiece>>,
    /// Where in the template the expression stands that is printed next.
    pub(crate) expression: Range<usize>,
    /// The patterns that were compiled last.
    pub(crate) patterns: VecDeque<CompiledPattern>,
    allocated: usize,
    written: usize,
    worked: usize,
    resulted: usize,
}

impl Session {
    /// Notes that a secret was read.
    pub(crate) fn touch(&mut self, origin: Origin) {
        self.origin = self.origin.max(origin);
        self.origin_of_value = self.origin_of_value.max(origin);
    }

    /// Notes that a value was printed, as so many bytes of the text that were accounted for just now.
    fn note_printed(&mut self, bytes: usize) {
        let origin = std::mem::take(&mut self.origin_of_value);
        if origin != Origin::Plain {
            let range = self.written.saturating_sub(bytes)..self.written;
            self.printed_secrets.push((range, origin));
        }
    }

    /// Adds a piece: the author's text, or a value that was just evaluated.
    fn add_piece(&mut self, written: WrittenPiece) {
        let pieces = self.pieces.get_or_insert_default();
        if !matches!(written.piece, Piece::Text(_)) {
            let origin = std::mem::take(&mut self.origin_of_value);
            if origin != Origin::Plain {
                self.secret_pieces.push((pieces.len(), origin));
            }
        }
        pieces.push(written);
    }
}

/// How many outcomes a thread keeps converted.
const CONVERTED_MAX: usize = 4;

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
    static CONVERTED: RefCell<VecDeque<(Weak<Outcome>, Native)>> = const { RefCell::new(VecDeque::new()) };
}

/// Ends the rendering when dropped, whatever happened in it.
pub(crate) struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = None);
    }
}

/// Ends the rendering and tells what it touched.
pub(crate) fn finish(guard: Guard) -> Session {
    let session = CURRENT.with(|current| current.borrow_mut().take());
    drop(guard);
    session.unwrap_or_default()
}

/// Begins a rendering on this thread.
pub(crate) fn enter(scope: &Scope, pieces: bool) -> Guard {
    let session = Session {
        loaded: scope.loaded.clone(),
        now: scope.now,
        reveals_secrets: scope.reveals_secrets,
        names_http_body: scope.names_http_body,
        pieces: pieces.then(Vec::new),
        ..Session::default()
    };
    CURRENT.with(|current| *current.borrow_mut() = Some(session));
    Guard(())
}

/// Begins a rendering that names bodies instead of reading them.
pub(crate) fn enter_binding(scope: &Scope) -> Guard {
    let guard = enter(scope, false);
    with(|session| session.is_binding = true);
    guard
}

/// Reads or changes the rendering under way. Outside of one, everything is empty and nothing is kept.
pub(crate) fn with<T>(f: impl FnOnce(&mut Session) -> T) -> T {
    CURRENT.with(|current| match current.borrow_mut().as_mut() {
        Some(session) => f(session),
        None => f(&mut Session::default()),
    })
}

/// Accounts for `bytes` that are about to be built.
pub(crate) fn charge(bytes: usize) -> Result<(), Error> {
    with(|session| {
        session.allocated = session.allocated.saturating_add(bytes);
        if session.allocated > ALLOCATION_BYTES_MAX {
            return Err(budget::exceeded("it builds more than 4 MiB of values"));
        }
        Ok(())
    })
}

/// Checks that `bytes` can still be built. They are charged with the value, once it is there.
pub(crate) fn check_room(bytes: usize) -> Result<(), Error> {
    with(|session| {
        if session.allocated.saturating_add(bytes) > ALLOCATION_BYTES_MAX {
            return Err(budget::exceeded("it builds more than 4 MiB of values"));
        }
        Ok(())
    })
}

/// Accounts for `bytes` that are about to be written out.
pub(crate) fn charge_output(bytes: usize) -> Result<(), Error> {
    with(|session| {
        session.written = session.written.saturating_add(bytes);
        if session.written > OUTPUT_BYTES_MAX {
            return Err(budget::exceeded("its text is longer than 1 MiB"));
        }
        Ok(())
    })
}

/// Accounts for the text of a value that is about to be printed.
pub(crate) fn charge_printed(bytes: usize) -> Result<(), Error> {
    charge_output(bytes)?;
    with(|session| session.note_printed(bytes));
    Ok(())
}

/// Adds a piece, accounted for.
pub(crate) fn add_piece(written: WrittenPiece) -> Result<(), Error> {
    charge_output(written.piece.size())?;
    with(|session| session.add_piece(written));
    Ok(())
}

/// Accounts for `bytes` of a value that is about to leave as data.
pub(crate) fn charge_result(bytes: usize) -> Result<(), Error> {
    with(|session| {
        session.resulted = session.resulted.saturating_add(bytes);
        if session.resulted > RESULT_BYTES_MAX {
            return Err(budget::exceeded("the value is larger than 12 MiB"));
        }
        Ok(())
    })
}

/// Checks that `bytes` more can leave as data.
pub(crate) fn check_result_room(bytes: usize) -> Result<(), Error> {
    with(|session| {
        if session.resulted.saturating_add(bytes) > RESULT_BYTES_MAX {
            return Err(budget::exceeded("the value is larger than 12 MiB"));
        }
        Ok(())
    })
}

/// Accounts for `units` that are about to be read.
pub(crate) fn work(units: usize) -> Result<(), Error> {
    with(|session| {
        session.worked = session.worked.saturating_add(units);
        if session.worked > WORK_MAX {
            return Err(budget::exceeded("it reads too much data too often"));
        }
        Ok(())
    })
}

/// An outcome's result as templates hold it. Several rules look at one outcome, so the last few are kept.
pub(crate) fn converted(outcome: &Arc<Outcome>, result: &Value) -> Native {
    CONVERTED.with(|converted| {
        let mut converted = converted.borrow_mut();
        let address = Arc::as_ptr(outcome);
        // A weak pointer keeps the address taken, so an equal address is the same outcome.
        if let Some((_, native)) = converted.iter().find(|(kept, _)| kept.as_ptr() == address) {
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

/// Notes something that has to be loaded first.
pub(crate) fn need(need: Need) {
    with(|session| {
        if !session.needs.contains(&need) {
            session.needs.push(need);
        }
    });
}
