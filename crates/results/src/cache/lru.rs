//! What was used last stays longest.

use std::collections::{BTreeMap, HashMap};

/// Entries of a bounded size together.
#[derive(Debug)]
pub(super) struct Lru<V> {
    bytes_max: u64,
    bytes: u64,
    uses: u64,
    entries: HashMap<String, Entry<V>>,
    /// By their last use.
    order: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Entry<V> {
    bytes: u64,
    used: u64,
    value: V,
}

impl<V: Clone> Lru<V> {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            bytes_max,
            bytes: 0,
            uses: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// Whether something of this size has a place: one entry may not take more than an eighth.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        bytes <= self.bytes_max / 8
    }

    /// What is there, which is used now.
    pub(super) fn get(&mut self, name: &str) -> Option<V> {
        let entry = self.entries.get_mut(name)?;
        self.uses += 1;
        if let Some(name) = self.order.remove(&entry.used) {
            self.order.insert(self.uses, name);
        }
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Takes something in; answers the names of what had to go.
    pub(super) fn insert(&mut self, name: &str, bytes: u64, value: V) -> Vec<String> {
        self.remove(name);
        self.uses += 1;
        self.bytes += bytes;
        let used = self.uses;
        self.order.insert(used, name.to_owned());
        let entry = Entry { bytes, used, value };
        self.entries.insert(name.to_owned(), entry);
        let mut gone = Vec::new();
        while self.bytes > self.bytes_max {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            self.forget(&oldest);
            gone.push(oldest);
        }
        gone
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(used) = self.forget(name) {
            self.order.remove(&used);
        }
    }

    fn forget(&mut self, name: &str) -> Option<u64> {
        let entry = self.entries.remove(name)?;
        self.bytes -= entry.bytes;
        Some(entry.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut lru = Lru::new(10);
        assert!(lru.insert("a", 4, 1).is_empty());
        assert!(lru.insert("b", 4, 2).is_empty());
        assert_eq!(lru.get("a"), Some(1));
        assert_eq!(lru.insert("c", 4, 3), ["b"]);
        assert_eq!(
            (lru.get("b"), lru.get("a"), lru.get("c")),
            (None, Some(1), Some(3))
        );
        assert_eq!(lru.insert("c", 10, 4), ["a"]);
        lru.remove("c");
        assert_eq!((lru.bytes, lru.order.len(), lru.entries.len()), (0, 0, 0));
    }

    #[test]
    fn one_entry_does_not_take_all_the_room() {
        let lru = Lru::<()>::new(80);
        assert!(lru.fits(10));
        assert!(!lru.fits(11));
    }
}
