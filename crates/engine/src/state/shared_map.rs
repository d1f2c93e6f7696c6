//! A sorted map whose copies share their unchanged parts.
//!
//! Every decision works on a copy of the state. A copy of a plain map costs time proportional to the live parts of the
//! execution, and an execution with n parallel branches pays that n times. Here a copy costs one pointer per chunk,
//! and the comparison of two versions skips shared chunks.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of entries in a chunk.
const CHUNK_MAX: usize = 32;

type Chunk<K, V> = Vec<(K, Arc<V>)>;

/// A sorted map that is cheap to copy.
pub struct SharedMap<K, V> {
    /// No chunk is empty; keys are ascending within and across chunks.
    chunks: Vec<Arc<Chunk<K, V>>>,
    len: usize,
}

/// One difference between two versions of a map.
pub(crate) struct MapChange<'a, K, V> {
    pub(crate) key: &'a K,
    pub(crate) before: Option<&'a V>,
    pub(crate) after: Option<&'a V>,
}

impl<K, V> SharedMap<K, V> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entries, in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + Clone {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter().map(|(key, value)| (key, &**value)))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    /// Removes every entry.
    pub fn clear(&mut self) {
        self.chunks.clear();
        self.len = 0;
    }
}

impl<K: Ord, V> SharedMap<K, V> {
    /// The index of the first chunk that may contain this key: all chunks before it have lower keys.
    fn chunk_index<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        let ends_before = |chunk: &Arc<Chunk<K, V>>| chunk.last().is_some_and(|(last, _)| last.borrow() < key);
        self.chunks.partition_point(ends_before)
    }

    fn position<Q: Ord + ?Sized>(&self, key: &Q) -> Option<(usize, usize)>
    where
        K: Borrow<Q>,
    {
        let index = self.chunk_index(key);
        let chunk = self.chunks.get(index)?;
        let entry = chunk.binary_search_by(|(entry_key, _)| entry_key.borrow().cmp(key));
        Some((index, entry.ok()?))
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (chunk, entry) = self.position(key)?;
        Some(&self.chunks[chunk][entry].1)
    }

    /// Whether the map contains the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.position(key).is_some()
    }

    /// The entries from this key on.
    pub fn range_from<'a>(&'a self, from: &K) -> impl Iterator<Item = (&'a K, &'a V)> + use<'a, K, V> {
        let index = self.chunk_index(from);
        let chunks = self.chunks.get(index..).unwrap_or_default();
        let skipped = chunks
            .first()
            .map_or(0, |chunk| chunk.partition_point(|(key, _)| key < from));
        let entries = chunks.iter().flat_map(|chunk| chunk.iter());
        entries.skip(skipped).map(|(key, value)| (key, &**value))
    }

    /// Calls `visit` for every entry that differs between the two versions, in key order.
    pub(crate) fn for_each_change<'a>(&'a self, newer: &'a Self, mut visit: impl FnMut(MapChange<'a, K, V>)) {
        let mut old = MapCursor::new(self);
        let mut new = MapCursor::new(newer);
        loop {
            if old.skip_shared(&mut new) {
                continue;
            }
            let ordering = match (old.entry(), new.entry()) {
                (None, None) => return,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((old_key, _)), Some((new_key, _))) => old_key.cmp(new_key),
            };
            let before = old.entry().filter(|_| ordering.is_le());
            let after = new.entry().filter(|_| ordering.is_ge());
            if ordering.is_le() {
                old.advance();
            }
            if ordering.is_ge() {
                new.advance();
            }
            let is_same = matches!((before, after), (Some((_, a)), Some((_, b))) if Arc::ptr_eq(a, b));
            if let (false, Some((key, _))) = (is_same, before.or(after)) {
                visit(MapChange {
                    key,
                    before: before.map(|(_, value)| &**value),
                    after: after.map(|(_, value)| &**value),
                });
            }
        }
    }
}

impl<K: Ord + Clone, V> SharedMap<K, V> {
    /// Sets a key's value. Returns whether the key is new.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        let value = Arc::new(value);
        if self.chunks.is_empty() {
            self.chunks.push(Arc::new(Vec::new()));
        }
        let last = self.chunks.len() - 1;
        let index = self.chunk_index(&key).min(last);
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        match chunk.binary_search_by(|(entry_key, _)| entry_key.cmp(&key)) {
            Ok(entry) => {
                chunk[entry].1 = value;
                return false;
            }
            Err(entry) => chunk.insert(entry, (key, value)),
        }
        if chunk.len() > CHUNK_MAX {
            // Ascending keys leave full chunks behind.
            let split_at = if index == last { CHUNK_MAX } else { CHUNK_MAX / 2 };
            let tail = chunk.split_off(split_at);
            self.chunks.insert(index + 1, Arc::new(tail));
        }
        self.len += 1;
        true
    }

    fn remove_at(&mut self, index: usize, entry: usize) -> (K, Arc<V>) {
        let chunk = Arc::make_mut(&mut self.chunks[index]);
        let removed = chunk.remove(entry);
        self.len -= 1;
        let left = chunk.len();
        if left == 0 {
            self.chunks.remove(index);
        } else if left < CHUNK_MAX / 4
            && let Some(next) = self.chunks.get(index + 1)
            && left + next.len() <= CHUNK_MAX
        {
            let next = self.chunks.remove(index + 1);
            Arc::make_mut(&mut self.chunks[index]).extend(next.iter().cloned());
        }
        removed
    }
}

impl<K: Ord + Clone, V: Clone> SharedMap<K, V> {
    /// A mutable reference to the value of a key.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (chunk, entry) = self.position(key)?;
        let chunk = Arc::make_mut(&mut self.chunks[chunk]);
        Some(Arc::make_mut(&mut chunk[entry].1))
    }

    /// A mutable reference to the value of a key; inserts a default value if it is missing.
    pub fn get_or_default(&mut self, key: &K) -> &mut V
    where
        V: Default,
    {
        if !self.contains_key(key) {
            self.insert(key.clone(), V::default());
        }
        self.get_mut(key).expect("the value was just inserted")
    }

    /// Removes a key; returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (chunk, entry) = self.position(key)?;
        let (_, value) = self.remove_at(chunk, entry);
        Some(Arc::unwrap_or_clone(value))
    }

    /// Removes the entry with the highest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let chunk = self.chunks.len().checked_sub(1)?;
        let entry = self.chunks[chunk].len().checked_sub(1)?;
        let (key, value) = self.remove_at(chunk, entry);
        Some((key, Arc::unwrap_or_clone(value)))
    }

    /// The entries with mutable values. Ends all sharing with other copies.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let chunks = self.chunks.iter_mut();
        let entries = chunks.flat_map(|chunk| Arc::make_mut(chunk).iter_mut());
        entries.map(|(key, value)| (&*key, Arc::make_mut(value)))
    }

    /// The mutable values. Ends all sharing with other copies.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// Removes the entries that `predicate` is false for.
    pub fn retain(&mut self, mut predicate: impl FnMut(&K, &V) -> bool) {
        let removed: Vec<K> = self
            .iter()
            .filter(|(key, value)| !predicate(key, value))
            .map(|(key, _)| key.clone())
            .collect();
        for key in removed {
            self.remove(&key);
        }
    }
}

/// A position in the chunks of a map.
struct MapCursor<'a, K, V> {
    chunks: &'a [Arc<Chunk<K, V>>],
    entry: usize,
}

impl<'a, K, V> MapCursor<'a, K, V> {
    fn new(map: &'a SharedMap<K, V>) -> Self {
        Self {
            chunks: &map.chunks,
            entry: 0,
        }
    }

    fn entry(&self) -> Option<(&'a K, &'a Arc<V>)> {
        let (key, value) = self.chunks.first()?.get(self.entry)?;
        Some((key, value))
    }

    fn advance(&mut self) {
        self.entry += 1;
        if self.chunks.first().is_some_and(|chunk| self.entry >= chunk.len()) {
            self.chunks = &self.chunks[1..];
            self.entry = 0;
        }
    }

    /// Skips the current chunk if both maps share it. Returns false if they do not.
    fn skip_shared(&mut self, other: &mut Self) -> bool {
        let at_start = self.entry == 0 && other.entry == 0;
        let (Some(own_chunk), Some(other_chunk)) = (self.chunks.first(), other.chunks.first()) else {
            return false;
        };
        let is_shared = at_start && Arc::ptr_eq(own_chunk, other_chunk);
        if is_shared {
            self.chunks = &self.chunks[1..];
            other.chunks = &other.chunks[1..];
        }
        is_shared
    }
}

impl<K, V> Clone for SharedMap<K, V> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }
}

impl<K, V> Default for SharedMap<K, V> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SharedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SharedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<K: Ord, V> Index<&K> for SharedMap<K, V> {
    type Output = V;
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the map contains the key")
    }
}

impl<K: Ord + Clone, V> FromIterator<(K, V)> for SharedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl<K: Serialize, V: Serialize> Serialize for SharedMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Deserialize<'de> + Ord + Clone, V: Deserialize<'de>> Deserialize<'de> for SharedMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let entries = BTreeMap::<K, V>::deserialize(deserializer)?;
        Ok(entries.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic pseudorandom numbers.
    fn numbers(count: u64) -> impl Iterator<Item = u64> {
        (1..=count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50)
    }

    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let mut shared = SharedMap::default();
        let mut plain = BTreeMap::new();
        for (n, key) in (0u64..).zip(numbers(20_000)) {
            if n % 3 == 0 {
                assert_eq!(shared.remove(&key), plain.remove(&key));
            } else {
                shared.insert(key, n);
                plain.insert(key, n);
            }
            if n % 500 == 0 {
                assert!(shared.iter().eq(plain.iter()));
                assert!(shared.range_from(&key).eq(plain.range(key..)));
            }
        }
        assert_eq!(shared.len(), plain.len());
        assert!(shared.iter().rev().eq(plain.iter().rev()));
        shared.retain(|key, _| key % 2 == 0);
        plain.retain(|key, _| key % 2 == 0);
        assert!(shared.iter().eq(plain.iter()));
    }

    #[test]
    fn a_copy_does_not_see_later_changes_and_the_differences_are_found() {
        let before: SharedMap<u64, u64> = (0..1_000).map(|n| (n * 2, n)).collect();
        let mut after = before.clone();
        after.remove(&400);
        *after.get_mut(&800).unwrap() = 7;
        for key in 0..100 {
            after.insert(key * 2 + 1, key);
        }
        assert_eq!(before[&800], 400);
        let mut expected = BTreeMap::from([(400, (Some(200), None)), (800, (Some(400), Some(7)))]);
        expected.extend((0..100).map(|n| (n * 2 + 1, (None, Some(n)))));
        let mut differences = BTreeMap::new();
        before.for_each_change(&after, |change| {
            let values = (change.before.copied(), change.after.copied());
            differences.insert(*change.key, values);
        });
        assert_eq!(differences, expected);
    }
}
