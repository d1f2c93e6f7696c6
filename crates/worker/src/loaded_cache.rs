//! Values loaded for the pipelines of a command. The total size of bodies is limited; the oldest are evicted first.

use std::collections::VecDeque;
use std::sync::Arc;

use language::template::LoadedValues;

/// Maximum number of bytes of loaded bodies.
const BODY_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Loaded values with a limit on the size of the bodies.
#[derive(Default)]
pub(crate) struct LoadedCache {
    loaded: Arc<LoadedValues>,
    /// Loaded bodies and their sizes, oldest first.
    bodies: VecDeque<(String, u64)>,
}

impl LoadedCache {
    /// Returns all loaded values.
    pub(crate) fn loaded(&self) -> Arc<LoadedValues> {
        self.loaded.clone()
    }

    /// Adds values; `sizes` are the sizes of the bodies in `more`, which are kept whatever their size.
    pub(crate) fn add(&mut self, more: LoadedValues, sizes: Vec<(String, u64)>) {
        let values = Arc::make_mut(&mut self.loaded);
        let is_new = |uri: &String| sizes.iter().any(|(new, _)| new == uri);
        self.bodies.retain(|(uri, _)| !is_new(uri));
        let old = self.bodies.iter().chain(&sizes).map(|(_, bytes)| bytes);
        let mut bytes: u64 = old.sum();
        while bytes > BODY_BYTES_MAX
            && let Some((uri, freed)) = self.bodies.pop_front()
        {
            values.bodies.remove(&uri);
            bytes -= freed;
        }
        self.bodies.extend(sizes);
        values.outcomes.extend(more.outcomes);
        values.bodies.extend(more.bodies);
        values.loops.extend(more.loops);
        values.loop_stats.extend(more.loop_stats);
        values.files.extend(more.files);
    }
}

#[cfg(test)]
mod tests {
    use language::template::LazyValue;

    use super::*;

    fn body(cache: &mut LoadedCache, uri: &str, bytes: u64) {
        let mut more = LoadedValues::default();
        more.bodies.insert(uri.to_owned(), LazyValue::default());
        cache.add(more, vec![(uri.to_owned(), bytes)]);
    }

    fn uris(cache: &LoadedCache) -> Vec<String> {
        cache.loaded().bodies.keys().cloned().collect()
    }

    #[test]
    fn the_oldest_bodies_are_evicted_and_the_newest_stays() {
        let mut cache = LoadedCache::default();
        let third = BODY_BYTES_MAX / 3;
        for uri in ["a", "b", "c"] {
            body(&mut cache, uri, third);
        }
        assert_eq!(uris(&cache), ["a", "b", "c"]);
        body(&mut cache, "b", third);
        body(&mut cache, "d", third);
        assert_eq!(uris(&cache), ["b", "c", "d"]);
        body(&mut cache, "large", BODY_BYTES_MAX * 2);
        assert_eq!(uris(&cache), ["large"]);
    }
}
