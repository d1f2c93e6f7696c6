//! Templates: Jinja2 with native values, access through missing values, and budgets.
//!
//! Input: a scalar's text, parsed once, and a [`Scope`] per rendering. Output: a value, a boolean, or the author's text
//! and the values between. `compile` turns text into a program with our own operators; `names` and `envelope` provide
//! the values; `session` has the state and the budget of one rendering.

mod budget;
mod compare;
mod compile;
mod convert;
mod data;
mod envelope;
mod environment;
mod filters;
mod gathered;
mod latest;
mod names;
mod operators;
mod origin;
mod reference;
mod render;
mod rewrite;
mod scope;
mod session;
mod taint;
mod tree;
mod weigh;

pub use budget::{
    ALLOCATION_BYTES_MAX, FUEL_MAX, OUTPUT_BYTES_MAX, RESULT_BYTES_MAX, SOURCE_BYTES_MAX,
};
pub(crate) use compile::is_syntax;
pub use data::Data;
pub use gathered::{Gathered, Part};
pub use latest::Latest;
pub use origin::{LineStart, PieceOrigin};
pub use reference::{Bound, Segment, find};
pub use rewrite::PathUse;
pub use scope::{
    Content, Envelope, EventView, FileNeed, FileOf, Iter, Loaded, LoopPointer, Need, RunView,
    Scope, Unavailable,
};
pub use taint::{MASK, Origin, Taint};
pub use tree::{
    CodePiece, Piece, RenderError, Rendered, RenderedPieces, SyntaxError, Template, Tree,
};
