//! What is reached through a server elsewhere: its API, and the bodies that it keeps.

mod bodies;
mod token;

pub(crate) use bodies::ServerBodies;
pub(crate) use token::{read_token, unanswered};
