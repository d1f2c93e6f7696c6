//! Masks credentials in URLs: `scheme://user:password@host` becomes `scheme://***@host`.

/// The URL parameter that holds a password.
const PASSWORD_PARAMETER: &str = "password=";

/// Masks the userinfo and passwords of all URLs in a text; `None` if there are none.
pub fn without_userinfo(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut remaining = text;
    let mut is_changed = false;
    while let Some(start) = remaining.find("://") {
        let (before, after) = remaining.split_at(start + 3);
        out.push_str(before);
        let ends = |c: char| "\"'`<>\\".contains(c) || c.is_whitespace();
        let (url, behind) = after.split_at(after.find(ends).unwrap_or(after.len()));
        let (authority, tail) = url.split_at(url.find(['/', '?', '#']).unwrap_or(url.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                is_changed = true;
                out.push_str("***@");
                out.push_str(host);
            }
            None => out.push_str(authority),
        }
        // A URL may contain another one, which the next pass checks.
        let (own, inner) = tail.split_at(tail.find("://").unwrap_or(tail.len()));
        is_changed |= push_without_password(own, &mut out);
        remaining = &after[after.len() - behind.len() - inner.len()..];
    }
    out.push_str(remaining);
    is_changed.then_some(out)
}

/// Appends the path and parameters of a URL; returns whether they contained a password.
fn push_without_password(tail: &str, out: &mut String) -> bool {
    let mut remaining = tail;
    let mut is_changed = false;
    while let Some(start) = remaining.find(PASSWORD_PARAMETER) {
        let (before, value) = remaining.split_at(start + PASSWORD_PARAMETER.len());
        out.push_str(before);
        out.push_str("***");
        is_changed = true;
        remaining = &value[value.find(['&', '#']).unwrap_or(value.len())..];
    }
    out.push_str(remaining);
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_userinfo_of_urls_goes() {
        let text = "cannot reach `https://me:p%40ss@host:1/a@b` or ftp://x@y";
        let expected = "cannot reach `https://***@host:1/a@b` or ftp://***@y";
        assert_eq!(without_userinfo(text).as_deref(), Some(expected));
        assert_eq!(without_userinfo("mail me@host, see http://host/@x"), None);
        assert_eq!(without_userinfo("://"), None);
    }

    #[test]
    fn passwords_among_parameters_and_urls_inside_of_urls_are_found() {
        let text = "postgres://host/db?user=me&password=pw&sslmode=off then http://a/?to=http://b:c@d/ end";
        let expected = "postgres://host/db?user=me&password=***&sslmode=off then http://a/?to=http://***@d/ end";
        assert_eq!(without_userinfo(text).as_deref(), Some(expected));
    }
}
