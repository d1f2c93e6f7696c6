//! Checks a task against a tool manifest: unknown keys, missing keys and wrong types.

use language::playbook::Task;
use language::template::Tree;
use serde_json::Value;

use crate::external::manifest::{KeyType, KindManifest};

impl KindManifest {
    /// Errors of a task before it runs. Values of templates are checked when the call is made.
    pub fn find_problems(&self, task: &Task) -> Vec<String> {
        let mut faults = Vec::new();
        for (key, tree) in &task.fields {
            match tree {
                Tree::Literal(value) => faults.extend(self.find_problem(key, Some(value))),
                _ => faults.extend(self.find_problem(key, None)),
            }
        }
        faults.extend(self.find_missing_keys(|key| task.fields.contains_key(key)));
        faults
    }

    /// Errors in the values of a call.
    pub(crate) fn find_field_problems(&self, fields: &serde_json::Map<String, Value>) -> Vec<String> {
        let present = fields.iter().filter(|(_, value)| !value.is_null());
        let mut faults: Vec<String> = present
            .filter_map(|(key, value)| self.find_problem(key, Some(value)))
            .collect();
        faults.extend(self.find_missing_keys(|key| fields.get(key).is_some_and(|value| !value.is_null())));
        faults
    }

    fn find_problem(&self, key: &str, value: Option<&Value>) -> Option<String> {
        if key == "auth" {
            return None;
        }
        let Some(schema) = self.keys.get(key) else {
            let keys: Vec<&str> = self.keys.keys().map(String::as_str).collect();
            let keys = if keys.is_empty() {
                "none".to_owned()
            } else {
                keys.join(" ")
            };
            return Some(format!("kind `{}` has no key `{key}` (its keys: {keys})", self.name));
        };
        let value = value?;
        let is_right = schema.type_.accepts(value);
        let expected = schema.type_.description();
        (!is_right).then(|| format!("`{key}` of kind `{}` must be {expected}", self.name))
    }

    fn find_missing_keys(&self, is_present: impl Fn(&str) -> bool) -> Vec<String> {
        let required = self.keys.iter().filter(|(_, key)| key.required);
        let missing = required.filter(|(name, _)| !is_present(name));
        missing
            .map(|(name, _)| format!("kind `{}` requires `{name}`", self.name))
            .collect()
    }
}

impl KeyType {
    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Text => value.is_string(),
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::List => value.is_array(),
            Self::Map => value.is_object(),
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Text => "text",
            Self::Number => "a number",
            Self::Boolean => "true or false",
            Self::List => "a list",
            Self::Map => "a map",
        }
    }
}
