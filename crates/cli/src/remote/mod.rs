//! What is reached through a server elsewhere: its API.

mod token;

pub(crate) use token::{read_token, unanswered};
