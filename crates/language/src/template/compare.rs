//! Comparisons: equality with aliases, and an order without missing values.

use std::cmp::Ordering;

use minijinja::value::{Value as Native, ValueKind};
use minijinja::{Environment, Error};

use crate::template::budget::{self, DEPTH_MAX, ITEM_WORK};
use crate::template::charges;
use crate::template::envelope::{self, AliasedWord};
use crate::template::operators::{is_list, operand_error};
use crate::template::session;

/// Registers the operators and the tests with the same meaning.
pub(crate) fn register(env: &mut Environment<'static>) {
    env.add_filter("%eq", |a: &Native, b: &Native| is_equal(a, b));
    env.add_filter("%ne", |a: &Native, b: &Native| is_equal(a, b).map(|same| !same));
    env.add_filter("%in", contains);
    env.add_filter("%notin", |item: &Native, list: &Native| {
        contains(item, list).map(|is_contained| !is_contained)
    });
    env.add_filter("%lt", |a: &Native, b: &Native| compare_order(a, b, Ordering::is_lt));
    env.add_filter("%le", |a: &Native, b: &Native| compare_order(a, b, Ordering::is_le));
    env.add_filter("%gt", |a: &Native, b: &Native| compare_order(a, b, Ordering::is_gt));
    env.add_filter("%ge", |a: &Native, b: &Native| compare_order(a, b, Ordering::is_ge));
    for name in ["eq", "equalto", "=="] {
        env.add_test(name, |a: &Native, b: &Native| is_equal(a, b));
    }
    for name in ["ne", "!="] {
        env.add_test(name, |a: &Native, b: &Native| is_equal(a, b).map(|same| !same));
    }
    env.add_test("in", contains);
    for (names, accepts) in [
        (["lt", "lessthan", "<"], Ordering::is_lt as fn(Ordering) -> bool),
        (["le", "<=", "<="], Ordering::is_le),
        (["gt", "greaterthan", ">"], Ordering::is_gt),
        (["ge", ">=", ">="], Ordering::is_ge),
    ] {
        for name in names {
            env.add_test(name, move |a: &Native, b: &Native| compare_order(a, b, accepts));
        }
    }
}

/// Whether two values are equal: an aliased word equals each of its aliases, a missing value only another missing
/// value.
fn is_equal(a: &Native, b: &Native) -> Result<bool, Error> {
    if let (Some(aliased), Some(text)) = (a.downcast_object_ref::<AliasedWord>(), b.as_str()) {
        return Ok(aliased.is_spelling(text));
    }
    if let (Some(text), Some(aliased)) = (a.as_str(), b.downcast_object_ref::<AliasedWord>()) {
        return Ok(aliased.is_spelling(text));
    }
    is_equal_at_depth(&envelope::unwrap_view(a), &envelope::unwrap_view(b), 0)
}

/// Compares item by item and charges the comparison.
fn is_equal_at_depth(a: &Native, b: &Native, depth: usize) -> Result<bool, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        session::charge_work(left.len().min(right.len()))?;
        return Ok(left == right);
    }
    let (Some(left), Some(right)) = (a.as_object(), b.as_object()) else {
        return Ok(a == b);
    };
    if depth > DEPTH_MAX {
        return Err(budget::limit_error("a value is nested too deeply"));
    }
    if is_list(a) && is_list(b) {
        if matches!((a.len(), b.len()), (Some(a), Some(b)) if a != b) {
            return Ok(false);
        }
        let (mut left, mut right) = (a.try_iter()?.checked(), b.try_iter()?.checked());
        loop {
            session::charge_work(ITEM_WORK)?;
            match (left.next(), right.next()) {
                (None, None) => return Ok(true),
                (Some(a), Some(b)) => {
                    if !is_equal_at_depth(&envelope::unwrap_view(&a?), &envelope::unwrap_view(&b?), depth + 1)? {
                        return Ok(false);
                    }
                }
                _ => return Ok(false),
            }
        }
    }
    if a.kind() != ValueKind::Map || b.kind() != ValueKind::Map {
        return Ok(false);
    }
    if left.enumerator_len() != right.enumerator_len() {
        return Ok(false);
    }
    for key in a.try_iter()?.checked() {
        let key = key?;
        session::charge_work(ITEM_WORK)?;
        let (Some(a), Some(b)) = (left.get_value(&key), right.get_value(&key)) else {
            return Ok(false);
        };
        if !is_equal_at_depth(&envelope::unwrap_view(&a), &envelope::unwrap_view(&b), depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains(item: &Native, list: &Native) -> Result<bool, Error> {
    let list = envelope::unwrap_view(list);
    match list.kind() {
        ValueKind::Undefined => Ok(false),
        ValueKind::String => {
            let text = list.as_str().unwrap_or_default();
            session::charge_work(text.len())?;
            if let Some(aliased) = item.downcast_object_ref::<AliasedWord>() {
                return Ok(text.contains(aliased.name) || aliased.aliases.iter().any(|alias| text.contains(alias)));
            }
            let item = envelope::unwrap_view(item);
            match item.as_str() {
                Some(part) => Ok(text.contains(part)),
                None => Err(operand_error("in", &item, &list)),
            }
        }
        ValueKind::Map => {
            let item = envelope::unwrap_view(item);
            charges::charge_scan(&item)?;
            Ok(list.as_object().is_some_and(|map| map.get_value(&item).is_some()))
        }
        ValueKind::Seq | ValueKind::Iterable => {
            for candidate in list.try_iter()?.checked() {
                session::charge_work(ITEM_WORK)?;
                if is_equal(item, &candidate?)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        _ => Err(operand_error("in", item, &list)),
    }
}

/// Orders two values. A missing value is neither less nor greater than any other.
fn compare_order(a: &Native, b: &Native, accepts: fn(Ordering) -> bool) -> Result<bool, Error> {
    let (a, b) = (envelope::unwrap_view(a), envelope::unwrap_view(b));
    if a.is_undefined() || b.is_undefined() {
        return Ok(false);
    }
    let numeric = |kind| matches!(kind, ValueKind::Number | ValueKind::Bool);
    let (left, right) = (a.kind(), b.kind());
    let fits = (numeric(left) && numeric(right))
        || (is_list(&a) && is_list(&b))
        || (left == ValueKind::String && right == ValueKind::String);
    if !fits {
        return Err(operand_error("<", &a, &b));
    }
    charges::charge_deep(&a, 0)?;
    charges::charge_deep(&b, 0)?;
    Ok(a.partial_cmp(&b).is_some_and(accepts))
}
