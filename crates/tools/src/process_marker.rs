//! Finds processes that left their process group: by a marker in the environment, which children inherit, and a scan of
//! `/proc`.
//!
//! A process that leaves the group and also replaces its environment has no marker and is not found.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Environment variable that holds the marker.
pub(crate) const MARKER_VARIABLE: &str = "NOETL_PROCESS";

/// Maximum number of scans; processes may start others meanwhile.
const SCANS_MAX: usize = 200;

/// Maximum number of scans for processes that dead workers left behind.
const ORPHAN_SCANS_MAX: usize = 20;

/// Pause between scans: killed processes take a moment to disappear, and an `exec` takes a moment to complete.
const SCAN_INTERVAL: Duration = Duration::from_micros(200);

/// After this time, process IDs may have wrapped around.
const PID_ORDER_AGE_MAX: Duration = Duration::from_secs(60);

/// Result of one scan of all processes.
#[derive(Debug, Default)]
struct ProcScan {
    /// Processes with the marker.
    marked: Vec<Pid>,
    /// Whether the state of a process could not be determined.
    is_incomplete: bool,
}

/// Marker of one program and its descendants.
#[derive(Debug)]
pub(crate) struct ProcessMarker {
    text: String,
    /// The program itself.
    leader: Option<u32>,
    created_at: Instant,
}

impl ProcessMarker {
    /// Creates a unique marker.
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |now| now.as_nanos());
        Self {
            text: format!("{}-{nanos:x}-{count}", std::process::id()),
            leader: None,
            created_at: Instant::now(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Sets the process ID of the program itself.
    pub(crate) fn set_leader(&mut self, leader: Option<u32>) {
        self.leader = leader;
    }

    /// Kills every process with the marker, except the program itself, whose group is killed separately.
    pub(crate) fn kill_marked(&self) {
        for _ in 0..SCANS_MAX {
            let scan = self.scan();
            if scan.marked.is_empty() && !scan.is_incomplete {
                return;
            }
            for process in scan.marked {
                // The process may have exited already.
                let _ = kill_process(process, Signal::KILL);
            }
            std::thread::sleep(SCAN_INTERVAL);
        }
    }

    /// Scans the processes that started after the program.
    fn scan(&self) -> ProcScan {
        let mut scan = ProcScan::default();
        let (Some(leader), Ok(all)) = (self.leader, std::fs::read_dir("/proc")) else {
            return scan;
        };
        let mark = format!("{MARKER_VARIABLE}={}", self.text);
        let first = if self.has_ordered_pids(leader) { leader } else { 0 };
        let numbers = all
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for number in numbers.filter(|number| *number > first && *number != leader) {
            match has_marker(number, mark.as_bytes()) {
                Some(true) => scan.marked.extend(Pid::from_raw(number.cast_signed())),
                Some(false) => {}
                None => scan.is_incomplete = true,
            }
        }
        scan
    }

    /// Whether descendants of the leader have higher process IDs than the leader.
    fn has_ordered_pids(&self, leader: u32) -> bool {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let last = load.split_whitespace().last();
        let last = last.and_then(|last| last.parse::<u32>().ok());
        self.created_at.elapsed() < PID_ORDER_AGE_MAX && last.is_some_and(|last| last >= leader)
    }
}

/// Kills processes that dead workers left running and returns their number. Considers only processes of the same user
/// and PID namespace.
pub fn end_orphans() -> usize {
    kill_until_none(find_orphans)
}

/// Kills the processes that `find` returns until it returns none.
fn kill_until_none(find: impl Fn() -> Vec<Pid>) -> usize {
    let mut ended = BTreeSet::new();
    for _ in 0..ORPHAN_SCANS_MAX {
        let processes = find();
        if processes.is_empty() {
            break;
        }
        for process in processes {
            // The process may have exited already.
            let _ = kill_process(process, Signal::KILL);
            ended.insert(process.as_raw_nonzero());
        }
        // A killed process may have started another one just before.
        std::thread::sleep(SCAN_INTERVAL);
    }
    ended.len()
}

/// Processes whose marker names a dead worker.
fn find_orphans() -> Vec<Pid> {
    let (Ok(all), Ok(view)) = (std::fs::read_dir("/proc"), std::fs::read_link("/proc/self/ns/pid")) else {
        return Vec::new();
    };
    let (user, own) = (rustix::process::geteuid().as_raw(), std::process::id());
    let orphan = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let is_mine = entry.metadata().ok()?.uid() == user && number != own;
        // The process ID in a marker is valid only in the PID namespace of its worker.
        let is_in_view = || std::fs::read_link(entry.path().join("ns/pid")).ok() == Some(view.clone());
        if !is_mine || !is_in_view() {
            return None;
        }
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let worker = environment.split(|byte| *byte == 0).find_map(worker_of)?;
        let process = Pid::from_raw(number.cast_signed())?;
        has_ended(worker).then_some(process)
    };
    all.flatten().filter_map(orphan).collect()
}

/// Process ID of the worker, if the variable is a marker.
fn worker_of(variable: &[u8]) -> Option<Pid> {
    let text = std::str::from_utf8(variable).ok()?;
    let text = text.strip_prefix(MARKER_VARIABLE)?.strip_prefix('=')?;
    let (worker, tail) = text.split_once('-')?;
    let (nanos, count) = tail.split_once('-')?;
    u128::from_str_radix(nanos, 16).ok()?;
    count.parse::<u64>().ok()?;
    Pid::from_raw(worker.parse().ok()?)
}

/// Whether a process has exited. If its ID was reused, it counts as running.
fn has_ended(process: Pid) -> bool {
    match test_kill_process(process) {
        Err(Errno::SRCH) => true,
        Err(_) => false,
        // An exited process remains as a zombie until its parent reaps it.
        Ok(()) => {
            let file = format!("/proc/{}/stat", process.as_raw_nonzero());
            let stat = std::fs::read_to_string(file).unwrap_or_default();
            let state = stat.rsplit_once(')').map(|(_, tail)| tail.trim_start());
            state.is_some_and(|state| state.starts_with(['Z', 'X']))
        }
    }
}

/// Whether a process has the marker; `None` during an `exec`, while its environment is not readable.
fn has_marker(process: u32, mark: &[u8]) -> Option<bool> {
    let folder = Path::new("/proc").join(process.to_string());
    match std::fs::read(folder.join("environ")) {
        Ok(all) if all.is_empty() => is_stable(&folder).then_some(false),
        Ok(all) => Some(all.split(|byte| *byte == 0).any(|one| one == mark)),
        Err(_) => Some(false),
    }
}

/// Whether a process without an environment stays without one: it exited, is a kernel thread, or runs its program.
fn is_stable(folder: &Path) -> bool {
    // A started program has arguments; an exited process and a kernel thread have no memory.
    let has_arguments = std::fs::read(folder.join("cmdline")).is_ok_and(|line| !line.is_empty());
    let memory = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
    has_arguments || memory.is_empty() || memory.starts_with("0 ")
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn start_marked_process(worker: u32) -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").env(MARKER_VARIABLE, format!("{worker}-1f-0"));
        command.spawn().unwrap()
    }

    #[test]
    fn orphans_of_a_dead_worker_are_killed() {
        let mut worker = Command::new("true").spawn().unwrap();
        let mut orphan = start_marked_process(worker.id());
        let mut running = start_marked_process(std::process::id());
        // It has exited, and its parent has not reaped it.
        let deadline = Instant::now() + Duration::from_secs(10);
        let process = Pid::from_child(&worker);
        while !has_ended(process) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        // Ignore processes that other tests left on this machine.
        let ours = [Pid::from_child(&orphan), Pid::from_child(&running)];
        let own_orphans = || {
            let processes = find_orphans().into_iter();
            processes.filter(|process| ours.contains(process)).collect()
        };
        assert_eq!(kill_until_none(own_orphans), 1);
        assert!(!orphan.wait().unwrap().success());
        assert!(running.try_wait().unwrap().is_none(), "its worker is alive");
        worker.wait().unwrap();
        assert!(has_ended(process));
        running.kill().unwrap();
        running.wait().unwrap();
    }

    #[test]
    fn only_a_valid_marker_names_a_worker() {
        assert_eq!(worker_of(b"NOETL_PROCESS=12-af-3"), Pid::from_raw(12));
        for other in [
            "NOETL_PROCESS=12",
            "NOETL_PROCESS=0-1-1",
            "X=12-af-3",
            "NOETL_PROCESS=a-1-1",
        ] {
            assert_eq!(worker_of(other.as_bytes()), None, "{other}");
        }
    }
}
