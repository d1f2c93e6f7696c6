//! Filters and functions of the house, beside the library's.

use minijinja::value::Value as Native;
use minijinja::{Environment, Error, ErrorKind};

use crate::template::operators::Marked;
use crate::template::session;

/// The filters registered here that the library does not have.
pub(crate) const NAMES: &[&str] = &["ident", "raw_sql", "raw_sh"];

/// Registers them.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("ident", |value: Native| {
        Native::from_object(Marked::Ident(value))
    });
    env.add_filter("raw_sql", |value: Native| {
        Native::from_object(Marked::Raw(value))
    });
    env.add_filter("raw_sh", |value: Native| {
        Native::from_object(Marked::Raw(value))
    });
    env.add_function("now", now);
}

/// The time of this attempt.
fn now() -> Result<String, Error> {
    let now = session::with(|session| session.now);
    now.map(|now| now.to_string()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOperation,
            "now() can only be used where a task runs: in its inputs and rules",
        )
    })
}
