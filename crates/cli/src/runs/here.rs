//! A run in a local store: this process drives it, or follows it while another process drives it.

use std::process::{Command, Stdio};

use async_trait::async_trait;
use engine::Refusal;
use model::event::Event;
use model::id::{ExecutionId, Seq};
use model::status::RunStatus;
use model::time::Time;
use results::Pieces;
use server::{Control, ControlError, Published, ResultAddress};
use store::{Adoption, ExecutionRow, Priority};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use crate::app::App;
use crate::args::Driving;
use crate::local::Session;
use crate::log::PAGE;
use crate::problem::{Exit, Problem};
use crate::runs::begin::{Driven, News, Watch};

/// A run that this process drives or follows.
pub(super) struct DrivenHere<'a> {
    app: &'a App,
    session: Session,
    id: ExecutionId,
    since: Time,
    adoption: Adoption,
    published: Receiver<std::sync::Arc<Published>>,
    changes: store::ChangeWatch,
    driving: &'a Driving,
}

impl<'a> DrivenHere<'a> {
    /// Wraps a run that has just started.
    pub(super) fn begun(
        app: &'a App,
        session: Session,
        id: ExecutionId,
        driving: &'a Driving,
    ) -> Self {
        Self {
            app,
            published: session.server.watch(),
            session,
            id,
            since: Time::default(),
            adoption: Adoption::Mine,
            changes: store::ChangeWatch::default(),
            driving,
        }
    }

    /// Adopts an existing run unless another process drives it, and sends the control request.
    pub(super) async fn again(
        app: &'a App,
        session: Session,
        (row, word): (ExecutionRow, Option<Control>),
        driving: &'a Driving,
    ) -> Result<Self, Problem> {
        let since = session.log.store.now();
        let published = session.server.watch();
        let priority = word.as_ref().map_or(Priority::Normal, Control::priority);
        let adoption = session.server.adopt(row.id, priority).await?;
        if let Some(word) = word {
            let is_resume = matches!(word, Control::Resume);
            match session.server.control(row.id, word).await {
                Ok(()) => {}
                // Another process resumed the paused run first; this process follows it.
                Err(ControlError::Refused(Refusal::NotPaused | Refusal::Ended)) if is_resume => {}
                Err(ControlError::Refused(refusal)) => return Err(refused(&row, &refusal)),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self {
            app,
            session,
            id: row.id,
            since,
            adoption,
            published,
            changes: store::ChangeWatch::default(),
            driving,
        })
    }

    /// Starts a worker for the run if this process drives it.
    pub(super) fn work(&mut self) -> Result<(), Problem> {
        if self.adoption == Adoption::Mine {
            self.session.work(self.app, self.driving)?;
        }
        Ok(())
    }
}

fn refused(row: &ExecutionRow, refusal: &Refusal) -> Problem {
    let status = row.status.name().to_ascii_lowercase();
    let message = format!("run {}: {refusal}", row.id);
    Problem::coded(Exit::NotAllowed, refusal.code(), message)
        .help(format!("the run is {status}; see `noetl show {}`", row.id))
}

#[async_trait]
impl Watch for DrivenHere<'_> {
    async fn news(&mut self) -> Result<News, Problem> {
        loop {
            tokio::select! {
                news = self.published.recv() => match news {
                    Ok(news) if news.execution == self.id => return Ok(News::Commit(news)),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Ok(News::Unread),
                    Err(RecvError::Closed) => return Err(server::Error::Stopping.into()),
                },
                () = self.changes.changed(&*self.session.log.store) => return Ok(News::Unread),
            }
        }
    }
}

#[async_trait]
impl Driven for DrivenHere<'_> {
    fn id(&self) -> ExecutionId {
        self.id
    }

    fn since(&self) -> Time {
        self.since
    }

    fn is_mine(&self) -> bool {
        self.adoption == Adoption::Mine
    }

    fn farewell(&self) -> String {
        let id = self.id;
        format!("exited before the cancellation finished; complete it with `noetl resume {id}`")
    }

    fn elsewhere(&self) -> &'static str {
        "in the background"
    }

    fn trouble(&self) -> Option<String> {
        let error = self.session.log.store.health().err()?;
        Some(format!("{}: {error}", error.code()))
    }

    /// Does nothing: `published` receives commits from the start.
    fn follow(&mut self, _after: Seq) {}

    /// Adopts the run if the process that drove it has exited.
    async fn look(&mut self) -> Result<(), Problem> {
        if self.adoption != Adoption::Mine {
            self.adoption = self.session.server.adopt(self.id, Priority::Normal).await?;
            self.work()?;
        }
        Ok(())
    }

    async fn events(&self, after: Seq) -> Result<Vec<Event>, Problem> {
        Ok(self.session.log.store.events(self.id, after, PAGE).await?)
    }

    async fn result(&self, address: &ResultAddress) -> Result<Option<Pieces>, Problem> {
        self.session.log.result(self.id, address).await
    }

    async fn cancel(&self) -> Result<(), Problem> {
        let word = Control::Cancel {
            reason: Some("interrupted".to_owned()),
            cascade: true,
        };
        match self.session.server.control(self.id, word).await {
            // A refusal means that the run has just ended.
            Ok(()) | Err(ControlError::Refused(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), Problem> {
        let Self {
            app,
            session,
            id,
            adoption,
            driving,
            ..
        } = *self;
        let store = session.log.store.clone();
        // Tasks that are running finish in this process, so that they do not run twice.
        session.stop().await;
        let row = store.execution(id).await?;
        let goes_on = row.is_some_and(|row| row.status == RunStatus::Running);
        if adoption == Adoption::Mine && goes_on {
            background(app, id, driving)?;
        }
        Ok(())
    }

    async fn stop(self: Box<Self>) {
        self.session.stop().await;
    }
}

/// Starts a background process that drives the run.
fn background(app: &App, id: ExecutionId, driving: &Driving) -> Result<(), Problem> {
    let cannot = |error: std::io::Error| {
        let message = format!("cannot start a background process: {error}");
        Problem::new(Exit::NotAllowed, "NO_BACKGROUND", message)
            .help(format!("continue the run with `noetl resume {id}`"))
    };
    let program = std::env::current_exe().map_err(cannot)?;
    let mut command = Command::new(program);
    command
        .args([
            "resume",
            &id.to_string(),
            "--background",
            "--quiet",
            "--store",
        ])
        .arg(&app.settings.store)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if let Some(slots) = driving.slots {
        command.args(["--slots", &slots.to_string()]);
    }
    for name in &driving.allow_env {
        command.args(["--allow-env", name]);
    }
    command.spawn().map_err(cannot)?;
    Ok(())
}
