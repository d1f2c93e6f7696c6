//! `select`: small named values of a result that are available without loading it.

use serde_json::{Map, Value};
use serde_json_path::JsonPath;

use crate::id::Name;
use crate::playbook::ResultControl;

/// An entry of `select`: one value of a result.
#[derive(Debug, Clone)]
pub struct SelectEntry {
    /// The `JSONPath` of the value.
    pub path: String,
    /// The name of the value.
    pub name: Name,
}

/// The values that a task selects from one result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selection {
    /// By name; null if the path matches nothing.
    pub fields: Map<String, Value>,
    /// Paths that match nothing.
    pub missing: Vec<String>,
}

/// A path that is not a `JSONPath`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is not a JSONPath: {problem}")]
pub struct InvalidPathError {
    /// The path.
    pub path: String,
    /// What is wrong with it.
    pub problem: String,
}

impl ResultControl {
    /// Selects the task's fields from a loaded result.
    pub fn select_from(&self, result: &Value) -> Result<Selection, InvalidPathError> {
        let mut selection = Selection::default();
        for entry in &self.select {
            let value = self.find_selected(entry, result)?;
            if value.is_none() {
                selection.missing.push(entry.path.clone());
            }
            let name = entry.name.to_string();
            selection.fields.insert(name, value.unwrap_or_default());
        }
        Ok(selection)
    }

    /// Returns the page number of an inline result: the field selected as `page` or, without a selection, its own
    /// `page`. The same value is extracted from a stored body.
    pub fn page_of(&self, result: &Value) -> Option<i64> {
        if self.select.is_empty() {
            return result.get("page")?.as_i64();
        }
        let entry = self.select.iter().find(|entry| entry.name == "page")?;
        self.find_selected(entry, result).ok()??.as_i64()
    }

    fn find_selected(&self, entry: &SelectEntry, result: &Value) -> Result<Option<Value>, InvalidPathError> {
        let path = JsonPath::parse(&entry.path).map_err(|error| InvalidPathError {
            path: entry.path.clone(),
            problem: error.to_string(),
        })?;
        let query = |value: &Value| match path.query(value).all().as_slice() {
            [] => None,
            [one] => Some((*one).clone()),
            many => Some(many.iter().map(|value| (*value).clone()).collect()),
        };
        let in_data = || query(result.get("data").filter(|_| self.selects_in_data)?);
        Ok(query(result).or_else(in_data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn control(paths: &[(&str, &str)]) -> ResultControl {
        let select = paths.iter().map(|(path, name)| SelectEntry {
            path: (*path).to_owned(),
            name: (*name).into(),
        });
        ResultControl {
            select: select.collect(),
            ..ResultControl::default()
        }
    }

    #[test]
    fn selected_paths_are_found_and_missing_ones_are_null() {
        let result = json!({"paging": {"hasMore": true}, "ids": [{"id": 1}, {"id": 2}]});
        let control = control(&[
            ("$.paging.hasMore", "has_more"),
            ("$.ids[*].id", "ids"),
            ("$.paging.page", "page"),
        ]);
        let selection = control.select_from(&result).unwrap();
        let expected = json!({"has_more": true, "ids": [1, 2], "page": null});
        assert_eq!(Value::Object(selection.fields), expected);
        assert_eq!(selection.missing, ["$.paging.page"]);
    }

    #[test]
    fn a_path_is_also_tried_in_the_data_of_an_http_response() {
        let result = json!({"status_code": 200, "data": {"status_code": 7, "page": 3}});
        let paths = [("$.page", "page"), ("$.status_code", "code")];
        let other_kind = control(&paths);
        assert_eq!(other_kind.page_of(&result), None);
        let http = ResultControl {
            selects_in_data: true,
            ..other_kind
        };
        assert_eq!(http.page_of(&result), Some(3));
        let fields = http.select_from(&result).unwrap().fields;
        assert_eq!(Value::Object(fields), json!({"page": 3, "code": 200}));
    }

    #[test]
    fn a_null_that_is_there_is_not_missing() {
        let control = control(&[("$.next", "next")]);
        let selection = control.select_from(&json!({"next": null})).unwrap();
        assert_eq!(selection.missing, Vec::<String>::new());
    }
}
