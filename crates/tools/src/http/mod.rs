//! `http`: one request, one outcome, every bound named.

mod auth;
mod body;
mod client;
mod envelope;
mod guard;
mod receive;
mod request;
mod response;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use client::Clients;
pub(crate) use envelope::{Around, Form, keep};
pub(crate) use guard::Guard;
pub(crate) use receive::Spool;
pub(crate) use response::Type;
pub(crate) use tool::Http;
