//! What one rendering may see and has touched so far.
//!
//! Values are shared between renderings, so what belongs to one of them (loaded bodies, the taint, the budget) cannot
//! hang on values. It lives here, for the thread that renders, from `enter` until the guard is dropped.

use std::cell::RefCell;
use std::sync::Arc;

use minijinja::Error;

use crate::template::budget::{self, ALLOCATION_BYTES_MAX, OUTPUT_BYTES_MAX};
use crate::template::scope::{Loaded, Need, Scope};
use crate::template::tree::Piece;
use crate::time::Time;

/// One rendering.
#[derive(Default)]
pub(crate) struct Session {
    pub(crate) loaded: Arc<Loaded>,
    pub(crate) now: Option<Time>,
    pub(crate) reveals_secrets: bool,
    pub(crate) tainted: bool,
    pub(crate) needs: Vec<Need>,
    /// The pieces so far, where pieces are asked for.
    pub(crate) pieces: Option<Vec<Piece>>,
    allocated: usize,
    written: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Ends the rendering when dropped, whatever happened in it.
pub(crate) struct Guard(());

impl Drop for Guard {
    fn drop(&mut self) {
        CURRENT.with(|current| *current.borrow_mut() = None);
    }
}

impl Guard {
    /// What the rendering touched.
    pub(crate) fn finish(self) -> Session {
        CURRENT
            .with(|current| current.borrow_mut().take())
            .unwrap_or_default()
    }
}

/// Begins a rendering on this thread.
pub(crate) fn enter(scope: &Scope, pieces: bool) -> Guard {
    let session = Session {
        loaded: scope.loaded.clone(),
        now: scope.now,
        reveals_secrets: scope.reveals_secrets,
        pieces: pieces.then(Vec::new),
        ..Session::default()
    };
    CURRENT.with(|current| *current.borrow_mut() = Some(session));
    Guard(())
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

/// Notes something that has to be loaded first.
pub(crate) fn need(need: Need) {
    with(|session| {
        if !session.needs.contains(&need) {
            session.needs.push(need);
        }
    });
}
