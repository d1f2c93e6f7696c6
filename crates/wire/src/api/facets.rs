//! Counts of runs.

use std::collections::BTreeMap;

use model::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Counts of the runs that match filters.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionFacets {
    /// Number of counted runs.
    pub total: u64,
    /// Whether all matching runs are counted; false if there are more than 20,000.
    pub is_complete: bool,
    /// Runs by status, most frequent first.
    pub statuses: Vec<FacetCount>,
    /// Runs by catalog path, most frequent first; at most 20.
    pub paths: Vec<FacetCount>,
    /// Failed runs by error code, most frequent first; at most 20.
    pub error_codes: Vec<FacetCount>,
    /// Runs by label, most frequent first; at most 20 labels. Counts at most the newest 5,000 runs.
    pub labels: Vec<LabelFacet>,
    /// Runs over time.
    pub histogram: ExecutionHistogram,
}

/// How many runs have a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FacetCount {
    /// The value.
    pub value: String,
    /// The number of runs.
    pub count: u64,
}

/// How many runs have a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LabelFacet {
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// The number of runs.
    pub count: u64,
}

/// Runs by the time of their start.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ExecutionHistogram {
    /// Start of the counted time.
    #[schema(value_type = String, format = DateTime)]
    pub from: Time,
    /// End of the counted time.
    #[schema(value_type = String, format = DateTime)]
    pub to: Time,
    /// Length of a bucket.
    pub bucket_seconds: u64,
    /// Consecutive buckets, oldest first.
    pub buckets: Vec<HistogramBucket>,
}

/// The runs that started within a bucket.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct HistogramBucket {
    /// Start of the bucket.
    #[schema(value_type = String, format = DateTime)]
    pub at: Time,
    /// Number of runs by status; statuses without runs are omitted.
    pub counts: BTreeMap<String, u64>,
}
