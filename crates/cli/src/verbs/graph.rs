//! `noetl graph`: draws the graph of a playbook.

use crate::app::{App, VerbResult};
use crate::args::{GraphArgs, GraphFormat};
use crate::cli_error::Exit;
use crate::graph::{Diagram, render_ascii, render_dot, render_mermaid};
use crate::inputs;

/// Draws a playbook.
pub(crate) fn graph(app: &App, args: &GraphArgs) -> VerbResult {
    let bytes = inputs::read_file(&args.file)?;
    let parsed = language::playbook::parse(&args.file, &bytes);
    let Some(playbook) = &parsed.playbook else {
        for diagnostic in &parsed.diagnostics {
            app.output
                .error(&diagnostic.render(app.output.stderr.diagnostic_style()));
        }
        return Ok(Exit::InvalidPlaybook);
    };
    let diagram = Diagram::from_playbook(playbook);
    app.output.print_data(&match args.format {
        GraphFormat::Ascii => render_ascii(&diagram, app.output.stdout),
        GraphFormat::Mermaid => render_mermaid(&diagram),
        GraphFormat::Dot => render_dot(&diagram),
    });
    Ok(Exit::Done)
}
