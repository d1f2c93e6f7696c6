//! Regular expressions in the syntax of Python.

use std::fmt::Write as _;

use minijinja::value::{Kwargs, Value as Native};
use minijinja::{Environment, Error, ErrorKind};
use regex::Regex;

use super::pattern_work::PatternWork;
use crate::template::budget;
use crate::template::operators::to_text;
use crate::template::session;

/// Maximum size of a compiled pattern.
const PATTERN_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of a pattern: its parsed form is many times as large.
const PATTERN_TEXT_BYTES_MAX: usize = 8 * 1024;
/// Maximum number of groups of a pattern: a search stores all of them for each of its states.
const GROUPS_MAX: usize = 63;
/// Cost of compiling a pattern, in characters read, plus the cost of each of its characters.
const COMPILE_WORK: usize = 4096;
const COMPILE_WORK_OF_CHARACTER: usize = 128;
/// Number of compiled patterns that a rendering caches.
const COMPILED_MAX: usize = 8;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("regex_replace", regex_replace);
    env.add_filter("regex_search", regex_search);
    env.add_filter("regex_findall", regex_findall);
}

/// A pattern that a rendering has compiled.
#[derive(Clone)]
pub(crate) struct CompiledPattern {
    text: String,
    ignore_case: bool,
    multiline: bool,
    regex: Regex,
    work: PatternWork,
}

/// Returns the compiled pattern for a search in this text, and charges the search.
fn compile_pattern(text: &str, subject: &str, kwargs: &Kwargs) -> Result<CompiledPattern, Error> {
    let (ignore_case, multiline) = parse_flags(kwargs)?;
    let cached = session::with_session(|session| {
        let same = |compiled: &&CompiledPattern| {
            compiled.text == text && (compiled.ignore_case, compiled.multiline) == (ignore_case, multiline)
        };
        session.patterns.iter().find(same).cloned()
    });
    let compiled = match cached {
        Some(compiled) => Ok(compiled),
        None => compile(text, ignore_case, multiline),
    }?;
    session::charge_work(compiled.work.search_cost(subject.len()))?;
    Ok(compiled)
}

/// Compiles a pattern and caches it.
fn compile(text: &str, ignore_case: bool, multiline: bool) -> Result<CompiledPattern, Error> {
    if text.len() > PATTERN_TEXT_BYTES_MAX {
        return Err(budget::limit_error("a pattern is longer than 8 KiB"));
    }
    session::charge_work(COMPILE_WORK + text.len() * COMPILE_WORK_OF_CHARACTER)?;
    let work = PatternWork::estimate(text, ignore_case, multiline);
    if work.groups() > GROUPS_MAX {
        return Err(budget::limit_error("a pattern has more than 63 groups"));
    }
    session::charge_work(work.compile_cost())?;
    session::charge_allocation(work.search_memory_bytes())?;
    let regex = regex::RegexBuilder::new(text)
        .case_insensitive(ignore_case)
        .multi_line(multiline)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| {
            Error::new(ErrorKind::InvalidOperation, format!("`{text}` is not a pattern")).with_source(error)
        })?;
    let compiled = CompiledPattern {
        text: text.to_owned(),
        ignore_case,
        multiline,
        regex,
        work,
    };
    session::with_session(|session| {
        if session.patterns.len() == COMPILED_MAX {
            session.patterns.pop_front();
        }
        session.patterns.push_back(compiled.clone());
    });
    Ok(compiled)
}

fn parse_flags(kwargs: &Kwargs) -> Result<(bool, bool), Error> {
    let ignore_case: Option<bool> = kwargs.get("ignorecase")?;
    let multiline: Option<bool> = kwargs.get("multiline")?;
    kwargs.assert_all_used()?;
    Ok((ignore_case.unwrap_or(false), multiline.unwrap_or(false)))
}

/// `\1` and `\g<name>` refer to groups, as in Python.
fn regex_replace(value: &Native, find: &str, with: Option<&str>, kwargs: Kwargs) -> Result<String, Error> {
    let text = to_text(value)?;
    let CompiledPattern { regex, work, .. } = compile_pattern(find, &text, &kwargs)?;
    let with = with.unwrap_or_default();
    session::check_room(with.len())?;
    let template = group_references(with);
    let counts = count_references(&template, &regex);
    let mut replaced = String::new();
    let mut end = 0;
    for captures in regex.captures_iter(&text) {
        let Some(matched) = captures.get(0) else {
            continue;
        };
        let look_ahead_cost = work.look_ahead_cost(text.len() - matched.end());
        session::charge_work(look_ahead_cost.saturating_add(template.len() + 1))?;
        let groups: usize = counts
            .iter()
            .enumerate()
            .map(|(group, count)| captures.get(group).map_or(0, |matched| matched.len()) * count)
            .sum();
        let between = matched.start() - end;
        session::check_room(replaced.len() + between + groups + template.len())?;
        replaced.push_str(&text[end..matched.start()]);
        captures.expand(&template, &mut replaced);
        end = matched.end();
    }
    session::check_room(replaced.len() + text.len() - end)?;
    replaced.push_str(&text[end..]);
    Ok(replaced)
}

/// Number of references to each group in a replacement: `${1}`, `${name}`.
fn count_references(template: &str, regex: &Regex) -> Vec<usize> {
    let mut counts = vec![0; regex.captures_len()];
    for reference in template.split("${").skip(1) {
        let name = reference.split('}').next().unwrap_or_default();
        let group = match name.parse::<usize>() {
            Ok(group) => Some(group),
            Err(_) => regex.capture_names().position(|group_name| group_name == Some(name)),
        };
        if let Some(count) = group.and_then(|group| counts.get_mut(group)) {
            *count += 1;
        }
    }
    counts
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

/// Returns the first match: its text, its only group, or all its groups; none without a match.
fn regex_search(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = to_text(value)?;
    let CompiledPattern { regex, .. } = compile_pattern(find, &text, &kwargs)?;
    match regex.captures(&text) {
        Some(captures) => to_groups(&captures),
        None => Ok(Native::from(())),
    }
}

fn regex_findall(value: &Native, find: &str, kwargs: Kwargs) -> Result<Native, Error> {
    let text = to_text(value)?;
    let CompiledPattern { regex, work, .. } = compile_pattern(find, &text, &kwargs)?;
    let mut matches = Vec::new();
    for captures in regex.captures_iter(&text) {
        let end = captures.get(0).map_or(0, |matched| matched.end());
        session::charge_work(work.look_ahead_cost(text.len() - end))?;
        session::charge_allocation(budget::ITEM_BYTES)?;
        matches.push(to_groups(&captures)?);
    }
    Ok(Native::from(matches))
}

/// The groups of a match, which are charged.
fn to_groups(captures: &regex::Captures<'_>) -> Result<Native, Error> {
    let texts = captures.iter().skip(usize::from(captures.len() > 1));
    let bytes: usize = texts
        .map(|capture| budget::ITEM_BYTES + capture.map_or(0, |capture| capture.len()))
        .sum();
    session::charge_allocation(bytes)?;
    let group = |index| {
        captures
            .get(index)
            .map_or(Native::from(()), |capture| Native::from(capture.as_str()))
    };
    Ok(match captures.len() {
        1 => group(0),
        2 => group(1),
        count => Native::from((1..count).map(group).collect::<Vec<_>>()),
    })
}
