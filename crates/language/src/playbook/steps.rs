//! The steps of a playbook in YAML order, with an index by name.

use std::collections::BTreeMap;
use std::ops::Deref;

use model::id::Name;

use crate::playbook::Step;

/// Steps in YAML order. A lookup by name takes the same time in a playbook of any size.
#[derive(Debug, Clone, Default)]
pub struct Steps {
    list: Vec<Step>,
    positions: BTreeMap<Name, usize>,
}

impl Steps {
    /// Finds a step by name; the first one if an invalid document has several.
    pub fn find(&self, name: &str) -> Option<&Step> {
        self.list.get(*self.positions.get(name)?)
    }
}

impl From<Vec<Step>> for Steps {
    fn from(list: Vec<Step>) -> Self {
        let mut positions = BTreeMap::new();
        for (position, step) in list.iter().enumerate() {
            positions.entry(step.name.clone()).or_insert(position);
        }
        Self { list, positions }
    }
}

impl Deref for Steps {
    type Target = [Step];
    fn deref(&self) -> &[Step] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Steps {
    type Item = &'a Step;
    type IntoIter = std::slice::Iter<'a, Step>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// Callers must not change the names of steps: the index would be wrong.
impl<'a> IntoIterator for &'a mut Steps {
    type Item = &'a mut Step;
    type IntoIter = std::slice::IterMut<'a, Step>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.iter_mut()
    }
}
