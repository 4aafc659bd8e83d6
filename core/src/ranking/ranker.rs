//! The selection itself, with its scratch memory.

use crate::object::Uid;

use super::exact::{Comparison, Exact};
use super::fields::RankFields;
use super::key::{FINE_RANK_MAX, Packing};
use super::relation::RankOptions;
use super::select::{merge_sort, select_first};

/// Chooses pods to delete. Keeps its scratch memory from call to call: a call that is not larger
/// than one before it allocates nothing. About 30 bytes a pod, and 150 for each pod at the cut.
#[derive(Debug, Default)]
pub struct Ranker {
    /// What the caller calls the pods, by position.
    ids: Vec<u32>,
    /// By position.
    keys: Vec<u64>,
    /// The keys in no particular order, while the one at the cut is looked for.
    loose_keys: Vec<u64>,
    /// Positions of the pods whose key is the one at the cut, ascending.
    tied: Vec<u32>,
    /// The tied pods.
    exact: Vec<Exact>,
    exact_scratch: Vec<Exact>,
    /// Their UIDs, while there is one that is not canonical.
    uids: Vec<Uid>,
    /// Positions of the chosen pods; in the end, what the caller calls them.
    chosen: Vec<u32>,
    /// Whole records for the full order, by key.
    ordered: Vec<(u64, Exact)>,
    ordered_scratch: Vec<(u64, Exact)>,
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

        let positions = 0u32..;
        let records = positions.zip(fields.clone());
        self.ordered.clear();
        self.ordered.extend(
            records.map(|(at, fields)| (self.keys[at as usize], Exact::new(at, fields, options))),
        );
        self.uids.extend(fields.map(|fields| fields.uid().clone()));

        // The chosen to the front, each part in order of position until it is sorted.
        self.chosen.sort_unstable();
        let mut is_chosen = vec![false; self.keys.len()];
        self.chosen
            .iter()
            .for_each(|at| is_chosen[*at as usize] = true);
        self.ordered
            .sort_by_key(|(_, exact)| !is_chosen[exact.slot as usize]);
        let comparison = Comparison::new(&self.uids, options);
        let (first, last) = self.ordered.split_at_mut(self.chosen.len());
        for part in [first, last] {
            merge_sort(
                part,
                &mut self.ordered_scratch,
                &|a: &(u64, Exact), b: &(u64, Exact)| {
                    a.0.cmp(&b.0).then_with(|| comparison.compare(&a.1, &b.1))
                },
            );
        }
        self.uids.clear();
        self.chosen.clear();
        let ids = &self.ids;
        self.chosen.extend(
            self.ordered
                .iter()
                .map(|(_, exact)| ids[exact.slot as usize]),
        );
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
        let mut rank_max = 0;
        self.ids.reserve(candidates.size_hint().0);
        self.keys.reserve(candidates.size_hint().0);
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
        let length = self.keys.len();
        let end = u32::try_from(length).expect("pods are numbered in 32 bits");
        self.chosen.clear();
        if k == 0 {
            return;
        }
        if k >= length {
            self.chosen.extend(0..end);
            return;
        }

        self.loose_keys.clear();
        self.loose_keys.extend_from_slice(&self.keys);
        let (_, cut, _) = self.loose_keys.select_nth_unstable(k - 1);
        let cut = *cut;

        self.tied.clear();
        for (at, key) in (0..end).zip(&self.keys) {
            if *key < cut {
                self.chosen.push(at);
            } else if *key == cut {
                self.tied.push(at);
            }
        }
        let missing = k - self.chosen.len();
        if missing < self.tied.len() {
            self.select_tied(fields, options, missing);
        }
        let tied = &self.tied;
        if missing < tied.len() {
            let first = &self.exact[..missing];
            self.chosen
                .extend(first.iter().map(|exact| tied[exact.slot as usize]));
        } else {
            self.chosen.extend_from_slice(tied);
        }
    }

    /// Brings as many of the tied pods as are missing to the front of `exact`.
    fn select_tied<'a>(
        &mut self,
        fields: impl Iterator<Item = &'a RankFields> + Clone,
        options: &RankOptions,
        missing: usize,
    ) {
        self.exact.clear();
        let mut canonical = true;
        for (slot, fields) in (0u32..).zip(at_positions(&self.tied, fields.clone())) {
            canonical &= fields.uid().as_u128().is_some();
            self.exact.push(Exact::new(slot, fields, options));
        }
        if !canonical {
            let uids = at_positions(&self.tied, fields).map(|fields| fields.uid().clone());
            self.uids.extend(uids);
        }
        let comparison = Comparison::new(&self.uids, options);
        select_first(&mut self.exact, missing, &mut self.exact_scratch, |a, b| {
            comparison.compare(a, b)
        });
        self.uids.clear();
    }
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
