//! Partial reads of a body: a value inside it, or some elements of a list, in constant memory.

use std::ops::Range;

use futures_util::StreamExt as _;
use model::result_ref::ResultRef;
use model::template::Segment;
use serde_json::Value;

use crate::json::{Located, Locator, Places, Splitter};
use crate::{Bodies, Error, Pieces};

/// Locates the value at the first of these paths that exists.
pub async fn locate(
    bodies: &dyn Bodies,
    reference: &ResultRef,
    paths: &[Vec<Segment>],
) -> Result<Option<Located>, Error> {
    let mut locator = Locator::new(paths);
    let mut pieces = bodies.read(reference, None).await?.pieces;
    while let Some(piece) = next(&mut pieces).await? {
        // Scanning a large chunk takes milliseconds; yield so that other tasks get a turn.
        locator.feed(&piece).map_err(Error::NotJson)?;
        tokio::task::yield_now().await;
    }
    locator.finish().map_err(Error::NotJson)
}

/// Reads elements of a list with known offsets: starting at the first of `indices`, up to about `bytes_max` bytes, but
/// at least one.
pub async fn elements(
    bodies: &dyn Bodies,
    reference: &ResultRef,
    places: &Places,
    indices: Range<u64>,
    bytes_max: usize,
) -> Result<Vec<Value>, Error> {
    let indices = indices.start..indices.end.min(places.total);
    if indices.is_empty() {
        return Ok(Vec::new());
    }
    let (range, first) = places.around(&indices);
    let mut splitter = Splitter::new(first, indices, bytes_max);
    let mut pieces = bodies.read(reference, Some(range)).await?.pieces;
    while !splitter.is_done() {
        let Some(piece) = next(&mut pieces).await? else {
            break;
        };
        splitter.feed(&piece).map_err(Error::NotJson)?;
    }
    let parsed = splitter
        .elements
        .iter()
        .map(|text| serde_json::from_slice(text));
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
pub async fn next(pieces: &mut Pieces) -> Result<Option<bytes::Bytes>, Error> {
    let piece = pieces.next().await.transpose();
    piece.map_err(|error| match error.downcast::<Error>() {
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
    use crate::{Local, Source};

    fn key(name: &str) -> Segment {
        Segment::Key(name.to_owned())
    }

    fn reference(sha256: &str, bytes: u64) -> ResultRef {
        let short = json!({"store": "disk", "key": "noetl://execution/1/x", "size": bytes, "checksum": sha256});
        ResultRef::of(short.as_object().unwrap()).unwrap()
    }

    async fn put(dir: &TempDir, text: &str) -> (Local, ResultRef) {
        let bodies = Local::open(dir.path()).unwrap();
        let stored = bodies
            .put(Source::Bytes(Bytes::from(text.to_owned())))
            .await
            .unwrap();
        let found = reference(&stored.sha256, stored.bytes);
        (bodies, found)
    }

    #[tokio::test]
    async fn the_first_path_that_leads_anywhere_is_taken() {
        let dir = TempDir::new().unwrap();
        let text = r#"{"a": [1, 2], "data": {"a": "x", "rows": [ {"n": 1} , [], "]" , 4 ]}}"#;
        let (bodies, found) = put(&dir, text).await;
        let rows = [vec![key("rows")], vec![key("data"), key("rows")]];
        let located = locate(&bodies, &found, &rows).await.unwrap().unwrap();
        let list = located.list.unwrap();
        assert_eq!(list.total, 4);
        let all = elements(&bodies, &found, &list, 0..9, 1 << 20)
            .await
            .unwrap();
        assert_eq!(all, [json!({"n": 1}), json!([]), json!("]"), json!(4)]);
        let paths = [vec![key("a")], vec![key("data"), key("a")]];
        let a = locate(&bodies, &found, &paths).await.unwrap();
        assert_eq!(a.unwrap().list.unwrap().total, 2);
        let text = locate(&bodies, &found, &paths[1..]).await.unwrap();
        assert!(text.unwrap().is_text);
        assert_eq!(
            locate(&bodies, &found, &[vec![key("z")]]).await.unwrap(),
            None
        );
    }

    #[tokio::test]
    async fn a_long_list_keeps_few_places_and_every_element() {
        let dir = TempDir::new().unwrap();
        let rows: Vec<_> = (0..10_000)
            .map(|n| json!({"n": n, "text": "é\"]"}))
            .collect();
        let (bodies, found) = put(&dir, &json!(rows).to_string()).await;
        let located = locate(&bodies, &found, &[Vec::new()])
            .await
            .unwrap()
            .unwrap();
        let list = located.list.unwrap();
        assert!(list.offsets.len() <= 1024, "{}", list.offsets.len());
        for from in [0, 1, 4_095, 9_999] {
            let some = elements(&bodies, &found, &list, from..from + 3, 1 << 20)
                .await
                .unwrap();
            let from = usize::try_from(from).unwrap();
            assert_eq!(some, rows[from..rows.len().min(from + 3)]);
        }
        let few = elements(&bodies, &found, &list, 0..10_000, 100)
            .await
            .unwrap();
        assert!(few.len() < 10, "{}", few.len());
    }

    fn value() -> impl Strategy<Value = Value> {
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
        fn what_is_cut_out_is_what_parsing_gives(rows in prop::collection::vec(value(), 1..40), cut in 1usize..9) {
            let body = json!({"x": {"rows": [true]}, "rows": rows});
            let text = serde_json::to_vec_pretty(&body).unwrap();
            let paths = [vec![key("rows")]];
            let mut locator = Locator::new(&paths);
            for piece in text.chunks(cut) {
                locator.feed(piece).unwrap();
            }
            let list = locator.finish().unwrap().unwrap().list.unwrap();
            prop_assert_eq!(list.total, rows.len() as u64);
            let from = list.total / 2;
            let (range, first) = list.around(&(from..list.total));
            let part = &text[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()];
            let mut splitter = Splitter::new(first, from..list.total, usize::MAX);
            for piece in part.chunks(cut) {
                splitter.feed(piece).unwrap();
            }
            let cut_out: Vec<Value> = splitter.elements.iter().map(|text| serde_json::from_slice(text).unwrap()).collect();
            prop_assert_eq!(&cut_out[..], &rows[usize::try_from(from).unwrap()..]);
        }
    }
}
