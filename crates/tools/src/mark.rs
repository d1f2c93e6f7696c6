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

/// What was killed needs a moment to go, and what becomes another program to become it.
const BETWEEN_LOOKS: Duration = Duration::from_micros(200);

/// After this long, numbers of processes may have begun again.
const ORDERED_FOR: Duration = Duration::from_secs(60);

/// What a look at all processes came to.
#[derive(Debug, Default)]
struct Look {
    /// Those with the mark.
    marked: Vec<Pid>,
    /// Whether one could not be told.
    is_unsure: bool,
}

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
            let look = self.look();
            if look.marked.is_empty() && !look.is_unsure {
                return;
            }
            for process in look.marked {
                // One that is gone already needs no signal.
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Looks at the processes that began after the first.
    fn look(&self) -> Look {
        let mut look = Look::default();
        let (Some(leader), Ok(all)) = (self.leader, std::fs::read_dir("/proc")) else {
            return look;
        };
        let mark = format!("{MARK}={}", self.text);
        let first = if self.are_ordered(leader) { leader } else { 0 };
        let numbers = all
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for number in numbers.filter(|number| *number > first && *number != leader) {
            match has(number, mark.as_bytes()) {
                Some(true) => look.marked.extend(Pid::from_raw(number.cast_signed())),
                Some(false) => {}
                None => look.is_unsure = true,
            }
        }
        look
    }

    /// Whether what the leader started has a higher number than it has.
    fn are_ordered(&self, leader: u32) -> bool {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let last = load.split_whitespace().last();
        let last = last.and_then(|last| last.parse::<u32>().ok());
        self.since.elapsed() < ORDERED_FOR && last.is_some_and(|last| last >= leader)
    }
}

/// Whether a process has the mark. None where it is just becoming another program: until that has begun, nobody sees
/// its environment.
fn has(process: u32, mark: &[u8]) -> Option<bool> {
    let folder = Path::new("/proc").join(process.to_string());
    match std::fs::read(folder.join("environ")) {
        Ok(all) if all.is_empty() => is_settled(&folder).then_some(false),
        Ok(all) => Some(all.split(|byte| *byte == 0).any(|one| one == mark)),
        Err(_) => Some(false),
    }
}

/// Whether a process without an environment stays so: it has ended, is part of the kernel, or runs its program.
fn is_settled(folder: &Path) -> bool {
    // Only a program that has begun has arguments, and what has ended or never was one has no memory.
    let has_arguments = std::fs::read(folder.join("cmdline")).is_ok_and(|line| !line.is_empty());
    let memory = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
    has_arguments || memory.is_empty() || memory.starts_with("0 ")
}
