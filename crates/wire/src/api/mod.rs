//! Requests and responses of the HTTP API, one file per topic. The API document is generated from these types.

mod batch;
mod bodies;
mod catalog;
mod commands;
mod credentials;
mod executions;
mod logs;
mod problem;
mod tokens;

pub use batch::{BatchAnswer, BatchRequest, BatchState, BatchStatus, EventAnswer, EventState};
pub use bodies::{BodyStored, ReferenceEntry, ReferenceList, ResultPlace};
pub use catalog::{
    CatalogList, PathRequest, PlaybookEntry, RegisterRequest, Registered, ValidateRequest,
    Validated,
};
pub use commands::{
    BuildAnswer, BuildRequest, ClaimAnswer, ClaimRequest, EventsAtAnswer, EventsAtRequest,
    HeartbeatRequest, LeaveRequest, LookUpRequest, LoopRequest, SessionRequest, SessionResponse,
    ToldAnswer, WorkerPool,
};
pub use credentials::{
    CredentialEntry, CredentialList, CredentialRequest, KeyRotated, KeychainRequest, KeychainState,
    SecretEntry, SecretsAnswer, SecretsRequest,
};
pub use executions::{
    CancelRequest, CancellationCheck, CtxPatch, EventPage, ExecuteRequest, Execution,
    ExecutionPage, FinalizeRequest, LoopEntry, NoteRequest, OutlinePage, ReplayState, RerunRequest,
    RetryRequest, RunAnswer, Started,
};
pub use logs::{LogLines, LogsRequest, LogsTaken};
pub use problem::Problem;
pub use tokens::{AuditPage, Role, TokenCreated, TokenEntry, TokenList, TokenRequest};
