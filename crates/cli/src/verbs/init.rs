//! `noetl init`: creates a project with an example playbook.

use crate::app::{App, VerbResult};
use crate::args::InitArgs;
use crate::cli_error::Exit;
use crate::init;

/// Writes the files of a template and prints the next command.
pub(crate) fn init(app: &App, args: &InitArgs) -> VerbResult {
    let written = init::write_template(&args.dir, args.template)?;
    let dir = args.dir.display().to_string();
    if app.output.is_machine() {
        app.output
            .print_json(&serde_json::json!({ "dir": dir, "files": written }));
        return Ok(Exit::Done);
    }
    app.output.info(&format!("created {dir}/  {}", written.join("  ")));
    let enter = if dir == "." {
        String::new()
    } else {
        format!("cd {dir} && ")
    };
    app.output.info(&format!("next    {enter}noetl run {}", written[0]));
    Ok(Exit::Done)
}
