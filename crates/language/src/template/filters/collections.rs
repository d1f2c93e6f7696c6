//! List filters and functions of the library; they check first how many items they will build.

use std::collections::BTreeSet;

use minijinja::value::{Kwargs, Rest, Value as Native, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters, functions};

use crate::template::budget::{ITEM_BYTES, ITEM_WORK};
use crate::template::charges;
use crate::template::operators::{self, is_list};
use crate::template::session;

/// Bytes charged for another pointer to an existing item.
const SHARED_ITEM_BYTES: usize = 8;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("batch", batch);
    env.add_filter("slice", slice);
    env.add_filter("zip", zip);
    env.add_filter("reverse", reverse);
    env.add_filter("last", last);
    env.add_filter("sum", sum);
    env.add_filter("sort", sort);
    env.add_filter("unique", unique);
    env.add_filter("groupby", |value: Native, attribute: Option<&str>, kwargs: Kwargs| {
        check_items(&value)?;
        filters::groupby(value, attribute, kwargs)
    });
    env.add_filter("dictsort", |value: &Native, kwargs: Kwargs| {
        check_items(value)?;
        filters::dictsort(value, kwargs)
    });
    for (name, is_rejected) in [("select", false), ("reject", true)] {
        env.add_filter(
            name,
            move |state: &mut State<'_, '_>, value: &Native, test: Option<&str>, args: Rest<ValueOrKwargs>| {
                let test = test.map(|test| (test, args.into_values()));
                select(state, value, None, test, is_rejected)
            },
        );
    }
    for (name, is_rejected) in [("selectattr", false), ("rejectattr", true)] {
        env.add_filter(
            name,
            move |state: &mut State<'_, '_>,
                  value: &Native,
                  attribute: &str,
                  test: Option<&str>,
                  args: Rest<ValueOrKwargs>| {
                let test = test.map(|test| (test, args.into_values()));
                select(state, value, Some(attribute), test, is_rejected)
            },
        );
    }
    env.add_function("dict", |value: Option<Native>, kwargs: Kwargs| {
        if let Some(value) = &value {
            charge_map(value)?;
        }
        functions::dict(value, kwargs)
    });
    env.add_function("namespace", |defaults: Option<ValueOrKwargs>| {
        let defaults = defaults.map(ValueOrKwargs::into_value);
        if let Some(defaults) = &defaults {
            charge_map(defaults)?;
        }
        functions::namespace(defaults.map(Into::into))
    });
    env.add_filter("%spread", |value: Native| charge_map(&value).map(|()| value));
}

/// Returns the number of items. If a list does not know its length, its items are counted.
fn count(value: &Native) -> Result<usize, Error> {
    if let Some(count) = value.len() {
        return Ok(count);
    }
    if !is_list(value) {
        return Ok(0);
    }
    let mut count = 0_usize;
    for item in value.try_iter()?.checked() {
        session::charge_work(ITEM_WORK)?;
        item?;
        count += 1;
    }
    Ok(count)
}

/// Checks that a list of as many items as `value` has can be built.
fn check_items(value: &Native) -> Result<(), Error> {
    session::check_room(count(value)?.saturating_mul(ITEM_BYTES))
}

/// Charges a map or list of arguments that is copied.
fn charge_map(value: &Native) -> Result<(), Error> {
    session::charge_allocation(count(value)?.saturating_mul(ITEM_BYTES))
}

fn batch(state: &State<'_, '_>, value: Native, size: usize, fill: Option<Native>) -> Result<Native, Error> {
    let items = count(&value)?;
    let batches = items / size.max(1) + 1;
    session::charge_allocation(size.saturating_mul(ITEM_BYTES))?;
    check_lists(items, batches)?;
    filters::batch(state, value, size, fill)
}

fn slice(state: &State<'_, '_>, value: Native, slices: usize, fill: Option<Native>) -> Result<Native, Error> {
    let items = count(&value)?;
    session::charge_allocation(slices.saturating_mul(ITEM_BYTES))?;
    check_lists(items, slices)?;
    filters::slice(state, value, slices, fill)
}

/// Checks that the lists of a division can be built. The items are shared, which costs less than new ones.
fn check_lists(items: usize, lists: usize) -> Result<(), Error> {
    session::check_room(
        items
            .saturating_mul(SHARED_ITEM_BYTES)
            .saturating_add(lists.saturating_mul(ITEM_BYTES)),
    )
}

/// `zip`: combines lists item by item. The inner lists are built during iteration, so they are charged here.
fn zip(state: &State<'_, '_>, value: Native, other_lists: Rest<Native>) -> Result<Native, Error> {
    let mut shortest = count(&value)?;
    for other in other_lists.iter() {
        shortest = shortest.min(count(other)?);
    }
    session::charge_allocation(shortest.saturating_mul(other_lists.len()).saturating_mul(ITEM_BYTES))?;
    filters::zip(state, value, other_lists)
}

fn reverse(value: &Native) -> Result<Native, Error> {
    match value.as_str() {
        Some(text) => session::check_room(text.len())?,
        None => check_items(value)?,
    }
    filters::reverse(value)
}

/// Returns the last item. A list that does not know its length is iterated.
fn last(value: Native) -> Result<Native, Error> {
    if value.kind() != ValueKind::Iterable || value.len().is_some() {
        return filters::last(value);
    }
    let mut last = Native::UNDEFINED;
    for item in value.try_iter()?.checked() {
        session::charge_work(ITEM_WORK)?;
        last = item?;
    }
    Ok(last)
}

/// `sum`: adds numbers, or appends texts or lists to a `start` of their type.
fn sum(value: &Native, attribute: Option<&str>, start: Option<Native>, kwargs: Kwargs) -> Result<Native, Error> {
    let attribute = match attribute {
        Some(attribute) => Some(attribute),
        None => kwargs.get("attribute")?,
    };
    let start = match start {
        Some(start) => Some(start),
        None => kwargs.get("start")?,
    };
    kwargs.assert_all_used()?;
    let mut sum = start.unwrap_or_else(|| Native::from(0));
    for item in value.try_iter()?.checked() {
        let item = at_path(item?, attribute)?;
        if item.is_undefined() {
            continue;
        }
        if sum.is_number() && !item.is_number() && item.kind() != ValueKind::Bool {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("can only sum numbers, got {}", item.kind()),
            ));
        }
        sum = operators::add(&sum, &item)?;
    }
    Ok(sum)
}

/// Sorts. With several attributes, a list of keys is built for each item.
fn sort(state: &State<'_, '_>, value: Native, kwargs: Kwargs) -> Result<Native, Error> {
    check_items(&value)?;
    let attribute: Option<&str> = kwargs.peek("attribute").ok();
    if let Some(attributes) = attribute.filter(|attribute| attribute.contains(',')) {
        let mut bytes = 0_usize;
        for item in value.try_iter()?.checked() {
            let item = item?;
            for attribute in attributes.split(',') {
                bytes = bytes.saturating_add(copied_bytes(&item, Some(attribute.trim()))?);
                session::check_room(bytes)?;
            }
        }
    }
    filters::sort(state, value, kwargs)
}

/// Returns the first of each group of equal items. Their keys are copied.
fn unique(value: &Native, kwargs: Kwargs) -> Result<Native, Error> {
    let attribute: Option<&str> = kwargs.get("attribute")?;
    let is_exact = kwargs.get::<Option<bool>>("case_sensitive")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let (mut unique, mut keys, mut bytes) = (Vec::new(), BTreeSet::new(), 0_usize);
    for item in value.try_iter()?.checked() {
        let item = item?;
        let compared = at_path(item.clone(), attribute)?;
        let compared = match compared.as_str() {
            Some(text) if !is_exact => {
                session::check_room(text.len())?;
                Native::from(text.to_lowercase())
            }
            _ => compared,
        };
        if !keys.contains(&compared) {
            let text = compared.as_str().map_or(0, str::len);
            bytes = bytes.saturating_add(text).saturating_add(ITEM_BYTES);
            session::check_room(bytes)?;
            keys.insert(compared);
            unique.push(item);
        }
    }
    Ok(Native::from(unique))
}

/// Returns the bytes that a copy of an item's key takes: the item itself or the value at a path in it.
fn copied_bytes(item: &Native, path: Option<&str>) -> Result<usize, Error> {
    let field = at_path(item.clone(), path)?;
    let text = field.as_str().map_or(0, str::len);
    Ok(text.saturating_add(ITEM_BYTES))
}

/// Returns an item or the value at a path in it; undefined if there is none.
fn at_path(item: Native, path: Option<&str>) -> Result<Native, Error> {
    let Some(path) = path else {
        return Ok(item);
    };
    session::charge_work(path.split('.').count().saturating_mul(ITEM_WORK))?;
    Ok(follow(&item, path).unwrap_or_default())
}

/// Returns the value at a dotted path.
fn follow(item: &Native, path: &str) -> Result<Native, Error> {
    let mut field = item.clone();
    for part in path.split('.') {
        field = match part.parse::<usize>() {
            Ok(index) => field.get_item_by_index(index)?,
            Err(_) => field.get_attr(part)?,
        };
    }
    Ok(field)
}

/// Returns the items that pass or fail a test; without a test, those that are true.
fn select(
    state: &mut State<'_, '_>,
    value: &Native,
    attribute: Option<&str>,
    test: Option<(&str, Vec<Native>)>,
    is_rejected: bool,
) -> Result<Vec<Native>, Error> {
    let mut selected = Vec::new();
    for item in value.try_iter()?.checked() {
        let item = item?;
        let subject = match attribute {
            Some(path) => {
                session::charge_work(path.split('.').count().saturating_mul(ITEM_WORK))?;
                follow(&item, path)?
            }
            None => item.clone(),
        };
        let matches = match &test {
            Some((name, args)) => {
                if charges::for_test(name).is_some() {
                    charges::charge_scan(&subject)?;
                }
                let call: Vec<Native> = [subject].into_iter().chain(args.iter().cloned()).collect();
                state.perform_test(name, &call)?
            }
            None => subject.is_true(),
        };
        if matches != is_rejected {
            session::check_room((selected.len() + 1).saturating_mul(ITEM_BYTES))?;
            selected.push(item);
        }
    }
    Ok(selected)
}
