//! `noetl show`: prints the status, steps and errors of a run.

use std::fmt::Write;

use language::playbook::Playbook;
use model::status::RunStatus;
use model::time::Time;

use crate::app::{App, VerbResult};
use crate::args::ShowArgs;
use crate::cli_error::Exit;
use crate::clock;
use crate::find;
use crate::render::lines::{self, LineColumns};
use crate::render::report::{self, RunName};
use crate::render::{failure, human, result_text};
use crate::runs;
use crate::terminal_style::TerminalStyle;
use crate::verbs::runs::status_text;
use crate::view::{RunView, StepStatus};

/// Shows a run.
pub(crate) async fn show(app: &App, args: &ShowArgs) -> VerbResult {
    let backend = runs::open_existing(app)?;
    let row = find::find_run(&*backend, &args.id).await?;
    let view = find::load_view(&*backend, row.id).await?;
    let playbook = backend.playbook(&row).await?;
    let now = clock::now();
    let out = &app.output;
    if out.is_machine() {
        let result = match view.result_address() {
            Some(address) => backend.result(row.id, &address).await?,
            None => None,
        };
        let name = RunName {
            id: row.id,
            name: row.name.to_string(),
        };
        let mut report_json = report::run_report(&view, &name, playbook.as_deref(), now);
        let is_abandoned = backend.is_abandoned(&row).await?;
        report_json.insert("abandoned".to_owned(), is_abandoned.into());
        result_text::print_report(out, report_json, result).await?;
        return Ok(Exit::Done);
    }
    let id = row.id.to_string();
    if args.failed {
        out.print_data(&failure_blocks(&view, playbook.as_deref(), out.stdout));
        return Ok(Exit::Done);
    }
    let style = out.stdout;
    let mark = style.choose("▸", ">");
    let mut text = format!(
        "{mark} {}   run {id}   {}   {}   took {}   {} events\n",
        style.strong(row.name.as_str()),
        status_text(&row, style),
        human::format_age(row.started_at, now),
        human::format_duration_ms(view.elapsed_ms(now)),
        human::format_count(view.events),
    );
    if view.generation > 1 {
        let _ = writeln!(text, "  retried; this is attempt {} of the run", view.generation);
    }
    text.push_str(&step_lines(&view, playbook.as_deref(), style, now));
    let stands_still = match row.status {
        RunStatus::Running if backend.is_abandoned(&row).await? => Some("interrupted: the process that ran it exited"),
        RunStatus::Paused => Some("paused"),
        _ => None,
    };
    if let Some(reason) = stands_still {
        let _ = writeln!(text, "  {reason}   resume it with `noetl resume {id}`");
    }
    if let Some(block) = failure::render_run_failure(&view, playbook.as_deref(), &id, style) {
        text.push_str(&block);
    }
    out.print_data(&text);
    Ok(Exit::Done)
}

fn step_lines(view: &RunView, playbook: Option<&Playbook>, style: TerminalStyle, now: Time) -> String {
    let columns = LineColumns::new(playbook, style);
    let mut text = String::new();
    for step in &view.steps {
        text.push_str(&lines::step_line(step, playbook, columns, style, now));
        text.push('\n');
        for ((_, label), task) in &step.open_tasks {
            if let Some(target) = &task.awaited {
                let _ = writeln!(text, "    {label} waits for {target}");
            }
        }
    }
    text
}

/// Returns all failures in full.
fn failure_blocks(view: &RunView, playbook: Option<&Playbook>, style: TerminalStyle) -> String {
    let mut text = String::new();
    for step in &view.steps {
        for (iteration, failure) in &step.failures {
            // The failure of a loop only repeats the failures of its iterations.
            if iteration.is_none() && step.failures.len() > 1 {
                continue;
            }
            text.push_str(&failure::render_failure(
                Some(step),
                *iteration,
                failure,
                playbook,
                style,
            ));
        }
        let listed_count = step.failures.len() as u64;
        let all = step.loop_view.as_ref().map_or(0, crate::view::LoopView::failed_count);
        if all > listed_count {
            let _ = writeln!(text, "   and {} more in {}", all - listed_count, step.step);
        }
    }
    let has_failed_step = view.steps.iter().any(|step| step.status == StepStatus::Failed);
    match (&view.error, text.is_empty()) {
        (_, false) => text,
        (Some(error), true) => format!("{}: {}\n", error.code, error.message),
        (None, true) if has_failed_step => "a step failed without a recorded error\n".to_owned(),
        (None, true) => "no failures\n".to_owned(),
    }
}
