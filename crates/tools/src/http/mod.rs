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

pub use auth::HttpAuth;
pub use auth_exchange::AuthExchange;
pub(crate) use client::guarded_client;
pub use client::{HttpClients, PeerTimeouts, PendingResponse, classify_error};
pub use envelope::{BodyEncoding, EnvelopeFields, store_envelope};
pub use guard::AddressGuard;
pub use receive::SpooledBody;
pub(crate) use request::BodyFormat;
pub use request::{HttpRequest, RequestOptions, parse_headers};
pub(crate) use response::BodyType;
pub use response::error_kind;
pub use tool::HttpTool;
