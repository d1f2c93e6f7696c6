//! Filters, functions and methods that NoETL adds to those of the library. If a result can be larger than the
//! arguments, it is charged before it is built.
#![expect(clippy::needless_pass_by_value, reason = "the library hands arguments over by value")]

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
