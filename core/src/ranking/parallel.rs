//! The choice from a long list on several cores. Each core takes pieces of the list and keeps, from
//! each piece, only the keys that may be at or below the cut. The kept keys are only slightly more
//! than the pods to choose, and a single core finishes the choice.
//!
//! The pieces are joined in list order, so the choice is the same as on one core.

use rayon::prelude::*;

use super::fields::RankFields;
use super::key::{FINE_RANK_MAX, Packing};
use super::ranker::{Ranker, SAMPLE, bound_place, split};
use super::relation::RankOptions;

/// The minimum number of items for several cores. At this number, two cores are at least 1.5 times
/// as fast as one; see `bench/results/packages.md`.
const PARALLEL_MIN: usize = 32_768;

/// The number of items in a piece. A piece is about 20 µs of work, and distributing it costs a few
/// µs.
const PIECE: usize = 8_192;

/// The minimum number of candidates that a sample must have to find a bound.
const SAMPLED_MIN: usize = SAMPLE / 4;

/// The candidates that one piece of the list contributes.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// The list indices of the candidates up to the bound, followed by unused entries.
    near: Vec<u32>,
    /// The keys of these candidates, in the same order.
    keys: Vec<u64>,
    /// The number of these candidates.
    kept: usize,
    rank_max: u32,
}

impl Ranker {
    /// Sets the minimum number of items for several cores, instead of the default of some ten
    /// thousands.
    pub fn parallel_from(mut self, items: usize) -> Ranker {
        self.parallel_from = Some(items);
        self
    }

    /// Fills `chosen` with indices into the list. Returns `false` if a single core is faster, or if
    /// the choice needs all keys.
    pub(super) fn choose_parallel<T: Sync>(
        &mut self,
        items: &[T],
        fields: &[RankFields],
        is_candidate: &(impl Fn(&T) -> bool + Sync),
        rank_of_node: &(impl Fn(u32) -> u32 + Sync),
        options: &RankOptions,
        k: usize,
    ) -> bool {
        let least = self.parallel_from.unwrap_or(PARALLEL_MIN).max(SAMPLE);
        let count = items.len().min(fields.len());
        if count < least || k == 0 || k > count / 4 || rayon::current_num_threads() == 1 {
            return false;
        }
        let packing = Packing::new(options);
        let key = |(item, fields): (&T, &RankFields)| {
            is_candidate(item).then(|| {
                let rank = Packing::rank(fields, rank_of_node);
                (packing.fine(fields, rank), rank)
            })
        };
        let sample = items.iter().zip(fields).step_by(count / SAMPLE);
        let sample = sample.filter_map(key);
        self.keys.clear();
        self.keys.extend(sample.map(|(key, _)| key));
        let (sampled, place) = (self.keys.len(), bound_place(k, count));
        if sampled < SAMPLED_MIN || place >= sampled {
            return false;
        }
        let (_, bound, _) = self.keys.select_nth_unstable(place);
        let bound = *bound;

        let count = count.div_ceil(PIECE);
        if self.pieces.len() < count {
            self.pieces.resize_with(count, Piece::default);
        }
        let pieces = &mut self.pieces[..count];
        let parts = items.par_chunks(PIECE).zip(fields.par_chunks(PIECE));
        let filled = pieces.par_iter_mut().zip(parts).enumerate();
        filled.for_each(|(number, (piece, (items, fields)))| {
            piece.fill(number * PIECE, items.iter().zip(fields), key, bound);
        });
        let kept = pieces.iter().map(|piece| piece.kept).sum();
        if kept < k || pieces.iter().any(|piece| piece.rank_max > FINE_RANK_MAX) {
            return false; // An unlucky sample, or ranks that need the coarse form.
        }

        let pieces = std::mem::take(&mut self.pieces);
        self.cut(&pieces[..count], kept, fields, options, k);
        self.pieces = pieces;
        true
    }

    /// Fills `chosen` from the `kept` candidates that all pieces contribute.
    fn cut(
        &mut self,
        pieces: &[Piece],
        kept: usize,
        fields: &[RankFields],
        options: &RankOptions,
        k: usize,
    ) {
        self.reserve(kept);
        self.chosen.clear();
        let mut tied_at = std::mem::take(&mut self.tied);
        let keys = pieces.iter().flat_map(|piece| &piece.keys[..piece.kept]);
        self.keys.clear();
        self.keys.extend(keys);
        let (_, cut, _) = self.keys.select_nth_unstable(k - 1);
        let near = pieces.iter().flat_map(|piece| {
            let near = piece.near[..piece.kept].iter().copied();
            near.zip(piece.keys[..piece.kept].iter().copied())
        });
        let (below, tied) = split(near, *cut, &mut self.below, &mut tied_at);
        let tied_fields = tied_at[..tied].iter().map(|&at| &fields[at as usize]);
        self.fill_chosen(below, &tied_at[..tied], tied_fields, options, k);
        self.tied = tied_at;
    }
}

impl Piece {
    fn fill<I>(
        &mut self,
        first: usize,
        items: impl ExactSizeIterator<Item = I>,
        key: impl Fn(I) -> Option<(u64, u32)>,
        bound: u64,
    ) {
        if self.near.len() < items.len() {
            self.near.resize(items.len(), 0);
            self.keys.resize(items.len(), 0);
        }
        let first = u32::try_from(first).expect("pod numbers fit 32 bits");
        let (mut kept, mut rank_max) = (0, 0);
        for (at, item) in (first..).zip(items) {
            let Some((key, rank)) = key(item) else {
                continue;
            };
            rank_max = rank_max.max(rank);
            // Every entry is written, and the count decides which ones stay, as on a single core.
            self.near[kept] = at;
            self.keys[kept] = key;
            kept += usize::from(key <= bound);
        }
        (self.kept, self.rank_max) = (kept, rank_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::NodeCounts;
    use podstorm_objects::{Time, Uid};

    const NOW_NS: i64 = 1_772_921_233 * 1_000_000_000;

    /// Builds pods with many ties: a few ready times and nodes.
    fn listed(count: u32, seed: u64) -> (Vec<bool>, Vec<RankFields>) {
        let mut state = seed;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        (0..count)
            .map(|_| {
                let mut pod = podstorm_objects::Pod::default();
                pod.metadata.uid = Uid::from_u128(u128::from(draw(1 << 31)));
                let age = 60 << draw(12);
                pod.metadata.creation_timestamp = Time::from_unix_seconds(1_772_921_233 - age);
                pod.node_name = (draw(20) > 0).then(|| "node".into());
                let node = u32::try_from(draw(50)).unwrap();
                (draw(10) > 0, RankFields::from_pod(&pod, node))
            })
            .unzip()
    }

    #[test]
    fn several_cores_choose_the_same_pods_in_the_same_order() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(3)
            .build()
            .unwrap();
        let options = RankOptions::at(NOW_NS);
        let (mut several, mut one) = (Ranker::new().parallel_from(0), Ranker::new());
        let mut shared_out = 0;
        for (count, seed) in [(300, 1), (20_000, 2), (50_000, 3), (9_000, 4)] {
            let (items, fields) = listed(count, seed);
            let candidates = (0u32..).zip(&fields).zip(&items);
            let candidates = candidates.filter_map(|(candidate, is)| is.then_some(candidate));
            let mut nodes = NodeCounts::new();
            (candidates.clone()).for_each(|(_, fields)| nodes.add(fields.node()));
            for k in [1, 2, 70, 500, 2_000, count as usize] {
                let expected = one.choose(candidates.clone(), |node| nodes.get(node), &options, k);
                let is = |item: &bool| *item;
                let rank = |node| nodes.get(node);
                pool.install(|| {
                    let chosen = several.choose_among(&items, &fields, is, rank, &options, k);
                    assert_eq!(chosen, expected, "{k} of {count}");
                    let shared = several.choose_parallel(&items, &fields, &is, &rank, &options, k);
                    shared_out += u32::from(shared);
                });
            }
        }
        assert!(
            shared_out >= 12,
            "several cores were used {shared_out} times"
        );
    }

    #[test]
    fn ranks_beyond_the_fine_keys_use_one_core() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        let (items, fields) = listed(10_000, 5);
        let options = RankOptions::at(NOW_NS);
        let rank = |node| if node == 7 { FINE_RANK_MAX + 1 } else { 1 };
        let mut ranker = Ranker::new().parallel_from(0);
        let parallel = |ranker: &mut Ranker| {
            let is = |item: &bool| *item;
            pool.install(|| ranker.choose_parallel(&items, &fields, &is, &rank, &options, 500))
        };
        assert!(!parallel(&mut ranker));
    }
}
