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
mod remote;
mod secret;
mod shown;
mod transport;

pub use bus::{Bus, BusError, Nats, Publication, published};
pub use client::{Answer, CallError, Client, FORWARDED, SESSION, Token, Upload};
pub use context::Context;
pub use download::Download;
pub use event::{InvalidEvent, ResultKind, WireEvent, WireStatus};
pub use remote::Remote;
pub use secret::{Secret, SecretValue, SecretsAsk};
pub use shown::{InvalidShown, read_shown};
pub use transport::{
    Ask, Claimed, Error, Held, Pieces, PlaybookText, Pulse, Receipt, Report, Resume, Told,
    Transport, Verdict,
};
