//! Numbers: `numeric` with all its digits, and floats in the server's text format.

use super::reader::{ByteReader, MalformedValue};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const NEGATIVE_INFINITY: u16 = 0xF000;

/// Number of significant decimal digits that every double preserves.
const DIGITS_MAX: usize = 15;

/// A `numeric` with all its digits.
pub(super) fn numeric(raw: &[u8]) -> Result<String, MalformedValue> {
    let mut reader = ByteReader(raw);
    let count = usize::from(reader.u16()?);
    let weight = i32::from(reader.i16()?);
    let sign = reader.u16()?;
    let scale = usize::from(reader.u16()?);
    match sign {
        NAN => return Ok("NaN".to_owned()),
        INFINITY => return Ok("Infinity".to_owned()),
        NEGATIVE_INFINITY => return Ok("-Infinity".to_owned()),
        _ => {}
    }
    let digits = (0..count).map(|_| reader.u16()).collect::<Result<Vec<_>, _>>()?;
    let group = |index: i32| {
        let digit = usize::try_from(index).ok().and_then(|index| digits.get(index));
        digit.copied().unwrap_or(0)
    };
    let whole: Vec<String> = (0..=weight).map(|index| format!("{:04}", group(index))).collect();
    let whole = whole.concat();
    let whole = whole.trim_start_matches('0');
    let mut text = String::new();
    if sign == NEGATIVE {
        text.push('-');
    }
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let groups = i32::try_from(scale.div_ceil(4)).map_err(|_| MalformedValue)?;
        let fraction = (weight + 1..=weight + groups).map(|index| format!("{:04}", group(index)));
        let fraction: String = fraction.collect();
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Ok(text)
}

/// A decimal as a JSON number, if that loses no digit.
pub(super) fn lossless_number(text: &str) -> Option<String> {
    if !text.contains('.') {
        let is_exact = text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
        return is_exact.then(|| text.to_owned());
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    let real: f64 = text.parse().ok().filter(|real: &f64| real.is_finite())?;
    (significant.len() <= DIGITS_MAX).then(|| serde_json::Value::from(real).to_string())
}

/// A double in the server's text format.
pub(super) fn real_text(value: f64) -> String {
    special_text(value).map_or_else(|| server_digits(value, &format!("{value:e}")), str::to_owned)
}

/// A four-byte float with its own shortest digits.
pub(super) fn small_real_text(value: f32) -> String {
    let wide = f64::from(value);
    special_text(wide).map_or_else(|| server_digits(wide, &format!("{value:e}")), str::to_owned)
}

/// Text of values that JSON numbers cannot represent.
pub(super) fn special_text(value: f64) -> Option<&'static str> {
    match value {
        value if value.is_nan() => Some("NaN"),
        f64::INFINITY => Some("Infinity"),
        f64::NEG_INFINITY => Some("-Infinity"),
        _ => None,
    }
}

/// Shortest digits, with an exponent where the server uses one.
fn server_digits(value: f64, shortest: &str) -> String {
    let size = value.abs();
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    if size == 0.0 || (1e-4..1e15).contains(&size) {
        return shortest.parse::<f64>().unwrap_or(value).to_string();
    }
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numeric_text(weight: i16, sign: u16, scale: u16, digits: &[u16]) -> String {
        let mut raw = u16::try_from(digits.len()).unwrap().to_be_bytes().to_vec();
        raw.extend(weight.to_be_bytes());
        raw.extend(sign.to_be_bytes());
        raw.extend(scale.to_be_bytes());
        raw.extend(digits.iter().flat_map(|digit| digit.to_be_bytes()));
        numeric(&raw).unwrap()
    }

    #[test]
    fn a_numeric_keeps_every_digit() {
        assert_eq!(numeric_text(0, 0, 0, &[]), "0");
        assert_eq!(numeric_text(0, 0, 2, &[12, 3400]), "12.34");
        assert_eq!(numeric_text(1, NEGATIVE, 0, &[1]), "-10000");
        assert_eq!(numeric_text(-1, 0, 6, &[12, 3400]), "0.001234");
        assert_eq!(numeric_text(-2, 0, 8, &[5]), "0.00000005");
        assert_eq!(numeric_text(0, NAN, 0, &[]), "NaN");
    }

    #[test]
    fn a_decimal_is_a_number_only_if_nothing_is_lost() {
        assert_eq!(lossless_number("12.50").as_deref(), Some("12.5"));
        assert_eq!(lossless_number("3.00").as_deref(), Some("3.0"));
        assert_eq!(
            lossless_number("18446744073709551615").as_deref(),
            Some("18446744073709551615")
        );
        assert_eq!(lossless_number("18446744073709551616"), None);
        assert_eq!(lossless_number("0.1234567890123456"), None);
    }

    #[test]
    fn reals_are_written_as_the_server_writes_them() {
        assert_eq!(real_text(1.5), "1.5");
        assert_eq!(real_text(3.0), "3");
        assert_eq!(real_text(1e20), "1e+20");
        assert_eq!(real_text(1.5e-7), "1.5e-07");
        assert_eq!(small_real_text(0.1), "0.1");
    }
}
