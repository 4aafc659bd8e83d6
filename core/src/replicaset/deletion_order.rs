//! The order in which a scale-down would take a parent's pods, for explanations. The pods are
//! found, ranked and chosen by the same functions as in a sync; nothing is asked of a server.

use std::sync::Arc;

use podstorm_objects::{Now, Pod, SelectorError};

use super::parents::Parent;
use super::scale::matching_sets;
use super::{Controller, Sync};
use crate::ranking::{Candidate, RankFields, RankOptions, Ranker, shares_group, stretches};

/// A pod as it was ranked.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its ranking fields.
    pub fields: RankFields,
    /// How many active related pods are on its node; 0 where that counts for nothing.
    pub rank: u32,
    /// Whether nobody controls it yet: the sync adopts it first.
    pub adopted: bool,
}

impl Ranked {
    /// The pod as the rules see it.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            fields: &self.fields,
            rank: self.rank,
        }
    }
}

/// What the next sync of a parent would do about a surplus of pods.
#[derive(Clone, Debug)]
pub struct DeletionOrder {
    /// Every active pod that the parent has claimed or would adopt, the first to go first.
    pub pods: Vec<Ranked>,
    /// So many of them the sync deletes: the surplus, up to the burst.
    pub victims: usize,
    /// The parent's active pods that its selector no longer matches: released, and none of the
    /// above.
    pub released: usize,
    /// Whether there is no other correct choice of as many victims.
    pub is_settled: bool,
    /// What they were ranked with.
    pub options: RankOptions,
}

impl Controller {
    /// Ranks the active pods of a parent as a sync at `now` would. Where the burst leaves a surplus
    /// to the next sync, only the victims are in order, in front; the rest stands as it is in the
    /// cache. A parent that is being deleted deletes and adopts nothing.
    ///
    /// O(n log n) in the parent's pods, or O(n) and O(k log k) in the victims where there is a next
    /// sync; allocates. Adoption and release are taken to succeed.
    ///
    /// # Errors
    /// The parent's selector can't be compiled: its syncs end before they look at pods.
    pub fn deletion_order(
        &self,
        parent: &Parent,
        now: Now,
    ) -> Result<DeletionOrder, SelectorError> {
        let selector = parent.selector.as_ref().map_err(Clone::clone)?;
        let deleting = parent.object.metadata.is_deleting();
        let mut sync = Sync::new();
        self.count_related(parent, &mut sync);
        let related = &sync.victims.related;
        let rank = |fields: &RankFields| match fields.is_scheduled() {
            true => related.get(fields.node()),
            false => 0,
        };

        let mut pods = Vec::new();
        let mut released = 0;
        {
            let members = parent.group.lock();
            let matches = matching_sets(&members, selector);
            for (pod, member) in members.iter().filter(|(_, member)| member.is_active()) {
                if !matches[member.label_set as usize] {
                    released += usize::from(!deleting);
                    continue;
                }
                pods.push(Ranked {
                    pod: pod.clone(),
                    fields: member.fields.clone(),
                    rank: rank(&member.fields),
                    adopted: false,
                });
            }
        }
        if !deleting && self.adoptable_orphans(parent, selector) {
            let mut orphans = Vec::new();
            self.push_adoptable(parent, selector, &mut orphans);
            pods.extend(orphans.into_iter().map(|pod| {
                let node = pod.node_name.as_deref();
                let node = node.map_or(0, |node| self.pods().node_number(node));
                let fields = RankFields::of(&pod, node);
                Ranked {
                    rank: rank(&fields),
                    pod,
                    fields,
                    adopted: true,
                }
            }));
        }

        let surplus =
            i64::try_from(pods.len()).unwrap_or(i64::MAX) - i64::from(parent.object.replicas());
        let wanted = if deleting { 0 } else { surplus };
        let whole = wanted <= self.burst();
        let wanted = wanted.clamp(0, self.burst());
        let victims = usize::try_from(wanted).expect("clamped to the positive");
        let options = self.rank_options(now);
        let mut ranker = Ranker::new();
        let candidates = (0u32..).zip(pods.iter().map(|ranked| &ranked.fields));
        let rank = |node| related.get(node);
        let order = if whole {
            ranker.full_order(candidates, rank, &options, victims)
        } else {
            ranker.first_in_order(candidates, rank, &options, victims)
        };
        let mut unordered: Vec<Option<Ranked>> = pods.into_iter().map(Some).collect();
        let take = |at: &u32| unordered[*at as usize].take();
        let pods: Option<Vec<Ranked>> = order.iter().map(take).collect();
        let pods = pods.expect("an order has every pod once");
        Ok(DeletionOrder {
            is_settled: is_settled(&pods, victims, &options, &mut ranker),
            pods,
            victims,
            released,
            options,
        })
    }
}

/// Whether the first pods are the only correct choice of so many. O(pods), and O(m log m) in the
/// pods that share the first rules' key with the last victim.
fn is_settled(pods: &[Ranked], victims: usize, options: &RankOptions, ranker: &mut Ranker) -> bool {
    if victims == 0 || victims == pods.len() {
        return true;
    }
    let last = pods[victims - 1].candidate();
    let is_alike = |ranked: &&Ranked| shares_group(last, ranked.candidate(), options);
    let (first, rest) = pods.split_at(victims);
    let chosen = first.iter().filter(is_alike).count();
    let group: Vec<&Ranked> = first.iter().chain(rest).filter(is_alike).collect();
    if chosen == group.len() {
        return true;
    }
    // All have one rank, so that it needn't be known by node.
    let fields = (0u32..).zip(group.iter().map(|ranked| &ranked.fields));
    let order = ranker.full_order(fields, |_| last.rank, options, chosen);
    let order: Vec<Candidate<'_>> = order
        .iter()
        .map(|at| group[*at as usize].candidate())
        .collect();
    let found = stretches(&order, options);
    found.iter().any(|stretch| stretch.range.end == chosen)
}
