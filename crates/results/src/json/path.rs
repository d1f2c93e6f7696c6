//! Paths that can be evaluated in one pass: keys and indices only, no search.

use model::result_ref::PathSegment;

/// Parses a `JSONPath` such as `$.a['b'][0]`; returns `None` for other forms.
pub fn parse_plain_path(path: &str) -> Option<Vec<PathSegment>> {
    let mut remaining = path.trim().strip_prefix('$')?;
    let mut segments = Vec::new();
    while !remaining.is_empty() {
        let (segment, after) = match remaining.strip_prefix('.') {
            Some(name) => parse_key(name)?,
            None => parse_bracket(remaining.strip_prefix('[')?)?,
        };
        segments.push(segment);
        remaining = after;
    }
    Some(segments)
}

fn parse_key(remaining: &str) -> Option<(PathSegment, &str)> {
    let is_name = |c: char| c == '_' || c.is_alphanumeric();
    let end = remaining.find(|c| !is_name(c)).unwrap_or(remaining.len());
    let (name, after) = remaining.split_at(end);
    let is_key = name.starts_with(|c: char| !c.is_ascii_digit());
    is_key.then(|| (PathSegment::Key(name.to_owned()), after))
}

fn parse_bracket(remaining: &str) -> Option<(PathSegment, &str)> {
    let quote = remaining.chars().next()?;
    if quote == '\'' || quote == '"' {
        let (name, after) = remaining[1..].split_once(quote)?;
        let after = after.strip_prefix(']')?;
        let is_plain = !name.contains('\\');
        return is_plain.then(|| (PathSegment::Key(name.to_owned()), after));
    }
    let (digits, after) = remaining.split_once(']')?;
    let is_index = digits == "0" || (!digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    let index = digits.parse().ok().filter(|_| is_index)?;
    Some((PathSegment::Index(index), after))
}
