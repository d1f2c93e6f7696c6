//! The reference is complete, and refers only to what the parser knows.

use std::collections::BTreeSet;

use super::*;
use crate::playbook::kinds::KINDS;
use crate::playbook::parse;
use crate::template::{list_filters, list_functions, list_tests};

fn names<'a>(list: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
    list.into_iter().collect()
}

fn missing_docs(table: &[(&'static str, &[&str])], docs: &[KeyDoc]) -> Vec<String> {
    let (table, docs) = (
        names(table.iter().map(|(key, _)| *key)),
        names(docs.iter().map(|doc| doc.key)),
    );
    table.symmetric_difference(&docs).map(|key| (*key).to_owned()).collect()
}

#[test]
fn every_key_of_every_section_has_one_description() {
    for section in SECTIONS {
        let documented = names(section.keys.iter().map(|doc| doc.key));
        assert_eq!(
            documented.len(),
            section.keys.len(),
            "{} describes a key twice",
            section.name
        );
        if let Some(table) = section.table {
            assert_eq!(missing_docs(table, section.keys), [""; 0], "{}", section.name);
        }
    }
}

#[test]
fn a_key_without_a_description_is_found() {
    let docs: &[KeyDoc] = key_docs! { "a": ValueType::Text, "", "The a."; };
    assert_eq!(missing_docs(&[("a", &[]), ("b", &[])], docs), ["b"]);
}

#[test]
fn every_kind_and_every_key_of_it_has_one_description() {
    assert_eq!(
        names(KINDS.iter().map(|kind| kind.name)),
        names(KIND_DOCS.iter().map(|doc| doc.kind))
    );
    for kind in KINDS {
        let doc = find_kind_doc(kind.name).unwrap();
        assert_eq!(
            names(kind.keys.iter().map(|key| key.name)),
            names(doc.keys.iter().map(|key| key.key)),
            "{}",
            kind.name
        );
    }
}

#[test]
fn every_filter_test_and_function_has_one_description() {
    let pairs: [(Vec<&str>, &[WordDoc]); 3] = [
        (list_filters(), FILTER_DOCS),
        (list_tests(), TEST_DOCS),
        (list_functions(), FUNCTION_DOCS),
    ];
    for (registered, docs) in pairs {
        assert_eq!(names(registered), names(docs.iter().map(|doc| doc.name)));
        assert_eq!(names(docs.iter().map(|doc| doc.name)).len(), docs.len());
    }
}

#[test]
fn sections_refer_to_sections_that_exist_and_descriptions_are_sentences() {
    let kinds = KIND_DOCS.iter().flat_map(|kind| kind.keys);
    for doc in SECTIONS.iter().flat_map(|section| section.keys).chain(kinds) {
        assert!(doc.text.ends_with('.'), "{}", doc.key);
        assert!(
            doc.value.section().is_none_or(|name| find_section(name).is_some()),
            "{}",
            doc.key
        );
    }
}

#[test]
fn the_parser_accepts_the_keys_of_sections_without_a_table() {
    let text = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata:\n  name: a\n  path: a\n  version: '1'\n  \
                description: d\n  labels: {x: y}\n  tags: [t]\nworkflow:\n  - step: a\n    \
                loop:\n      iterator: row\n      \
                cursor: {kind: sqlite, auth: db, claim: 'SELECT 1', spec: {effect: at_most_once}, \
                database: x.db}\n    \
                tool: {kind: noop}\n";
    let parsed = parse("a.yaml", text.as_bytes());
    let errors: Vec<_> = parsed
        .diagnostics
        .iter()
        .filter(|diagnostic| diagnostic.is_error())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
}
