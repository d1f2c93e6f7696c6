//! Values as the server sends them, in binary, become JSON; what JSON has no form for is text as the server writes it.

mod nested;
mod number;
mod reader;
mod shape;
mod time;
mod value;

pub(super) use reader::Raw;
pub(super) use value::write;
