//! The difference between two texts line by line, with the lines around each change.

/// Unchanged lines that are returned before and after a change.
const CONTEXT_LINES: usize = 3;
/// Maximum number of pairs of lines that are compared. Larger texts are replaced as a whole, apart from the lines that
/// are equal at their start and end.
const PAIRS_MAX: usize = 1_000_000;

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// Where the line comes from.
    pub origin: LineOrigin,
    /// Its text; empty for omitted lines.
    pub text: String,
}

/// Where a line of a difference comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineOrigin {
    /// Both texts.
    Both,
    /// Only the first text.
    Before,
    /// Only the second text.
    After,
    /// This many lines of both texts are omitted here.
    Omitted(usize),
}

/// Compares two texts. Lines of both texts that are far from any change are omitted.
pub fn diff_lines(before: &str, after: &str) -> Vec<DiffLine> {
    let before: Vec<&str> = before.lines().collect();
    let after: Vec<&str> = after.lines().collect();
    let start = count_equal(before.iter(), after.iter());
    let unmatched = before.len().min(after.len()) - start;
    let end = count_equal(before.iter().rev(), after.iter().rev()).min(unmatched);
    let mut lines: Vec<(LineOrigin, &str)> = before[..start].iter().map(|line| (LineOrigin::Both, *line)).collect();
    lines.extend(diff_middle(
        &before[start..before.len() - end],
        &after[start..after.len() - end],
    ));
    lines.extend(
        before[before.len() - end..]
            .iter()
            .map(|line| (LineOrigin::Both, *line)),
    );
    omit_distant(&lines)
}

fn count_equal<'a>(before: impl Iterator<Item = &'a &'a str>, after: impl Iterator<Item = &'a &'a str>) -> usize {
    before.zip(after).take_while(|(before, after)| before == after).count()
}

/// Follows a longest common subsequence.
fn diff_middle<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<(LineOrigin, &'a str)> {
    let mut lines = Vec::with_capacity(before.len() + after.len());
    let (mut old, mut new) = (0, 0);
    if before.len().saturating_mul(after.len()) <= PAIRS_MAX {
        let width = after.len() + 1;
        let lengths = common_lengths(before, after);
        while old < before.len() && new < after.len() {
            if before[old] == after[new] {
                lines.push((LineOrigin::Both, before[old]));
                (old, new) = (old + 1, new + 1);
            } else if lengths[(old + 1) * width + new] >= lengths[old * width + new + 1] {
                lines.push((LineOrigin::Before, before[old]));
                old += 1;
            } else {
                lines.push((LineOrigin::After, after[new]));
                new += 1;
            }
        }
    }
    lines.extend(before[old..].iter().map(|line| (LineOrigin::Before, *line)));
    lines.extend(after[new..].iter().map(|line| (LineOrigin::After, *line)));
    lines
}

/// By position in both: the length of the longest common subsequence of what follows.
fn common_lengths(before: &[&str], after: &[&str]) -> Vec<u32> {
    let width = after.len() + 1;
    let mut lengths = vec![0; (before.len() + 1) * width];
    for old in (0..before.len()).rev() {
        for new in (0..after.len()).rev() {
            lengths[old * width + new] = if before[old] == after[new] {
                lengths[(old + 1) * width + new + 1] + 1
            } else {
                lengths[(old + 1) * width + new].max(lengths[old * width + new + 1])
            };
        }
    }
    lengths
}

fn omit_distant(lines: &[(LineOrigin, &str)]) -> Vec<DiffLine> {
    let changes: Vec<usize> = (0..lines.len())
        .filter(|index| lines[*index].0 != LineOrigin::Both)
        .collect();
    let is_near = |index: usize| {
        let next = changes.partition_point(|change| *change < index);
        let after = changes.get(next).is_some_and(|change| change - index <= CONTEXT_LINES);
        let before = next
            .checked_sub(1)
            .is_some_and(|last| index - changes[last] <= CONTEXT_LINES);
        after || before
    };
    let mut near_lines: Vec<DiffLine> = Vec::new();
    for (index, (origin, text)) in lines.iter().enumerate() {
        if is_near(index) {
            near_lines.push(DiffLine {
                origin: *origin,
                text: (*text).to_owned(),
            });
            continue;
        }
        if let Some(DiffLine {
            origin: LineOrigin::Omitted(count),
            ..
        }) = near_lines.last_mut()
        {
            *count += 1;
        } else {
            near_lines.push(DiffLine {
                origin: LineOrigin::Omitted(1),
                text: String::new(),
            });
        }
    }
    near_lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(before: &str, after: &str) -> Vec<String> {
        let lines = diff_lines(before, after);
        let lines = lines.iter().map(|line| match line.origin {
            LineOrigin::Both => format!("  {}", line.text),
            LineOrigin::Before => format!("- {}", line.text),
            LineOrigin::After => format!("+ {}", line.text),
            LineOrigin::Omitted(count) => format!("… {count}"),
        });
        lines.collect()
    }

    #[test]
    fn a_changed_line_has_its_neighbours_and_the_rest_is_omitted() {
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12";
        let after = before.replace("\n7\n", "\nseven\n");
        let expected = [
            "… 3", "  4", "  5", "  6", "- 7", "+ seven", "  8", "  9", "  10", "… 2",
        ];
        assert_eq!(write(before, &after), expected);
    }

    #[test]
    fn moved_and_inserted_lines_keep_what_is_common() {
        assert_eq!(write("a\nb\nc", "a\nx\nb\nc"), ["  a", "+ x", "  b", "  c"]);
        assert_eq!(write("a\nb", "b\na"), ["- a", "  b", "+ a"]);
        assert_eq!(write("", "a"), ["+ a"]);
        assert_eq!(write("a", ""), ["- a"]);
        assert_eq!(write("a\na", "a"), ["  a", "- a"]);
    }

    #[test]
    fn texts_too_large_to_compare_are_replaced() {
        let number_lines = |prefix: &str| {
            let lines = (0..1_100).map(|number| format!("{prefix}{number}"));
            lines.collect::<Vec<_>>().join("\n")
        };
        let lines = diff_lines(&number_lines("a"), &number_lines("b"));
        assert_eq!(lines.len(), 2_200);
        assert_eq!(lines[1_099].origin, LineOrigin::Before);
        assert_eq!(lines[1_100].origin, LineOrigin::After);
    }
}
