//! Who asks, in a URL, is nobody's business: `scheme://user:password@host` shows as `scheme://***@host`.

use model::outcome::TaskError;
use serde_json::Value;

/// An error without the userinfo of any URL in it.
pub(crate) fn without_userinfo(error: &mut TaskError) {
    if let Some(stripped) = stripped(&error.message) {
        error.message = stripped;
    }
    error.details.values_mut().for_each(strip);
}

fn strip(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(stripped) = stripped(text) {
                *text = stripped;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(map) => map.values_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The text without userinfo; none where there is none.
fn stripped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    let mut is_changed = false;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let ends = |c: char| "/?#\"'`<>\\".contains(c) || c.is_whitespace();
        let end = after.find(ends).unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                is_changed = true;
                out.push_str("***@");
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        rest = tail;
    }
    out.push_str(rest);
    is_changed.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_userinfo_of_urls_goes() {
        let text = "cannot reach `https://me:p%40ss@host:1/a@b` or ftp://x@y";
        let expected = "cannot reach `https://***@host:1/a@b` or ftp://***@y";
        assert_eq!(stripped(text).as_deref(), Some(expected));
        assert_eq!(stripped("mail me@host, see http://host/@x"), None);
    }
}
