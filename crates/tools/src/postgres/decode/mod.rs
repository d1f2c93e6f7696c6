//! Decodes binary values of the server to JSON; types that JSON lacks become text in the server's format.

mod nested;
mod number;
mod reader;
mod shape;
mod time;
mod value;

pub(super) use reader::RawBytes;
pub(super) use value::write_json;
