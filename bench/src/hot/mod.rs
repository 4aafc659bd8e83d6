//! The hot paths, each defined once: criterion times them, callgrind counts their instructions, and
//! dhat their allocations. One module per subject builds them.

pub mod cache;
pub mod expectations;
pub mod handlers;
pub mod json;
pub mod loading;
#[cfg(feature = "planted")]
mod planted;
pub mod ranking;
pub mod run;
pub mod selectors;
pub mod slow_start;
pub mod sync;
pub mod workqueue;

use std::fmt;

/// A hot path in its steady state.
pub struct HotPath {
    /// `subject/variant/size`: the same in criterion, in the budgets and in the targets.
    pub id: &'static str,
    /// What one call does, for a reader of the gate's output.
    pub what: &'static str,
    /// How many calls are counted together, so that the cost of counting vanishes.
    pub calls: u32,
    /// Whether the steady state allocates nothing.
    pub allocation_free: bool,
    /// Sets it up and brings it into its steady state.
    pub prepare: fn() -> Operation,
}

/// One call of a hot path. It returns something that depends on the work, so that none is left out.
pub type Operation = Box<dyn FnMut() -> u64>;

impl HotPath {
    /// Sets it up and goes round twice, so that what is counted next is the steady state: lists have
    /// grown, entries exist, also those of which every other round uses another.
    pub fn steady(&self) -> Operation {
        let mut operation = (self.prepare)();
        for _ in 0..2 * self.calls {
            operation();
        }
        #[cfg(feature = "planted")]
        let operation = planted::slowed(self.id, operation);
        operation
    }
}

impl fmt::Debug for HotPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("HotPath")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// All hot paths, by subject.
pub fn paths() -> Vec<HotPath> {
    [
        cache::paths(),
        expectations::paths(),
        handlers::paths(),
        json::paths(),
        loading::paths(),
        ranking::paths(),
        run::paths(),
        selectors::paths(),
        slow_start::paths(),
        sync::paths(),
        workqueue::paths(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Makes rayon's pool one of a single thread, where the library goes through lists on the caller's: whoever
/// counts does this first, so that counts do not depend on the machine's cores and miss no thread's share.
pub fn on_one_core() {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1);
    // A pool that is there already was asked for by a caller before.
    let _ = one.build_global();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_can_be_prepared_and_called_and_ids_are_unique() {
        let mut ids = Vec::new();
        for path in paths() {
            let mut operation = (path.prepare)();
            for _ in 0..3 {
                operation();
            }
            assert_eq!(path.id.split('/').count(), 3, "{}", path.id);
            ids.push(path.id);
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
