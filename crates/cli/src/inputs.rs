//! Inputs from the command line: `--input`, then each `--set`, then each `--set-string`; later values win.

use std::io::Read;

use serde_json::{Map, Value};

use crate::args::InputArgs;
use crate::cli_error::{CliError, Exit};

/// Merges the inputs; `None` if no option is set.
pub(crate) fn read_inputs(values: &InputArgs) -> Result<Option<Map<String, Value>>, CliError> {
    let mut merged = match &values.input {
        Some(input) => read_mapping(input)?,
        None if values.set.is_empty() && values.set_string.is_empty() => return Ok(None),
        None => Map::new(),
    };
    for pair in &values.set {
        let (key, text) = split_pair(pair, "--set")?;
        let value = language::playbook::parse_data(key, text.as_bytes()).map_err(|problems| {
            let reason = problems.first().map_or("", |problem| problem.message.as_str());
            CliError::usage(format!("invalid --set {pair}: value is not YAML: {reason}"))
                .help("quote the value for YAML, or use --set-string")
        })?;
        insert_dotted(&mut merged, key, value)?;
    }
    for pair in &values.set_string {
        let (key, text) = split_pair(pair, "--set-string")?;
        insert_dotted(&mut merged, key, Value::String(text.to_owned()))?;
    }
    Ok(Some(merged))
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read_file(name: &str) -> Result<Vec<u8>, CliError> {
    if name != "-" {
        return std::fs::read(name).map_err(|error| CliError::read_error(name, &error));
    }
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::read_error("standard input", &error))?;
    Ok(bytes)
}

fn read_mapping(input: &str) -> Result<Map<String, Value>, CliError> {
    let is_text = input.trim_start().starts_with('{');
    let (name, bytes) = match (is_text, input) {
        (true, text) => ("--input", text.as_bytes().to_vec()),
        (false, "-") => ("standard input", read_file("-")?),
        (false, file) => (file, read_file(file)?),
    };
    let value = language::playbook::parse_data(name, &bytes).map_err(|problems| {
        let reason = problems.first().map_or_else(String::new, |problem| {
            let (line, column) = (problem.span.line, problem.span.column);
            format!("{line}:{column}: {}", problem.message)
        });
        CliError::new(Exit::Usage, "INPUT_INVALID", format!("{name}:{reason}"))
    })?;
    match value {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        _ => Err(CliError::new(
            Exit::Usage,
            "INPUT_INVALID",
            format!("invalid {name}: expected a mapping of names to values"),
        )),
    }
}

fn split_pair<'a>(pair: &'a str, flag: &str) -> Result<(&'a str, &'a str), CliError> {
    match pair.split_once('=') {
        Some((key, text)) if !key.trim().is_empty() => Ok((key.trim(), text)),
        _ => Err(CliError::usage(format!("invalid {flag} {pair}: expected KEY=VALUE"))),
    }
}

/// Sets a value at a dotted key; creates the maps in between.
fn insert_dotted(map: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), CliError> {
    let Some((head, tail)) = key.split_once('.') else {
        map.insert(key.to_owned(), value);
        return Ok(());
    };
    if head.is_empty() || tail.is_empty() {
        return Err(CliError::usage(format!("invalid key `{key}`: a part of it is empty")));
    }
    let entry = map.entry(head).or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    match entry {
        Value::Object(inner) => insert_dotted(inner, tail, value),
        _ => unreachable!("the entry was replaced by a map above"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read_test_inputs(input: Option<&str>, set: &[&str], text: &[&str]) -> Result<Option<Value>, CliError> {
        let own = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect();
        let values = InputArgs {
            set: own(set),
            set_string: own(text),
            input: input.map(str::to_owned),
        };
        read_inputs(&values).map(|map| map.map(Value::Object))
    }

    #[test]
    fn no_input_gives_no_payload() {
        assert_eq!(read_test_inputs(None, &[], &[]), Ok(None));
    }

    #[test]
    fn set_reads_yaml_and_set_string_does_not() {
        let set = [
            "n=3",
            "ok=true",
            "list=[1, a]",
            "zip=01234x",
            "empty=",
            "url=http://h/?a=b",
        ];
        let read = read_test_inputs(None, &set, &["v=1.10", "t=true"]).unwrap().unwrap();
        let expected = json!({
            "n": 3, "ok": true, "list": [1, "a"], "zip": "01234x", "empty": null,
            "url": "http://h/?a=b", "v": "1.10", "t": "true",
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn dotted_keys_reach_into_maps_and_set_beats_input() {
        let read = read_test_inputs(Some(r#"{"a": {"b": 1, "c": 2}, "d": 3}"#), &["a.b=9", "x.y.z=1"], &[]);
        let expected = json!({"a": {"b": 9, "c": 2}, "d": 3, "x": {"y": {"z": 1}}});
        assert_eq!(read.unwrap().unwrap(), expected);
    }

    #[test]
    fn wrong_pairs_and_inputs_are_usage_errors() {
        for set in ["novalue", "=1", "a..b=1", "a=[1"] {
            assert_eq!(
                read_test_inputs(None, &[set], &[]).unwrap_err().exit,
                Exit::Usage,
                "{set}"
            );
        }
        assert_eq!(
            read_test_inputs(Some("{a: 1"), &[], &[]).unwrap_err().code,
            "INPUT_INVALID"
        );
        let missing = read_test_inputs(Some("no/such/file.yaml"), &[], &[]).unwrap_err();
        assert_eq!(missing.exit, Exit::NotFound);
    }
}
