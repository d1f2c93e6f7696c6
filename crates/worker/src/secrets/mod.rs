//! Secrets in a worker: asked for at the last moment, held without being shown, and masked in everything it says.

mod edges;
mod forms;
mod kept;
mod masks;
mod open;
mod sieve;
mod userinfo;

pub(crate) use kept::{RunSecrets, Secrets};
pub(crate) use masks::{CUT_BYTES_MIN, Masks};
pub(crate) use sieve::MaskedBodies;
pub(crate) use userinfo::{strip_userinfo, strip_value};
