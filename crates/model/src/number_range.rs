//! Number ranges: the items of a loop over `range(…)`, computed by index instead of stored as a list.
//!
//! Input: the arguments of `range`. Output: the number of items, and the item at an index.

use serde::{Deserialize, Serialize};

/// Maximum number of items of a loop over a range; more fails with `LIMIT_LOOP_ITEMS`.
pub const RANGE_ITEMS_MAX: u64 = 10_000_000;

/// The integers from `start` to `stop` (exclusive), with a distance of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RangeFields")]
pub struct NumberRange {
    start: i64,
    stop: i64,
    step: i64,
}

/// A range as an event stores it, before validation.
#[derive(Deserialize)]
struct RangeFields {
    start: i64,
    stop: i64,
    step: i64,
}

/// Arguments that do not describe a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// A range with step 0 has no end.
    #[error("the step of range() is 0; it must be a positive or a negative number")]
    ZeroStep,
}

impl TryFrom<RangeFields> for NumberRange {
    type Error = RangeError;

    fn try_from(fields: RangeFields) -> Result<Self, RangeError> {
        Self::new(fields.start, fields.stop, fields.step)
    }
}

impl NumberRange {
    /// The key in `extracted` of a prepared loop source under which its reference stores the range.
    pub const EXTRACTED_KEY: &str = "range";

    /// Creates a range from `start` to `stop` (exclusive) with step `by`.
    pub fn new(start: i64, stop: i64, by: i64) -> Result<Self, RangeError> {
        if by == 0 {
            return Err(RangeError::ZeroStep);
        }
        Ok(Self { start, stop, step: by })
    }

    /// Creates a range from the arguments of `range(stop)`, `range(start, stop)` or `range(start, stop, step)`.
    pub fn from_arguments(first: i64, second: Option<i64>, by: Option<i64>) -> Result<Self, RangeError> {
        let (start, stop) = match second {
            Some(stop) => (first, stop),
            None => (0, first),
        };
        Self::new(start, stop, by.unwrap_or(1))
    }

    /// The number of items.
    pub fn len(&self) -> u64 {
        let distance = if self.step > 0 {
            i128::from(self.stop) - i128::from(self.start)
        } else {
            i128::from(self.start) - i128::from(self.stop)
        };
        let step = i128::from(self.step.unsigned_abs());
        let items = (distance.max(0) + step - 1) / step;
        u64::try_from(items).unwrap_or(u64::MAX)
    }

    /// Whether the range has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the item at an index.
    pub fn item(&self, index: u64) -> Option<i64> {
        if index >= self.len() {
            return None;
        }
        let item = i128::from(self.start) + i128::from(self.step) * i128::from(index);
        i64::try_from(item).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(first: i64, second: Option<i64>, step: Option<i64>) -> Vec<i64> {
        let range = NumberRange::from_arguments(first, second, step).unwrap();
        let items: Vec<i64> = (0..range.len()).filter_map(|index| range.item(index)).collect();
        assert_eq!(items.len() as u64, range.len());
        assert_eq!(range.item(range.len()), None);
        items
    }

    #[test]
    fn the_items_are_those_of_python() {
        assert_eq!(items(3, None, None), [0, 1, 2]);
        assert_eq!(items(2, Some(5), None), [2, 3, 4]);
        assert_eq!(items(0, Some(10), Some(4)), [0, 4, 8]);
        assert_eq!(items(5, Some(0), Some(-2)), [5, 3, 1]);
        assert_eq!(items(-1, Some(-3), Some(-1)), [-1, -2]);
        assert!(items(0, None, None).is_empty());
        assert!(items(5, Some(2), None).is_empty());
        assert!(items(2, Some(5), Some(-1)).is_empty());
    }

    #[test]
    fn ranges_up_to_the_integer_limits_do_not_overflow() {
        let range = NumberRange::new(i64::MIN, i64::MAX, 1).unwrap();
        assert_eq!(range.len(), u64::MAX);
        let leap = NumberRange::new(i64::MAX, i64::MIN, i64::MIN).unwrap();
        assert_eq!((leap.len(), leap.item(1)), (2, Some(-1)));
    }

    #[test]
    fn a_step_of_zero_is_refused_also_when_it_is_read_from_a_log() {
        assert_eq!(NumberRange::new(0, 3, 0), Err(RangeError::ZeroStep));
        let read = serde_json::from_str::<NumberRange>(r#"{"start":0,"stop":3,"step":0}"#);
        assert!(read.unwrap_err().to_string().contains("step of range()"));
    }
}
