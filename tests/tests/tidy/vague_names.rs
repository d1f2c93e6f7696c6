//! Names of types that are too vague to use on their own.
//!
//! A type is named by a noun phrase that says what the value is without its path: `EventLocation`, not `At`;
//! `CommandContext`, not `Hand`. The list holds names that readers did not understand.

use crate::names::declared_types;
use crate::source_files::{SourceFile, TidyFinding, assert_catches, assert_clean, assert_passes};

/// Names that no type has: without their path they do not say what the value is.
#[rustfmt::skip]
const VAGUE_NAMES: &[&str] = &[
    "Abilities", "Absent", "Access", "AccessId", "Acted", "Action", "Address", "Afterwards",
    "Again", "Agenda", "Answer", "Answered", "Api", "Arc", "Around", "Artifact", "Ask", "Asked",
    "AskedCall", "Asker", "At", "Attempted", "Awaits", "Base", "Batch", "BatchAnswer", "Begin",
    "Beginning", "Begun", "Beside", "Best", "Blocked", "Bodies", "Body", "BodyStored", "BodyToKeep",
    "Bound", "Bounded", "Bounds", "Broken", "BuildAnswer", "BuildRequest", "Cache", "Cached",
    "CameFrom", "CancellationCheck", "Catch", "Cause", "Challenge", "Checked", "Child", "Claim",
    "ClaimAnswer", "Claimed", "Claims", "Clients", "Closure", "Cluster", "Code", "Collect",
    "Collected", "Combined", "Coming", "Confines", "Conflict", "Connect", "Connection",
    "Connections", "Container", "Content", "Context", "Copying", "Creation", "Credential",
    "CredentialRequest", "CtxPatch", "Cursor", "Cut", "Decided", "Declared", "Decoded", "Deeds",
    "Deferred", "Delta", "Denied", "Desk", "Done", "Draft", "Drawing", "Drawn", "Drive", "Driven",
    "DrivenElsewhere", "DrivenHere", "Driving", "Duckdb", "Each", "Ear", "Edges", "Elements",
    "Elsewhere", "Emitter", "End", "Ended", "Ending", "Entry", "EntryRead", "Env", "EventAnswer",
    "EventsAtAnswer", "EventsAtRequest", "Execution", "External", "Extras", "Facts", "Failed",
    "Failures", "Fault", "Fetch", "Fetched", "Fields", "Filter", "Finder", "Finished", "Folded",
    "Follow", "FollowAll", "Foreign", "Form", "Found", "Frame", "Fresh", "From", "Full", "Gathered",
    "Given", "Glance", "Glean", "Gleaned", "Global", "Going", "Grant", "Group", "Guard", "Guarded",
    "Hand", "HandRow", "Happening", "Hashing", "Head", "Here", "Hints", "Hired", "Hold", "Hole",
    "Home", "Honest", "Hosts", "House", "Housed", "Http", "HttpLine", "Id", "IdAnd", "Ids",
    "InProcess", "Indices", "Inlet", "Inside", "InvalidShown", "Issue", "Issues", "Issuing", "Iter",
    "Iterated", "Job", "Jump", "Keeper", "Kept", "KeptTasks", "KeyRotated", "KeychainRequest",
    "KeychainState", "Keys", "Kind", "Knobs", "Known", "Kv", "Lack", "Lap", "Latest", "Layer",
    "Lease", "LeaveRequest", "Left", "Life", "Limit", "Limits", "Line", "List", "ListParams",
    "Listed", "Listen", "Listener", "Listening", "Live", "Loaded", "Local", "Located", "Log",
    "LogLines", "Logged", "Login", "Logs", "LogsRequest", "LogsTaken", "Look", "LookUpRequest",
    "Lookup", "LoopRequest", "LoopSoFar", "Lost", "Mail", "Manner", "Mark", "Marks", "Masked",
    "MaskedBodies", "Masks", "MaybeBody", "Mcp", "Members", "Memory", "Mention", "MessageBody",
    "Meta", "Mode", "More", "Mortal", "Named", "Nats", "NatsObjects", "Net", "Network", "News",
    "Next", "Noop", "NotAHole", "NotStarted", "Note", "NoteRequest", "Nothing", "Objects",
    "Offered", "Old", "OneCommand", "Open", "Opened", "Opens", "Options", "Order", "Origin", "Out",
    "OutMessage", "Outlet", "Owner", "Owners", "Pace", "Packed", "Packing", "Pair", "Parent",
    "Parked", "Part", "Parts", "Pass", "Passing", "Patch", "PathRequest", "Peer", "Peers", "Pen",
    "Pending", "Pieces", "Pipeline", "Place", "PlacedToken", "Places", "Plain", "Plan", "Playbooks",
    "Pool", "Pools", "Posted", "Postgres", "Prepared", "Printed", "Proof", "Published", "Python",
    "Raised", "Ran", "Range", "Rare", "Raw", "Reach", "Reader", "Readers", "Reading", "Ready",
    "Rebuilt", "Receipt", "Received", "Recorded", "Reference", "References", "Registered", "Remote",
    "Renamed", "ReplayState", "Report", "Request", "Requested", "Resolving", "Rest", "ResultPlace",
    "Resume", "Retried", "Retry", "Retrying", "Returned", "Reuse", "Reused", "ReusedItems", "Rhai",
    "Route", "Rule", "Run", "RunAnswer", "RunResult", "RunSecrets", "Runner", "Running", "Runs",
    "Safe", "Said", "Scene", "Scratch", "Scripted", "Sealed", "SealedPlace", "Secret", "Secrets",
    "SecretsAnswer", "Seen", "Segment", "Sent", "ServerBodies", "ServerLogs", "Session", "Settled",
    "Setup", "Shape", "Shared", "Shell", "Shelved", "ShippedLogs", "Shown", "Signal", "Sim", "Site",
    "Snapshots", "Source", "Spill", "Splitter", "Spool", "Spot", "Sqlite", "Staged", "Standing",
    "Start", "Started", "State", "Status", "StdioLine", "Stepped", "Stop", "StopRequested",
    "Stopper", "Stops", "Stored", "Stores", "Strategy", "Style", "Submission", "Submit", "Surface",
    "Switch", "Switched", "System", "Taken", "TakenStep", "Takeover", "Talk", "Tally", "TaskRun",
    "Text", "Then", "Through", "Tier", "To", "TokenCreated", "TokenEntry", "TokenList",
    "TokenRequest", "TokenRow", "Tokens", "Told", "ToldAnswer", "ToldError", "Transfer",
    "Transform", "Tries", "Trouble", "Trust", "Turn", "Turns", "Undecided", "Unfinished",
    "Unpublished", "Unreadable", "Unrendered", "Unresolved", "Unsent", "Untranslatable", "Unusable",
    "Use", "Used", "Validated", "Values", "Verifier", "View", "Virtual", "Waiting", "Wanted",
    "Watch", "What", "Whole", "Why", "Window", "Wish", "Wishing", "WithManifests", "Witness",
    "Word", "Words", "Work", "WorkerPool", "Workers", "Write", "Writer", "Writes", "Written",
];

fn types_have_no_vague_name(files: &[SourceFile]) -> Vec<TidyFinding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (number, name) in declared_types(file) {
            if VAGUE_NAMES.binary_search(&name.as_str()).is_ok() {
                let message = format!("`{name}` does not say what the value is; add the noun that it describes");
                findings.push(file.finding(number, message));
            }
        }
    }
    findings
}

#[test]
fn no_type_has_a_vague_name() {
    assert!(VAGUE_NAMES.is_sorted(), "the list is searched by halves");
    assert_clean(types_have_no_vague_name);
}

#[test]
fn a_vague_name_is_caught() {
    assert_catches(
        types_have_no_vague_name,
        &[
            ("crates/store/src/a.rs", "pub struct At {\n"),
            ("crates/worker/src/b.rs", "pub(crate) enum Trouble {\n"),
        ],
    );
    assert_passes(
        types_have_no_vague_name,
        &[("crates/store/src/a.rs", "pub struct EventLocation {\n")],
    );
}
