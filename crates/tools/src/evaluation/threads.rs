//! Threads with large stacks that evaluate programs in this process, if no program is configured for evaluation
//! processes. Idle threads are reused, with the programs that they have compiled.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use model::outcome::TaskError;
use model::task_log::LogStream;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::call::LogSink;
use crate::evaluation::request::{Evaluation, Language};

/// Dropping a long chain of closures recurses once per closure. Unused stack takes address space but no memory.
pub(crate) const STACK_BYTES: usize = 1 << 30;

/// Maximum number of idle threads.
const IDLE_MAX: usize = 8;

type ThreadJob = Box<dyn FnOnce() -> ThreadReuse + Send>;

/// Whether a thread is reused: a failed evaluation may have used much of its stack, which only the end of the thread
/// frees.
#[derive(PartialEq)]
enum ThreadReuse {
    Reuse,
    End,
}

static IDLE_THREADS: Mutex<Vec<Sender<ThreadJob>>> = Mutex::new(Vec::new());

/// Evaluates a program on a thread.
pub(crate) async fn evaluate_on_thread(evaluation: Evaluation, log: &dyn LogSink) -> Result<Value, TaskError> {
    let language = evaluation.language;
    let (printed, mut lines) = mpsc::unbounded_channel::<String>();
    let work = move || {
        evaluation.evaluate(move |line| {
            // If the receiver is gone, the evaluation was cancelled.
            let _ = printed.send(line.to_owned());
        })
    };
    let mut done = std::pin::pin!(run_on_thread(work, language));
    loop {
        tokio::select! {
            biased;
            Some(line) = lines.recv() => log.write_line(LogStream::Stdout, &line),
            result = &mut done => return result,
        }
    }
}

async fn run_on_thread<T, W>(work: W, language: Language) -> Result<T, TaskError>
where
    T: Send + 'static,
    W: FnOnce() -> Result<T, TaskError> + Send + 'static,
{
    let (reply, done) = oneshot::channel();
    assign_job(
        language,
        Box::new(move || {
            let result = work();
            let afterwards = if result.is_ok() {
                ThreadReuse::Reuse
            } else {
                ThreadReuse::End
            };
            // The evaluation may have been cancelled.
            let _ = reply.send(result);
            afterwards
        }),
    )?;
    done.await
        .unwrap_or_else(|_| Err(language.interrupted_error("its interpreter panicked")))
}

fn assign_job(language: Language, mut job: ThreadJob) -> Result<(), TaskError> {
    while let Some(thread) = lock_idle().pop() {
        match thread.send(job) {
            Ok(()) => return Ok(()),
            Err(unsent) => job = unsent.0,
        }
    }
    let (sender, jobs) = channel::<ThreadJob>();
    let own_sender = sender.clone();
    std::thread::Builder::new()
        .name("evaluation".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            while let Ok(job) = jobs.recv() {
                let afterwards = job();
                let mut idle = lock_idle();
                if afterwards == ThreadReuse::End || idle.len() >= IDLE_MAX {
                    return;
                }
                idle.push(own_sender.clone());
            }
        })
        .map_err(|error| language.interrupted_error(&format!("cannot start its thread: {error}")))?;
    sender
        .send(job)
        .map_err(|_| language.interrupted_error("its thread ended"))
}

fn lock_idle() -> std::sync::MutexGuard<'static, Vec<Sender<ThreadJob>>> {
    IDLE_THREADS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_next_evaluation_uses_another_thread() {
        let error = run_on_thread::<(), _>(|| panic!("a broken interpreter"), Language::Jq)
            .await
            .expect_err("the work panicked");
        assert_eq!(error.code, "JQ_ERROR");
        assert_eq!(run_on_thread(|| Ok(7), Language::Jq).await.expect("it runs"), 7);
    }
}
