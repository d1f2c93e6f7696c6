//! Several concurrent `noetl resume` of one run, as real processes: one owns the run, the others follow it to its end.

use std::collections::HashSet;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tests::cli_sandbox::{CliSandbox, RunningCommand};

/// Rounds of each race, processes of each round, and the time limit of a round.
const ROUNDS: usize = 40;
const PROCESSES: usize = 4;
const ROUND_MAX: Duration = Duration::from_secs(60);

/// The second step ends when the test allows it.
const PLAYBOOK: &str = "
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: gated, path: gated}
workflow:
  - step: one
    tool: {kind: shell, command: echo 1}
    next: [{step: two}]
  - step: two
    tool: {kind: shell, command: 'until test -e \"$HOME/go\"; do sleep 0.02; done'}
";

/// What a process that resumes the run did.
enum RaceProgress {
    /// It prints the run.
    Following,
    /// It exited, with this code.
    Ended(Option<i32>),
}

/// The processes of one round.
struct ResumeRace<'d> {
    sandbox: &'d CliSandbox,
    id: String,
    /// Processes that have not exited.
    live_processes: HashSet<u32>,
    progress: Receiver<(u32, RaceProgress)>,
    deadline: tokio::time::Instant,
}

impl<'d> ResumeRace<'d> {
    /// Resumes the run in several processes, and waits until each prints it.
    fn start(sandbox: &'d CliSandbox, id: String) -> Self {
        let (sender, progress) = mpsc::channel();
        let resume = ["resume", &id, "-o", "ndjson"];
        let processes: Vec<RunningCommand> = (0..PROCESSES).map(|_| sandbox.start(&resume)).collect();
        let alive = processes.iter().map(RunningCommand::id).collect();
        for process in processes {
            let sender = sender.clone();
            thread::spawn(move || report_progress(process, &sender));
        }
        let mut race = Self {
            sandbox,
            id,
            live_processes: alive,
            progress,
            deadline: tokio::time::Instant::now() + ROUND_MAX,
        };
        for _ in 0..PROCESSES {
            match race.next_progress() {
                (_, RaceProgress::Following) => {}
                (_, RaceProgress::Ended(code)) => panic!("a process exited with {code:?}"),
            }
        }
        race
    }

    fn next_progress(&mut self) -> (u32, RaceProgress) {
        let remaining = self.deadline.saturating_duration_since(tokio::time::Instant::now());
        let Ok((id, progress)) = self.progress.recv_timeout(remaining) else {
            let count = self.live_processes.len();
            self.live_processes.iter().copied().for_each(kill_group);
            panic!("{count} processes hang");
        };
        if matches!(progress, RaceProgress::Ended(_)) {
            self.live_processes.remove(&id);
        }
        (id, progress)
    }

    /// The process that owns the run: the owner's name in the store starts with its process ID.
    fn driving_process(&self) -> u32 {
        let file = self.sandbox.path(".noetl").join("noetl.db");
        let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let db = db.expect("the store can be opened");
        let owner: String = db
            .query_row("SELECT owner FROM execution", [], |row| row.get(0))
            .expect("the run is in the store");
        let process = owner.split('-').next().and_then(|id| id.parse().ok());
        process.expect("an owner's name starts with its process ID")
    }

    /// Lets the run end, and waits until every process has exited successfully.
    fn finish(mut self) {
        self.sandbox.write("go", "");
        while !self.live_processes.is_empty() {
            if let (process, RaceProgress::Ended(code)) = self.next_progress() {
                assert_eq!(code, Some(0), "process {process}");
            }
        }
        let events = self.sandbox.events(&self.id);
        for (kind, expected) in [("step.done", 2), ("playbook.finished", 1)] {
            let matching = events.iter().filter(|event| event["event_type"] == kind);
            assert_eq!(matching.count(), expected, "{kind}: {events:?}");
        }
    }
}

/// Reports the progress of a process. The channel is closed after a round has failed.
fn report_progress(mut process: RunningCommand, sender: &Sender<(u32, RaceProgress)>) {
    let id = process.id();
    if process.wait_for_event("step.scheduled", None).is_some() {
        let _ = sender.send((id, RaceProgress::Following));
    }
    let _ = sender.send((id, RaceProgress::Ended(process.finish().0)));
}

/// Kills a process and its group.
fn kill_group(process: u32) {
    let group = format!("-{process}");
    let killed = Command::new("kill").args(["-9", "--", &group]).output();
    killed.expect("the `kill` command exists");
}

/// A run whose first step is scheduled, and the process that owns it.
fn start_run(sandbox: &CliSandbox) -> (String, RunningCommand) {
    sandbox.write("gated.yaml", PLAYBOOK);
    let mut run = sandbox.start(&["run", "gated.yaml", "-o", "ndjson"]);
    let event = run
        .wait_for_event("step.scheduled", None)
        .expect("the step is scheduled");
    let id = event["execution_id"].as_str().expect("an id");
    (id.to_owned(), run)
}

#[test]
fn of_several_processes_that_resume_a_killed_run_one_drives_and_the_others_follow() {
    for _ in 0..ROUNDS {
        let sandbox = CliSandbox::new();
        let (id, run) = start_run(&sandbox);
        run.kill();
        ResumeRace::start(&sandbox, id).finish();
    }
}

#[test]
fn of_several_processes_that_resume_a_paused_run_one_drives_and_the_others_follow() {
    for _ in 0..ROUNDS {
        let sandbox = CliSandbox::new();
        let (id, run) = start_run(&sandbox);
        assert_eq!(sandbox.run(&["pause", &id]).code, Some(0));
        run.kill();
        ResumeRace::start(&sandbox, id).finish();
    }
}

#[test]
fn when_the_driver_is_killed_one_of_the_followers_drives() {
    for _ in 0..ROUNDS {
        let sandbox = CliSandbox::new();
        let (id, run) = start_run(&sandbox);
        run.kill();
        let mut race = ResumeRace::start(&sandbox, id);
        let driver = race.driving_process();
        assert!(
            race.live_processes.contains(&driver),
            "one of the processes owns the run"
        );
        kill_group(driver);
        let (ended, _) = race.next_progress();
        assert_eq!(ended, driver);
        race.finish();
    }
}
