//! Builds API paths; encodes user input.

use std::fmt::Write as _;
use std::time::Duration;

use model::id::{ExecutionId, Name, Seq};
use model::labels::Labels;
use server::{ResultAddress, ResultSelector};
use store::ExecutionFilter;

/// Returns the path of a run, or of a resource below it.
pub(super) fn run_path(id: ExecutionId, suffix: &str) -> String {
    format!("/api/executions/{id}{suffix}")
}

/// Returns the path of the next events of a run.
pub(super) fn events_path(id: ExecutionId, after: Seq, limit: usize) -> String {
    run_path(id, &format!("/events?after_seq={after}&limit={limit}"))
}

/// Returns the path of a page of a run's outline.
pub(super) fn outline_path(id: ExecutionId, after: Seq, limit: usize) -> String {
    run_path(id, &format!("/outline?after_seq={after}&limit={limit}"))
}

/// Returns the path of the runs that match a filter.
pub(super) fn list_path(filter: &ExecutionFilter) -> String {
    let mut path = format!("/api/executions?limit={}", filter.limit);
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(path, "&{name}={}", encode_segment(&value));
        }
    };
    let statuses: Vec<&str> = filter.statuses.iter().map(|status| status.name()).collect();
    put("status", (!statuses.is_empty()).then(|| statuses.join(",")));
    put("path", filter.paths.first().map(ToString::to_string));
    let search = &filter.search;
    let duration = |duration: Option<Duration>| duration.map(|duration| format!("{}ms", duration.as_millis()));
    put("q", search.text.clone());
    put("error_code", search.error_code.clone());
    put("min_duration", duration(search.min_duration));
    put("max_duration", duration(search.max_duration));
    put("since", filter.since.map(|time| time.to_string()));
    put("until", filter.until.map(|time| time.to_string()));
    put(
        "label",
        (!filter.labels.is_empty()).then(|| label_parameter(&filter.labels)),
    );
    put("parent", filter.parent.map(|id| id.to_string()));
    put("cursor", filter.before.map(|id| id.to_string()));
    path
}

/// Returns labels as `key:value`, separated by commas.
fn label_parameter(labels: &Labels) -> String {
    let pairs = labels.iter().map(|(key, value)| {
        let value = value.as_str().replace('\\', r"\\").replace(',', r"\,");
        format!("{key}:{value}")
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// Returns the path of a result of a run.
pub(super) fn result_path(id: ExecutionId, address: &ResultAddress) -> String {
    let step = address.step.as_ref().map_or("", Name::as_str);
    let selector = selector_query(&address.selector);
    let query = selector.strip_prefix('&').map(|filter| format!("?{filter}"));
    format!("/api/result/{id}/{}{}", encode_segment(step), query.unwrap_or_default())
}

/// Returns the path of the matching results of a run.
pub(super) fn results_path(id: ExecutionId, address: &ResultAddress, after: Seq, limit: usize) -> String {
    let step = address.step.as_ref().map(|step| encode_segment(step.as_str()));
    let step = step.map_or_else(String::new, |step| format!("&step={step}"));
    let selector = selector_query(&address.selector);
    format!("/api/result/{id}/list?limit={limit}&after_seq={after}{step}{selector}")
}

fn selector_query(selector: &ResultSelector) -> String {
    let mut query = String::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(query, "&{name}={}", encode_segment(&value));
        }
    };
    put("run", selector.run.map(|run| run.to_string()));
    put("task", selector.task.as_ref().map(ToString::to_string));
    put("iteration", selector.iteration.map(|index| index.to_string()));
    put("page", selector.page.map(|page| page.to_string()));
    put("attempt", selector.attempt.map(|attempt| attempt.to_string()));
    query
}

/// Percent-encodes text for a path segment or a query value.
pub(super) fn encode_segment(text: &str) -> String {
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
    use model::status::RunStatus;
    use model::time::Time;

    #[test]
    fn user_input_stays_in_its_path_segment() {
        assert_eq!(encode_segment("a/../b?x=1&y #é"), "a%2F..%2Fb%3Fx%3D1%26y%20%23%C3%A9");
    }

    #[test]
    fn a_filter_becomes_a_query() {
        let filter = ExecutionFilter {
            statuses: vec![RunStatus::Failed],
            paths: vec![Name::from("a/b")],
            since: Some(Time(0)),
            before: Some(ExecutionId(7)),
            limit: 3,
            ..ExecutionFilter::default()
        };
        let path = list_path(&filter);
        assert!(
            path.starts_with("/api/executions?limit=3&status=FAILED&path=a%2Fb&since=1970"),
            "{path}"
        );
        assert!(path.ends_with("&cursor=7"), "{path}");
    }
}
