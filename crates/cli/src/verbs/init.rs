//! `noetl init`: creates a project with an example playbook.

use crate::app::{App, Ended};
use crate::args::InitArgs;
use crate::init;
use crate::problem::Exit;

/// Writes the files of a template and prints the next command.
pub(crate) fn init(app: &App, args: &InitArgs) -> Ended {
    let written = init::write(&args.dir, args.template)?;
    let dir = args.dir.display().to_string();
    if app.out.is_machine() {
        app.out
            .json(&serde_json::json!({ "dir": dir, "files": written }));
        return Ok(Exit::Done);
    }
    app.out
        .note(&format!("created {dir}/  {}", written.join("  ")));
    let enter = if dir == "." {
        String::new()
    } else {
        format!("cd {dir} && ")
    };
    app.out
        .note(&format!("next    {enter}noetl run {}", written[0]));
    Ok(Exit::Done)
}
