//! Static checks of conditions, without evaluating them.

use crate::template::Template;

/// Returns the expression of a condition without braces and spaces, with one kind of quotes.
fn bare_expression(condition: &Template) -> String {
    let text = condition.source().trim();
    let text = text.strip_prefix("{{").unwrap_or(text);
    let text = text.strip_suffix("}}").unwrap_or(text);
    let text = text.trim_matches(['-', ' ', '\n']);
    text.chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| if c == '"' { '\'' } else { c })
        .collect()
}

/// Whether a condition is always true: there is none, or it is `true`.
pub(crate) fn is_always(condition: Option<&Template>) -> bool {
    condition.is_none_or(|condition| matches!(bare_expression(condition).as_str(), "true" | "True"))
}

/// Whether a condition is true for every failed outcome.
pub(crate) fn matches_every_error(condition: Option<&Template>) -> bool {
    let Some(condition) = condition else {
        return true;
    };
    let text = bare_expression(condition);
    let text = text.trim_start_matches('(').trim_end_matches(')');
    is_always(Some(condition))
        || ["outcome", "output"].iter().any(|name| {
            let suffix = text.strip_prefix(name).unwrap_or("");
            let operators = [
                ".status=='error'",
                ".status!='ok'",
                ".status!='success'",
                ".error",
                ".errorisdefined",
                ".errorisnotnone",
            ];
            operators.contains(&suffix)
        })
}
