//! Finding what has left its process group: a mark in the environment, which children inherit, and a look at `/proc`.
//!
//! A process that leaves the group and also starts anew with an environment of its own choosing has no mark, and is not
//! found.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// The variable that holds the mark.
pub(crate) const MARK: &str = "NOETL_PROCESS";

/// A process may start another while it is looked for; after so many looks it is left.
const LOOKS_MAX: usize = 200;

/// So often what gone workers have left is looked for, at most.
const ORPHAN_LOOKS_MAX: usize = 20;

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

/// Ends what workers that are gone have left running: a worker that was killed could not do so itself. Says how many
/// processes that were. Only those of the same user and the same view of processes are looked at.
pub fn end_orphans() -> usize {
    end(orphans)
}

/// Ends what is found until nothing more is.
fn end(find: impl Fn() -> Vec<Pid>) -> usize {
    let mut ended = BTreeSet::new();
    for _ in 0..ORPHAN_LOOKS_MAX {
        let found = find();
        if found.is_empty() {
            break;
        }
        for process in found {
            // One that is gone already needs no signal.
            let _ = kill_process(process, Signal::KILL);
            ended.insert(process.as_raw_nonzero());
        }
        // What was killed may have started another just before.
        std::thread::sleep(BETWEEN_LOOKS);
    }
    ended.len()
}

/// The processes whose mark names a worker that is gone.
fn orphans() -> Vec<Pid> {
    let (Ok(all), Ok(view)) = (
        std::fs::read_dir("/proc"),
        std::fs::read_link("/proc/self/ns/pid"),
    ) else {
        return Vec::new();
    };
    let (user, own) = (rustix::process::geteuid().as_raw(), std::process::id());
    let orphan = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        let is_mine = entry.metadata().ok()?.uid() == user && number != own;
        // A number in a mark is a number in the view of whoever wrote it.
        let is_in_view =
            || std::fs::read_link(entry.path().join("ns/pid")).ok() == Some(view.clone());
        if !is_mine || !is_in_view() {
            return None;
        }
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let worker = environment.split(|byte| *byte == 0).find_map(worker_of)?;
        let process = Pid::from_raw(number.cast_signed())?;
        is_gone(worker).then_some(process)
    };
    all.flatten().filter_map(orphan).collect()
}

/// The worker that a variable names, if it is the mark.
fn worker_of(variable: &[u8]) -> Option<Pid> {
    let text = std::str::from_utf8(variable).ok()?;
    let text = text.strip_prefix(MARK)?.strip_prefix('=')?;
    let (worker, rest) = text.split_once('-')?;
    let (nanos, count) = rest.split_once('-')?;
    u128::from_str_radix(nanos, 16).ok()?;
    count.parse::<u64>().ok()?;
    Pid::from_raw(worker.parse().ok()?)
}

/// Whether a process has ended. One that has another's number by now counts as running.
fn is_gone(process: Pid) -> bool {
    match test_kill_process(process) {
        Err(Errno::SRCH) => true,
        Err(_) => false,
        // One that has ended stays until its parent has taken note.
        Ok(()) => {
            let file = format!("/proc/{}/stat", process.as_raw_nonzero());
            let stat = std::fs::read_to_string(file).unwrap_or_default();
            let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
            state.is_some_and(|state| state.starts_with(['Z', 'X']))
        }
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

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn marked(worker: u32) -> Child {
        let mut command = Command::new("sleep");
        command.arg("600").env(MARK, format!("{worker}-1f-0"));
        command.spawn().unwrap()
    }

    #[test]
    fn what_a_worker_that_is_gone_has_left_is_ended() {
        let mut worker = Command::new("true").spawn().unwrap();
        let mut left = marked(worker.id());
        let mut kept = marked(std::process::id());
        // It has ended, and its parent has not taken note.
        let deadline = Instant::now() + Duration::from_secs(10);
        let process = Pid::from_child(&worker);
        while !is_gone(process) && Instant::now() < deadline {
            std::thread::yield_now();
        }
        // What others have left on this machine is none of this test's.
        let ours = [Pid::from_child(&left), Pid::from_child(&kept)];
        let found = || {
            let found = orphans().into_iter();
            found.filter(|process| ours.contains(process)).collect()
        };
        assert_eq!(end(found), 1);
        assert!(!left.wait().unwrap().success());
        assert!(kept.try_wait().unwrap().is_none(), "its worker is here");
        worker.wait().unwrap();
        assert!(is_gone(process));
        kept.kill().unwrap();
        kept.wait().unwrap();
    }

    #[test]
    fn only_a_mark_names_a_worker() {
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
