//! The whole store replaced by a list. A list into an empty cache, as at every start, is taken in
//! bulk: the pods of one controller go to their group together, and what the handlers are told is
//! a run of pods instead of a change for each.
//!
//! With the feature `rayon` the bulk is divided among the threads of the caller's pool. What comes
//! out is the same whatever their number: positions in a group follow the list.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use podstorm_objects::{Pod, ResourceVersion};
#[cfg(feature = "rayon")]
use rayon::prelude::*;
use smallvec::{SmallVec, smallvec};

use super::index::{NameHash, SHARDS, Slot};
use super::owned_pods::OwnedPods;
use super::pods::same_controller;
use super::{PodCache, PodChange, PodFields};
use crate::intern::FIXED_STATE;
use crate::limits::PARALLEL_LIST_MIN;
use crate::primitives::{AtomicU32, Mutex, Ordering, lock};

/// What a list changed, to be handled in this order: first the changes, then the runs. One of the
/// two is empty.
#[derive(Debug, Default)]
pub struct Listed<F> {
    /// Pods that are missing from the list, as deleted, in name order; then the listed ones.
    pub changes: Vec<PodChange<F>>,
    /// All pods of the list, in its order, where the cache was empty before.
    pub runs: Vec<PodRun<F>>,
}

/// Pods that stood together in a list, had the same controller, and were not known before.
#[derive(Debug)]
pub struct PodRun<F> {
    /// The pods of that controller.
    pub owned_pods: Arc<OwnedPods<F>>,
    /// How many of them are not on their way out.
    pub not_deleting: u32,
    /// Those that must be looked at one by one: orphans, and pods on their way out.
    pub others: Vec<Arc<Pod>>,
}

/// A stretch of the list with one controller.
#[derive(Debug)]
struct ListSegment {
    pods: Range<usize>,
    /// How many of them are on their way out.
    deleting: u32,
    /// The number of its group.
    owned_pods: u32,
}

/// What the first pass finds out about one part of the list.
#[derive(Debug, Default)]
struct Chunk {
    name_hashes: Vec<NameHash>,
    segments: Vec<ListSegment>,
    /// Whether its names ascend, none twice.
    is_sorted: bool,
}

/// A group with the stretches that go to it, in their order.
type OwnerSegments<F> = (Arc<OwnedPods<F>>, SmallVec<[u32; 1]>);

/// How many pods make a part: the same whatever the number of threads, since stretches end with it.
const CHUNK_LEN: usize = 4096;

impl<F: PodFields> PodCache<F> {
    /// Replaces the whole store by a list: pods that are missing from it come first, as deleted
    /// in the state last cached (tombstones), in name order; then the items in list order. Not to
    /// be called while others apply events.
    ///
    /// O(n log n), or O(n) for a list into an empty cache that is sorted by namespace and name, as
    /// servers send it.
    pub fn replace(&self, items: Vec<Arc<Pod>>, version: &ResourceVersion) -> Listed<F> {
        self.version().before_list(version);
        let chunks = if self.is_empty() {
            read_chunks(&items)
        } else {
            None
        };
        let listed = match chunks {
            Some(chunks) => Listed {
                changes: Vec::new(),
                runs: self.fill(items, chunks),
            },
            None => Listed {
                changes: self.merge(items),
                runs: Vec::new(),
            },
        };
        self.bookmark(version);
        listed
    }

    fn merge(&self, items: Vec<Arc<Pod>>) -> Vec<PodChange<F>> {
        let mut gone: Vec<Arc<Pod>> = Vec::new();
        {
            let listed: BTreeSet<(&str, &str)> = items.iter().map(|pod| name_of(pod)).collect();
            for shard in self.index.iter() {
                let pods = shard.slots().map(|slot| &slot.pod);
                gone.extend(pods.filter(|pod| !listed.contains(&name_of(pod))).cloned());
            }
        }
        gone.sort_by(|a, b| name_of(a).cmp(&name_of(b)));
        let gone = gone.into_iter().map(|pod| self.take(pod));
        let mut changes: Vec<PodChange<F>> = gone.collect();
        changes.extend(items.into_iter().map(|pod| self.put(pod)));
        changes
    }

    /// Puts a sorted list into the empty cache.
    fn fill(&self, items: Vec<Arc<Pod>>, chunks: Vec<Chunk>) -> Vec<PodRun<F>> {
        let mut name_hashes = Vec::with_capacity(items.len());
        let mut segments = Vec::new();
        for chunk in chunks {
            name_hashes.extend(chunk.name_hashes);
            segments.extend(chunk.segments);
        }
        let all_owned = self.assign(&items, &mut segments);
        let handles: Vec<AtomicU32> = items.iter().map(|_| AtomicU32::new(0)).collect();
        let all_owned: Vec<Arc<OwnedPods<F>>> =
            map_all(items.len(), &all_owned, |owner_segments| {
                self.insert_all(owner_segments, &segments, &items, &handles)
            });
        let run_of = |segment: &ListSegment| run_of(segment, &all_owned, &items);
        let runs = segments.iter().map(run_of).collect();
        // From here on the list's own references are the index's: none is counted up or down.
        let mut shards: Vec<Vec<Slot<F>>> = (0..SHARDS).map(|_| Vec::new()).collect();
        let mut pods = items.into_iter();
        for segment in &segments {
            let owned_pods = &all_owned[segment.owned_pods as usize];
            for (at, pod) in segment.pods.clone().zip(&mut pods) {
                let NameHash { shard, hash } = name_hashes[at];
                shards[shard as usize].push(Slot {
                    pod,
                    owned_pods: owned_pods.clone(),
                    // Relaxed: written by threads that have been waited for.
                    handle: handles[at].load(Ordering::Relaxed),
                    hash,
                });
            }
        }
        self.index_all(shards);
        runs
    }

    /// Finds the group of each stretch.
    fn assign(&self, items: &[Arc<Pod>], segments: &mut [ListSegment]) -> Vec<OwnerSegments<F>> {
        let mut all_owned: Vec<OwnerSegments<F>> = Vec::new();
        let mut numbers: HashTable<u32> = HashTable::new();
        let hash =
            |owned_pods: &Arc<OwnedPods<F>>| FIXED_STATE.hash_one(Arc::as_ptr(owned_pods).addr());
        for (at, segment) in (0u32..).zip(segments) {
            let owned_pods = self.by_controller.of(&items[segment.pods.start].metadata);
            let is_it = |number: &u32| Arc::ptr_eq(&all_owned[*number as usize].0, &owned_pods);
            if let Some(number) = numbers.find(hash(&owned_pods), is_it) {
                segment.owned_pods = *number;
                all_owned[*number as usize].1.push(at);
                continue;
            }
            segment.owned_pods = u32::try_from(all_owned.len()).expect("fewer owners than pods");
            all_owned.push((owned_pods, smallvec![at]));
            let fresh = &all_owned[segment.owned_pods as usize].0;
            numbers.insert_unique(hash(fresh), segment.owned_pods, |number| {
                hash(&all_owned[*number as usize].0)
            });
        }
        all_owned
    }

    /// Puts the pods of some stretches into their group, and returns it: another one, where it was
    /// dropped as unused meanwhile.
    fn insert_all(
        &self,
        (owned_pods, owner_segments): &OwnerSegments<F>,
        segments: &[ListSegment],
        items: &[Arc<Pod>],
        handles: &[AtomicU32],
    ) -> Arc<OwnedPods<F>> {
        let segments = owner_segments.iter().map(|at| &segments[*at as usize].pods);
        let mut owned_pods = owned_pods.clone();
        loop {
            let mut members = owned_pods.lock();
            if members.is_closed() {
                drop(members);
                owned_pods = self
                    .by_controller
                    .of(&items[segments.clone().next().map_or(0, |pods| pods.start)].metadata);
                continue;
            }
            members.reserve(segments.clone().map(|pods| pods.len()).sum());
            for at in segments.flat_map(|pods| pods.clone()) {
                let (handle, change) = members.insert(items[at].clone(), self.node_of(&items[at]));
                self.note(&owned_pods, change);
                // Relaxed: read when all threads are through.
                handles[at].store(handle, Ordering::Relaxed);
            }
            owned_pods.set_pod_count(members.len());
            drop(members);
            return owned_pods;
        }
    }

    /// Makes the slots found by their names. The index is empty.
    fn index_all(&self, shards: Vec<Vec<Slot<F>>>) {
        let count = shards.iter().map(Vec::len).sum();
        let shards: Vec<(u32, Mutex<Vec<Slot<F>>>)> =
            (0u32..).zip(shards.into_iter().map(Mutex::new)).collect();
        map_all(count, &shards, |(number, slots)| {
            let slots = std::mem::take(&mut *lock(slots));
            self.index.lock(*number).fill(slots);
        });
    }
}

/// Reads a list in parts; `None` when it is not sorted.
fn read_chunks(items: &[Arc<Pod>]) -> Option<Vec<Chunk>> {
    let starts: Vec<usize> = (0..items.len()).step_by(CHUNK_LEN).collect();
    let chunks = map_all(items.len(), &starts, |&start| {
        let end = items.len().min(start + CHUNK_LEN);
        read_chunk(items, start..end)
    });
    chunks.iter().all(|chunk| chunk.is_sorted).then_some(chunks)
}

fn read_chunk(items: &[Arc<Pod>], range: Range<usize>) -> Chunk {
    let mut chunk = Chunk {
        name_hashes: Vec::with_capacity(range.len()),
        segments: Vec::new(),
        is_sorted: true,
    };
    for at in range.clone() {
        let meta = &items[at].metadata;
        chunk
            .name_hashes
            .push(NameHash::of(&meta.namespace, &meta.name));
        let before = at.checked_sub(1).map(|before| &items[before].metadata);
        if before.is_some_and(|before| {
            (&before.namespace, &before.name) >= (&meta.namespace, &meta.name)
        }) {
            chunk.is_sorted = false;
            break;
        }
        let goes_on = before.filter(|before| {
            at > range.start && before.namespace == meta.namespace && same_controller(before, meta)
        });
        match chunk.segments.last_mut() {
            Some(segment) if goes_on.is_some() => segment.pods.end = at + 1,
            _ => chunk.segments.push(ListSegment {
                pods: at..at + 1,
                deleting: 0,
                owned_pods: 0,
            }),
        }
        if meta.is_deleting()
            && let Some(segment) = chunk.segments.last_mut()
        {
            segment.deleting += 1;
        }
    }
    chunk
}

fn run_of<F: PodFields>(
    segment: &ListSegment,
    all_owned: &[Arc<OwnedPods<F>>],
    items: &[Arc<Pod>],
) -> PodRun<F> {
    let owned_pods = &all_owned[segment.owned_pods as usize];
    let pods = &items[segment.pods.clone()];
    let all = u32::try_from(pods.len()).expect("fewer pods than 32 bits count");
    let (not_deleting, others) = if owned_pods.is_orphans() {
        (0, pods.to_vec())
    } else if segment.deleting > 0 {
        let deleting = pods.iter().filter(|pod| pod.metadata.is_deleting());
        (all - segment.deleting, deleting.cloned().collect())
    } else {
        (all, Vec::new())
    };
    PodRun {
        owned_pods: owned_pods.clone(),
        not_deleting,
        others,
    }
}

fn name_of(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

/// The results of `work` on every item, in order. On the caller's pool where there are many pods.
fn map_all<T: Sync, R: Send>(
    pods: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync + Send,
) -> Vec<R> {
    if cfg!(feature = "rayon") && pods >= PARALLEL_LIST_MIN {
        #[cfg(feature = "rayon")]
        return items.par_iter().map(work).collect();
    }
    items.iter().map(work).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_objects::{OwnerReference, Time, Uid};

    fn pod(name: &str, owner: Option<u128>, deleting: bool) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.name = name.into();
        pod.metadata.namespace = "ns".into();
        if let Some(uid) = owner {
            pod.metadata.owner_references.push(Arc::new(OwnerReference {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "web".into(),
                uid: Uid::from_u128(uid),
                controller: Some(true),
                block_owner_deletion: Some(true),
            }));
        }
        if deleting {
            pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
        }
        Arc::new(pod)
    }

    /// Enough pods for several parts and threads: of owners that take turns, some of them orphans,
    /// some on their way out.
    fn many() -> Vec<Arc<Pod>> {
        let pod = |n: usize| {
            let owner = (n / 7 % 50) as u128;
            pod(
                &format!("p-{n:06}"),
                (owner > 0).then_some(owner),
                n.is_multiple_of(11),
            )
        };
        (0..PARALLEL_LIST_MIN + CHUNK_LEN + 5).map(pod).collect()
    }

    #[test]
    fn a_list_in_bulk_leaves_what_its_pods_one_by_one_leave() {
        let items = many();
        let (bulk, single) = (PodCache::<()>::new(), PodCache::<()>::new());
        let listed = bulk.replace(items.clone(), &9.into());
        assert!(listed.changes.is_empty());
        let told = listed
            .runs
            .iter()
            .map(|run| run.not_deleting as usize + run.others.len());
        assert_eq!(told.sum::<usize>(), items.len());
        for pod in &items {
            single.apply(crate::cache::Delta::Applied(pod.clone()));
        }
        assert_eq!((bulk.len(), single.len()), (items.len(), items.len()));
        for pod in &items {
            let found = bulk.get("ns", &pod.metadata.name).expect("it was listed");
            assert!(Arc::ptr_eq(&found, pod));
            let all_owned = [&bulk, &single].map(|cache| cache.by_controller.of(&pod.metadata));
            assert_eq!(all_owned[0].pod_count(), all_owned[1].pod_count());
        }
        for pod in &items[..350] {
            let all_owned = [&bulk, &single].map(|cache| cache.by_controller.of(&pod.metadata));
            let members = all_owned[0].lock();
            assert!(members.totals_are_exact());
            let pods = |(pod, _): (&Arc<Pod>, _)| Arc::as_ptr(pod);
            assert!(
                members
                    .iter()
                    .map(pods)
                    .eq(all_owned[1].lock().iter().map(pods))
            );
        }
        // What it has put in can be taken out again.
        for pod in items {
            assert!(bulk.apply(crate::cache::Delta::Deleted(pod)).old.is_some());
        }
        assert!(bulk.is_empty());
    }

    #[test]
    fn runs_tell_living_pods_from_those_to_be_looked_at() {
        let cache = PodCache::<()>::new();
        let items = vec![
            pod("a", None, false),
            pod("b", Some(1), false),
            pod("c", Some(1), true),
            pod("d", Some(1), false),
            pod("e", Some(2), false),
            pod("f", Some(1), false),
        ];
        let runs = cache.replace(items, &9.into()).runs;
        let told: Vec<_> = runs
            .iter()
            .map(|run| (run.not_deleting, run.others.len()))
            .collect();
        assert_eq!(told, [(0, 1), (2, 1), (1, 0), (1, 0)]);
        assert!(Arc::ptr_eq(&runs[1].owned_pods, &runs[3].owned_pods));
        assert_eq!(cache.version().get(), ResourceVersion::Number(9));
    }

    #[test]
    fn a_list_that_is_not_sorted_or_names_a_pod_twice_is_taken_one_by_one() {
        for names in [["b", "a"], ["a", "a"]] {
            let cache = PodCache::<()>::new();
            let listed =
                cache.replace(names.map(|name| pod(name, None, false)).to_vec(), &9.into());
            assert_eq!((listed.changes.len(), listed.runs.len()), (2, 0));
            assert_eq!(cache.len(), if names[0] == names[1] { 1 } else { 2 });
        }
    }

    #[test]
    fn a_relist_deletes_what_is_missing_before_it_adds() {
        let cache = PodCache::<()>::new();
        for name in ["c", "a", "b"] {
            cache.apply(crate::cache::Delta::Applied(pod(name, None, false)));
        }
        let list = vec![pod("d", None, false), pod("b", None, false)];
        let changes = cache.replace(list, &9.into()).changes;
        let told = changes.iter().map(|change| {
            let name = change.new.metadata.name.as_str();
            (name, change.deleted, change.old.is_some())
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                ("a", true, true),
                ("c", true, true),
                ("d", false, false),
                ("b", false, true)
            ]
        );
        assert_eq!(cache.version().get(), ResourceVersion::Number(9));
    }
}
