//! Paths of the API, with what people typed made safe for them.

use std::fmt::Write as _;

use model::id::{ExecutionId, Seq};
use store::Filter;

/// A run, or something of it.
pub(super) fn run(id: ExecutionId, rest: &str) -> String {
    format!("/api/executions/{id}{rest}")
}

/// The next events of a run.
pub(super) fn events(id: ExecutionId, after: Seq, limit: usize) -> String {
    run(id, &format!("/events?after_seq={after}&limit={limit}"))
}

/// The runs that fit.
pub(super) fn list(filter: &Filter) -> String {
    let mut path = format!("/api/executions?limit={}", filter.limit);
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", encode(&value));
        }
    };
    put(
        "status",
        filter.status.map(|status| status.name().to_owned()),
    );
    put("path", filter.path.as_ref().map(ToString::to_string));
    put("since", filter.since.map(|time| time.to_string()));
    put("until", filter.until.map(|time| time.to_string()));
    put("parent", filter.parent.map(|id| id.to_string()));
    put("cursor", filter.before.map(|id| id.to_string()));
    path
}

/// Text as one segment of a path, or one value of a query.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::id::Name;
    use model::status::RunStatus;
    use model::time::Time;

    #[test]
    fn what_people_typed_cannot_leave_its_place_in_the_path() {
        assert_eq!(
            encode("a/../b?x=1&y #é"),
            "a%2F..%2Fb%3Fx%3D1%26y%20%23%C3%A9"
        );
    }

    #[test]
    fn a_filter_becomes_a_query() {
        let filter = Filter {
            status: Some(RunStatus::Failed),
            path: Some(Name::from("a/b")),
            since: Some(Time(0)),
            before: Some(ExecutionId(7)),
            limit: 3,
            ..Filter::default()
        };
        let path = list(&filter);
        assert!(
            path.starts_with("/api/executions?limit=3&status=FAILED&path=a%2Fb&since=1970"),
            "{path}"
        );
        assert!(path.ends_with("&cursor=7"), "{path}");
    }
}
