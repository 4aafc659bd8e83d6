//! The number of pods on each node, by dense node number.

/// Counts of pods by node number. Clearing costs O(counted nodes), not O(all nodes), so one value
/// can serve many rankings. A reused value allocates only for new node numbers.
#[derive(Clone, Debug, Default)]
pub struct NodeCounts {
    /// The counts by node number.
    counts: Vec<u32>,
    /// The node numbers with a nonzero count, each once.
    touched: Vec<u32>,
}

impl NodeCounts {
    /// Creates counts that are all zero.
    pub fn new() -> NodeCounts {
        NodeCounts::default()
    }

    /// Counts one more pod on a node; number 0 means no node. O(1), except for a node number higher
    /// than all before, for which the table grows to that number.
    #[inline]
    pub fn add(&mut self, node: u32) {
        let at = node as usize;
        if at >= self.counts.len() {
            self.grow(at);
        }
        let count = &mut self.counts[at];
        if *count == 0 {
            self.touched.push(node);
        }
        *count += 1;
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.counts.resize((at + 1).next_power_of_two(), 0);
        // Each number is added at most once, so this vector never grows during a count.
        self.touched.reserve(self.counts.len() - self.touched.len());
    }

    /// Returns the number of pods counted on a node. O(1).
    #[inline]
    pub fn get(&self, node: u32) -> u32 {
        self.counts.get(node as usize).copied().unwrap_or(0)
    }

    /// Resets all counts to zero. O(nodes counted since the last reset).
    pub fn clear(&mut self) {
        for node in self.touched.drain(..) {
            self.counts[node as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clearing_resets_the_counts_of_nodes() {
        let mut counts = NodeCounts::new();
        for node in [0, 7, 7, 1_000, 7, 0] {
            counts.add(node);
        }
        let seen = [0, 1, 7, 1_000, 1_000_000].map(|node| counts.get(node));
        assert_eq!(seen, [2, 0, 3, 1, 0]);
        counts.clear();
        assert_eq!([0, 7, 1_000].map(|node| counts.get(node)), [0; 3]);
        counts.add(7);
        assert_eq!(counts.get(7), 1);
    }
}
