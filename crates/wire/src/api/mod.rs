//! Requests and responses of the HTTP API, one file per topic. The API document is generated from these types.

mod batch;
mod bodies;
mod bulk;
mod catalog;
mod commands;
mod credentials;
mod executions;
mod facets;
mod failures;
mod graph;
mod inbox;
mod language;
mod log_schemas;
mod logs;
mod loops;
mod playbooks;
mod problem;
mod queue;
mod rerun_preview;
mod sign_in;
mod state;
mod system;
mod timeline;
mod tokens;
mod workers;

pub use batch::{BatchRequest, BatchResponse, BatchState, BatchStatusResponse, EventResponse, IngestStatus};
pub use bodies::{ReferenceEntry, ReferenceList, ResultSelector, StoreBodyResponse};
pub use bulk::{
    BulkAction, BulkOutcome, BulkPreview, BulkPreviewRequest, BulkRefusal, BulkRequest, BulkResponse, BulkResult,
};
pub use catalog::{
    CatalogEntryRequest, CatalogList, DiagnosticEntry, DiagnosticSeverity, PlaybookEntry, RegisterRequest,
    RegisterResponse, ValidateRequest, ValidateResponse,
};
pub use commands::{
    BuildCommandsRequest, BuildCommandsResponse, ClaimRequest, ClaimResponse, HeartbeatRequest, LoadEventsRequest,
    LoadEventsResponse, LoopResultsRequest, NoticesResponse, ResolveRefRequest, SessionRequest, SessionResponse,
    WorkerEntry, WorkerRequest,
};
pub use credentials::{
    CredentialEntry, CredentialField, CredentialList, CredentialType, CredentialTypeList, CredentialUse,
    KeychainEntryStatus, ListedCredential, RotateKeyResponse, SecretEntry, SecretsRequest, SecretsResponse,
    SetCredentialRequest, SetKeychainEntryRequest,
};
pub use executions::{
    CancelRequest, CancellationStatus, EventPage, ExecuteRequest, ExecuteResponse, ExecutionDetail, ExecutionPage,
    ExecutionSummary, FinalizeRequest, LoopEntry, OutlinePage, PatchCtxRequest, ReasonRequest, ReplayResponse,
    RerunRequest, RetryRequest,
};
pub use facets::{ExecutionFacets, ExecutionHistogram, FacetCount, HistogramBucket, LabelFacet};
pub use failures::{FailureGroup, FailureList};
pub use graph::{
    ExecutionGraph, GraphArc, GraphEvaluation, GraphLoop, GraphPolicyRule, GraphStatus, GraphStep, GraphStepKind,
    GraphTask, PlaybookGraph,
};
pub use inbox::{InboxChoice, InboxCount, InboxEntry, InboxKind, InboxPage};
pub use language::{
    CompletionEntry, CompletionEntryKind, CompletionResponse, DiagnosticCodeEntry, HoverEntry, HoverResponse,
    LanguageKey, LanguagePositionRequest, LanguageReference, LanguageSection, LanguageWord, TemplateNameEntry,
    ToolKindEntry,
};
pub use log_schemas::{LogEventSchema, LogLineSchema, TaskErrorSchema};
pub use logs::{AppendLogsRequest, AppendLogsResponse, LogEntry, LogsResponse};
pub use loops::{ByIterationStatus, DurationBin, IterationStatus, LoopCells, LoopDurations};
pub use playbooks::{
    DiffKind, DiffLineKind, DiffSection, DiffText, DiffTextLine, InputFormResponse, PlaybookCaller, PlaybookCallerList,
    PlaybookDiff, PlaybookDiffChange, PlaybookDiffRequest, PlaybookVersionEntry, PlaybookVersionGraph,
    PlaybookVersionPage, RecentRuns, RecentRunsRequest, RecentRunsResponse, RunOutcome,
};
pub use problem::Problem;
pub use queue::{QueueEntry, QueueOverview, WaitingCause, WaitingCommand, WaitingCommandList, WaitingReason};
pub use rerun_preview::{RerunPreview, ReusedIterationCount, ReusedStepEntry};
pub use sign_in::{CallerSession, SignInFailure, SignInMode, SignInProvider, SignInRequest};
pub use state::{
    StateChange, StateChangeKind, StateCheckResponse, StateCheckSource, StateComparison, StateEntry, StatePipeline,
    StateResponse, StateStep, StateStepChange, StateToken, StateWriter,
};
pub use system::{LimitEntry, LimitUnit, ResultStoreStatus, StoreBackend, StoreStatus, SystemStatus};
pub use timeline::{ExecutionTimeline, TimelineAttempt, TimelineIteration, TimelineLoop, TimelineStep, TimelineTask};
pub use tokens::{
    AccessTokenEntry, AccessTokenList, AccessTokenState, AuditLogEntry, AuditOutcome, AuditPage,
    CreateAccessTokenRequest, CreateAccessTokenResponse, Role,
};
pub use workers::{LeaseEntry, ServerEntry, WorkerDescription, WorkerOverview, WorkerPoolStatus, WorkerStatus};
