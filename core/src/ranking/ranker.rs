//! The selection itself, with its scratch memory.

use crate::object::Uid;

use super::exact::{Exact, Group, Probe};
use super::fields::RankFields;
use super::key::{FINE_RANK_MAX, Packing};
use super::relation::RankOptions;
use super::select::{merge_sort, select_first};

/// For so many pods at the cut there is room from the first time on (40 KB), so that the usual
/// handful, a little more this time than the last, doesn't grow the scratch memory bit by bit.
const TIED_ROOM_MIN: usize = 512;

/// How many keys are sampled to find a bound for the keys that matter.
const SAMPLE: usize = 256;
/// From this many pods on, and when a quarter of them or fewer go, such a bound is looked for.
const NARROW_MIN: usize = 4 * SAMPLE;

// The sample's place for the largest share of pods that is narrowed, with its margin.
const _: () = assert!(SAMPLE / 4 + 3 * (SAMPLE / 4).isqrt() + 4 < SAMPLE);

/// From this many pods on, packing them on several cores pays: it then takes about 100 µs on one,
/// against some 10 µs to wake others.
#[cfg(feature = "rayon")]
const PARALLEL_PACK_MIN: usize = 32_768;

/// Chooses pods to delete. Keeps its scratch memory from call to call: a call with no more pods
/// than an earlier one, nor more than before (or than 512) that tie at the cut, allocates nothing.
/// About 40 bytes a pod, and 100 for each pod at the cut.
#[derive(Debug, Default)]
pub struct Ranker {
    /// What the caller calls the pods, by position.
    ids: Vec<u32>,
    /// By position.
    keys: Vec<u64>,
    /// Positions of the pods that may be at the cut or below, then free places; as long as the
    /// longest list of keys so far, like the next three.
    near: Vec<u32>,
    /// Their keys; in no particular order once the one at the cut is looked for.
    loose_keys: Vec<u64>,
    /// Positions of the pods below the cut.
    below: Vec<u32>,
    /// Positions of the pods whose key is the one at the cut.
    tied: Vec<u32>,
    /// Exact values of the tied pods, or of all for the full order.
    exact: Vec<Exact>,
    /// Their UIDs, while there is one that is not canonical.
    uids: Vec<Uid>,
    probes: Vec<Probe>,
    probe_scratch: Vec<Probe>,
    /// The chosen pods: positions, and in the end what the caller calls them.
    chosen: Vec<u32>,
    /// Positions, for the full order.
    order: Vec<u32>,
    order_scratch: Vec<u32>,
}

impl Ranker {
    /// A ranker without scratch memory yet.
    pub fn new() -> Ranker {
        Ranker::default()
    }

    /// Chooses `k` of the candidates to delete, or all when there are not more. A candidate is
    /// whatever number the caller knows the pod by, and its fields; the numbers chosen are
    /// returned, in no particular order. The candidates should be active pods.
    ///
    /// `rank_of_node` gives the number of related pods on a node, for rule 5. It is called once or
    /// twice for each candidate with [`RankFields::node`]; pods without a node are known as such
    /// by their fields, and what it gives for them is not looked at.
    ///
    /// The candidates are gone through up to three times, always in the same order, and the same
    /// order of the same candidates gives the same choice. O(n) expected; O(n log n) at worst.
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

    /// As [`choose`](Self::choose) over all of a dense list, where a pod's number is its place in
    /// the list. From some tens of thousands of pods on the keys are packed on the rayon pool that
    /// the caller runs in; the choice is the same.
    #[cfg(feature = "rayon")]
    pub fn choose_dense(
        &mut self,
        fields: &[RankFields],
        rank_of_node: impl Fn(u32) -> u32 + Sync,
        options: &RankOptions,
        k: usize,
    ) -> &[u32] {
        use rayon::prelude::*;
        let numbered = (0u32..).zip(fields);
        if fields.len() < PARALLEL_PACK_MIN {
            return self.choose(numbered, rank_of_node, options, k);
        }
        let packing = Packing::new(options);
        self.keys.resize(fields.len(), 0);
        let records = self
            .keys
            .par_iter_mut()
            .zip(fields)
            .with_min_len(PARALLEL_PACK_MIN / 4);
        let packed = records.map(|(key, fields)| {
            let rank = Packing::rank(fields, &rank_of_node);
            *key = packing.fine(fields, rank);
            rank
        });
        if packed
            .max()
            .is_some_and(|rank_max| rank_max > FINE_RANK_MAX)
        {
            return self.choose(numbered, rank_of_node, options, k);
        }
        self.select(fields.iter(), options, k);
        &self.chosen
    }

    /// All candidates, most deletable first. The first `k` are exactly those that
    /// [`choose`](Self::choose) returns for this `k`. Where the rules contradict themselves the
    /// order is one of several that keep to what they agree on; see [`before`](super::before).
    ///
    /// O(n log n), meant for explanations.
    pub fn full_order<'a>(
        &mut self,
        candidates: impl Iterator<Item = (u32, &'a RankFields)> + Clone,
        rank_of_node: impl Fn(u32) -> u32,
        options: &RankOptions,
        k: usize,
    ) -> &[u32] {
        self.pack(candidates.clone(), rank_of_node, options);
        let fields = candidates.map(|(_, fields)| fields);
        self.select(fields.clone(), options, k);

        let mut is_chosen = vec![false; self.keys.len()];
        self.chosen
            .iter()
            .for_each(|at| is_chosen[*at as usize] = true);
        // The chosen to the front, each part in order of position until it is sorted.
        let (first, last): (Vec<u32>, Vec<u32>) =
            (0..end_of(&self.keys)).partition(|at| is_chosen[*at as usize]);
        self.order.clear();
        self.order.extend(first.iter().chain(&last));
        let (first_part, last_part) = self.order.split_at_mut(first.len());

        self.exact.clear();
        self.exact.extend(fields.clone().map(Exact::new));
        self.uids.extend(fields.map(|fields| fields.uid().clone()));
        let group = Group::new(&self.exact, &self.uids, options);
        let keys = &self.keys;
        for part in [first_part, last_part] {
            merge_sort(part, &mut self.order_scratch, &|a: &u32, b: &u32| {
                let by_key = keys[*a as usize].cmp(&keys[*b as usize]);
                by_key.then_with(|| group.compare_slots(*a, *b))
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

    /// Fills `chosen` with the positions of the first `k`, from the keys and, where they don't
    /// suffice, from the fields.
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

        if self.near.len() < self.keys.len() {
            self.near.resize(self.keys.len(), 0);
            self.loose_keys.resize(self.keys.len(), 0);
            self.below.resize(self.keys.len(), 0);
            self.tied.resize(self.keys.len(), 0);
            self.make_room_for_tied(TIED_ROOM_MIN.min(self.keys.len()));
        }
        let narrowed = self.bound(k).map_or(0, |bound| self.keep_near(bound));
        let places = (&mut self.below[..], &mut self.tied[..]);
        let (below, tied) = if narrowed >= k {
            let (_, cut, _) = self.loose_keys[..narrowed].select_nth_unstable(k - 1);
            let near = self.near[..narrowed].iter().copied();
            split(near.map(|at| (at, self.keys[at as usize])), *cut, places)
        } else {
            // There was no bound, or an unlucky sample has left too few.
            let loose_keys = &mut self.loose_keys[..self.keys.len()];
            loose_keys.copy_from_slice(&self.keys);
            let (_, cut, _) = loose_keys.select_nth_unstable(k - 1);
            split((0u32..).zip(self.keys.iter().copied()), *cut, places)
        };
        self.chosen.extend_from_slice(&self.below[..below]);
        let missing = k - below;
        if missing == tied {
            self.chosen.extend_from_slice(&self.tied[..tied]);
        } else {
            self.select_tied(fields, options, tied, missing);
        }
    }

    /// A key that is probably above the `k`-th, but not by much; `None` where looking for one
    /// doesn't pay. Taken from a sample at even distances.
    fn bound(&mut self, k: usize) -> Option<u64> {
        if self.keys.len() < NARROW_MIN || k > self.keys.len() / 4 {
            return None;
        }
        let stride = self.keys.len() / SAMPLE;
        let sample = &mut self.loose_keys[..SAMPLE];
        for (place, key) in sample.iter_mut().zip(self.keys.iter().step_by(stride)) {
            *place = *key;
        }
        // The number of sampled keys below the k-th spreads by about its root.
        let expected = k * SAMPLE / self.keys.len();
        let (_, bound, _) = sample.select_nth_unstable(expected + 3 * expected.isqrt() + 4);
        Some(*bound)
    }

    /// Fills `near` and `loose_keys` with the pods up to a key; returns how many there are.
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

    /// Empties what is kept of each tied pod, and makes room for so many.
    fn make_room_for_tied(&mut self, tied: usize) {
        self.exact.clear();
        self.exact.reserve(tied);
        self.probes.clear();
        self.probes.reserve(tied);
        self.probe_scratch.clear();
        self.probe_scratch.reserve(2 * tied);
    }

    /// Adds to the chosen as many of the first `tied` tied pods as are missing.
    fn select_tied<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a RankFields> + Clone,
        options: &RankOptions,
        tied: usize,
        missing: usize,
    ) {
        self.make_room_for_tied(tied);
        let tied = &self.tied[..tied];
        let mut canonical = true;
        self.exact
            .extend(at_positions(tied, fields.clone()).map(|fields| {
                canonical &= fields.uid().as_u128().is_some();
                Exact::new(fields)
            }));
        if !canonical {
            self.uids
                .extend(at_positions(tied, fields).map(|fields| fields.uid().clone()));
        }
        let group = Group::new(&self.exact, &self.uids, options);
        group.probe(&mut self.probes);
        select_first(
            &mut self.probes,
            missing,
            &mut self.probe_scratch,
            |a, b| group.compare(a, b),
        );
        self.chosen.extend(
            self.probes[..missing]
                .iter()
                .map(|probe| tied[probe.slot as usize]),
        );
        self.uids.clear();
    }
}

/// Writes down the positions of the keys below the cut and at the cut; returns how many there are.
fn split(
    keys: impl Iterator<Item = (u32, u64)>,
    cut: u64,
    (below_places, tied_places): (&mut [u32], &mut [u32]),
) -> (usize, usize) {
    let (mut below, mut tied) = (0, 0);
    for (at, key) in keys {
        // Written always and kept by the count: which it is can't be foreseen near the middle.
        below_places[below] = at;
        tied_places[tied] = at;
        below += usize::from(key < cut);
        tied += usize::from(key == cut);
    }
    (below, tied)
}

/// The position behind the last.
fn end_of(keys: &[u64]) -> u32 {
    u32::try_from(keys.len()).expect("pods are numbered in 32 bits")
}

/// The items at some positions, which ascend.
fn at_positions<T>(
    positions: &[u32],
    mut items: impl Iterator<Item = T>,
) -> impl Iterator<Item = T> {
    let mut passed = 0;
    positions.iter().map_while(move |at| {
        let skipped = *at - passed;
        passed = *at + 1;
        items.nth(skipped as usize)
    })
}
