//! A bounded cache that evicts the least recently used entry first.

use std::borrow::Borrow;
use std::collections::BTreeMap;

/// A cache that limits the total weight of its entries. It keeps the newest entry even if that entry alone exceeds the
/// limit; callers that cannot afford this check [`BoundedCache::fits`] first.
#[derive(Debug)]
pub struct BoundedCache<K, V> {
    weight_max: u64,
    weight: u64,
    uses: u64,
    entries: BTreeMap<K, CacheEntry<V>>,
    /// Keys by last use.
    order: BTreeMap<u64, K>,
}

#[derive(Debug)]
struct CacheEntry<V> {
    weight: u64,
    used: u64,
    value: V,
}

impl<K: Clone + Ord, V: Clone> BoundedCache<K, V> {
    /// Creates an empty cache.
    pub fn new(weight_max: u64) -> Self {
        Self {
            weight_max,
            weight: 0,
            uses: 0,
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// Whether an entry of this weight takes at most an eighth of the limit, so that others fit beside it.
    pub fn fits(&self, weight: u64) -> bool {
        weight <= self.weight_max / 8
    }

    /// Returns the value of a key and counts this as a use.
    pub fn get<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        if let Some(key) = self.order.remove(&entry.used) {
            self.order.insert(self.uses, key);
        }
        entry.used = self.uses;
        Some(entry.value.clone())
    }

    /// Iterates over all entries by key, without counting this as a use.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Removes an entry.
    pub fn remove<Q>(&mut self, key: &Q)
    where
        K: Borrow<Q>,
        Q: Ord + ?Sized,
    {
        if let Some(removed) = self.entries.remove(key) {
            self.weight -= removed.weight;
            self.order.remove(&removed.used);
        }
    }

    /// Inserts or replaces an entry and returns the keys that this evicts.
    pub fn insert(&mut self, key: K, value: V, weight: u64) -> Vec<K> {
        self.remove(&key);
        self.uses += 1;
        self.weight += weight;
        self.order.insert(self.uses, key.clone());
        let entry = CacheEntry {
            weight,
            used: self.uses,
            value,
        };
        self.entries.insert(key, entry);
        let mut evicted = Vec::new();
        while self.weight > self.weight_max && self.entries.len() > 1 {
            let Some((_, oldest)) = self.order.pop_first() else {
                break;
            };
            if let Some(removed) = self.entries.remove(&oldest) {
                self.weight -= removed.weight;
            }
            evicted.push(oldest);
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_used_longest_ago_is_evicted_first() {
        let mut cache = BoundedCache::new(10);
        assert!(cache.insert("a", 1, 4).is_empty());
        assert!(cache.insert("b", 2, 4).is_empty());
        assert_eq!(cache.get("a"), Some(1));
        assert_eq!(cache.insert("c", 3, 4), ["b"]);
        let values = ["a", "b", "c"].map(|key| cache.get(key));
        assert_eq!(values, [Some(1), None, Some(3)]);
    }

    #[test]
    fn an_entry_that_is_replaced_counts_once() {
        let mut cache = BoundedCache::new(10);
        for value in 0..100 {
            cache.insert("a", value, 6);
        }
        cache.insert("b", 1, 4);
        assert_eq!((cache.get("a"), cache.get("b")), (Some(99), Some(1)));
    }

    #[test]
    fn an_entry_that_is_too_heavy_is_cached_alone() {
        let mut cache = BoundedCache::new(10);
        cache.insert("a", 1, 4);
        assert_eq!(cache.insert("b", 2, 40), ["a"]);
        assert_eq!(cache.get("b"), Some(2));
    }

    #[test]
    fn nothing_is_left_of_a_removed_entry() {
        let mut cache = BoundedCache::new(10);
        cache.insert("a", 1, 4);
        cache.remove("a");
        assert_eq!((cache.weight, cache.order.len(), cache.iter().count()), (0, 0, 0));
    }

    #[test]
    fn one_entry_does_not_fill_the_whole_cache() {
        let cache = BoundedCache::<&str, ()>::new(80);
        assert!(cache.fits(10));
        assert!(!cache.fits(11));
    }
}
