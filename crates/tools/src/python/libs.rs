//! Libraries that a program needs: `libs` as a list, or the PEP 723 block in the code.

use model::outcome::{ErrorKind, TaskError};
use serde::Deserialize;
use serde_json::Value;

use crate::call::Call;
use crate::python::facts::InterpreterFacts;
use crate::python::version::VersionSpecifiers;

/// Requirements of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CodeRequirements {
    /// Requirements in pip syntax, sorted and without duplicates.
    pub(crate) requirements: Vec<String>,
    /// Required Python versions.
    pub(crate) python: Option<String>,
}

/// The PEP 723 block.
#[derive(Deserialize)]
struct InlineMetadata {
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(rename = "requires-python")]
    python: Option<String>,
}

impl CodeRequirements {
    /// Requirements of a call; most have none.
    pub(crate) fn from_call(call: &Call, code: &str) -> Result<Self, TaskError> {
        let mut needs = Self::default();
        if let Some(Value::Array(list)) = call.field("libs") {
            for one in list {
                let Value::String(text) = one else {
                    return Err(call.wrong_type_error("libs", "a list of requirements", one));
                };
                needs.add(text)?;
            }
        }
        if let Some(block) = parse_inline_metadata(code)? {
            for text in &block.dependencies {
                needs.add(text)?;
            }
            needs.python = block.python;
        }
        needs.requirements.sort();
        needs.requirements.dedup();
        Ok(needs)
    }

    /// Whether the interpreter alone is sufficient.
    pub(crate) fn is_empty(&self) -> bool {
        self.requirements.is_empty() && self.python.is_none()
    }

    fn add(&mut self, text: &str) -> Result<(), TaskError> {
        let text = text.trim();
        // Text that begins with a dash is a pip option, not a requirement.
        let is_plain = !text.is_empty() && !text.starts_with('-') && !text.chars().any(char::is_control);
        if !is_plain {
            return Err(invalid_libs_error(format!(
                "invalid requirement `{text}`; use a form such as `requests==2.31`"
            )));
        }
        self.requirements.push(text.to_owned());
        Ok(())
    }

    /// Checks the version of an interpreter and removes requirements that are standard modules.
    pub(crate) fn reduce_for(mut self, facts: &InterpreterFacts) -> Result<Self, TaskError> {
        if let Some(wanted) = self.python.take() {
            let specifiers = VersionSpecifiers::parse(&wanted)
                .ok_or_else(|| invalid_libs_error(format!("invalid `requires-python`: `{wanted}`")))?;
            if !specifiers.matches(facts.version) {
                let version = facts.version_text();
                let message = format!(
                    "the code requires Python {wanted}, but `{}` is {version}; set NOETL_PYTHON on the worker",
                    facts.executable.display()
                );
                return Err(TaskError::new(ErrorKind::ClientError, "PYTHON_VERSION", message));
            }
        }
        self.requirements.retain(|name| !facts.modules.contains(name));
        Ok(self)
    }
}

/// Module name of a requirement that is only a name.
pub(crate) fn module_name(requirement: &str) -> Option<String> {
    let name = requirement.trim().replace('-', "_");
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    is_name.then_some(name)
}

/// The block `# /// script … # ///`, if the code has one.
fn parse_inline_metadata(code: &str) -> Result<Option<InlineMetadata>, TaskError> {
    if !code.contains("# /// script") {
        return Ok(None);
    }
    let mut lines = code.lines().skip_while(|line| line.trim_end() != "# /// script");
    if lines.next().is_none() {
        return Ok(None);
    }
    let mut text = String::new();
    for line in lines {
        let line = line.trim_end();
        if line == "# ///" {
            let block = toml::from_str(&text);
            return block.map(Some).map_err(|error| {
                invalid_libs_error(format!("cannot parse the `# /// script` block: {}", error.message()))
            });
        }
        let Some(comment) = line.strip_prefix('#') else {
            break;
        };
        text.push_str(comment.strip_prefix(' ').unwrap_or(comment));
        text.push('\n');
    }
    Err(invalid_libs_error(
        "the `# /// script` block has no closing `# ///`".to_owned(),
    ))
}

fn invalid_libs_error(message: String) -> TaskError {
    TaskError::new(ErrorKind::Schema, "TOOL_INPUT", message).with_detail("key", "libs")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse_needs(libs: Value, code: &str) -> Result<CodeRequirements, TaskError> {
        CodeRequirements::from_call(
            &crate::testing::build_call("python", json!({"libs": libs}), json!({})),
            code,
        )
    }

    #[test]
    fn the_list_and_the_block_in_the_code_are_combined() {
        let code = "# /// script\n# requires-python = '>=3.8'\n# dependencies = [\n#   'six',\n#   'numpy>1',\n# ]\n# ///\nreturn 1";
        let needs = parse_needs(json!(["six", "attrs==23.1"]), code).unwrap();
        assert_eq!(needs.requirements, ["attrs==23.1", "numpy>1", "six"]);
        assert_eq!(needs.python.as_deref(), Some(">=3.8"));
        assert!(parse_needs(json!({"m": "math"}), "return 1").unwrap().is_empty());
    }

    #[test]
    fn pip_options_are_rejected() {
        for text in ["--index-url=http://x", "-e .", "", "a\nb"] {
            assert_eq!(parse_needs(json!([text]), "").unwrap_err().code, "TOOL_INPUT", "{text}");
        }
    }

    #[test]
    fn an_invalid_block_is_an_error() {
        for code in [
            "# /// script\n# dependencies = [\n# ///\n",
            "# /// script\n# dependencies = []\nx = 1\n",
        ] {
            assert_eq!(parse_needs(json!(null), code).unwrap_err().code, "TOOL_INPUT", "{code}");
        }
    }

    #[test]
    fn only_a_bare_name_is_imported() {
        assert_eq!(module_name("python-dateutil").as_deref(), Some("python_dateutil"));
        assert_eq!(module_name("six>=1"), None);
        assert_eq!(module_name("a[b]"), None);
    }
}
