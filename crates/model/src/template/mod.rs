//! Templates: Jinja2 with native values, chains through missing values, and budgets.

mod data;
mod scope;
mod tree;

pub use data::Data;
pub use scope::{Content, Envelope, EventView, Iter, Loaded, LoopPointer, Need, RunView, Scope};
pub use tree::{Piece, RenderError, Rendered, SyntaxError, Template, Tree};
