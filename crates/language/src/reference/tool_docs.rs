//! The descriptions of the tool kinds and of their own keys.

use crate::reference::ValueType::{
    Any, Bool, Code, Duration, FreeMap, Map, Name, Number, PlaybookPath, Size, Text, Values, WorkbookTask,
};
use crate::reference::{KeyDoc, key_docs};

/// The description of a tool kind.
#[derive(Debug, Clone, Copy)]
pub struct KindDoc {
    /// Its name.
    pub kind: &'static str,
    /// What it does.
    pub text: &'static str,
    /// Its own keys.
    pub keys: &'static [KeyDoc],
}

const fn kind(kind: &'static str, text: &'static str, keys: &'static [KeyDoc]) -> KindDoc {
    KindDoc { kind, text, keys }
}

/// The description of a kind; `None` for external tools.
pub fn find_kind_doc(name: &str) -> Option<&'static KindDoc> {
    KIND_DOCS.iter().find(|doc| doc.kind == name)
}

/// Every built-in kind.
pub const KIND_DOCS: &[KindDoc] = &[
    kind("noop", "Returns a value.", NOOP),
    kind("python", "Runs Python code.", PYTHON),
    kind("shell", "Runs a command.", SHELL),
    kind("http", "Sends an HTTP request.", HTTP),
    kind("playbook", "Starts another playbook.", PLAYBOOK),
    kind("workbook", "Inserts a task that the playbook defines once.", WORKBOOK),
    kind("wait", "Waits for a time or a signal.", WAIT),
    kind("transform", "Transforms JSON with jq or JSONPath.", TRANSFORM),
    kind("rhai", "Runs a script without access to the system.", RHAI),
    kind("artifact", "Reads and writes stored results and files.", ARTIFACT),
    kind("postgres", "Runs SQL in Postgres.", POSTGRES),
    kind("sqlite", "Runs SQL in a SQLite file.", SQLITE),
    kind("duckdb", "Runs SQL over files and databases.", DUCKDB),
    kind("transfer", "Moves rows from one system to another.", TRANSFER),
    kind("s3", "Reads and writes objects in S3 buckets.", OBJECTS),
    kind("gcs", "Reads and writes objects in Google Cloud Storage.", OBJECTS),
    kind(
        "nats",
        "Reads and writes keys, objects, streams and messages of NATS.",
        NATS,
    ),
    kind("mcp", "Sends a request to a server of the Model Context Protocol.", MCP),
    kind("container", "Runs a container image.", CONTAINER),
];

const NOOP: &[KeyDoc] = key_docs! {
    "message": Any, "none", "Without `result`: added to the `input`, which is the result.";
    "result": Any, "the input", "The result.";
};

const PYTHON: &[KeyDoc] = key_docs! {
    "code": Code, "", "The program. One of `code` and `script` is required.";
    "script": Any, "", "Location of the program.";
    "libs": Any, "none", "A list of packages to install, or a map of names to modules.";
    "env": FreeMap, "none", "Environment variables.";
    "cwd": Text, "the directory of the playbook", "Working directory.";
};

const SHELL: &[KeyDoc] = key_docs! {
    "command": Code, "", "A command, or a list of commands that run in one shell until one fails.";
    "script": Any, "", "Location of the program.";
    "env": FreeMap, "none", "Environment variables.";
    "cwd": Text, "the directory of the playbook", "Working directory.";
    "shell": Text, "/bin/sh", "The shell.";
    "stdin": Any, "empty", "Standard input: text, or any value as JSON.";
};

const HTTP: &[KeyDoc] = key_docs! {
    "url": Text, "", "An http or https URL.";
    "method": Text, "GET", "Request method.";
    "headers": FreeMap, "none", "Headers.";
    "params": FreeMap, "none", "Query parameters; a list repeats its name.";
    "json": Any, "none", "Request body, sent as JSON.";
    "payload": Any, "none", "Request body: text, a form if the `Content-Type` says so, otherwise JSON.";
    "body": Any, "none", "The same as `payload`.";
    "data": Any, "none", "The same as `payload`; with `files`, the fields of the form.";
    "form": FreeMap, "none", "Request body, sent as a form.";
    "files": FreeMap, "none", "Files of a multipart form: names with paths or contents.";
    "script": Any, "none", "Location of the request body.";
    "verify_ssl": Bool, "true", "Whether certificates are verified.";
    "follow_redirects": Bool, "true", "Whether redirects are followed.";
    "response_type": Text, "auto", "How the response is read: `auto`, `json`, `text` or `binary`.";
    "ok_status": Any, "below 400", "Status codes that count as success: `404`, `2xx`, `200-299`, or a list.";
};

const PLAYBOOK: &[KeyDoc] = key_docs! {
    "path": PlaybookPath, "", "Path of the child playbook.";
    "catalog_id": PlaybookPath, "", "Instead of `path` and `version`: `path@version`.";
    "version": Number, "the latest", "Version of the child playbook.";
    "return_step": Name, "the result of the run", "Step of the child whose result is the result of the task.";
    "wait": Bool, "true", "`false` starts the child and continues; the result is `{execution_id}`.";
};

const WORKBOOK: &[KeyDoc] = key_docs! {
    "name": WorkbookTask, "", "Name of a task under `workbook`.";
};

const WAIT: &[KeyDoc] = key_docs! {
    "duration": Duration, "", "How long to wait.";
    "until": Text, "", "When to continue: RFC 3339 text.";
    "signal": Text, "", "Name of a signal.";
    "approval": Any, "the label of the task", "Name of a signal that approves, or a map with `name`.";
};

const TRANSFORM: &[KeyDoc] = key_docs! {
    "jq": Code, "", "A jq program; its input is the `input` of the task.";
    "select": Text, "", "A JSONPath into the `input`.";
};

const RHAI: &[KeyDoc] = key_docs! {
    "code": Code, "", "The script; the keys of the `input` are its constants.";
};

const ARTIFACT: &[KeyDoc] = key_docs! {
    "action": Text, "get", "What to do: `get`, `put`, `list` and others.";
    "ref": Any, "", "A stored result.";
    "uri": Text, "", "Address of a stored result or a file.";
    "data": Any, "", "For `put`: the value.";
    "slice": Any, "all", "Part of the content.";
    "compress": Text, "", "Compression of what is written.";
};

const POSTGRES: &[KeyDoc] = key_docs! {
    "command": Code, "", "One or more statements, separated by semicolons.";
    "script": Any, "", "Location of the statements.";
    "params": Any, "none", "Values to bind: a list for `$1`, `$2`, or a map for `:name`.";
    "schema": Any, "that of the user", "Search path of this call: a name, or a list of names.";
};

const SQLITE: &[KeyDoc] = key_docs! {
    "command": Code, "", "One or more statements.";
    "script": Any, "", "Location of the statements.";
    "params": Any, "none", "Values to bind: a list for `?` and `?1`, a map for `:name`.";
    "database": Text, "", "A file, relative to the directory of the playbook, or `:memory:`.";
};

const DUCKDB: &[KeyDoc] = key_docs! {
    "command": Code, "", "One or more statements; several run in one transaction.";
    "script": Any, "", "Location of the statements.";
    "params": Any, "none", "Values to bind: a list for `?` and `$1`, a map for `$name`.";
    "database": Text, ":memory:", "A file, which persists between steps, or `:memory:`.";
    "memory_limit": Size, "1GiB", "Memory of the database.";
    "threads": Number, "4", "Threads of the database.";
};

const TRANSFER: &[KeyDoc] = key_docs! {
    "source": FreeMap, "", "Where rows come from: `kind` and the keys of that kind.";
    "target": FreeMap, "", "Where rows go: `kind` and the keys of that kind.";
    "mode": Text, "append", "`append`, `replace` or `upsert`.";
    "key": Values, "", "For `upsert`: the columns that identify a row.";
    "chunk_size": Number, "5000", "Maximum number of rows in a chunk.";
};

const OBJECTS: &[KeyDoc] = key_docs! {
    "action": Text, "get", "`get`, `put`, `head`, `list`, `delete` or `presign`.";
    "uri": Text, "", "`s3://bucket/key`, `gs://bucket/key`, or `file:///folder/file`.";
    "source": Any, "", "For `put`: text, any value, a file, or the result of a step, which streams.";
    "data": Any, "", "For `put`: only a value, never a file or a reference.";
    "content_type": Text, "detected", "For `put`: the media type.";
    "format": Text, "auto", "For `get`: `auto`, `json`, `text` or `binary`.";
    "range": Any, "the whole object", "For `get`: bytes, `[0, 1000]`.";
    "limit": Number, "1000", "For `list`: maximum number of objects.";
    "after": Text, "", "For `list`: `next` of the previous page.";
    "expires": Duration, "1h", "For `presign`: lifetime of the address.";
    "method": Text, "GET", "For `presign`: `GET` or `PUT`.";
};

const NATS: &[KeyDoc] = key_docs! {
    "operation": Text, "",
        "What to do: `kv_get`, `kv_put`, `object_get`, `js_publish`, `js_consume`, `publish`, `request` and others.";
    "url": Text, "that of the credential", "`nats://host:4222`, comma-separated for several.";
    "bucket": Text, "", "Bucket of keys or objects.";
    "key": Text, "", "Key in the bucket.";
    "value": Any, "", "Value to write.";
    "object": Text, "", "Object in the bucket.";
    "file": Text, "", "File to store as an object.";
    "description": Text, "", "Description of an object.";
    "subject": Text, "", "Subject of the message.";
    "stream": Text, "", "Stream to read.";
    "consumer": Text, "", "Durable consumer of the stream.";
    "batch": Number, "100", "Maximum number of messages.";
    "wait": Duration, "1s", "How long to wait for messages.";
    "ack": Any, "", "How messages are acknowledged.";
    "sequence": Number, "", "Sequence number of a message.";
    "revision": Number, "", "Revision of a key.";
    "expected_last_revision": Number, "", "Writes only if this is the last revision; 0: the key must be new.";
    "expected_last_sequence": Number, "", "Publishes only if this is the last sequence number.";
    "msg_id": Text, "the idempotency key", "ID with which the stream recognizes duplicates.";
    "headers": FreeMap, "none", "Headers of a message.";
    "encoding": Text, "auto", "`auto`, `json`, `text` or `base64`.";
    "filter": Text, "", "For `kv_keys`: a subject such as `orders.*`.";
    "create": Bool, "false", "Whether a missing bucket is created.";
};

const MCP: &[KeyDoc] = key_docs! {
    "server": Text, "", "Address of the server (streamable HTTP).";
    "command": Any, "", "Program to start, with its arguments.";
    "env": FreeMap, "none", "Environment variables of the program.";
    "cwd": Text, "the directory of the playbook", "Working directory of the program.";
    "tool": Text, "", "Tool to call.";
    "prompt": Text, "", "Prompt to get.";
    "uri": Text, "", "Resource to read.";
    "arguments": FreeMap, "the input", "Arguments of the tool or the prompt.";
    "method": Text, "", "Any other method, such as `tools/list`.";
    "params": FreeMap, "none", "Parameters of the method.";
    "headers": FreeMap, "none", "Headers of the requests.";
    "verify_ssl": Bool, "true", "Whether certificates are verified.";
};

const CONTAINER: &[KeyDoc] = key_docs! {
    "image": Text, "", "The image.";
    "command": Any, "that of the image", "Replacement for the entry point.";
    "args": Values, "those of the image", "Arguments of the entry point.";
    "env": FreeMap, "none", "Environment variables.";
    "resources": Map("resources"), "no limit", "`{cpu: 0.5, memory: 512MiB}`.";
    "runtime": Text, "the first in the worker's PATH", "`docker`, `podman` or `kubernetes`.";
    "workdir": Text, "that of the image", "Working directory in the container.";
    "user": Text, "that of the image", "User; docker and podman only.";
    "network": Text, "that of the runtime", "Network; docker and podman only.";
    "pull": Text, "that of the runtime", "`always`, `missing` or `never`.";
    "namespace": Text, "that of the kubeconfig file", "Namespace on Kubernetes.";
    "service_account": Text, "that of the kubeconfig file", "Service account on Kubernetes.";
};
