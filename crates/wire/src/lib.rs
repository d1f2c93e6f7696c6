//! Everything that crosses a process boundary: the types of the HTTP API, its client, and the protocol between worker
//! and server.
//!
//! The server implements [`Transport`] in process, [`Remote`] implements it over HTTP; both use these types.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod api;
mod bus;
mod client;
mod context;
mod download;
mod event;
mod event_json;
mod http_transport;
mod secret;
mod transport;

pub use bus::{Bus, BusError, NatsBus, Publication, to_publication};
pub use client::{
    AccessToken, CallError, Client, FORWARDED_HEADER, HttpResponse, PROTOCOL_HEADER, PROTOCOL_VERSION, SESSION_HEADER,
    Upload,
};
pub use context::ExecutionContext;
pub use download::Download;
pub use event::{ResultKind, WireEvent, WireEventError, WireStatus};
pub use event_json::{EventJsonError, parse_event_json};
pub use http_transport::HttpTransport;
pub use secret::{ResolvedSecret, SecretValue};
pub use transport::{
    ByteStream, ClaimedCommand, CommandNotice, Error, ReportRequest, ReportResponse, ResumePoint, Transport, Verdict,
};
