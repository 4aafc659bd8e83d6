//! Replaces the content of the pod cache with a list. A list into an empty cache, as at every
//! start, is loaded in bulk: the pods of one controller are added to their owner together, and the
//! handlers get runs of pods instead of one change per pod.
//!
//! With the feature `rayon`, the caller's thread pool shares the work. The result does not depend
//! on the number of threads: the positions of an owner's pods follow the order of the list.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashTable;
use podstorm_objects::{Pod, ResourceVersion};
#[cfg(feature = "rayon")]
use rayon::prelude::*;
use smallvec::{SmallVec, smallvec};

use super::index::{NameHash, PodSlot, SHARDS};
use super::owned_pods::OwnedPods;
use super::pods::same_controller;
use super::{PodCache, PodChange};
use crate::intern::FIXED_STATE;
use crate::limits::PARALLEL_LIST_MIN;
use crate::primitives::{AtomicU32, Mutex, Ordering, lock};

/// The effects of a list. Callers handle the changes first, then the runs. One of the two is empty.
#[derive(Debug, Default)]
pub struct Listed {
    /// The pods missing from the list, as deleted, in name order; then the listed pods.
    pub changes: Vec<PodChange>,
    /// All pods of the list, in its order, if the cache was empty before.
    pub runs: Vec<PodRun>,
}

/// Consecutive pods of a list that have one controller and are new to the cache.
#[derive(Debug)]
pub struct PodRun {
    /// The pods with that controller reference.
    pub owned_pods: Arc<OwnedPods>,
    /// The number of the run's pods that are not being deleted.
    pub not_deleting: u32,
    /// The pods of the run that must be handled one by one: orphans, and pods that are being
    /// deleted.
    pub others: Vec<Arc<Pod>>,
}

impl PodRun {
    /// Returns a pod of the controller, for workloads that resolve the owner by its reference.
    pub fn any_pod(&self) -> Option<Arc<Pod>> {
        let pods = self.owned_pods.lock();
        pods.iter().next().map(|(pod, _)| Arc::clone(pod))
    }
}

/// Consecutive pods of one chunk of the list with the same controller.
#[derive(Debug)]
struct ListSegment {
    pods: Range<usize>,
    /// The number of pods that are being deleted.
    deleting: u32,
    /// The index of the segment's owner among the owners of the list.
    owned_pods: u32,
}

/// The results of the first pass over one chunk of the list.
#[derive(Debug, Default)]
struct Chunk {
    name_hashes: Vec<NameHash>,
    segments: Vec<ListSegment>,
    /// Whether the names in the chunk are strictly ascending.
    is_sorted: bool,
}

/// The list of an owner's pods, and the indices of the segments to add to it, in order.
type OwnerSegments = (Arc<OwnedPods>, SmallVec<[u32; 1]>);

/// The number of pods in a chunk. Independent of the number of threads, because segments end with
/// their chunk.
const CHUNK_LEN: usize = 4096;

impl PodCache {
    /// Replaces the content of the cache with a list. The changes start with the pods that are
    /// missing from the list, as deleted in their last cached state (tombstones), in name order;
    /// then come the items in list order. Must not be called while other threads apply events.
    ///
    /// O(n log n), or O(n) for a list into an empty cache that is sorted by namespace and name,
    /// which is how servers send it.
    pub fn replace(&self, items: Vec<Arc<Pod>>, version: &ResourceVersion) -> Listed {
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

    /// Returns all pods if this list came into an empty cache, for handlers that take pods one by
    /// one instead of in runs; otherwise none. In no particular order. O(pods).
    pub fn filled_by(&self, listed: &Listed) -> Vec<Arc<Pod>> {
        let mut pods = Vec::new();
        if !listed.runs.is_empty() {
            self.for_each(|pod| pods.push(Arc::clone(pod)));
        }
        pods
    }

    fn merge(&self, items: Vec<Arc<Pod>>) -> Vec<PodChange> {
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
        let mut changes: Vec<PodChange> = gone.collect();
        changes.extend(items.into_iter().map(|pod| self.put(pod)));
        changes
    }

    /// Loads a sorted list into the empty cache.
    fn fill(&self, items: Vec<Arc<Pod>>, chunks: Vec<Chunk>) -> Vec<PodRun> {
        let mut name_hashes = Vec::with_capacity(items.len());
        let mut segments = Vec::new();
        for chunk in chunks {
            name_hashes.extend(chunk.name_hashes);
            segments.extend(chunk.segments);
        }
        let all_owned = self.assign(&items, &mut segments);
        let handles: Vec<AtomicU32> = items.iter().map(|_| AtomicU32::new(0)).collect();
        let all_owned: Vec<Arc<OwnedPods>> = map_all(items.len(), &all_owned, |owner_segments| {
            self.insert_all(owner_segments, &segments, &items, &handles)
        });
        let run_of = |segment: &ListSegment| run_of(segment, &all_owned, &items);
        let runs = segments.iter().map(run_of).collect();
        // From here on the references that the list holds move into the index, so no reference
        // count changes.
        let mut shards: Vec<Vec<PodSlot>> = (0..SHARDS).map(|_| Vec::new()).collect();
        let mut pods = items.into_iter();
        for segment in &segments {
            let owned_pods = &all_owned[segment.owned_pods as usize];
            for (at, pod) in segment.pods.clone().zip(&mut pods) {
                let NameHash { shard, hash } = name_hashes[at];
                shards[shard as usize].push(PodSlot {
                    pod,
                    owned_pods: owned_pods.clone(),
                    // Relaxed: the threads that wrote the handle have been joined.
                    handle: handles[at].load(Ordering::Relaxed),
                    hash,
                });
            }
        }
        self.index_all(shards);
        runs
    }

    /// Finds the owned pods of each segment.
    fn assign(&self, items: &[Arc<Pod>], segments: &mut [ListSegment]) -> Vec<OwnerSegments> {
        let mut all_owned: Vec<OwnerSegments> = Vec::new();
        let mut numbers: HashTable<u32> = HashTable::new();
        let hash =
            |owned_pods: &Arc<OwnedPods>| FIXED_STATE.hash_one(Arc::as_ptr(owned_pods).addr());
        for (at, segment) in (0u32..).zip(segments) {
            let owned_pods = self
                .by_controller
                .owned_pods(&items[segment.pods.start].metadata);
            let is_it = |number: &u32| Arc::ptr_eq(&all_owned[*number as usize].0, &owned_pods);
            if let Some(number) = numbers.find(hash(&owned_pods), is_it) {
                segment.owned_pods = *number;
                all_owned[*number as usize].1.push(at);
                continue;
            }
            segment.owned_pods =
                u32::try_from(all_owned.len()).expect("there are no more owners than pods");
            all_owned.push((owned_pods, smallvec![at]));
            let fresh = &all_owned[segment.owned_pods as usize].0;
            numbers.insert_unique(hash(fresh), segment.owned_pods, |number| {
                hash(&all_owned[*number as usize].0)
            });
        }
        all_owned
    }

    /// Adds the pods of these segments to their owner. Returns the list of the owner's pods: a new
    /// list if the old one was dropped as unused in the meantime.
    fn insert_all(
        &self,
        (owned_pods, owner_segments): &OwnerSegments,
        segments: &[ListSegment],
        items: &[Arc<Pod>],
        handles: &[AtomicU32],
    ) -> Arc<OwnedPods> {
        let segments = owner_segments.iter().map(|at| &segments[*at as usize].pods);
        let mut owned_pods = owned_pods.clone();
        loop {
            let mut members = owned_pods.lock();
            if members.is_closed() {
                drop(members);
                owned_pods = self.by_controller.owned_pods(
                    &items[segments.clone().next().map_or(0, |pods| pods.start)].metadata,
                );
                continue;
            }
            members.reserve(segments.clone().map(|pods| pods.len()).sum());
            for at in segments.flat_map(|pods| pods.clone()) {
                let (handle, change) = members.insert(items[at].clone(), self.node_of(&items[at]));
                self.note(&owned_pods, change);
                // Relaxed: the handles are read after all threads have been joined.
                handles[at].store(handle, Ordering::Relaxed);
            }
            owned_pods.set_pod_count(members.len());
            drop(members);
            return owned_pods;
        }
    }

    /// Adds the slots to the index, which is empty.
    fn index_all(&self, shards: Vec<Vec<PodSlot>>) {
        let count = shards.iter().map(Vec::len).sum();
        let shards: Vec<(u32, Mutex<Vec<PodSlot>>)> =
            (0u32..).zip(shards.into_iter().map(Mutex::new)).collect();
        map_all(count, &shards, |(number, slots)| {
            let slots = std::mem::take(&mut *lock(slots));
            self.index.lock(*number).fill(slots);
        });
    }
}

/// Reads a list in chunks. Returns `None` if it is not sorted.
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
            .push(NameHash::new(&meta.namespace, &meta.name));
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

fn run_of(segment: &ListSegment, all_owned: &[Arc<OwnedPods>], items: &[Arc<Pod>]) -> PodRun {
    let owned_pods = &all_owned[segment.owned_pods as usize];
    let pods = &items[segment.pods.clone()];
    let all = u32::try_from(pods.len()).expect("the number of pods fits into 32 bits");
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

/// Returns the results of `work` on every item, in order. Runs on the caller's thread pool if
/// the list has many pods.
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
mod tests;
