//! The critical path: the step runs that the end of a run waited for.

use model::time::Time;

/// A step run as part of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct PathNode {
    /// The step runs whose ends released this one.
    pub(super) released_by: Vec<usize>,
    /// When it was scheduled.
    pub(super) queued_at: Option<Time>,
    /// When it ended; `None` if it is active.
    pub(super) ended_at: Option<Time>,
}

/// Which step runs are on the critical path. It starts at the step run that ended last, or at the one that has been active
/// for the longest time, and goes back to the last end that released each.
pub(super) fn find_critical_path(nodes: &[PathNode]) -> Vec<bool> {
    let mut is_critical = vec![false; nodes.len()];
    let mut current = find_last(nodes);
    while let Some(index) = current {
        if std::mem::replace(&mut is_critical[index], true) {
            break;
        }
        let released_by = nodes[index].released_by.iter().copied();
        current = released_by.max_by_key(|other| nodes[*other].ended_at);
    }
    is_critical
}

fn find_last(nodes: &[PathNode]) -> Option<usize> {
    let indices = || 0..nodes.len();
    let active = indices().filter(|index| nodes[*index].ended_at.is_none());
    let longest = active.min_by_key(|index| nodes[*index].queued_at);
    longest.or_else(|| indices().max_by_key(|index| nodes[*index].ended_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(released_by: &[usize], queued_at: i64, ended_at: Option<i64>) -> PathNode {
        PathNode {
            released_by: released_by.to_vec(),
            queued_at: Some(Time(queued_at)),
            ended_at: ended_at.map(Time),
        }
    }

    fn path(nodes: &[PathNode]) -> Vec<usize> {
        let flags = find_critical_path(nodes);
        (0..nodes.len()).filter(|index| flags[*index]).collect()
    }

    #[test]
    fn a_join_waits_for_its_slowest_branch() {
        let start = node(&[], 0, Some(1));
        let (fast, slow) = (node(&[0], 1, Some(5)), node(&[0], 1, Some(9)));
        let join = node(&[1, 2], 9, Some(10));
        let aside = node(&[1], 5, Some(7));
        assert_eq!(path(&[start, fast, slow, join, aside]), [0, 2, 3]);
    }

    #[test]
    fn an_active_step_ends_the_path_of_a_live_run() {
        let nodes = [
            node(&[], 0, Some(1)),
            node(&[0], 1, Some(9)),
            node(&[0], 1, None),
            node(&[1], 9, None),
        ];
        assert_eq!(path(&nodes), [0, 2]);
    }

    #[test]
    fn a_cycle_and_an_empty_run_end() {
        assert_eq!(path(&[node(&[1], 0, Some(2)), node(&[0], 1, Some(1))]), [0, 1]);
        assert!(path(&[]).is_empty());
    }
}
