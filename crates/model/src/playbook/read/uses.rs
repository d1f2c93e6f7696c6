//! Where templates stand, remembered so that their names can be checked once the whole playbook is known.

use std::ops::Range;

use crate::playbook::read::programs::{Insertion, as_written};
use crate::template::Template;
use crate::yaml::Node;

/// A template and what it can see from where it stands.
pub(crate) struct Use {
    pub(crate) template: Template,
    /// The scalar it was read from.
    pub(crate) node: Node,
    /// What the template has that the scalar does not.
    pub(crate) insertions: Vec<Insertion>,
    /// The index of its step.
    pub(crate) step: Option<usize>,
    pub(crate) place: Place,
}

impl Use {
    /// Where a place of the template stands in the scalar.
    pub(crate) fn as_written(&self, range: &Range<usize>) -> Range<usize> {
        as_written(&self.insertions, range)
    }
}

/// Which part of a playbook a template stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A default of `workload`, or a first value of `ctx`: before the run begins.
    Default,
    /// Who may enter.
    Admission,
    /// What a loop runs over.
    Loop,
    /// What a tool is given.
    Call,
    /// A rule of a policy, or what a task writes.
    Outcome,
    /// A guard, or what a step or an arc writes and passes on.
    Boundary,
}

impl Place {
    /// Whether `outcome` and `output` exist here.
    pub(crate) fn has_outcome(self) -> bool {
        matches!(self, Self::Outcome | Self::Boundary)
    }

    /// Whether `event` exists here.
    pub(crate) fn has_event(self) -> bool {
        matches!(self, Self::Admission | Self::Boundary)
    }
}
