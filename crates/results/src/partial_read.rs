//! Partial reads of a body: a value inside it, or some elements of a list, in constant memory.

use std::ops::Range;

use futures_util::StreamExt as _;
use model::result_ref::PathSegment;
use model::result_ref::ResultRef;
use serde_json::Value;

use crate::json::{ElementOffsets, ElementSplitter, JsonLocator, LocatedValue};
use crate::{BodyStore, ByteStream, Error};

/// Locates the value at the first of these paths that exists.
pub async fn locate_value(
    bodies: &dyn BodyStore,
    reference: &ResultRef,
    paths: &[Vec<PathSegment>],
) -> Result<Option<LocatedValue>, Error> {
    let mut locator = JsonLocator::new(paths);
    let mut chunks = bodies.read(reference, None).await?.chunks;
    while let Some(chunk) = next_chunk(&mut chunks).await? {
        // Scanning a large chunk takes milliseconds; yield so that other tasks get a turn.
        locator.feed(&chunk).map_err(Error::NotJson)?;
        tokio::task::yield_now().await;
    }
    locator.finish().map_err(Error::NotJson)
}

/// Reads elements of a list with known offsets: starting at the first of `indices`, up to about `bytes_max` bytes, but
/// at least one.
pub async fn read_elements(
    bodies: &dyn BodyStore,
    reference: &ResultRef,
    offsets: &ElementOffsets,
    indices: Range<u64>,
    bytes_max: usize,
) -> Result<Vec<Value>, Error> {
    let indices = indices.start..indices.end.min(offsets.total);
    if indices.is_empty() {
        return Ok(Vec::new());
    }
    let (range, first) = offsets.byte_range_of(&indices);
    let mut splitter = ElementSplitter::new(first, indices, bytes_max);
    let mut chunks = bodies.read(reference, Some(range)).await?.chunks;
    while !splitter.is_done() {
        let Some(chunk) = next_chunk(&mut chunks).await? else {
            break;
        };
        splitter.feed(&chunk).map_err(Error::NotJson)?;
    }
    let parsed = splitter.elements.iter().map(|text| serde_json::from_slice(text));
    let parsed: Result<Vec<Value>, _> = parsed.collect();
    let elements = parsed.unwrap_or_default();
    if elements.is_empty() {
        // The offsets promise elements, so this is not the body that they belong to.
        return Err(Error::NotAvailable {
            uri: reference.uri.clone(),
        });
    }
    Ok(elements)
}

/// Returns the next chunk of a body; restores the error of the store.
pub async fn next_chunk(chunks: &mut ByteStream) -> Result<Option<bytes::Bytes>, Error> {
    let chunk = chunks.next().await.transpose();
    chunk.map_err(|error| match error.downcast::<Error>() {
        Ok(error) => error,
        Err(error) => Error::Interrupted(error),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::{BodySource, DirBodyStore};

    fn key_segment(name: &str) -> PathSegment {
        PathSegment::Key(name.to_owned())
    }

    fn reference(sha256: &str, bytes: u64) -> ResultRef {
        let short = json!({"store": "disk", "key": "noetl://execution/1/x", "size": bytes, "checksum": sha256});
        ResultRef::from_map(short.as_object().unwrap()).unwrap()
    }

    async fn put_text(dir: &TempDir, text: &str) -> (DirBodyStore, ResultRef) {
        let bodies = DirBodyStore::open(dir.path()).unwrap();
        let stored = bodies
            .put(BodySource::Bytes(Bytes::from(text.to_owned())))
            .await
            .unwrap();
        let body_ref = reference(&stored.sha256, stored.bytes);
        (bodies, body_ref)
    }

    #[tokio::test]
    async fn the_first_path_with_a_value_is_used() {
        let dir = TempDir::new().unwrap();
        let text = r#"{"a": [1, 2], "data": {"a": "x", "rows": [ {"n": 1} , [], "]" , 4 ]}}"#;
        let (bodies, body_ref) = put_text(&dir, text).await;
        let rows = [
            vec![key_segment("rows")],
            vec![key_segment("data"), key_segment("rows")],
        ];
        let located = locate_value(&bodies, &body_ref, &rows).await.unwrap().unwrap();
        let list = located.list.unwrap();
        assert_eq!(list.total, 4);
        let elements = read_elements(&bodies, &body_ref, &list, 0..9, 1 << 20).await.unwrap();
        assert_eq!(elements, [json!({"n": 1}), json!([]), json!("]"), json!(4)]);
        let paths = [vec![key_segment("a")], vec![key_segment("data"), key_segment("a")]];
        let a = locate_value(&bodies, &body_ref, &paths).await.unwrap();
        assert_eq!(a.unwrap().list.unwrap().total, 2);
        let text = locate_value(&bodies, &body_ref, &paths[1..]).await.unwrap();
        assert!(text.unwrap().is_text);
        assert_eq!(
            locate_value(&bodies, &body_ref, &[vec![key_segment("z")]])
                .await
                .unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn a_long_list_stores_few_offsets_and_returns_every_element() {
        let dir = TempDir::new().unwrap();
        let rows: Vec<_> = (0..10_000).map(|n| json!({"n": n, "text": "é\"]"})).collect();
        let (bodies, body_ref) = put_text(&dir, &json!(rows).to_string()).await;
        let located = locate_value(&bodies, &body_ref, &[Vec::new()]).await.unwrap().unwrap();
        let list = located.list.unwrap();
        assert!(list.offsets.len() <= 1024, "{}", list.offsets.len());
        for from in [0, 1, 4_095, 9_999] {
            let some = read_elements(&bodies, &body_ref, &list, from..from + 3, 1 << 20)
                .await
                .unwrap();
            let from = usize::try_from(from).unwrap();
            assert_eq!(some, rows[from..rows.len().min(from + 3)]);
        }
        let few = read_elements(&bodies, &body_ref, &list, 0..10_000, 100).await.unwrap();
        assert!(few.len() < 10, "{}", few.len());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..3)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_cut_out_is_what_parsing_gives(rows in prop::collection::vec(any_value(), 1..40), cut in 1usize..9) {
            let body = json!({"x": {"rows": [true]}, "rows": rows});
            let text = serde_json::to_vec_pretty(&body).unwrap();
            let paths = [vec![key_segment("rows")]];
            let mut locator = JsonLocator::new(&paths);
            for chunk in text.chunks(cut) {
                locator.feed(chunk).unwrap();
            }
            let list = locator.finish().unwrap().unwrap().list.unwrap();
            prop_assert_eq!(list.total, rows.len() as u64);
            let from = list.total / 2;
            let (range, first) = list.byte_range_of(&(from..list.total));
            let part = &text[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            let mut splitter = ElementSplitter::new(first, from..list.total, usize::MAX);
            for chunk in part.chunks(cut) {
                splitter.feed(chunk).unwrap();
            }
            let cut_out: Vec<Value> = splitter.elements.iter().map(|text| serde_json::from_slice(text).unwrap()).collect();
            prop_assert_eq!(&cut_out[..], &rows[usize::try_from(from).unwrap()..]);
        }
    }
}
