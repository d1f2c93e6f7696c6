//! Threads with deep stacks for jq programs; they are kept while idle, with the programs that they have compiled.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use model::outcome::{ErrorKind, TaskError};
use tokio::sync::oneshot;

/// A chain of closures is taken apart link by link, each on top of the last: that takes address space, hardly memory.
pub(crate) const STACK_BYTES: usize = 1 << 30;

/// Threads that are kept when there is nothing to do.
const IDLE_MAX: usize = 8;

type Job = Box<dyn FnOnce() -> Afterwards + Send>;

/// What becomes of a thread: one that went astray may have touched much of its stack, which only its end gives back.
#[derive(PartialEq)]
enum Afterwards {
    Stay,
    End,
}

static IDLE: Mutex<Vec<Sender<Job>>> = Mutex::new(Vec::new());

/// Runs the work on a thread of its own.
pub(crate) async fn run<T, W>(work: W) -> Result<T, TaskError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, TaskError> + Send + 'static,
{
    let (answer, done) = oneshot::channel();
    hand_over(Box::new(move || {
        let result = work();
        let afterwards = if result.is_ok() {
            Afterwards::Stay
        } else {
            Afterwards::End
        };
        // Whoever asked may have stopped waiting.
        let _ = answer.send(result);
        afterwards
    }))?;
    done.await
        .unwrap_or_else(|_| Err(broken("the jq program broke its interpreter")))
}

fn hand_over(mut job: Job) -> Result<(), TaskError> {
    while let Some(thread) = idle().pop() {
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => job = unsent.0,
        }
    }
    let (sender, jobs) = channel::<Job>();
    let own = sender.clone();
    std::thread::Builder::new()
        .name("jq".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            while let Ok(job) = jobs.recv() {
                let afterwards = job();
                let mut idle = idle();
                if afterwards == Afterwards::End || idle.len() >= IDLE_MAX {
                    return;
                }
                idle.push(own.clone());
            }
        })
        .map_err(|_| broken("there is no thread for the jq program"))?;
    sender
        .send(job)
        .map_err(|_| broken("the jq program found no thread"))
}

fn idle() -> std::sync::MutexGuard<'static, Vec<Sender<Job>>> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broken(why: &str) -> TaskError {
    TaskError::new(ErrorKind::Transform, "JQ_ERROR", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_thread_that_broke_is_an_error_and_the_next_work_finds_another() {
        let error = run::<(), _>(|| panic!("as a broken interpreter would"))
            .await
            .expect_err("the work broke");
        assert_eq!(error.code, "JQ_ERROR");
        assert_eq!(run(|| Ok(7)).await.expect("it runs"), 7);
    }
}
