//! The selection of the pods to delete, and its scratch memory.

use podstorm_objects::Uid;

use super::exact::{Exact, Probe, TiedPods};
use super::fields::RankFields;
use super::key::{FINE_RANK_MAX, Packing};
use super::relation::RankOptions;
use super::select::{merge_sort, select_first};

/// The minimum capacity for tied pods, reserved on the first call (40 KB). The usual small number
/// of tied pods varies a little between calls and must not grow the scratch memory in small steps.
const TIED_CAPACITY_MIN: usize = 512;

/// The number of keys in the sample from which a bound for the relevant keys is estimated.
pub(super) const SAMPLE: usize = 256;
/// The minimum number of pods for a bound, if at most a quarter of the pods are deleted.
const NARROW_MIN: usize = 4 * SAMPLE;

// The index in the sample, with its margin, must be valid even if a quarter of the pods are
// deleted.
const _: () = assert!(SAMPLE / 4 + 3 * (SAMPLE / 4).isqrt() + 4 < SAMPLE);

/// Chooses the pods to delete. Keeps its scratch memory between calls: a call allocates nothing if
/// an earlier call had as many pods, and as many (or 512) pods tied at the cut. Uses about 40 bytes
/// for each pod, and 100 bytes for each pod with the key at the cut.
#[derive(Debug, Default)]
pub struct Ranker {
    /// The numbers by which the caller knows the pods, by position.
    ids: Vec<u32>,
    /// The keys of the pods, by position.
    pub(super) keys: Vec<u64>,
    /// The positions of the pods that may be at or below the cut, followed by unused entries. This
    /// list and the next three are as long as the longest list of keys so far.
    near: Vec<u32>,
    /// The keys of these pods. The selection of the key at the cut reorders them.
    loose_keys: Vec<u64>,
    /// The positions of the pods below the cut.
    pub(super) below: Vec<u32>,
    /// The positions of the pods with the key at the cut.
    pub(super) tied: Vec<u32>,
    /// The exact values of the tied pods, or of all pods for the full order.
    exact: Vec<Exact>,
    /// The UIDs of the tied pods if any of them is not canonical; otherwise empty.
    uids: Vec<Uid>,
    probes: Vec<Probe>,
    probe_scratch: Vec<Probe>,
    /// The chosen pods: first as positions, in the end as the caller's numbers.
    pub(super) chosen: Vec<u32>,
    /// The positions for the full order.
    order: Vec<u32>,
    order_scratch: Vec<u32>,
    /// The candidates that each piece of a list contributes, on several cores.
    #[cfg(feature = "rayon")]
    pub(super) pieces: Vec<super::parallel::Piece>,
    /// The minimum number of items for several cores, if the caller has set it.
    #[cfg(feature = "rayon")]
    pub(super) parallel_from: Option<usize>,
}

impl Ranker {
    /// Creates a ranker without scratch memory.
    pub fn new() -> Ranker {
        Ranker::default()
    }

    /// Chooses `k` of the candidates to delete, or all if there are at most `k`. A candidate is the
    /// number by which the caller knows a pod, and the pod's fields. Returns the chosen numbers in
    /// no particular order. The candidates should be active pods.
    ///
    /// `rank_of_node` returns the number of related pods on a node, for rule 5. It is called once
    /// or twice per candidate with [`RankFields::node`]. Its result is ignored for pods whose
    /// fields have no node.
    ///
    /// Iterates over the candidates up to three times; the order must be the same each time. The
    /// same candidates in the same order result in the same choice. O(n) expected, O(n log n) at
    /// worst.
    // Not inlined: next to a caller's own values the loops would run out of registers, which costs
    // 4 % more instructions.
    #[inline(never)]
    pub fn choose<'a>(
        &mut self,
        candidates: impl Iterator<Item = (u32, &'a RankFields)> + Clone,
        rank_of_node: impl Fn(u32) -> u32,
        options: &RankOptions,
        k: usize,
    ) -> &[u32] {
        self.pack(candidates.clone(), rank_of_node, options);
        self.select(candidates.map(|(_, fields)| fields), options, k);
        for at in &mut self.chosen {
            *at = self.ids[*at as usize];
        }
        &self.chosen
    }

    /// Like [`choose`](Self::choose), for candidates in a list. `fields` has the fields of all
    /// items, and the chosen numbers are indices. With the feature `rayon`, a list of some ten
    /// thousand items from which few are chosen is divided over the caller's rayon pool; the choice
    /// is the same.
    pub fn choose_among<T: Sync>(
        &mut self,
        items: &[T],
        fields: &[RankFields],
        is_candidate: impl Fn(&T) -> bool + Sync,
        rank_of_node: impl Fn(u32) -> u32 + Sync,
        options: &RankOptions,
        k: usize,
    ) -> &[u32] {
        #[cfg(feature = "rayon")]
        if self.choose_parallel(items, fields, &is_candidate, &rank_of_node, options, k) {
            return &self.chosen;
        }
        let numbered = (0u32..).zip(items.iter().zip(fields));
        let candidates = numbered.filter(|(_, (item, _))| is_candidate(item));
        let candidates = candidates.map(|(at, (_, fields))| (at, fields));
        self.choose(candidates, rank_of_node, options, k)
    }

    /// Returns all candidates in deletion order. Unless `whole` is set, those after the first `k`
    /// keep their original order. The first `k` are exactly those that [`choose`](Self::choose)
    /// returns for this `k`. Where the rules contradict each other, the order is one of several
    /// that fit the other rules; see [`before`](super::before).
    ///
    /// O(n log n), or O(n) expected plus O(k log k) for only the first `k`. For explanations.
    pub fn order<'a>(
        &mut self,
        candidates: impl Iterator<Item = (u32, &'a RankFields)> + Clone,
        rank_of_node: impl Fn(u32) -> u32,
        options: &RankOptions,
        k: usize,
        whole: bool,
    ) -> &[u32] {
        self.pack(candidates.clone(), rank_of_node, options);
        let fields = candidates.map(|(_, fields)| fields);
        self.select(fields.clone(), options, k);

        let mut is_chosen = vec![false; self.keys.len()];
        self.chosen
            .iter()
            .for_each(|at| is_chosen[*at as usize] = true);
        // The chosen pods come first. Each part is in the order of positions until it is sorted.
        let (first, last): (Vec<u32>, Vec<u32>) =
            (0..end_of(&self.keys)).partition(|at| is_chosen[*at as usize]);
        self.order.clear();
        self.order.extend(first.iter().chain(&last));
        let (first_part, last_part) = self.order.split_at_mut(first.len());
        let last_part = if whole { last_part } else { &mut [] };

        self.exact.clear();
        self.exact.extend(fields.clone().map(Exact::new));
        self.uids.extend(fields.map(|fields| fields.uid().clone()));
        let tied_pods = TiedPods::new(&self.exact, &self.uids, options);
        let keys = &self.keys;
        for part in [first_part, last_part] {
            merge_sort(part, &mut self.order_scratch, &|a: &u32, b: &u32| {
                let by_key = keys[*a as usize].cmp(&keys[*b as usize]);
                by_key.then_with(|| tied_pods.compare_slots(*a, *b))
            });
        }
        self.uids.clear();
        self.chosen.clear();
        let ids = &self.ids;
        self.chosen
            .extend(self.order.iter().map(|at| ids[*at as usize]));
        &self.chosen
    }

    /// Fills `ids` and `keys`.
    fn pack<'a>(
        &mut self,
        candidates: impl Iterator<Item = (u32, &'a RankFields)> + Clone,
        rank_of_node: impl Fn(u32) -> u32,
        options: &RankOptions,
    ) {
        let packing = Packing::new(options);
        self.ids.clear();
        self.keys.clear();
        self.ids.reserve(candidates.size_hint().0);
        self.keys.reserve(candidates.size_hint().0);
        let mut rank_max = 0;
        for (id, fields) in candidates.clone() {
            let rank = Packing::rank(fields, &rank_of_node);
            rank_max = rank_max.max(rank);
            self.ids.push(id);
            self.keys.push(packing.fine(fields, rank));
        }
        if rank_max > FINE_RANK_MAX {
            let fields = candidates.map(|(_, fields)| fields);
            for (key, fields) in self.keys.iter_mut().zip(fields) {
                *key = packing.coarse(fields, Packing::rank(fields, &rank_of_node));
            }
        }
    }

    /// Fills `chosen` with the positions of the first `k` pods, by the keys and, where they are
    /// equal, by the fields.
    fn select<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a RankFields> + Clone,
        options: &RankOptions,
        k: usize,
    ) {
        let end = end_of(&self.keys);
        self.chosen.clear();
        if k == 0 {
            return;
        }
        if k >= self.keys.len() {
            self.chosen.extend(0..end);
            return;
        }

        self.reserve(self.keys.len());
        let narrowed = self.bound(k).map_or(0, |bound| self.keep_near(bound));
        let (below_at, tied_at) = (&mut self.below[..], &mut self.tied[..]);
        let (below, tied) = if narrowed >= k {
            let (_, cut, _) = self.loose_keys[..narrowed].select_nth_unstable(k - 1);
            let near = self.near[..narrowed].iter().copied();
            let near = near.map(|at| (at, self.keys[at as usize]));
            split(near, *cut, below_at, tied_at)
        } else {
            // There was no bound, or an unlucky sample gave too few candidates.
            let loose_keys = &mut self.loose_keys[..self.keys.len()];
            loose_keys.copy_from_slice(&self.keys);
            let (_, cut, _) = loose_keys.select_nth_unstable(k - 1);
            let keys = (0u32..).zip(self.keys.iter().copied());
            split(keys, *cut, below_at, tied_at)
        };
        let tied_at = std::mem::take(&mut self.tied);
        let tied_fields = at_positions(&tied_at[..tied], fields);
        self.fill_chosen(below, &tied_at[..tied], tied_fields, options, k);
        self.tied = tied_at;
    }

    /// Reserves memory for a list with this many keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        if self.near.len() < keys {
            self.near.resize(keys, 0);
            self.loose_keys.resize(keys, 0);
            self.below.resize(keys, 0);
            self.tied.resize(keys, 0);
            self.reserve_for_tied(TIED_CAPACITY_MIN.min(keys));
        }
    }

    /// Adds the first `below` entries of the pods below the cut to the chosen pods, and as many
    /// tied pods as are still missing.
    pub(super) fn fill_chosen<'a>(
        &mut self,
        below: usize,
        tied: &[u32],
        tied_fields: impl Iterator<Item = &'a RankFields> + Clone,
        options: &RankOptions,
        k: usize,
    ) {
        self.chosen.extend_from_slice(&self.below[..below]);
        let missing = k - below;
        if missing == tied.len() {
            self.chosen.extend_from_slice(tied);
        } else {
            self.select_tied(tied, tied_fields, options, missing);
        }
    }

    /// Estimates, from a sample at regular distances, a key that is probably slightly above the
    /// `k`-th. `None` if a bound would not save time.
    fn bound(&mut self, k: usize) -> Option<u64> {
        if self.keys.len() < NARROW_MIN || k > self.keys.len() / 4 {
            return None;
        }
        let stride = self.keys.len() / SAMPLE;
        let sample = &mut self.loose_keys[..SAMPLE];
        for (place, key) in sample.iter_mut().zip(self.keys.iter().step_by(stride)) {
            *place = *key;
        }
        let (_, bound, _) = sample.select_nth_unstable(bound_place(k, self.keys.len()));
        Some(*bound)
    }

    /// Fills `near` and `loose_keys` with the pods whose key is at most `bound`. Returns their
    /// number.
    fn keep_near(&mut self, bound: u64) -> usize {
        let (near, loose_keys) = (&mut self.near[..], &mut self.loose_keys[..]);
        let mut kept = 0;
        for (at, key) in (0u32..).zip(&self.keys) {
            near[kept] = at;
            loose_keys[kept] = *key;
            kept += usize::from(*key <= bound);
        }
        kept
    }

    /// Clears the records of tied pods and reserves memory for `tied` pods.
    fn reserve_for_tied(&mut self, tied: usize) {
        self.exact.clear();
        self.exact.reserve(tied);
        self.probes.clear();
        self.probes.reserve(tied);
        self.probe_scratch.clear();
        self.probe_scratch.reserve(2 * tied);
    }

    /// Adds as many tied pods to the chosen pods as are still missing.
    fn select_tied<'a>(
        &mut self,
        tied: &[u32],
        tied_fields: impl Iterator<Item = &'a RankFields> + Clone,
        options: &RankOptions,
        missing: usize,
    ) {
        self.reserve_for_tied(tied.len());
        let mut canonical = true;
        self.exact.extend(tied_fields.clone().map(|fields| {
            canonical &= fields.uid().as_u128().is_some();
            Exact::new(fields)
        }));
        if !canonical {
            self.uids
                .extend(tied_fields.map(|fields| fields.uid().clone()));
        }
        let tied_pods = TiedPods::new(&self.exact, &self.uids, options);
        tied_pods.probe(&mut self.probes);
        select_first(
            &mut self.probes,
            missing,
            &mut self.probe_scratch,
            |a, b| tied_pods.compare(a, b),
        );
        self.chosen.extend(
            self.probes[..missing]
                .iter()
                .map(|probe| tied[probe.slot as usize]),
        );
        self.uids.clear();
    }
}

/// Returns the index, in a sorted sample of `keys` keys, of a key that is probably above the
/// `k`-th.
pub(super) fn bound_place(k: usize, keys: usize) -> usize {
    // The number of sampled keys below the k-th varies by about its square root.
    let expected = k * SAMPLE / keys;
    expected + 3 * expected.isqrt() + 4
}

/// Writes the positions of the keys below the cut, and of those at the cut. Returns their numbers.
pub(super) fn split(
    keys: impl Iterator<Item = (u32, u64)>,
    cut: u64,
    below_places: &mut [u32],
    tied_places: &mut [u32],
) -> (usize, usize) {
    let (mut below, mut tied) = (0, 0);
    for (at, key) in keys {
        // Every position is written, and the counts decide which ones stay, because a branch would
        // be unpredictable near the middle.
        below_places[below] = at;
        tied_places[tied] = at;
        below += usize::from(key < cut);
        tied += usize::from(key == cut);
    }
    (below, tied)
}

/// Returns the position after the last key.
fn end_of(keys: &[u64]) -> u32 {
    u32::try_from(keys.len()).expect("pod numbers fit 32 bits")
}

/// Returns the items at these ascending positions.
fn at_positions<T>(
    positions: &[u32],
    mut items: impl Iterator<Item = T> + Clone,
) -> impl Iterator<Item = T> + Clone {
    let mut passed = 0;
    positions.iter().map_while(move |at| {
        let skipped = *at - passed;
        passed = *at + 1;
        items.nth(skipped as usize)
    })
}
