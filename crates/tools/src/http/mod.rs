//! The `http` tool: one request per call, with a limit on every size and time.

mod address;
mod auth;
mod auth_exchange;
mod body;
mod client;
mod digest;
mod envelope;
mod guard;
mod host_limiter;
mod oauth;
mod receive;
mod request;
mod response;
mod tool;

#[cfg(test)]
mod tests;

pub(crate) use auth::HttpAuth;
pub(crate) use auth_exchange::AuthExchange;
pub(crate) use client::{
    HttpClients, PeerTimeouts, PendingResponse, classify_error, guarded_client,
};
pub(crate) use envelope::{BodyEncoding, EnvelopeFields, store_envelope};
pub(crate) use guard::AddressGuard;
pub(crate) use receive::SpooledBody;
pub(crate) use request::{HttpRequest, RequestOptions, parse_headers};
pub(crate) use response::{BodyType, error_kind};
pub(crate) use tool::HttpTool;
