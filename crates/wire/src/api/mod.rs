//! Requests and responses of the HTTP API, one file per topic. The API document is generated from these types.

mod batch;
mod bodies;
mod catalog;
mod commands;
mod credentials;
mod executions;
mod facets;
mod failures;
mod graph;
mod inbox;
mod logs;
mod problem;
mod tokens;

pub use batch::{BatchRequest, BatchResponse, BatchState, BatchStatusResponse, EventResponse, IngestStatus};
pub use bodies::{ReferenceEntry, ReferenceList, ResultSelector, StoreBodyResponse};
pub use catalog::{
    CatalogEntryRequest, CatalogList, PlaybookEntry, RegisterRequest, RegisterResponse, ValidateRequest,
    ValidateResponse,
};
pub use commands::{
    BuildCommandsRequest, BuildCommandsResponse, ClaimRequest, ClaimResponse, HeartbeatRequest, LoadEventsRequest,
    LoadEventsResponse, LoopResultsRequest, NoticesResponse, ResolveRefRequest, SessionRequest, SessionResponse,
    WorkerEntry, WorkerRequest,
};
pub use credentials::{
    CredentialEntry, CredentialList, KeychainEntryStatus, RotateKeyResponse, SecretEntry, SecretsRequest,
    SecretsResponse, SetCredentialRequest, SetKeychainEntryRequest,
};
pub use executions::{
    CancelRequest, CancellationStatus, EventPage, ExecuteRequest, ExecuteResponse, ExecutionDetail, ExecutionPage,
    ExecutionSummary, FinalizeRequest, LoopEntry, OutlinePage, PatchCtxRequest, ReasonRequest, ReplayResponse,
    RerunRequest, RetryRequest,
};
pub use facets::{ExecutionFacets, ExecutionHistogram, FacetCount, HistogramBucket};
pub use failures::{FailureGroup, FailureList};
pub use graph::{
    ExecutionGraph, GraphArc, GraphEvaluation, GraphLoop, GraphStatus, GraphStep, GraphStepKind, GraphTask,
};
pub use inbox::{InboxChoice, InboxCount, InboxEntry, InboxKind, InboxPage};
pub use logs::{AppendLogsRequest, AppendLogsResponse, LogEntry, LogsResponse};
pub use problem::Problem;
pub use tokens::{
    AccessTokenEntry, AccessTokenList, AuditPage, CallerSession, CreateAccessTokenRequest, CreateAccessTokenResponse,
    Role, SignInMode, SignInRequest,
};
