//! Checks the store: whether it is writable, how long a durable write takes, free disk space, and the integrity of its
//! contents.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use store::Store as _;

use crate::app::App;
use crate::cli_error::CliError;
use crate::clock;
use crate::control_plane::{StoreLocation, store_location};
use crate::doctor::Check;
use crate::render::human;

/// Slower durable writes cause a warning, because every step waits for one.
const FSYNC_SLOW: Duration = Duration::from_millis(50);
/// Less free space causes a warning.
const FREE_BYTES_LOW: u64 = 1024 * 1024 * 1024;
/// Less free space is a failure.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;
/// Number of writes that are timed.
const SAMPLE_WRITES: usize = 5;

/// Checks the store directory and its disk.
pub(crate) fn check_storage(app: &App) -> Vec<Check> {
    match store_location(&app.settings) {
        StoreLocation::Directory(dir) => vec![check_store_dir(&dir), check_disk_space(&dir)],
        StoreLocation::Postgres(_) => vec![
            Check::ok("store", "in Postgres; only a server accesses it"),
            check_disk_space(Path::new(".")),
        ],
    }
}

/// Verifies the checksums of the store.
pub(crate) async fn check_contents(app: &App) -> Option<Check> {
    let StoreLocation::Directory(dir) = store_location(&app.settings) else {
        return None;
    };
    if !dir.join("noetl.db").is_file() {
        return None;
    }
    let verified = match store::SqliteStore::open_to_read(&dir) {
        Ok(store) => store.verify().await,
        Err(error) => Err(error),
    };
    Some(match verified {
        Ok(verified) if verified.damages.is_empty() => {
            let runs = usize::try_from(verified.executions).unwrap_or(usize::MAX);
            let detail = format!(
                "{}, {} events, all intact",
                human::format_counted(runs, "run"),
                verified.events
            );
            Check::ok("contents", detail)
        }
        Ok(verified) => {
            Check::fail("contents", describe_damages(&dir, &verified), DAMAGE_REMEDY).with_unreachable_exit()
        }
        Err(error) => {
            let problem = CliError::from(error);
            let detail = format!("{}: {}", problem.code, problem.message);
            Check::fail("contents", detail, DAMAGE_REMEDY).with_unreachable_exit()
        }
    })
}

const DAMAGE_REMEDY: &str = "restore the store from a backup, or copy the directory and read the undamaged runs";

/// Maximum number of damages to print.
const DAMAGES_SHOWN: usize = 10;

fn describe_damages(dir: &Path, verified: &store::VerifyReport) -> String {
    let file = dir.join("noetl.db");
    let count = verified.damages.len();
    let mut text = format!("STORE_CORRUPT: `{}` is damaged", file.display());
    for damage in verified.damages.iter().take(DAMAGES_SHOWN) {
        text.push_str("\n      ");
        if let Some(run) = damage.execution.filter(|_| !damage.description.starts_with("run ")) {
            text.push_str(&format!("run {run}: "));
        }
        text.push_str(&damage.description);
    }
    if count > DAMAGES_SHOWN {
        text.push_str(&format!("\n      and {} more", count - DAMAGES_SHOWN));
    }
    text
}

fn check_store_dir(dir: &Path) -> Check {
    let remedy = "make the directory writable, or choose another one with --store or NOETL_STORE";
    let ancestor = existing_ancestor(dir);
    let displayed = dir.display();
    match measure_sync(&ancestor) {
        Ok(took) => {
            let effect = if dir.is_dir() {
                ""
            } else {
                " (created by the first run)"
            };
            let detail = format!(
                "{displayed}{effect}; a durable write takes {:.2} ms",
                took.as_secs_f64() * 1e3
            );
            if took > FSYNC_SLOW {
                Check::warn(
                    "store",
                    detail,
                    "move the store to a local disk; every step waits for a durable write",
                )
            } else {
                Check::ok("store", detail)
            }
        }
        Err(error) => {
            Check::fail("store", format!("cannot write to {displayed}: {error}"), remedy).with_unreachable_exit()
        }
    }
}

/// Returns the directory, or its nearest existing parent.
fn existing_ancestor(dir: &Path) -> PathBuf {
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let ancestor = dir.ancestors().find(|dir| dir.is_dir());
    ancestor.unwrap_or(Path::new("/")).to_owned()
}

/// Returns the median duration of several durable writes of one page.
fn measure_sync(dir: &Path) -> std::io::Result<Duration> {
    let path = dir.join(format!(".noetl-doctor-{}", std::process::id()));
    let times = measure_writes(&path);
    let _ = std::fs::remove_file(&path);
    let mut times = times?;
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn measure_writes(path: &Path) -> std::io::Result<Vec<Duration>> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    let mut times = Vec::new();
    for _ in 0..SAMPLE_WRITES {
        let start = clock::now();
        file.write_all(&[0; 4096])?;
        file.sync_data()?;
        times.push(clock::now().since(start));
    }
    Ok(times)
}

fn check_disk_space(dir: &Path) -> Check {
    let remedy = "free some space, or move the store to another disk";
    let Ok(stats) = rustix::fs::statvfs(existing_ancestor(dir)) else {
        return Check::warn("disk", "cannot determine the free space", remedy);
    };
    let free = stats.f_bavail.saturating_mul(stats.f_frsize);
    let detail = format!("{} free", human::format_size(free));
    match free {
        free if free < FREE_BYTES_MIN => Check::fail("disk", detail, remedy).with_unreachable_exit(),
        free if free < FREE_BYTES_LOW => Check::warn("disk", detail, remedy),
        _ => Check::ok("disk", detail),
    }
}
