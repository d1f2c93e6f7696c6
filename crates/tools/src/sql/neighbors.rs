//! What stands right beside a value: a name, its dot, or the parenthesis of a list.

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

/// Whether a text begins with a dot behind which a name goes on, or nothing that is known.
pub(super) fn precedes_dot(after: &str) -> bool {
    let mut rest = after.chars();
    let goes_on = |c: char| c == '"' || c == '*' || (is_word_character(c) && !c.is_ascii_digit());
    rest.next() == Some('.') && rest.next().is_none_or(goes_on)
}

/// Whether a text can be a part of a name that stands around it, and cannot end it. Digits would be a number in front of
/// a name.
pub(super) fn fits_into_name(text: &str, before: &str, after: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit();
    let is_number = text.starts_with(is_digit) && !after.starts_with(is_digit);
    let is_first = !before.ends_with(is_word_character);
    !text.is_empty() && text.chars().all(is_word_character) && !(is_first && is_number)
}
