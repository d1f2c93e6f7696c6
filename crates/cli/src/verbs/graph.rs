//! `noetl graph`: draws the graph of a playbook.

use crate::app::{App, Ended};
use crate::args::{Drawing, GraphArgs};
use crate::graph::{Diagram, ascii, dot, mermaid};
use crate::inputs;
use crate::problem::Exit;

/// Draws a playbook.
pub(crate) fn graph(app: &App, args: &GraphArgs) -> Ended {
    let bytes = inputs::bytes(&args.file)?;
    let parsed = model::playbook::parse(&args.file, &bytes);
    let Some(playbook) = &parsed.playbook else {
        for diagnostic in &parsed.diagnostics {
            app.out
                .complain(&diagnostic.render(app.out.stderr.diagnostics()));
        }
        return Ok(Exit::InvalidPlaybook);
    };
    let diagram = Diagram::of(playbook);
    app.out.data(&match args.format {
        Drawing::Ascii => ascii(&diagram, app.out.stdout),
        Drawing::Mermaid => mermaid(&diagram),
        Drawing::Dot => dot(&diagram),
    });
    Ok(Exit::Done)
}
