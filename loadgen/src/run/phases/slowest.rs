//! The slowest convergences of a run: a short list that is kept while the run goes on.

/// How many are kept.
pub(super) const KEPT: usize = 20;

/// One convergence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Convergence {
    /// From the change to the state asked for, ns.
    pub(super) took_ns: u64,
    /// The number of the owner.
    pub(super) owner: usize,
    /// The number of the phase in which it was over.
    pub(super) phase: usize,
    /// Whether it was over; if not, `took_ns` is what it has taken so far.
    pub(super) converged: bool,
}

/// The [`KEPT`] slowest; of equals, those that were over first.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowest {
    kept: Vec<Convergence>,
    /// What a further one must exceed, once the list is full, ns.
    least_ns: u64,
}

impl Slowest {
    /// Takes one into account. One comparison for most; O([`KEPT`]) for one that is kept.
    #[inline]
    pub(super) fn add(&mut self, one: Convergence) {
        if self.kept.len() < KEPT || one.took_ns > self.least_ns {
            self.keep(one);
        }
    }

    fn keep(&mut self, one: Convergence) {
        // Descending, and behind its equals.
        let at = self
            .kept
            .partition_point(|other| other.took_ns >= one.took_ns);
        self.kept.insert(at, one);
        self.kept.truncate(KEPT);
        self.least_ns = self.kept.last().map_or(0, |least| least.took_ns);
    }

    /// The slowest first.
    pub(super) fn descending(&self) -> &[Convergence] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_kept_in_order_and_the_earlier_of_equals_first() {
        let mut slowest = Slowest::default();
        for number in 0..1_000_usize {
            slowest.add(Convergence {
                // Each time twice.
                took_ns: (number as u64 * 7) % 500,
                owner: number,
                phase: 0,
                converged: true,
            });
        }
        let kept = slowest.descending();
        assert_eq!(kept.len(), KEPT);
        let times: Vec<u64> = kept.iter().map(|one| one.took_ns).collect();
        let expected: Vec<u64> = (490..500).rev().flat_map(|ns| [ns, ns]).collect();
        assert_eq!(times, expected);
        let mut pairs = kept.windows(2);
        assert!(pairs.all(|two| two[0].took_ns > two[1].took_ns || two[0].owner < two[1].owner));
    }
}
