//! Text directly next to a value: a name, a dot, or the parenthesis of a list.

use crate::sql::sql_context::is_word_character;

/// Whether a text ends with a dot that belongs to a name.
pub(super) fn follows_dot(text: &str) -> bool {
    let Some(head) = text.strip_suffix('.') else {
        return false;
    };
    let last_word = head.rsplit(|c| !is_word_character(c)).next().unwrap_or_default();
    let ends_in_name = head.ends_with(|c: char| is_word_character(c) || "\"`])".contains(c));
    let is_number = !last_word.is_empty() && last_word.chars().all(|c| c.is_ascii_digit());
    ends_in_name && !is_number
}

/// Whether a text ends in `IN (`.
pub(super) fn is_in_list(text: &str) -> bool {
    let Some(head) = text.trim_end().strip_suffix('(') else {
        return false;
    };
    let mut back = head.trim_end().chars().rev();
    matches!(
        (back.next(), back.next(), back.next()),
        (Some('n' | 'N'), Some('i' | 'I'), third) if !third.is_some_and(is_word_character)
    )
}

/// Whether a text begins with a dot that a name follows. The name may be another value, in the next piece.
pub(super) fn precedes_dot(after: &str) -> bool {
    let mut chars = after.chars();
    let begins_name = |c: char| c == '"' || c == '*' || (is_word_character(c) && !c.is_ascii_digit());
    chars.next() == Some('.') && chars.next().is_none_or(begins_name)
}

/// Whether a value can be part of the name around it without ending it. Leading digits would be a number in front of
/// the name.
pub(super) fn fits_into_name(text: &str, before: &str, after: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_number = text.starts_with(is_digit) && !after.starts_with(is_digit);
    let is_first = !before.ends_with(is_word_character);
    !text.is_empty() && text.chars().all(is_word_character) && !(is_first && is_number)
}
