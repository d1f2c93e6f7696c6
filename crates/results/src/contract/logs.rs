//! Contract tests of task log stores: `results::logs_contract_suite!(logs)` runs them against a backend.

use std::sync::Arc;

use model::id::{ExecutionId, Name};
use model::task_log::{LogLevel, LogLine, LogStream};
use model::time::Time;

use super::bodies::expect_ok;
use crate::{LogPage, LogPosition, LogQuery, TaskLogs};

/// Runs the suite; the expression creates a new store, and values that must outlive it.
#[macro_export]
macro_rules! logs_contract_suite {
    ($logs:expr) => {
        $crate::logs_contract_suite!(@each $logs;
            lines_come_back_in_order_and_once,
            an_execution_sees_only_its_own_lines,
            lines_are_narrowed_to_a_step_and_a_task,
            lines_are_searched_by_iteration_attempt_level_and_text,
            a_search_continues_after_its_last_line,
            lines_are_read_from_the_end,
            batches_taken_at_once_lose_no_line
        );
    };
    (@each $logs:expr; $($fact:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fact() {
                let (logs, _guard) = $logs;
                $crate::contract::$fact(logs).await;
            }
        )*
    };
}

/// Builds a line of execution 7.
pub fn log_line(text: &str) -> LogLine {
    LogLine {
        time: Time(1),
        execution: ExecutionId(7),
        step: "s".into(),
        run: 1,
        iteration: None,
        task: "t".into(),
        visit: 1,
        attempt: 1,
        stream: LogStream::Stdout,
        text: text.to_owned(),
    }
}

async fn read_page(logs: &dyn TaskLogs, after: u64, limit: usize) -> LogPage {
    let query = LogQuery {
        position: LogPosition::After(after),
        limit,
        ..LogQuery::default()
    };
    expect_ok(logs.read(ExecutionId(7), &query).await)
}

/// A reader that continues after a page sees each line once, and new lines when they arrive.
pub async fn lines_come_back_in_order_and_once(logs: Arc<dyn TaskLogs>) {
    assert_eq!(read_page(&*logs, 0, 10).await.into_lines(), []);
    let lines = ["one", "two\u{0}\u{1b}[31m", "three"].map(log_line);
    expect_ok(logs.append(&lines).await);
    let first = read_page(&*logs, 0, 2).await;
    let after_first = first.next_after;
    assert_eq!(first.into_lines(), lines[..2]);
    let second = read_page(&*logs, after_first, 2).await;
    let after_second = second.next_after;
    assert_eq!(second.into_lines(), lines[2..]);
    let third = read_page(&*logs, after_second, 2).await;
    assert_eq!((third.lines.len(), third.next_after), (0, after_second));
    expect_ok(logs.append(&[log_line("four")]).await);
    assert_eq!(
        read_page(&*logs, after_second, 2).await.into_lines(),
        [log_line("four")]
    );
}

/// A batch may contain lines of several executions.
pub async fn an_execution_sees_only_its_own_lines(logs: Arc<dyn TaskLogs>) {
    let other = LogLine {
        execution: ExecutionId(8),
        ..log_line("other")
    };
    expect_ok(logs.append(&[log_line("one"), other.clone(), log_line("two")]).await);
    assert_eq!(
        read_page(&*logs, 0, 10).await.into_lines(),
        [log_line("one"), log_line("two")]
    );
    let query = LogQuery {
        limit: 10,
        ..LogQuery::default()
    };
    assert_eq!(expect_ok(logs.read(ExecutionId(8), &query).await).into_lines(), [other]);
}

/// A search returns only matching lines, and the position of the next one.
pub async fn lines_are_searched_by_iteration_attempt_level_and_text(logs: Arc<dyn TaskLogs>) {
    let line = |iteration, attempt, text: &str| LogLine {
        iteration,
        attempt,
        ..log_line(text)
    };
    let lines = [
        line(None, 1, "starts"),
        line(Some(4), 1, "ERROR no route to Alpha"),
        line(Some(4), 2, "WARNING alpha is slow"),
        line(Some(5), 1, "ends"),
    ];
    expect_ok(logs.append(&lines).await);
    let find = async |query: LogQuery| {
        let query = LogQuery { limit: 10, ..query };
        let page = expect_ok(logs.read(ExecutionId(7), &query).await);
        page.into_lines().into_iter().map(|line| line.text).collect::<Vec<_>>()
    };
    let any = LogQuery::default;
    let (error, warning) = ("ERROR no route to Alpha", "WARNING alpha is slow");
    assert_eq!(
        find(LogQuery {
            iteration: Some(4),
            ..any()
        })
        .await,
        [error, warning]
    );
    assert_eq!(
        find(LogQuery {
            attempt: Some(2),
            ..any()
        })
        .await,
        [warning]
    );
    assert_eq!(
        find(LogQuery {
            level: Some(LogLevel::Error),
            ..any()
        })
        .await,
        [error]
    );
    assert_eq!(
        find(LogQuery {
            level: Some(LogLevel::Warn),
            ..any()
        })
        .await,
        [error, warning]
    );
    assert_eq!(
        find(LogQuery {
            text: Some("ALPHA".to_owned()),
            ..any()
        })
        .await,
        [error, warning]
    );
}

/// A page of a search ends at its last matching line, so that the next page continues after it.
pub async fn a_search_continues_after_its_last_line(logs: Arc<dyn TaskLogs>) {
    let lines = ["WARN one", "two", "ERROR three"].map(log_line);
    expect_ok(logs.append(&lines).await);
    let first = LogQuery {
        limit: 1,
        level: Some(LogLevel::Warn),
        ..LogQuery::default()
    };
    let page = expect_ok(logs.read(ExecutionId(7), &first).await);
    let following = LogQuery {
        position: LogPosition::After(page.next_after),
        ..first
    };
    assert_eq!(page.into_lines(), [lines[0].clone()]);
    let page = expect_ok(logs.read(ExecutionId(7), &following).await);
    assert_eq!(page.into_lines(), [lines[2].clone()]);
}

/// A reader that starts at the end reaches the first line, and continues with new lines.
pub async fn lines_are_read_from_the_end(logs: Arc<dyn TaskLogs>) {
    let texts = ["ERROR one", "two", "ERROR three", "four", "ERROR five"];
    let mut lines = texts.map(log_line).to_vec();
    lines[4].time = Time(9);
    expect_ok(logs.append(&lines).await);
    let read = async |query: LogQuery| expect_ok(logs.read(ExecutionId(7), &query).await);
    let query = |position, limit| LogQuery {
        position,
        limit,
        ..LogQuery::default()
    };
    let tail = read(query(LogPosition::End, 2)).await;
    assert!(tail.has_earlier);
    let middle = read(query(LogPosition::Before(tail.lines[0].position), 2)).await;
    let start = read(query(LogPosition::Before(middle.lines[0].position), 2)).await;
    assert!(!start.has_earlier);
    assert_eq!(start.into_lines(), lines[..1]);
    assert_eq!(middle.into_lines(), lines[1..3]);
    let following = query(LogPosition::After(tail.next_after), 2);
    assert_eq!(tail.into_lines(), lines[3..]);
    assert_eq!(read(following.clone()).await.lines, []);
    expect_ok(logs.append(&[log_line("six")]).await);
    assert_eq!(read(following).await.into_lines(), [log_line("six")]);
    let errors = LogQuery {
        level: Some(LogLevel::Error),
        until: Some(Time(5)),
        ..query(LogPosition::End, 10)
    };
    assert_eq!(read(errors).await.into_lines(), [lines[0].clone(), lines[2].clone()]);
}

/// A reader may request the lines of one task only.
pub async fn lines_are_narrowed_to_a_step_and_a_task(logs: Arc<dyn TaskLogs>) {
    let line = |step: &str, task: &str| LogLine {
        step: step.into(),
        task: task.into(),
        ..log_line(&format!("{step}/{task}"))
    };
    expect_ok(logs.append(&[line("a", "x"), line("a", "y"), line("b", "x")]).await);
    let texts = async |step: Option<&str>, task: Option<&str>| {
        let query = LogQuery {
            limit: 10,
            step: step.map(Name::from),
            task: task.map(Name::from),
            ..LogQuery::default()
        };
        let page = expect_ok(logs.read(ExecutionId(7), &query).await);
        let texts = page.into_lines().into_iter().map(|line| line.text);
        texts.collect::<Vec<_>>()
    };
    assert_eq!(texts(Some("a"), None).await, ["a/x", "a/y"]);
    assert_eq!(texts(None, Some("x")).await, ["a/x", "b/x"]);
    assert_eq!(texts(Some("b"), Some("x")).await, ["b/x"]);
    assert_eq!(texts(Some("b"), Some("y")).await.len(), 0);
}

/// Several servers may append lines of one execution at the same time.
pub async fn batches_taken_at_once_lose_no_line(logs: Arc<dyn TaskLogs>) {
    let mut taking = tokio::task::JoinSet::new();
    for batch in 0..8 {
        let logs = Arc::clone(&logs);
        taking.spawn(async move {
            for n in 0..5 {
                let lines = [log_line(&format!("{batch}-{n}-a")), log_line(&format!("{batch}-{n}-b"))];
                expect_ok(logs.append(&lines).await);
            }
        });
    }
    while let Some(joined) = taking.join_next().await {
        joined.expect("the batch is appended");
    }
    let mut texts = Vec::new();
    let mut after = 0;
    loop {
        let page = read_page(&*logs, after, 7).await;
        if page.lines.is_empty() {
            break;
        }
        after = page.next_after;
        texts.extend(page.into_lines().into_iter().map(|line| line.text));
    }
    assert_eq!(texts.len(), 80);
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 80, "a line is missing or duplicated");
}
