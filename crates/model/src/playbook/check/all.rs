//! Every check, in the order that lets one mistake explain another.

use crate::playbook::check::{graph, lint, lookalike, names, statements};
use crate::playbook::read::Draft;
use crate::yaml::Node;

/// Checks a playbook that has been read, reporting to its reader.
pub(crate) fn check(draft: &mut Draft, root: &Node) {
    let Draft {
        playbook,
        reader,
        named,
    } = draft;
    graph::check(playbook, named, reader);
    lint::check(playbook, reader);
    names::check(playbook, reader);
    statements::check(playbook, reader);
    lookalike::check(root, reader);
}
