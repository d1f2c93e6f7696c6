//! Patterns: regular expressions as Python people write them.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Value as Native};
use minijinja::{Environment, Error, ErrorKind};
use regex::Regex;

use crate::template::budget;
use crate::template::operators::print;
use crate::template::session;

/// A compiled pattern may take this much.
const PATTERN_BYTES_MAX: usize = 256 * 1024;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("regex_replace", regex_replace);
    env.add_filter("regex_search", regex_search);
    env.add_filter("regex_findall", regex_findall);
}

fn pattern(text: &str, ignore_case: bool, multiline: bool) -> Result<Regex, Error> {
    regex::RegexBuilder::new(text)
        .case_insensitive(ignore_case)
        .multi_line(multiline)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| {
            Error::new(
                ErrorKind::InvalidOperation,
                format!("`{text}` is not a pattern"),
            )
            .with_source(error)
        })
}

fn flags(kwargs: &Kwargs) -> Result<(bool, bool), Error> {
    let ignore_case: Option<bool> = kwargs.get("ignorecase")?;
    let multiline: Option<bool> = kwargs.get("multiline")?;
    kwargs.assert_all_used()?;
    Ok((ignore_case.unwrap_or(false), multiline.unwrap_or(false)))
}

/// `\1` and `\g<name>` refer to groups, as in Python.
fn regex_replace(
    value: &Native,
    find: &str,
    with: Option<&str>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    let template = group_references(with.unwrap_or_default());
    let mut replaced = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(&text) {
        let Some(found) = captures.get(0) else {
            continue;
        };
        replaced.push_str(&text[end..found.start()]);
        let before = replaced.len();
        captures.expand(&template, &mut replaced);
        session::charge(replaced.len() - before + 1)?;
        end = found.end();
    }
    replaced.push_str(&text[end..]);
    Ok(replaced)
}

fn group_references(with: &str) -> String {
    let mut template = String::with_capacity(with.len());
    let mut chars = with.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek().copied()) {
            ('$', _) => template.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                let _ = write!(template, "${{{digit}}}");
                chars.next();
            }
            ('\\', Some('g')) => {
                chars.next();
                let name: String = chars
                    .by_ref()
                    .skip_while(|c| *c == '<')
                    .take_while(|c| *c != '>')
                    .collect();
                let _ = write!(template, "${{{name}}}");
            }
            ('\\', Some('\\')) => {
                template.push('\\');
                chars.next();
            }
            (c, _) => template.push(c),
        }
    }
    template
}

/// The first match, or its only group, or all its groups; none where nothing matches.
fn regex_search(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    Ok(regex
        .captures(&text)
        .map_or(Native::from(()), |captures| groups(&captures)))
}

fn regex_findall(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = print(value)?;
    let (ignore_case, multiline) = flags(&kwargs)?;
    let regex = pattern(find, ignore_case, multiline)?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(&text) {
        session::charge(budget::ITEM_BYTES)?;
        found.push(groups(&captures));
    }
    Ok(Native::from(found))
}

fn groups(captures: &regex::Captures<'_>) -> Native {
    let group = |index| {
        captures
            .get(index)
            .map_or(Native::from(()), |found| Native::from(found.as_str()))
    };
    match captures.len() {
        1 => group(0),
        2 => group(1),
        count => Native::from((1..count).map(group).collect::<Vec<_>>()),
    }
}
