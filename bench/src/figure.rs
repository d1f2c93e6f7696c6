//! A figure: a measured value, the raw limit next to it, and their ratio.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Value, json};

/// Amount of work to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The full amount.
    Full,
    /// A hundredth: enough to check that everything runs.
    Trial,
}

impl Scale {
    /// Scales an amount; the result is at least 1.
    pub(crate) fn scaled(self, full: u32) -> u32 {
        match self {
            Self::Full => full,
            Self::Trial => (full / 100).max(1),
        }
    }
}

/// The median of the measured values.
pub(crate) fn median<T: PartialOrd + Copy>(mut measured: Vec<T>) -> T {
    measured.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    measured[measured.len() / 2]
}

/// One measured value.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) workload: String,
    /// The value.
    pub(crate) value: f64,
    /// Its unit.
    pub(crate) unit: &'static str,
    /// The target, as a phrase.
    pub(crate) target: &'static str,
    /// The raw limit in the same unit, if there is one.
    pub(crate) raw_limit: Option<f64>,
}

impl Figure {
    /// The value as a multiple of the raw limit.
    pub(crate) fn ratio(&self) -> Option<f64> {
        self.raw_limit.filter(|raw| *raw > 0.0).map(|raw| self.value / raw)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<62} {:>12} {:<8}",
            self.workload,
            format_number(self.value),
            self.unit
        )?;
        match (self.raw_limit, self.ratio()) {
            (Some(raw), Some(ratio)) => {
                write!(f, " raw {:>10}  ratio {ratio:>6.2}", format_number(raw))?;
            }
            _ => write!(f, " {:>29}", "")?,
        }
        write!(f, "   {}", self.target)
    }
}

fn format_number(value: f64) -> String {
    if value >= 1000.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}")
    }
}

/// All figures as one JSON object.
pub(crate) fn report(figures: &[Figure]) -> Value {
    let rows = figures.iter().map(|figure| {
        json!({
            "work": figure.workload,
            "value": figure.value,
            "unit": figure.unit,
            "raw": figure.raw_limit,
            "ratio": figure.ratio(),
            "reach": figure.target,
        })
    });
    json!({"figures": rows.collect::<Vec<_>>()})
}
