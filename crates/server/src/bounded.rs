//! A cache with a bound: what was used longest ago goes first.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Entries whose weights come to no more than a bound. The newest stays even if it is heavier than that.
#[derive(Debug)]
pub(crate) struct BoundedCache<K, V> {
    weight_max: usize,
    weight: usize,
    uses: u64,
    entries: HashMap<K, Entry<V>>,
    /// The keys by their last use.
    order: BTreeMap<u64, K>,
}

#[derive(Debug)]
struct Entry<V> {
    weight: usize,
    used: u64,
    value: V,
}

impl<K: Clone + Eq + Hash, V: Clone> BoundedCache<K, V> {
    /// An empty cache.
    pub(crate) fn new(weight_max: usize) -> Self {
        Self {
            weight_max,
            weight: 0,
            uses: 0,
            entries: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// What is there under a key, which is used now.
    pub(crate) fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(&entry.used) {
            self.order.insert(self.uses, key);
        }
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Takes a value out.
    pub(crate) fn remove(&mut self, key: &K) {
        if let Some(gone) = self.entries.remove(key) {
            self.weight -= gone.weight;
            self.order.remove(&gone.used);
        }
    }

    /// Everything, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Takes a value in; what was used longest ago makes room for it.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: usize) {
        self.remove(&key);
        self.uses += 1;
        self.weight += weight;
        self.order.insert(self.uses, key.clone());
        let used = self.uses;
        let entry = Entry {
            weight,
            used,
            value,
        };
        self.entries.insert(key, entry);
        while self.weight > self.weight_max && self.entries.len() > 1 {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some(gone) = self.entries.remove(&oldest) {
                self.weight -= gone.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_goes_first() {
        let mut cache = BoundedCache::new(10);
        cache.insert("a", 1, 4);
        cache.insert("b", 2, 4);
        assert_eq!(cache.get("a"), Some(1));
        cache.insert("c", 3, 4);
        assert_eq!(cache.get("b"), None);
        assert_eq!(cache.get("a"), Some(1));
        assert_eq!(cache.get("c"), Some(3));
    }

    #[test]
    fn an_entry_that_is_replaced_counts_once() {
        let mut cache = BoundedCache::new(10);
        for value in 0..100 {
            cache.insert("a", value, 6);
        }
        cache.insert("b", 1, 4);
        assert_eq!(cache.get("a"), Some(99));
        assert_eq!(cache.get("b"), Some(1));
    }

    #[test]
    fn one_that_is_too_heavy_stays_alone() {
        let mut cache = BoundedCache::new(10);
        cache.insert("a", 1, 4);
        cache.insert("b", 2, 40);
        assert_eq!(cache.get("a"), None);
        assert_eq!(cache.get("b"), Some(2));
    }
}
