//! The slowest convergences of a run: a short list that is maintained during the run.

/// The maximum length of the list.
pub(super) const KEPT: usize = 20;

/// A convergence of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Convergence {
    /// The time from the change until the owner reached its desired state, ns.
    pub(super) took_ns: u64,
    /// The number of the owner in the tracker.
    pub(super) owner: usize,
    /// The index of the phase in which the convergence ended; the current one if it has not ended.
    pub(super) phase: usize,
    /// Whether the convergence has ended. If not, `took_ns` is the time so far.
    pub(super) converged: bool,
}

/// The [`KEPT`] slowest convergences. Of equally slow ones, those that ended first are kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Slowest {
    kept: Vec<Convergence>,
    /// The time that a further convergence must exceed once the list is full, ns.
    least_ns: u64,
}

impl Slowest {
    /// Adds a convergence if it is slow enough. One comparison if it is not, otherwise O([`KEPT`]).
    #[inline]
    pub(super) fn add(&mut self, one: Convergence) {
        if self.kept.len() < KEPT || one.took_ns > self.least_ns {
            self.keep(one);
        }
    }

    fn keep(&mut self, one: Convergence) {
        // The list is in descending order; a new entry goes after equal ones.
        let at = self
            .kept
            .partition_point(|other| other.took_ns >= one.took_ns);
        self.kept.insert(at, one);
        self.kept.truncate(KEPT);
        self.least_ns = self.kept.last().map_or(0, |least| least.took_ns);
    }

    /// Returns the list in descending order.
    pub(super) fn descending(&self) -> &[Convergence] {
        &self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_are_sorted_with_earlier_equals_first() {
        let mut slowest = Slowest::default();
        for number in 0..1_000_usize {
            slowest.add(Convergence {
                // Each time occurs twice.
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
