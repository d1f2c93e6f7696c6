//! Several concurrent `noetl resume` of one run, as real processes: one owns the run, the others follow it to its end.

use std::collections::HashSet;
use std::process::Command;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tests::binary::{Desk, Going};

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
enum Progress {
    /// It prints the run.
    Follows,
    /// It exited, with this code.
    Ended(Option<i32>),
}

/// The processes of one round.
struct Race<'d> {
    desk: &'d Desk,
    id: String,
    /// Processes that have not exited.
    alive: HashSet<u32>,
    progress: Receiver<(u32, Progress)>,
    deadline: tokio::time::Instant,
}

impl<'d> Race<'d> {
    /// Resumes the run in several processes, and waits until each prints it.
    fn start(desk: &'d Desk, id: String) -> Self {
        let (sender, progress) = mpsc::channel();
        let resume = ["resume", &id, "-o", "ndjson"];
        let processes: Vec<Going> = (0..PROCESSES).map(|_| desk.start(&resume)).collect();
        let alive = processes.iter().map(Going::id).collect();
        for process in processes {
            let sender = sender.clone();
            thread::spawn(move || watch(process, &sender));
        }
        let mut race = Self {
            desk,
            id,
            alive,
            progress,
            deadline: tokio::time::Instant::now() + ROUND_MAX,
        };
        for _ in 0..PROCESSES {
            match race.next_progress() {
                (_, Progress::Follows) => {}
                (_, Progress::Ended(code)) => panic!("a process exited with {code:?}"),
            }
        }
        race
    }

    fn next_progress(&mut self) -> (u32, Progress) {
        let remaining = self
            .deadline
            .saturating_duration_since(tokio::time::Instant::now());
        let Ok((id, progress)) = self.progress.recv_timeout(remaining) else {
            let count = self.alive.len();
            self.alive.iter().copied().for_each(kill);
            panic!("{count} processes hang");
        };
        if matches!(progress, Progress::Ended(_)) {
            self.alive.remove(&id);
        }
        (id, progress)
    }

    /// The process that owns the run: the owner's name in the store starts with its process ID.
    fn driver(&self) -> u32 {
        let file = self.desk.path(".noetl").join("noetl.db");
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
        self.desk.write("go", "");
        while !self.alive.is_empty() {
            if let (process, Progress::Ended(code)) = self.next_progress() {
                assert_eq!(code, Some(0), "process {process}");
            }
        }
        let events = self.desk.events(&self.id);
        for (kind, expected) in [("step.done", 2), ("playbook.finished", 1)] {
            let found = events.iter().filter(|event| event["event_type"] == kind);
            assert_eq!(found.count(), expected, "{kind}: {events:?}");
        }
    }
}

/// Reports the progress of a process. The channel is closed after a round has failed.
fn watch(mut process: Going, sender: &Sender<(u32, Progress)>) {
    let id = process.id();
    if process.event("step.scheduled", None).is_some() {
        let _ = sender.send((id, Progress::Follows));
    }
    let _ = sender.send((id, Progress::Ended(process.finish().0)));
}

/// Kills a process and its group.
fn kill(process: u32) {
    let group = format!("-{process}");
    let killed = Command::new("kill").args(["-9", "--", &group]).output();
    killed.expect("the `kill` command exists");
}

/// A run whose first step is scheduled, and the process that owns it.
fn begin(desk: &Desk) -> (String, Going) {
    desk.write("gated.yaml", PLAYBOOK);
    let mut run = desk.start(&["run", "gated.yaml", "-o", "ndjson"]);
    let event = run
        .event("step.scheduled", None)
        .expect("the step is scheduled");
    let id = event["execution_id"].as_str().expect("an id");
    (id.to_owned(), run)
}

#[test]
fn of_several_processes_that_resume_a_killed_run_one_drives_and_the_others_follow() {
    for _ in 0..ROUNDS {
        let desk = Desk::new();
        let (id, run) = begin(&desk);
        run.kill();
        Race::start(&desk, id).finish();
    }
}

#[test]
fn of_several_processes_that_resume_a_paused_run_one_drives_and_the_others_follow() {
    for _ in 0..ROUNDS {
        let desk = Desk::new();
        let (id, run) = begin(&desk);
        assert_eq!(desk.run(&["pause", &id]).code, Some(0));
        run.kill();
        Race::start(&desk, id).finish();
    }
}

#[test]
fn when_the_driver_is_killed_one_of_the_followers_drives() {
    for _ in 0..ROUNDS {
        let desk = Desk::new();
        let (id, run) = begin(&desk);
        run.kill();
        let mut race = Race::start(&desk, id);
        let driver = race.driver();
        assert!(
            race.alive.contains(&driver),
            "one of the processes owns the run"
        );
        kill(driver);
        let (ended, _) = race.next_progress();
        assert_eq!(ended, driver);
        race.finish();
    }
}
