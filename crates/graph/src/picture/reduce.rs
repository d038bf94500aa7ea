//! Fewest edges that lead everywhere the given ones do.

/// Drops each edge of an acyclic graph for which there is a longer way between the same two ends.
pub(super) fn reduce(nodes: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut next: Vec<Vec<usize>> = vec![vec![]; nodes];
    for &(from, to) in edges {
        next[from].push(to);
    }
    let order = topological(&next);
    let words = nodes.div_ceil(64);
    // What each node leads to, from the last to the first.
    let mut reach: Vec<Vec<u64>> = vec![vec![0; words]; nodes];
    let mut kept = Vec::new();
    for &from in order.iter().rev() {
        let mut longer = vec![0u64; words];
        for &to in &next[from] {
            longer.iter_mut().zip(&reach[to]).for_each(|(word, more)| *word |= more);
        }
        let has = |set: &[u64], at: usize| set[at / 64] >> (at % 64) & 1 == 1;
        kept.extend(next[from].iter().filter(|&&to| !has(&longer, to)).map(|&to| (from, to)));
        for &to in &next[from] {
            longer[to / 64] |= 1 << (to % 64);
        }
        reach[from] = longer;
    }
    kept.sort_unstable();
    kept
}

fn topological(next: &[Vec<usize>]) -> Vec<usize> {
    let mut incoming = vec![0usize; next.len()];
    next.iter().flatten().for_each(|&to| incoming[to] += 1);
    let mut order: Vec<usize> = (0..next.len()).filter(|&at| incoming[at] == 0).collect();
    let mut at = 0;
    while let Some(&node) = order.get(at) {
        for &to in &next[node] {
            incoming[to] -= 1;
            if incoming[to] == 0 {
                order.push(to);
            }
        }
        at += 1;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shortcuts_are_left_out() {
        let edges = [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3), (4, 3)];
        assert_eq!(reduce(5, &edges), [(0, 1), (1, 2), (2, 3), (4, 3)]);
        assert_eq!(reduce(0, &[]), []);
    }
}
