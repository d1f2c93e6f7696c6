//! JSON values as parameters: sent as text, which the server parses by the inferred type.

use std::error::Error;

use bytes::BytesMut;
use serde_json::{Map, Value};
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type, to_sql_checked};

/// A value to bind.
#[derive(Debug)]
pub(super) struct SqlParam<'a>(pub(super) &'a Value);

impl ToSql for SqlParam<'_> {
    fn to_sql(&self, type_: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match param_text(self.0, type_) {
            None => Ok(IsNull::Yes),
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }

    to_sql_checked!();
}

/// Type of a value if the server cannot infer one.
pub(super) fn own_type(value: &Value) -> Type {
    match value {
        Value::Null | Value::String(_) => Type::TEXT,
        Value::Bool(_) => Type::BOOL,
        Value::Number(number) if number.is_f64() => Type::FLOAT8,
        Value::Number(number) if number.is_i64() => Type::INT8,
        Value::Number(_) => Type::NUMERIC,
        Value::Array(_) | Value::Object(_) => Type::JSONB,
    }
}

/// A value in the text format of a type; `None` is NULL.
fn param_text(value: &Value, type_: &Type) -> Option<String> {
    if value.is_null() {
        return None;
    }
    Some(match (type_.kind(), value) {
        (Kind::Domain(inner), _) => return param_text(value, inner),
        (Kind::Array(inner), Value::Array(items)) => array_text(items, inner),
        (Kind::Composite(fields), Value::Object(map)) => {
            let fields = fields.iter();
            row_text(fields.map(|field| param_text(map_member(map, field.name()), field.type_())))
        }
        (Kind::Composite(fields), Value::Array(items)) => {
            let fields = fields.iter().enumerate();
            row_text(fields.map(|(index, field)| param_text(items.get(index).unwrap_or(&Value::Null), field.type_())))
        }
        _ => plain_param_text(value, type_),
    })
}

fn plain_param_text(value: &Value, type_: &Type) -> String {
    match value {
        Value::String(text) if *type_ == Type::BYTEA && !text.starts_with("\\x") => {
            let digits = text.bytes().map(|byte| format!("{byte:02x}"));
            format!("\\x{}", digits.collect::<String>())
        }
        Value::String(text) => text.clone(),
        Value::Number(number) if is_integer(type_) => match number.as_f64() {
            Some(real) if number.is_f64() && real.fract() == 0.0 => format!("{real:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn is_integer(type_: &Type) -> bool {
    [Type::INT2, Type::INT4, Type::INT8, Type::OID].contains(type_)
}

fn map_member<'a>(map: &'a Map<String, Value>, name: &str) -> &'a Value {
    map.get(name).unwrap_or(&Value::Null)
}

/// Array literal `{…}`. Nested lists are further dimensions, unless the elements are JSON.
fn array_text(items: &[Value], inner: &Type) -> String {
    let is_json = [Type::JSON, Type::JSONB].contains(inner);
    let delimiter = if *inner == Type::BOX { ";" } else { "," };
    let items = items.iter().map(|item| match item {
        Value::Array(items) if !is_json => array_text(items, inner),
        item => param_text(item, inner).map_or("NULL".to_owned(), |text| quote_element(&text)),
    });
    format!("{{{}}}", items.collect::<Vec<_>>().join(delimiter))
}

/// Row literal `(…)`.
fn row_text(fields: impl Iterator<Item = Option<String>>) -> String {
    let fields = fields.map(|field| field.map(|text| quote_element(&text)).unwrap_or_default());
    format!("({})", fields.collect::<Vec<_>>().join(","))
}

fn quote_element(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_arrays_and_maps_are_json() {
        let of = |value: Value, type_: Type| param_text(&value, &type_);
        assert_eq!(
            of(json!(["a\"b", null, "c\\d"]), Type::TEXT_ARRAY).unwrap(),
            r#"{"a\"b",NULL,"c\\d"}"#
        );
        assert_eq!(of(json!([[1], [2]]), Type::INT4_ARRAY).unwrap(), r#"{{"1"},{"2"}}"#);
        assert_eq!(of(json!([1, {"a": 2}]), Type::JSONB).unwrap(), r#"[1,{"a":2}]"#);
        assert_eq!(of(json!([[1]]), Type::JSONB_ARRAY).unwrap(), r#"{"[1]"}"#);
        assert_eq!(of(Value::Null, Type::JSONB), None);
    }

    #[test]
    fn a_whole_number_written_as_a_real_is_an_integer() {
        assert_eq!(param_text(&json!(5.0), &Type::INT4).unwrap(), "5");
        assert_eq!(param_text(&json!(5.5), &Type::INT4).unwrap(), "5.5");
        assert_eq!(param_text(&json!(5.0), &Type::FLOAT8).unwrap(), "5.0");
    }

    #[test]
    fn text_for_bytea_is_its_bytes_unless_it_is_hexadecimal() {
        assert_eq!(param_text(&json!("hi\\"), &Type::BYTEA).unwrap(), "\\x68695c");
        assert_eq!(param_text(&json!("\\x00ff"), &Type::BYTEA).unwrap(), "\\x00ff");
    }
}
