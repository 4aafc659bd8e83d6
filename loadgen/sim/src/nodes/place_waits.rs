//! How long pods wait for room on a node. Pods that are bound immediately cost one check of an
//! empty table.

use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{Str, hash_state};

/// The waits of pods that found no room on any node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceWaits {
    /// The number of pods that found no room at their first attempt.
    pub pods: u64,
    /// The total time that these pods waited until they were bound or deleted, ns.
    pub total_ns: u64,
    /// The maximum number of pods that waited at the same time.
    pub most: u64,
    /// The total capacity of the open nodes, in pods, when that maximum was reached.
    pub places: u64,
}

/// The pods that wait for room, and the sums over all pods that have waited.
#[derive(Debug)]
pub(super) struct Unplaced {
    /// The monotonic time at which each pod began to wait, ns. Iterated only for sums.
    since: HashMap<(Str, CompactString), i64, ahash::RandomState>,
    sums: PlaceWaits,
}

impl Default for Unplaced {
    fn default() -> Unplaced {
        Unplaced {
            since: HashMap::with_hasher(hash_state()),
            sums: PlaceWaits::default(),
        }
    }
}

impl Unplaced {
    /// Records that a pod found no room on the open nodes, which can hold `places` pods. A pod that
    /// already waits continues to wait.
    pub(super) fn begin(
        &mut self,
        namespace: &Str,
        name: &CompactString,
        places: u64,
        now_ns: i64,
    ) {
        let key = (namespace.clone(), name.clone());
        let waiting = self.since.len() as u64;
        self.since.entry(key).or_insert_with(|| {
            self.sums.pods += 1;
            if waiting + 1 > self.sums.most {
                (self.sums.most, self.sums.places) = (waiting + 1, places);
            }
            now_ns
        });
    }

    /// Records that a pod was bound or deleted. Has no effect if the pod did not wait.
    #[inline]
    pub(super) fn end(&mut self, namespace: &Str, name: &CompactString, now_ns: i64) {
        if !self.since.is_empty() {
            let key = (namespace.clone(), name.clone());
            if let Some(since_ns) = self.since.remove(&key) {
                self.sums.total_ns += waited_ns(since_ns, now_ns);
            }
        }
    }

    /// Returns the sums, including the waits in progress. O(waiting pods).
    pub(super) fn sums(&self, now_ns: i64) -> PlaceWaits {
        let waiting = self.since.values();
        let waiting_ns: u64 = waiting.map(|since_ns| waited_ns(*since_ns, now_ns)).sum();
        PlaceWaits {
            total_ns: self.sums.total_ns + waiting_ns,
            ..self.sums
        }
    }
}

fn waited_ns(since_ns: i64, now_ns: i64) -> u64 {
    u64::try_from(now_ns - since_ns).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pod_waits_from_its_first_attempt_to_its_end() {
        let mut unplaced = Unplaced::default();
        let namespace = Str::from("default");
        let [a, b, c] = ["a", "b", "c"].map(CompactString::from);
        unplaced.end(&namespace, &a, 5);
        unplaced.begin(&namespace, &a, 3, 10);
        unplaced.begin(&namespace, &b, 2, 20);
        // The second attempt of the same pod, with a different capacity.
        unplaced.begin(&namespace, &a, 9, 30);
        unplaced.end(&namespace, &a, 50);
        unplaced.end(&namespace, &c, 50);
        unplaced.begin(&namespace, &c, 7, 60);
        let sums = PlaceWaits {
            pods: 3,
            total_ns: 40 + 80 + 40,
            most: 2,
            places: 2,
        };
        assert_eq!(unplaced.sums(100), sums);
    }
}
