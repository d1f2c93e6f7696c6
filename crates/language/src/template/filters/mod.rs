//! Filters, functions and methods of the house, beside the library's. Those that can build more than they are given
//! account for it first.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the library hands arguments over by value"
)]

mod collections;
mod datetime;
mod encode;
mod formatting;
mod lists;
mod methods;
mod pattern_work;
mod patterns;
mod registry;
mod strings;
mod text;

pub(crate) use methods::call_method;
pub(crate) use patterns::CompiledPattern;
pub(crate) use registry::{NAMES, register};
