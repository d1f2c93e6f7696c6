//! "Did you mean": finds the known word that is most similar to an unknown one.

/// Longer words are not compared.
const WORD_CHARS_MAX: usize = 64;

/// Maximum number of candidates, so that many errors in a large file stay cheap.
const CANDIDATES_MAX: usize = 1_000;

/// Returns the most similar candidate, if it is similar enough.
pub(crate) fn find_nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.chars().count() > WORD_CHARS_MAX {
        return None;
    }
    let close = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len().abs_diff(name.len()) <= close * 4)
        .filter(|candidate| candidate.len() <= WORD_CHARS_MAX * 4)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| {
            *candidate != name && *distance <= close && *distance < candidate.chars().count()
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts insertions, deletions, replacements and swaps of adjacent characters between two words, ignoring case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().flat_map(char::to_lowercase).collect();
    let right: Vec<char> = right.chars().flat_map(char::to_lowercase).collect();
    if left == right {
        return 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row; right.len() + 1];
        for column in 1..=right.len() {
            let same = left[row - 1] == right[column - 1];
            let replaced = last[column - 1] + usize::from(!same);
            let mut best = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            if swapped {
                best = best.min(before[column - 2] + 1);
            }
            current[column] = best;
        }
        before = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_the_intended_one() {
        let words = ["tool", "next", "step", "loop", "spec", "desc"];
        for (typed, nearest) in [
            ("tol", "tool"),
            ("nxet", "next"),
            ("Step", "step"),
            ("lop", "loop"),
            ("descr", "desc"),
        ] {
            assert_eq!(find_nearest(typed, words), Some(nearest), "{typed}");
        }
    }

    #[test]
    fn unrelated_words_find_no_suggestion() {
        assert_eq!(find_nearest("banana", ["tool", "next"]), None);
        assert_eq!(find_nearest("x", ["y"]), None);
        assert_eq!(find_nearest("tool", ["tool"]), None);
    }
}
