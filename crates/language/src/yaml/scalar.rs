//! Resolves plain scalars by the core schema.
//!
//! Follows YAML 1.2 strictly: `NO`, `on`, `12:30` and `1_000` are text, and 64-bit integers stay exact.

use serde_json::Number;

use crate::yaml::node::{NodeValue, Scalar, ScalarQuoting};

/// Whether a text stays text without quotes.
pub(crate) fn is_plain_text(text: &str) -> bool {
    matches!(parse_scalar(text), NodeValue::Text(_))
}

/// Resolves a plain scalar.
pub(crate) fn parse_scalar(text: &str) -> NodeValue {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return NodeValue::Null,
        "true" | "True" | "TRUE" => return NodeValue::Bool(true),
        "false" | "False" | "FALSE" => return NodeValue::Bool(false),
        _ => {}
    }
    match parse_number(text) {
        Some(number) => NodeValue::Number(number),
        None => NodeValue::Text(Scalar {
            text: text.into(),
            quoting: ScalarQuoting::Plain,
            is_raw: false,
        }),
    }
}

fn parse_number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0o") {
        return parse_unsigned(digits, 8);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return parse_unsigned(digits, 16);
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_integer(text);
    }
    if is_float(digits) {
        return text.parse().ok().and_then(Number::from_f64);
    }
    None
}

fn parse_unsigned(digits: &str, radix: u32) -> Option<Number> {
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok().map(Number::from)
}

/// Integers beyond 64 bits stay text, because a float would silently lose digits.
fn parse_integer(text: &str) -> Option<Number> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let signed = text.parse::<i64>().ok().map(Number::from);
    signed.or_else(|| text.parse::<u64>().ok().map(Number::from))
}

/// `[0-9]*.[0-9]*` with or without an exponent, and at least one digit before the exponent.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let exponent_is_good = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        is_digits(digits) && !digits.is_empty()
    });
    let (integer, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_is_good = is_digits(integer) && is_digits(part) && !(integer.is_empty() && part.is_empty());
    mantissa_is_good && exponent_is_good
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_text(text: &str) -> bool {
        matches!(parse_scalar(text), NodeValue::Text(_))
    }

    fn number_of(text: &str) -> Option<Number> {
        match parse_scalar(text) {
            NodeValue::Number(number) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn words_of_older_yaml_stay_text() {
        for word in [
            "NO",
            "no",
            "yes",
            "on",
            "off",
            "12:30",
            "12:30:45",
            "1_000",
            "2024-01-01",
        ] {
            assert!(is_text(word), "{word}");
        }
    }

    #[test]
    fn wide_integers_stay_exact() {
        assert_eq!(number_of("9007199254740993"), Some(9_007_199_254_740_993_i64.into()));
        assert_eq!(number_of("18446744073709551615"), Some(u64::MAX.into()));
        assert_eq!(number_of("-9223372036854775808"), Some(i64::MIN.into()));
        assert!(is_text("99999999999999999999999"));
    }

    #[test]
    fn octal_needs_its_letter() {
        assert_eq!(number_of("0o755"), Some(493.into()));
        assert_eq!(number_of("0755"), Some(755.into()));
        assert_eq!(number_of("0xff"), Some(255.into()));
    }

    #[test]
    fn floats_need_a_digit() {
        assert_eq!(number_of("1.5e3"), Number::from_f64(1500.0));
        assert_eq!(number_of("-.5"), Number::from_f64(-0.5));
        for text in [".", "e5", "1e", ".inf", ".nan", "1.2.3", "-", "+"] {
            assert!(is_text(text), "{text}");
        }
    }
}
