//! Runs the simulator with many seeds, and with the bugs that its checkers must report.

use std::collections::BTreeMap;

use tests::sim::{Bug, simulate};

/// Number of seeds of each test.
const SEEDS: u64 = 150;
/// Number of seeds within which a bug must be found.
const SEEDS_PER_BUG: u64 = 400;

fn check_seeds(part: u64) {
    for seed in part * SEEDS..(part + 1) * SEEDS {
        let report = simulate(seed, None);
        if let Some(violation) = report.violation {
            panic!(
                "seed {seed} violates invariant {}: {}",
                violation.number, violation.description
            );
        }
    }
}

macro_rules! parts {
    ($($name:ident $part:literal),* $(,)?) => {
        $(#[test] fn $name() { check_seeds($part); })*
    };
}

parts! {
    nothing_breaks_in_the_first_seeds 0,
    nothing_breaks_in_the_second_seeds 1,
    nothing_breaks_in_the_third_seeds 2,
    nothing_breaks_in_the_fourth_seeds 3,
    nothing_breaks_in_the_fifth_seeds 4,
    nothing_breaks_in_the_sixth_seeds 5,
    nothing_breaks_in_the_seventh_seeds 6,
    nothing_breaks_in_the_eighth_seeds 7,
}

/// The first seed with which the checker for a bug reports it, or what the other checkers reported instead.
fn first_catching_seed(bug: Bug) -> Result<u64, BTreeMap<u32, String>> {
    let mut others = BTreeMap::new();
    for seed in 0..SEEDS_PER_BUG {
        if let Some(violation) = simulate(seed, Some(bug)).violation {
            if bug.violated_invariants().contains(&violation.number) {
                return Ok(seed);
            }
            let message = format!("seed {seed}: {}", violation.description);
            others.entry(violation.number).or_insert(message);
        }
    }
    Err(others)
}

#[test]
fn every_bug_is_caught_by_the_checker_of_the_promise_it_breaks() {
    assert!(Bug::ALL.len() >= 30, "too few bugs to trust the checkers");
    let mut missed = Vec::new();
    for bug in Bug::ALL.iter().copied() {
        match first_catching_seed(bug) {
            Ok(seed) => println!("{bug:?}: seed {seed}"),
            Err(others) => missed.push((bug, others)),
        }
    }
    assert!(missed.is_empty(), "no checker reported {missed:#?}");
}
