//! Result stores besides the server's own store, from the `NOETL_STORAGE_…` variables.

use std::path::{Path, PathBuf};
use std::time::Duration;

use results::{CacheConfig, CloudTier, GcsConfig, NatsConfig, S3Config, SecretString, StoresConfig};
use serde_json::Value;

use crate::cli_error::{CliError, Exit};
use crate::config::environment::Environment;
use crate::config::store_url::is_store_url;
use crate::config::variables;

/// Default size limit of the disk cache.
const CACHE_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// Default of `NOETL_STORAGE_TIMEOUT`.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// Default name of the NATS buckets.
const NATS_BUCKET: &str = "noetl-bodies";

/// Reads the settings; `scratch` is the directory for results whose hash is not known yet.
pub(super) fn storage_config(environment: &Environment, scratch: PathBuf) -> Result<StoresConfig, CliError> {
    let text = |variable| environment.get(variable).map(str::to_owned);
    let s3 = text(variables::STORAGE_S3_BUCKET).map(|bucket| S3Config {
        bucket,
        endpoint: text(variables::STORAGE_S3_ENDPOINT),
        region: text(variables::STORAGE_S3_REGION),
        credentials: storage_credentials(environment),
    });
    let gcs = text(variables::STORAGE_GCS_BUCKET).map(|bucket| GcsConfig {
        bucket,
        endpoint: text(variables::STORAGE_GCS_ENDPOINT),
        credentials: text(variables::GOOGLE_CREDENTIALS).map(PathBuf::from),
    });
    let nats = text(variables::STORAGE_NATS_URL).map(|url| NatsConfig {
        url: SecretString::new(url),
        bucket: text(variables::STORAGE_NATS_BUCKET).unwrap_or_else(|| NATS_BUCKET.to_owned()),
    });
    let config = StoresConfig {
        cloud_tier: read_cloud_tier(environment)?,
        cache: cache_config(environment)?,
        s3,
        gcs,
        nats,
        dir: text(variables::STORAGE_DIR).map(PathBuf::from),
        silence_max: read_silence_max(environment)?,
        scratch,
    };
    check_config(&config)?;
    Ok(config)
}

/// Returns the scratch directory: in the store directory, or in `.noetl` if the store is a database.
pub(super) fn scratch_dir(store: &Path) -> PathBuf {
    let dir = if is_store_url(store) {
        Path::new(".noetl")
    } else {
        store
    };
    dir.join("scratch")
}

/// Returns the S3 credentials: all `AWS_` variables.
fn storage_credentials(environment: &Environment) -> Vec<(String, SecretString)> {
    let amazon = environment.variables_with_prefix(variables::AMAZON);
    amazon
        .map(|(name, value)| (name.to_owned(), SecretString::new(value)))
        .collect()
}

fn read_cloud_tier(environment: &Environment) -> Result<Option<CloudTier>, CliError> {
    let variable = variables::STORAGE_CLOUD_TIER;
    match environment.get(variable) {
        None => Ok(None),
        Some("s3" | "minio") => Ok(Some(CloudTier::S3)),
        Some("gcs") => Ok(Some(CloudTier::Gcs)),
        Some(other) => Err(setting_error(variable.name(), other, "one of s3, minio, gcs")),
    }
}

fn cache_config(environment: &Environment) -> Result<Option<CacheConfig>, CliError> {
    let variable = variables::STORAGE_CACHE_BYTES;
    let bytes_max = match environment.get(variable) {
        None => CACHE_BYTES_MAX,
        Some(text) => {
            let size = model::duration::parse_size(&Value::from(text));
            let size = size.or_else(|| text.parse().ok());
            size.ok_or_else(|| setting_error(variable.name(), text, "a size such as 20GiB"))?
        }
    };
    let dir = environment.get(variables::STORAGE_CACHE_DIR);
    Ok(dir.map(|dir| CacheConfig {
        dir: PathBuf::from(dir),
        bytes_max,
    }))
}

fn read_silence_max(environment: &Environment) -> Result<Duration, CliError> {
    let variable = variables::STORAGE_TIMEOUT;
    let Some(text) = environment.get(variable) else {
        return Ok(SILENCE_MAX);
    };
    let time = model::duration::parse_text(text);
    let time = time.or_else(|| text.parse().ok().map(Duration::from_secs));
    let time = time.filter(|time| !time.is_zero());
    time.ok_or_else(|| setting_error(variable.name(), text, "a duration such as 15s"))
}

/// Checks that the cloud tier has a bucket. Otherwise the first large result would fail.
fn check_config(config: &StoresConfig) -> Result<(), CliError> {
    let missing = match config.cloud_tier {
        Some(CloudTier::S3) if config.s3.is_none() => "NOETL_STORAGE_S3_BUCKET",
        Some(CloudTier::Gcs) if config.gcs.is_none() => "NOETL_STORAGE_GCS_BUCKET",
        _ => return Ok(()),
    };
    let message = format!("NOETL_STORAGE_CLOUD_TIER is set, but {missing} is not");
    Err(CliError::new(Exit::Usage, "CONFIG_INVALID", message)
        .help(format!("set {missing} to the bucket for large results")))
}

fn setting_error(name: &str, value: &str, expected: &str) -> CliError {
    let message = format!("invalid {name} `{value}`: expected {expected}");
    CliError::new(Exit::Usage, "CONFIG_INVALID", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(pairs: &[(&str, &str)]) -> Result<StoresConfig, CliError> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = Environment::from_variables(pairs.iter().map(owned));
        storage_config(&environment, PathBuf::from("scratch"))
    }

    #[test]
    fn without_settings_no_store_is_configured() {
        let config = load(&[]).unwrap();
        assert!(config.s3.is_none() && config.gcs.is_none() && config.nats.is_none());
        assert!(config.cache.is_none() && config.dir.is_none() && config.cloud_tier.is_none());
    }

    #[test]
    fn the_credentials_of_a_bucket_are_read_and_not_printed() {
        let config = load(&[
            ("NOETL_STORAGE_CLOUD_TIER", "minio"),
            ("NOETL_STORAGE_S3_BUCKET", "results"),
            ("AWS_SECRET_ACCESS_KEY", "canary"),
            ("NOETL_STORAGE_NATS_URL", "nats://me:canary@nowhere"),
            ("NOETL_STORAGE_LOCAL_CACHE_DIR", "hot"),
            ("NOETL_STORAGE_LOCAL_CACHE_BYTES", "2GiB"),
            ("NOETL_STORAGE_TIMEOUT", "500ms"),
        ])
        .unwrap();
        assert_eq!(config.cloud_tier, Some(CloudTier::S3));
        assert_eq!(config.silence_max, Duration::from_millis(500));
        assert_eq!(config.cache.as_ref().unwrap().bytes_max, 2 << 30);
        let text = format!("{config:?}");
        assert!(text.contains("results") && !text.contains("canary"), "{text}");
    }

    #[test]
    fn an_impossible_setting_is_reported() {
        for (name, value) in [
            ("NOETL_STORAGE_CLOUD_TIER", "tape"),
            ("NOETL_STORAGE_CLOUD_TIER", "gcs"),
            ("NOETL_STORAGE_LOCAL_CACHE_BYTES", "much"),
            ("NOETL_STORAGE_TIMEOUT", "0"),
        ] {
            let problem = load(&[(name, value)]).unwrap_err();
            assert_eq!(problem.code, "CONFIG_INVALID");
            assert!(problem.message.contains(name), "{}", problem.message);
        }
    }
}
