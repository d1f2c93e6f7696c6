//! Runs all checks of a playbook, in an order in which earlier checks make later messages unnecessary.

use crate::playbook::check::{graph, lint, lookalike, names, statements};
use crate::playbook::read::PlaybookDraft;
use crate::yaml::Node;

/// Checks a playbook and reports diagnostics to its reader.
pub(crate) fn check(draft: &mut PlaybookDraft, root: &Node) {
    let PlaybookDraft {
        playbook,
        reader,
        step_names: named,
    } = draft;
    graph::check(playbook, named, reader);
    lint::check(playbook, reader);
    names::check(playbook, reader);
    statements::check(playbook, reader);
    lookalike::check(root, reader);
}
