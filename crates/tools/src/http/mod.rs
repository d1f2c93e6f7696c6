//! The `http` tool: one request per call, with a limit on every size and time.

mod address;
mod auth;
mod body;
mod client;
mod digest;
mod envelope;
mod guard;
mod oauth;
mod proof;
mod receive;
mod request;
mod response;
mod tool;
mod turns;

#[cfg(test)]
mod tests;

pub(crate) use auth::Auth;
pub(crate) use client::{Clients, Pace, Sent, guarded_client, sort};
pub(crate) use envelope::{Around, Form, keep};
pub(crate) use guard::Guard;
pub(crate) use proof::Proof;
pub(crate) use receive::Spool;
pub(crate) use request::{Manner, Request, headers};
pub(crate) use response::{Type, kind_of};
pub(crate) use tool::Http;
