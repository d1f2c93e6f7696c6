//! Lists and maps.

use minijinja::value::{Kwargs, Rest, Value as Native, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use model::number_range::{NumberRange, RANGE_ITEMS_MAX};

use crate::template::budget::{self, ITEM_WORK, MAP_BYTES};
use crate::template::charges;
use crate::template::operators::{self, is_list, items};
use crate::template::session;

/// Maximum depth to which maps are merged and lists flattened.
const MERGE_DEPTH_MAX: usize = 64;

/// Maximum number of items of a range that is built as a list.
const LISTED_RANGE_ITEMS_MAX: usize = 100_000;

pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("list", |value: &Native| items(value).map(Native::from));
    env.add_filter("map", map);
    env.add_filter("keys", keys);
    env.add_filter("values", values);
    env.add_filter("get", get);
    env.add_filter("combine", combine);
    env.add_filter("flatten", flatten);
    env.add_filter("dict2items", dict2items);
    env.add_filter("items2dict", items2dict);
    env.add_function("range", list_range);
}

/// The items of `range(…)` as a list.
fn list_range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Native, Error> {
    let range = NumberRange::from_arguments(first, second, step)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))?;
    let items = usize::try_from(range.len()).ok();
    let Some(items) = items.filter(|items| *items <= LISTED_RANGE_ITEMS_MAX) else {
        return Err(budget::limit_error(&format!(
            "range() is limited to {LISTED_RANGE_ITEMS_MAX} items; only `loop.in` may be a range of up to {RANGE_ITEMS_MAX}"
        )));
    };
    let item = move |index: usize| range.item(index as u64);
    Ok(Native::make_iterable(move || (0..items).map(item)))
}

/// `map('filter', …)` or `map(attribute='path', default=…)`, item by item, so that each result is charged.
fn map(state: &mut State<'_, '_>, value: &Native, args: Rest<Native>, kwargs: Kwargs) -> Result<Native, Error> {
    let filter_name = args.first().and_then(|name| name.as_str());
    let attribute: Option<Native> = kwargs.get("attribute")?;
    let default: Option<Native> = kwargs.get("default")?;
    kwargs.assert_all_used()?;
    if filter_name.is_none_or(|name| name.starts_with('%')) && attribute.is_none() {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "map needs the name of a filter, or an attribute",
        ));
    }
    let mut results = Vec::new();
    for item in items(value)? {
        let result = match (filter_name, &attribute) {
            (Some(name), _) => {
                charges::charge_deep(&item, 0)?;
                let mut call = vec![item];
                call.extend(args.iter().skip(1).cloned());
                state.apply_filter(name, &call)?
            }
            (None, attribute) => {
                let path = attribute.as_ref().map(ToString::to_string).unwrap_or_default();
                session::charge_work(path.split('.').count().saturating_mul(ITEM_WORK))?;
                follow_path(&item, &path).or(default.clone()).unwrap_or_default()
            }
        };
        session::charge_allocation(operators::value_cost(&result))?;
        results.push(result);
    }
    Ok(Native::from(results))
}

/// Returns the value at a dotted path, if there is one.
fn follow_path(value: &Native, path: &str) -> Option<Native> {
    let mut field = value.clone();
    for part in path.split('.') {
        let key = part.parse::<usize>().map_or_else(|_| Native::from(part), Native::from);
        field = field.get_item(&key).ok().filter(|field| !field.is_undefined())?;
    }
    Some(field)
}

fn keys(value: &Native) -> Result<Native, Error> {
    check_mapping(value)?;
    items(value).map(Native::from)
}

fn values(value: &Native) -> Result<Native, Error> {
    check_mapping(value)?;
    let values = items(value)?
        .iter()
        .map(|key| value.get_item(key))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Native::from(values))
}

fn get(value: &Native, key: &Native, default: Option<Native>) -> Native {
    let field = value.get_item(key).ok().filter(|field| !field.is_undefined());
    field.or(default).unwrap_or(Native::from(()))
}

/// Merges maps from left to right; `recursive=true` also merges nested maps.
fn combine(value: &Native, other_maps: Rest<Native>, kwargs: Kwargs) -> Result<Native, Error> {
    let recursive = kwargs.get::<Option<bool>>("recursive")?.unwrap_or(false);
    kwargs.assert_all_used()?;
    let mut merged = value.clone();
    check_mapping(&merged)?;
    for other in other_maps.iter() {
        merged = merge(&merged, other, if recursive { MERGE_DEPTH_MAX } else { 0 })?;
    }
    Ok(merged)
}

fn merge(a: &Native, b: &Native, depth: usize) -> Result<Native, Error> {
    check_mapping(b)?;
    let mut pairs = Vec::new();
    for key in items(a)?.into_iter().chain(items(b)?) {
        let key = charges::check_key(key)?;
        let (old, new) = (a.get_item(&key)?, b.get_item(&key)?);
        let both = old.kind() == ValueKind::Map && new.kind() == ValueKind::Map;
        let value = if new.is_undefined() {
            old
        } else if both && depth > 0 {
            merge(&old, &new, depth - 1)?
        } else {
            new
        };
        pairs.push((key, value));
    }
    Ok(Native::from_pairs(pairs))
}

fn flatten(value: &Native, levels: Option<usize>) -> Result<Native, Error> {
    let mut flat = Vec::new();
    flatten_into(value, levels.unwrap_or(MERGE_DEPTH_MAX), &mut flat)?;
    Ok(Native::from(flat))
}

fn flatten_into(value: &Native, levels: usize, flat: &mut Vec<Native>) -> Result<(), Error> {
    for item in items(value)? {
        if is_list(&item) && levels > 0 {
            flatten_into(&item, levels - 1, flat)?;
        } else {
            flat.push(item);
        }
    }
    Ok(())
}

fn dict2items(value: &Native) -> Result<Native, Error> {
    check_mapping(value)?;
    let mut pairs = Vec::new();
    for key in items(value)? {
        session::charge_allocation(MAP_BYTES)?;
        let field = value.get_item(&key)?;
        pairs.push(Native::from_pairs([("key", key), ("value", field)]));
    }
    Ok(Native::from(pairs))
}

fn items2dict(value: &Native) -> Result<Native, Error> {
    let pairs = items(value)?
        .iter()
        .map(|item| {
            let key = charges::check_key(item.get_attr("key")?)?;
            Ok((key, item.get_attr("value")?))
        })
        .collect::<Result<Vec<_>, Error>>()?;
    Ok(Native::from_pairs(pairs))
}

fn check_mapping(value: &Native) -> Result<(), Error> {
    if value.kind() == ValueKind::Map {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidOperation,
        format!("a map is needed, not a {}", value.kind()),
    ))
}
