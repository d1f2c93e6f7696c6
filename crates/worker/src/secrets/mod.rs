//! Secrets in a worker: asked for at the last moment, held without being shown, and masked in everything it says.

mod forms;
mod kept;
mod masks;
mod open;
mod sieve;
mod userinfo;

pub(crate) use kept::Secrets;
pub(crate) use masks::Masks;
pub(crate) use sieve::MaskedBodies;
pub(crate) use userinfo::without_userinfo;
