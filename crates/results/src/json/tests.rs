//! Text in chunks gives the same result as the whole text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::extractor::SelectedValue;
use super::*;

fn is_accepted(text: &[u8], chunk_bytes: usize) -> bool {
    let mut scanner = JsonScanner::default();
    let fed = text.chunks(chunk_bytes).try_for_each(|part| scanner.feed(part));
    fed.and_then(|()| scanner.finish()).is_ok()
}

fn extract_in_chunks(text: &str, paths: &[&str], head: usize, chunk_bytes: usize) -> ExtractedFields {
    let selected_paths = paths.iter().map(|path| parse_plain_path(path).unwrap()).collect();
    let mut extractor = JsonExtractor::new(selected_paths, head);
    for part in text.as_bytes().chunks(chunk_bytes) {
        extractor.feed(part).unwrap();
    }
    extractor.finish().unwrap()
}

#[test]
fn the_scanner_accepts_the_same_texts_as_the_parser() {
    let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let (reads, refuses) = (deep(127), deep(128));
    let mut texts: Vec<&[u8]> = vec![reads.as_bytes(), refuses.as_bytes()];
    texts.extend::<[&[u8]; 40]>([
        b"",
        b" ",
        b"1",
        b"-",
        b"-0",
        b"01",
        b"1.",
        b"1.5e3",
        b"1e",
        b"1e999",
        b"-1e-999",
        b"12 ",
        b"1 2",
        b"true",
        b"tru",
        b"truex",
        b"null",
        b"nul ",
        b"[]",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"{}",
        b"{\"a\":1}",
        b"{\"a\"}",
        b"{\"a\":1,}",
        b"{a:1}",
        b"{\"a\":[1,{\"b\":null}]}",
        b"[}",
        b"]",
        b"\"x",
        b"\"a\nb\"",
        b"\"\\u00e9\\n\\/\"",
        b"\"\\x\"",
        b"\"\\ud83d\\ude00\"",
        b"\"\\ud83d\"",
        b"\"\\ude00\"",
        b"\"\xc3\xa9\"",
        b"\"\xc3\"",
        b"\"\xed\xa0\x80\"",
    ]);
    for text in texts {
        let expected = serde_json::from_slice::<Value>(text).is_ok();
        for chunk_bytes in [1, 3, 1000] {
            let excerpt = String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned();
            assert_eq!(
                is_accepted(text, chunk_bytes),
                expected,
                "{excerpt} in chunks of {chunk_bytes} bytes"
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_judged_as_the_parser_judges_them(
        bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\u0d8c1e-.+ tfnrueals\xc3\xa9\xf0".to_vec()), 0..24),
        chunk_bytes in 1_usize..8,
    ) {
        prop_assert_eq!(is_accepted(&bytes, chunk_bytes), serde_json::from_slice::<Value>(&bytes).is_ok());
    }

    #[test]
    fn a_cut_text_is_closed_wherever_it_is_cut(head in 1_usize..120, chunk_bytes in 1_usize..9) {
        let document = json!({"a": [1, 22, {"b": "lo\"ng\u{e9}text", "c": []}], "d": -3.5, "e": {"f": null}});
        let sample = extract_in_chunks(&document.to_string(), &[], head, chunk_bytes).sample;
        let Value::Object(fields) = &sample else {
            return Err(TestCaseError::fail(format!("{sample} is no beginning of an object")));
        };
        let is_part = fields.keys().all(|key| document.get(key).is_some());
        prop_assert!(is_part, "{}", sample);
    }
}

#[test]
fn paths_are_found_in_a_stream() {
    let text = r#" {"a": {"b": [10, {"c": "x"}, [30]]}, "n": 7, "row_count": 3, "s": "t\"", "a b": true, "é": null} "#;
    let paths = ["$.a.b[0]", "$.a.b[1].c", "$.a.b[2]", "$['a b']", "$.n", "$.a.x", "$.é"];
    for chunk_bytes in [1, 5, 1000] {
        let fields = extract_in_chunks(text, &paths, 1024, chunk_bytes);
        let value = |value: Value| Some(SelectedValue::Value(value));
        let expected = vec![
            value(json!(10)),
            value(json!("x")),
            value(json!([30])),
            value(json!(true)),
            value(json!(7)),
            None,
            value(Value::Null),
        ];
        assert_eq!(fields.selected, expected);
        let scalars = json!({"n": 7, "row_count": 3, "s": "t\"", "a b": true, "é": null});
        assert_eq!(Value::Object(fields.scalars), scalars);
        assert_eq!(fields.sample["a"]["b"][1], json!({"c": "x"}));
    }
    let scalar = extract_in_chunks("12", &["$"], 1024, 1);
    assert_eq!(scalar.selected, [Some(SelectedValue::Value(json!(12)))]);
}

#[test]
fn the_beginning_of_a_long_text_is_cut_inside_it() {
    let text = json!({"rows": ["x".repeat(1000), 2]}).to_string();
    for chunk_bytes in [1, 7, 10_000] {
        let sample = extract_in_chunks(&text, &[], 100, chunk_bytes).sample;
        let sample_rows = sample["rows"][0].as_str().unwrap().len();
        assert!(
            (80..=100).contains(&sample_rows),
            "{sample_rows} in chunks of {chunk_bytes} bytes"
        );
    }
}

#[test]
fn the_size_of_selected_values_is_limited() {
    let text = json!({"big": "x".repeat(SELECTED_BYTES_MAX)}).to_string();
    let selected = extract_in_chunks(&text, &["$.big"], 100, 10_000);
    assert_eq!(selected.selected, [Some(SelectedValue::TooLarge)]);
    assert!(selected.scalars.is_empty());
}

#[test]
fn paths_that_search_are_not_plain() {
    for path in [
        "$..a",
        "$.a[*]",
        "$.a[-1]",
        "$.a[?@.b]",
        "$.a[0:2]",
        "a.b",
        "$.1a",
        "$['a','b']",
        "$.a[01]",
        "$.",
    ] {
        assert_eq!(parse_plain_path(path), None, "{path}");
    }
    assert_eq!(parse_plain_path("$").unwrap(), []);
}
