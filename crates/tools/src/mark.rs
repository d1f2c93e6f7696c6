//! Finding what has left its process group: a mark in the environment, which children inherit, and a look at `/proc`.
//!
//! A process that leaves the group and also starts anew with an environment of its own choosing has no mark, and is not
//! found.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};

/// The variable that holds the mark.
pub(crate) const MARK: &str = "NOETL_PROCESS";

/// A process may start another while it is looked for; after so many looks it is left.
const LOOKS_MAX: usize = 200;

/// After this long, numbers of processes may have begun again.
const ORDERED_FOR: Duration = Duration::from_secs(60);

/// The mark of one program and everything it starts.
#[derive(Debug)]
pub(crate) struct Mark {
    text: String,
    /// The first of them.
    leader: Option<u32>,
    since: Instant,
}

impl Mark {
    /// A mark that nothing else has.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |now| now.as_nanos());
        Self {
            text: format!("{}-{nanos:x}-{count}", std::process::id()),
            leader: None,
            since: Instant::now(),
        }
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Takes note of the first process that has it.
    pub(crate) fn leads(&mut self, leader: Option<u32>) {
        self.leader = leader;
    }

    /// Kills every process that has the mark, except the first, which its group takes care of.
    pub(crate) fn sweep(&self) {
        for _ in 0..LOOKS_MAX {
            let found = self.found();
            if found.is_empty() {
                return;
            }
            for process in found {
                // One that is gone already needs no signal.
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::yield_now();
        }
    }

    /// The processes that have the mark and run.
    fn found(&self) -> Vec<Pid> {
        let (Some(leader), Ok(all)) = (self.leader, std::fs::read_dir("/proc")) else {
            return Vec::new();
        };
        let mark = format!("{MARK}={}", self.text);
        let first = if self.are_ordered(leader) { leader } else { 0 };
        let numbers = all
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        numbers
            .filter(|number| *number > first && *number != leader)
            .filter(|number| has(*number, mark.as_bytes()))
            .filter_map(|number| Pid::from_raw(number.cast_signed()))
            .collect()
    }

    /// Whether what the leader started has a higher number than it has.
    fn are_ordered(&self, leader: u32) -> bool {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let last = load.split_whitespace().last();
        let last = last.and_then(|last| last.parse::<u32>().ok());
        self.since.elapsed() < ORDERED_FOR && last.is_some_and(|last| last >= leader)
    }
}

fn has(process: u32, mark: &[u8]) -> bool {
    let environment = std::fs::read(Path::new("/proc").join(process.to_string()).join("environ"));
    environment.is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == mark))
}
