//! Lists of runs, and the counts of their statuses, playbooks and errors over time.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::State;
use model::id::{ExecutionId, Name};
use model::status::RunStatus;
use model::time::Time;
use serde::Deserialize;
use store::{ExecutionFilter, ExecutionSearch, FacetRow, error_code};
use utoipa::IntoParams;
use wire::api::{ExecutionFacets, ExecutionHistogram, ExecutionPage, FacetCount, HistogramBucket};

use crate::api::access::{Authorized, View};
use crate::api::error::{ApiError, ErrorResponses};
use crate::api::executions::{page_limit, summarize_all};
use crate::api::extract::{QueryParams, parse_execution_id};
use crate::api::state::ApiState;
use crate::api::{ApiResult, Json};

/// Maximum number of runs that are counted.
const COUNTED_MAX: usize = 20_000;
/// Maximum number of values of a facet.
const FACET_VALUES_MAX: usize = 20;
/// Maximum number of buckets of a histogram.
const BUCKETS_MAX: u64 = 60;
/// Maximum number of playbooks that a path with `*` selects.
const PATHS_MAX: usize = 200;
/// Maximum length of a text to search for.
const TEXT_MAX: usize = 200;
/// Sizes of buckets in seconds; larger ones are whole weeks.
const BUCKET_SECONDS: &[u64] = &[
    1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800,
];

/// Filters of runs, as query parameters.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecutionParams {
    /// Filter by status, comma-separated: RUNNING, PAUSED, COMPLETED, FAILED, CANCELLED.
    status: Option<String>,
    /// Filter by catalog path of the playbook. A `*` at the end selects all paths that start with the text before it.
    path: Option<String>,
    /// The start of the run ID, or a part of the path, name, current step or error, in upper or lower case.
    q: Option<String>,
    /// Only failed runs with this error code.
    error_code: Option<String>,
    /// Only runs that took, or have been active for, at least this long, for example `30s`.
    min_duration: Option<String>,
    /// Only runs that took, or have been active for, at most this long.
    max_duration: Option<String>,
    /// Only runs started at or after this time, or within this duration, for example `24h`.
    since: Option<String>,
    /// Only runs started before this time, or longer ago than this duration.
    until: Option<String>,
    /// Only child runs of this run.
    #[param(value_type = Option<String>)]
    parent: Option<ExecutionId>,
    /// Maximum number of runs. Default: 50. Only for lists.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next_cursor` of the previous page. Only for lists.
    cursor: Option<String>,
}

impl ExecutionParams {
    /// Converts the filters; `None` if no playbook matches the path, and so no run.
    pub(crate) async fn to_filter(&self, api: &ApiState) -> Result<Option<ExecutionFilter>, ApiError> {
        let now = api.store().now();
        let paths = match self.path.as_deref() {
            None => Vec::new(),
            Some(path) => match path.strip_suffix('*') {
                None => vec![Name::from(path)],
                Some(prefix) => paths_with_prefix(api, prefix).await?,
            },
        };
        if self.path.is_some() && paths.is_empty() {
            return Ok(None);
        }
        Ok(Some(ExecutionFilter {
            statuses: parse_statuses(self.status.as_deref().unwrap_or_default())?,
            paths,
            since: self
                .since
                .as_deref()
                .map(|text| parse_time("since", text, now))
                .transpose()?,
            until: self
                .until
                .as_deref()
                .map(|text| parse_time("until", text, now))
                .transpose()?,
            parent: self.parent,
            before: self.cursor.as_deref().map(parse_execution_id).transpose()?,
            search: ExecutionSearch {
                text: self.q.as_deref().map(parse_search_text).transpose()?,
                error_code: self.error_code.clone(),
                min_duration: parse_duration("min_duration", self.min_duration.as_deref())?,
                max_duration: parse_duration("max_duration", self.max_duration.as_deref())?,
            },
            limit: page_limit(self.limit)?,
        }))
    }

    /// Rejects the parameters of pages, for routes that have none.
    pub(crate) fn check_no_page(&self) -> Result<(), ApiError> {
        if self.limit.is_some() || self.cursor.is_some() {
            let detail = "`limit` and `cursor` are only supported by lists";
            return Err(ApiError::invalid("PARAMETER_INVALID", detail));
        }
        Ok(())
    }
}

fn parse_statuses(text: &str) -> Result<Vec<RunStatus>, ApiError> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    let statuses = names.map(|name| name.to_ascii_uppercase().parse::<RunStatus>());
    let mut statuses: Vec<RunStatus> = statuses
        .collect::<Result<_, _>>()
        .map_err(|error| ApiError::invalid("PARAMETER_INVALID", format!("invalid `status`: {error}")))?;
    statuses.dedup();
    Ok(statuses)
}

fn parse_search_text(text: &str) -> Result<String, ApiError> {
    if text.len() > TEXT_MAX || text.contains('\0') {
        let detail = format!("invalid `q`: expected a text of at most {TEXT_MAX} bytes without NUL");
        return Err(ApiError::invalid("PARAMETER_INVALID", detail));
    }
    Ok(text.to_owned())
}

fn parse_duration(name: &str, text: Option<&str>) -> Result<Option<Duration>, ApiError> {
    let Some(text) = text else {
        return Ok(None);
    };
    let duration = model::duration::parse_text(text);
    duration.map(Some).ok_or_else(|| {
        let detail = format!("invalid `{name}` `{text}`: expected a duration such as `30s` or `5m`");
        ApiError::invalid("PARAMETER_INVALID", detail)
    })
}

/// Parses a time, or a duration before now.
fn parse_time(name: &str, text: &str, now: Time) -> Result<Time, ApiError> {
    if let Some(time) = Time::parse(text) {
        return Ok(time);
    }
    let duration = model::duration::parse_text(text);
    duration.map(|duration| now.before(duration)).ok_or_else(|| {
        let detail = format!("invalid `{name}` `{text}`: expected an RFC 3339 time, or a duration such as `24h`");
        ApiError::invalid("PARAMETER_INVALID", detail)
    })
}

async fn paths_with_prefix(api: &ApiState, prefix: &str) -> Result<Vec<Name>, ApiError> {
    let entries = api.store().catalog().await?;
    let paths = entries.into_iter().map(|entry| entry.path);
    let paths: Vec<Name> = paths.filter(|path| path.as_str().starts_with(prefix)).collect();
    if paths.len() > PATHS_MAX {
        let detail = format!(
            "`{prefix}*` selects {} playbooks; at most {PATHS_MAX} are supported",
            paths.len()
        );
        return Err(ApiError::invalid("PARAMETER_INVALID", detail).with_remedy("use a longer prefix"));
    }
    Ok(paths)
}

/// List runs, newest first.
///
/// `q`, `error_code`, `min_duration` and `max_duration` examine the newest 50,000 runs that the other filters select.
#[utoipa::path(get, path = "/api/executions", tag = "runs", params(ExecutionParams),
    responses((status = 200, description = "a page of runs", body = ExecutionPage), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn list(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<ExecutionParams>,
) -> ApiResult<ExecutionPage> {
    let Some(mut filter) = params.to_filter(&api).await? else {
        return Ok(Json(ExecutionPage::default()));
    };
    let limit = filter.limit;
    filter.limit += 1;
    let mut rows = api.store().executions(&filter).await?;
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next_cursor = has_more.then(|| rows.last().map(|row| row.id.to_string())).flatten();
    Ok(Json(ExecutionPage {
        executions: summarize_all(&**api.store(), rows).await?,
        next_cursor,
    }))
}

/// Count the runs that match filters, by status, playbook and error code, and over time.
///
/// Counts at most the newest 20,000 matching runs; `is_complete` is false if there are more.
#[utoipa::path(get, path = "/api/executions/facets", tag = "runs", params(ExecutionParams),
    responses((status = 200, description = "the counts", body = ExecutionFacets), ErrorResponses),
    security(("token" = [])), extensions(("x-role" = json!("viewer"))))]
pub(crate) async fn facets(
    State(api): State<ApiState>,
    _caller: Authorized<View>,
    QueryParams(params): QueryParams<ExecutionParams>,
) -> ApiResult<ExecutionFacets> {
    params.check_no_page()?;
    let now = api.store().now();
    let filter = params.to_filter(&api).await?;
    let mut rows = match &filter {
        Some(filter) => {
            let limit = COUNTED_MAX + 1;
            let counted = ExecutionFilter {
                limit,
                ..filter.clone()
            };
            api.store().execution_facets(&counted).await?
        }
        None => Vec::new(),
    };
    let is_complete = rows.len() <= COUNTED_MAX;
    rows.truncate(COUNTED_MAX);
    let (since, until) = filter.map_or((None, None), |filter| (filter.since, filter.until));
    Ok(Json(ExecutionFacets {
        total: rows.len() as u64,
        is_complete,
        statuses: count_values(rows.iter().map(|row| row.status.name())),
        paths: count_values(rows.iter().map(|row| row.path.as_str())),
        error_codes: count_values(rows.iter().filter_map(|row| row.error.as_deref()).map(error_code)),
        histogram: histogram(&rows, since.filter(|_| is_complete), until.unwrap_or(now)),
    }))
}

/// The most frequent values with their counts.
fn count_values<'a>(values: impl Iterator<Item = &'a str>) -> Vec<FacetCount> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    let counts = counts.into_iter().map(|(value, count)| FacetCount {
        value: value.to_owned(),
        count,
    });
    let mut counts: Vec<FacetCount> = counts.collect();
    counts.sort_by_key(|entry| std::cmp::Reverse(entry.count));
    counts.truncate(FACET_VALUES_MAX);
    counts
}

/// The runs by start time and status, from `since` or the first run to `until`.
fn histogram(rows: &[FacetRow], since: Option<Time>, until: Time) -> ExecutionHistogram {
    let oldest = rows.iter().map(|row| row.started_at).min();
    let from = since.or(oldest).unwrap_or(until);
    let size = bucket_size(until.since(from));
    let size_micros = i64::try_from(size.as_micros()).unwrap_or(i64::MAX);
    // Buckets start at multiples of their size, so that they stay the same while time passes.
    let first = from.0.div_euclid(size_micros);
    let last = until.0.div_euclid(size_micros).max(first);
    let mut buckets: Vec<HistogramBucket> = (first..=last)
        .map(|number| HistogramBucket {
            at: Time(number * size_micros),
            counts: BTreeMap::new(),
        })
        .collect();
    for row in rows {
        let number = row.started_at.0.div_euclid(size_micros) - first;
        let bucket = usize::try_from(number).ok().and_then(|number| buckets.get_mut(number));
        if let Some(bucket) = bucket {
            *bucket.counts.entry(row.status.name().to_owned()).or_default() += 1;
        }
    }
    ExecutionHistogram {
        from,
        to: until,
        bucket_seconds: size.as_secs(),
        buckets,
    }
}

fn bucket_size(range: Duration) -> Duration {
    let needed = range.as_secs().div_ceil(BUCKETS_MAX);
    let week = BUCKET_SECONDS[BUCKET_SECONDS.len() - 1];
    let size = BUCKET_SECONDS.iter().copied().find(|seconds| *seconds >= needed);
    Duration::from_secs(size.unwrap_or_else(|| needed.div_ceil(week) * week))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn row(status: RunStatus, hours: i64) -> FacetRow {
        FacetRow {
            status,
            path: "a".into(),
            started_at: Time(hours * HOUR + 1),
            error: (status == RunStatus::Failed).then(|| "HTTP_STATUS: 500 from a".to_owned()),
        }
    }

    #[test]
    fn runs_are_counted_by_value_and_by_time() {
        let rows = [
            row(RunStatus::Completed, 23),
            row(RunStatus::Failed, 23),
            row(RunStatus::Completed, 1),
        ];
        let statuses = count_values(rows.iter().map(|row| row.status.name()));
        let counts: Vec<_> = statuses
            .iter()
            .map(|entry| (entry.value.as_str(), entry.count))
            .collect();
        assert_eq!(counts, [("COMPLETED", 2), ("FAILED", 1)]);
        let histogram = histogram(&rows, Some(Time(0)), Time(24 * HOUR));
        assert_eq!(histogram.bucket_seconds, 1_800);
        assert_eq!(histogram.buckets.len(), 49);
        assert_eq!(histogram.buckets[2].counts["COMPLETED"], 1);
        assert_eq!(histogram.buckets[46].counts["FAILED"], 1);
        let total: u64 = histogram.buckets.iter().flat_map(|bucket| bucket.counts.values()).sum();
        assert_eq!(total, 3);
    }

    #[test]
    fn the_number_of_buckets_is_limited_for_every_range() {
        for days in [0, 1, 30, 400, 4_000] {
            let histogram = histogram(&[], Some(Time(0)), Time(days * 24 * HOUR));
            let count = histogram.buckets.len();
            assert!(count as u64 <= BUCKETS_MAX + 1, "{days} days have {count} buckets");
        }
    }

    #[test]
    fn a_time_is_absolute_or_a_duration_before_now() {
        let now = Time(10 * HOUR);
        assert_eq!(parse_time("since", "2h", now).unwrap(), Time(8 * HOUR));
        assert_eq!(parse_time("since", "1970-01-01T01:00:00Z", now).unwrap(), Time(HOUR));
        assert!(parse_time("since", "yesterday", now).is_err());
        assert!(parse_statuses("FAILED,cancelled").is_ok_and(|statuses| statuses.len() == 2));
        assert!(parse_statuses("LOST").is_err());
    }
}
