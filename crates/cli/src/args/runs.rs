//! Arguments of `runs` and `open`.

use std::time::Duration;

use clap::Args;
use model::labels::Labels;
use model::status::RunStatus;

use super::parse_duration;
use crate::cli_error::CliError;

#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// Filter by status, comma-separated: running, paused, completed, failed, cancelled
    #[arg(long, value_delimiter = ',', value_parser = parse_status)]
    pub(crate) status: Vec<RunStatus>,
    /// Only runs started within this time, for example 24h
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) since: Option<Duration>,
    /// Only runs of this playbook path
    #[arg(long)]
    pub(crate) path: Option<String>,
    /// Only runs with this label (repeatable: all must match)
    #[arg(long = "label", value_name = "KEY=VALUE")]
    pub(crate) labels: Vec<String>,
    /// Only runs with this text at the start of their ID, or in their path, name, current step or error
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Only failed runs with this error code
    #[arg(long, value_name = "CODE")]
    pub(crate) error_code: Option<String>,
    /// Only runs that took, or have been active for, at least this long, for example 30s
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) min_duration: Option<Duration>,
    /// Only runs that took, or have been active for, at most this long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) max_duration: Option<Duration>,
    /// Maximum number of runs to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) limit: usize,
}

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// Run ID, a unique prefix or suffix of one, or `last`. Default: the start page
    #[arg(allow_negative_numbers = true)]
    pub(crate) id: Option<String>,
    /// Only print the URL
    #[arg(long)]
    pub(crate) print: bool,
}

/// Parses labels, each `KEY=VALUE`.
pub(crate) fn parse_labels(texts: &[String]) -> Result<Labels, CliError> {
    let mut labels = Labels::default();
    for text in texts {
        let Some((key, value)) = text.split_once('=') else {
            return Err(CliError::usage(format!("invalid label `{text}`: expected KEY=VALUE")));
        };
        labels
            .insert(key, value)
            .map_err(|error| CliError::usage(error.to_string()))?;
    }
    Ok(labels)
}

fn parse_status(text: &str) -> Result<RunStatus, String> {
    // Common synonyms of the status names.
    match text.to_ascii_lowercase().as_str() {
        "succeeded" | "success" | "ok" | "done" => Ok(RunStatus::Completed),
        "error" => Ok(RunStatus::Failed),
        "canceled" => Ok(RunStatus::Cancelled),
        _ => text
            .parse()
            .map_err(|error: model::status::UnknownStatusError| error.to_string()),
    }
}
