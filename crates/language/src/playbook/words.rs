//! The words that keys accept, from the tables with which the parser reads them.

use crate::playbook::keychain;
use crate::playbook::kinds::KINDS;
use crate::playbook::read::{admission, executor, looping, next, result, root, rules, step, task};
use crate::reference::list_words;

/// Lists the words of tables: `function => table;`.
macro_rules! words {
    ($($name:ident => $table:expr;)*) => {
        $(pub(crate) fn $name() -> Vec<&'static str> { list_words($table) })*
    };
}

words! {
    api_versions => root::VERSIONS;
    keychain_scopes => keychain::SCOPES;
    executor_kinds => executor::KINDS;
    failure_modes => executor::FAILURE_MODES;
    joins => step::JOINS;
    effects => task::EFFECTS;
    sandbox_levels => task::SANDBOX_LEVELS;
    admission_modes => admission::MODES;
    loop_modes => looping::MODES;
    loop_placements => looping::PLACEMENTS;
    frame_processes => looping::FRAME_PROCESSES;
    directives => rules::DIRECTIVES;
    backoffs => rules::BACKOFFS;
    unmatched_actions => rules::UNMATCHED;
    stores => result::STORES;
    result_scopes => result::SCOPES;
    strategies => result::STRATEGIES;
    compressions => result::COMPRESSIONS;
    route_modes => next::MODES;
    no_match_actions => next::NO_MATCH;
}

pub(crate) fn document_kinds() -> Vec<&'static str> {
    vec!["Playbook"]
}

pub(crate) fn keychain_kinds() -> Vec<&'static str> {
    keychain::KIND_WORDS.to_vec()
}

/// Kinds whose statements can claim rows.
pub(crate) fn cursor_kinds() -> Vec<&'static str> {
    let claiming = KINDS.iter().filter(|kind| kind.claim_effect.is_some());
    claiming.map(|kind| kind.name).collect()
}
