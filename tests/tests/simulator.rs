//! Runs the simulator with many seeds, and with the bugs that its checkers must report.

use tests::sim::{Bug, simulate};

/// Number of seeds of each test.
const SEEDS: u64 = 2_600;
/// Number of seeds within which a bug must be found.
const SEEDS_PER_BUG: u64 = 400;

fn check_seeds(part: u64) {
    for seed in part * SEEDS..(part + 1) * SEEDS {
        let report = simulate(seed, None, false);
        if let Some(violation) = report.violation {
            panic!(
                "seed {seed} violates invariant {}: {}",
                violation.number, violation.what
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

/// The first seed with which the checker for a bug reports it.
fn first_catching_seed(bug: Bug) -> Option<u64> {
    (0..SEEDS_PER_BUG).find(|seed| {
        let violation = simulate(*seed, Some(bug), false).violation;
        violation.is_some_and(|violation| violation.number == bug.broken_check())
    })
}

#[test]
fn every_bug_is_caught_by_the_checker_of_the_promise_it_breaks() {
    assert!(Bug::ALL.len() >= 12, "too few bugs to trust the checkers");
    let missed: Vec<&Bug> = Bug::ALL
        .iter()
        .filter(|bug| first_catching_seed(**bug).is_none())
        .collect();
    assert!(missed.is_empty(), "no checker reported {missed:?}");
}

#[test]
fn the_same_seed_does_the_same() {
    for seed in 0..20 {
        assert_eq!(
            simulate(seed, None, true).trace,
            simulate(seed, None, true).trace,
            "seed {seed}"
        );
    }
}
