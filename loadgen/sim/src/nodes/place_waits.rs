//! How long pods wait for a place on a node. Pods that are bound at once cost a look at an empty table.

use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{Str, hash_state};

/// The waits of pods that found no place on any node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceWaits {
    /// Pods that found no place when they were to be bound.
    pub pods: u64,
    /// The time that they waited, all together, ns: until they were bound or deleted.
    pub total_ns: u64,
    /// Most pods that waited at once.
    pub most: u64,
    /// How many pods the open nodes took in all when most waited.
    pub places: u64,
}

/// The pods that wait for a place, and the sums of those that have waited.
#[derive(Debug)]
pub(super) struct Unplaced {
    /// When each began to wait, ns of monotonic time. Iterated for sums alone.
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
    /// A pod finds no place among those of the open nodes; if it waits already, it goes on waiting.
    pub(super) fn begin(&mut self, pod: (&Str, &CompactString), places: u64, now_ns: i64) {
        let (namespace, name) = pod;
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

    /// A pod is bound or gone, whether it had to wait or not.
    #[inline]
    pub(super) fn end(&mut self, namespace: &Str, name: &CompactString, now_ns: i64) {
        if !self.since.is_empty() {
            let key = (namespace.clone(), name.clone());
            if let Some(since_ns) = self.since.remove(&key) {
                self.sums.total_ns += waited_ns(since_ns, now_ns);
            }
        }
    }

    /// The sums, with what those that still wait have waited so far. O(pods that wait).
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
    fn each_pod_waits_from_its_first_try_to_its_end() {
        let mut unplaced = Unplaced::default();
        let namespace = Str::from("default");
        let [a, b, c] = ["a", "b", "c"].map(CompactString::from);
        unplaced.end(&namespace, &a, 5);
        unplaced.begin((&namespace, &a), 3, 10);
        unplaced.begin((&namespace, &b), 2, 20);
        // It is tried once more, among other places.
        unplaced.begin((&namespace, &a), 9, 30);
        unplaced.end(&namespace, &a, 50);
        unplaced.end(&namespace, &c, 50);
        unplaced.begin((&namespace, &c), 7, 60);
        let sums = PlaceWaits {
            pods: 3,
            total_ns: 40 + 80 + 40,
            most: 2,
            places: 2,
        };
        assert_eq!(unplaced.sums(100), sums);
    }
}
