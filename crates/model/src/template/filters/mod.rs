//! Filters, functions and methods of the house, beside the library's. Those that can build more than they are given
//! account for it first.
#![expect(
    clippy::needless_pass_by_value,
    reason = "the library hands arguments over by value"
)]

mod encode;
mod lists;
mod methods;
mod patterns;
mod registry;
mod text;
mod when;

pub(crate) use methods::method;
pub(crate) use registry::{NAMES, register};
