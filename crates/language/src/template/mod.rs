//! Templates: Jinja2 with native values, access through missing values, and budgets.
//!
//! Input: a scalar's text, parsed once, and a [`Scope`] per rendering. Output: a value, a boolean, or the author's text
//! and the values between. `compile` turns text into a program with our own operators; `names` and `envelope` provide
//! the values; `session` has the state and the budget of one rendering.

mod accumulated;
mod budget;
mod charges;
mod compare;
mod compile;
mod convert;
mod envelope;
mod environment;
mod filters;
mod lazy_value;
mod names;
mod operators;
mod origin;
mod reference;
mod render;
mod rewrite;
mod scope;
mod session;
mod step_pointer;
mod taint;
mod tree;

pub use accumulated::{AccumulatedPart, AccumulatedParts};
pub use budget::{ALLOCATION_BYTES_MAX, FUEL_MAX, OUTPUT_BYTES_MAX, RESULT_BYTES_MAX, SOURCE_BYTES_MAX};
pub(crate) use compile::is_syntax;
#[cfg(test)]
pub(crate) use environment::{list_filters, list_functions, list_tests};
pub use lazy_value::LazyValue;
pub use origin::{LineStart, PieceOrigin};
pub use reference::{BodyPath, find_path};
pub use rewrite::PathUse;
pub use scope::{
    Envelope, EnvelopeContent, EventView, ExecutionView, FileContent, FileNeed, IterationView, LoadedValues, Need,
    Scope, UnavailableBody,
};
pub use taint::{MASK, SecretOrigin, Taint};
pub use tree::{CodePiece, Piece, RenderError, Rendered, RenderedPieces, SyntaxError, Template, Tree};
