//! Records where templates are used, so that their names can be checked once the whole playbook is known.

use std::ops::Range;

use crate::playbook::read::programs::{Insertion, to_source_range};
use crate::template::Template;
use crate::yaml::Node;

/// A template, and its position in the playbook.
pub(crate) struct TemplateUse {
    pub(crate) template: Template,
    /// The scalar it was read from.
    pub(crate) node: Node,
    /// Text that was inserted into the template and is not in the scalar.
    pub(crate) insertions: Vec<Insertion>,
    /// The index of its step.
    pub(crate) step: Option<usize>,
    pub(crate) site: TemplateSite,
}

impl TemplateUse {
    /// Converts a byte range of the template to a range of the scalar.
    pub(crate) fn to_source_range(&self, range: &Range<usize>) -> Range<usize> {
        to_source_range(&self.insertions, range)
    }
}

/// The part of a playbook that contains a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateSite {
    /// A default of `workload` or an initial value of `ctx`: rendered before the run starts.
    Default,
    /// An admission rule.
    Admission,
    /// The items of a loop.
    Loop,
    /// The input of a tool.
    Call,
    /// A rule of a policy, or a write of a task.
    Outcome,
    /// A condition, write or argument of a step or an arc.
    Boundary,
}

impl TemplateSite {
    /// Whether `outcome` and `output` are available here.
    pub(crate) fn has_outcome(self) -> bool {
        matches!(self, Self::Outcome | Self::Boundary)
    }

    /// Whether `event` is available here.
    pub(crate) fn has_event(self) -> bool {
        matches!(self, Self::Admission | Self::Boundary)
    }
}
