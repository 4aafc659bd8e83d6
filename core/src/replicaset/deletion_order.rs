//! The order in which a scale-down would delete an owner's pods, for explanations. It finds, ranks
//! and chooses pods with the functions that a sync uses. It sends no request.

use std::sync::Arc;

use podstorm_objects::{Now, Pod, SelectorError};

use super::owners::Owner;
use super::scale::matching_sets;
use super::{Controller, ReplicaSetSync};
use crate::ranking::{Candidate, RankFields, RankOptions, Ranker, has_same_key, order_segments};

/// A ranked pod.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The pod's ranking fields.
    pub fields: RankFields,
    /// The number of active related pods on the pod's node; 0 if the pod does not count.
    pub rank: u32,
    /// Whether the pod is an orphan that the sync would adopt first.
    pub adopted: bool,
}

impl Ranked {
    /// Returns the properties of the pod that the ranking rules compare.
    pub fn candidate(&self) -> Candidate<'_> {
        Candidate {
            fields: &self.fields,
            rank: self.rank,
        }
    }
}

/// The plan of an owner's next sync for its surplus pods.
#[derive(Clone, Debug)]
pub struct DeletionOrder {
    /// Every active pod that the owner has claimed or would adopt, in deletion order.
    pub pods: Vec<Ranked>,
    /// The number of pods the sync deletes, from the front: the surplus, capped by the burst.
    pub to_delete: usize,
    /// The number of the owner's active pods that its selector no longer matches. The sync releases
    /// them, so `pods` does not have them.
    pub released: usize,
    /// Whether no other choice of that many pods would be correct.
    pub is_only_choice: bool,
    /// The ranking options.
    pub options: RankOptions,
}

impl Controller {
    /// Ranks the active pods of an owner as a sync at `now` would. If the burst leaves part of the
    /// surplus to the next sync, only the pods to delete are sorted, at the front; the rest keeps
    /// the order of the cache. An owner that is being deleted neither deletes nor adopts.
    ///
    /// O(n log n) in the owner's pods; with a leftover surplus O(n + k log k), where k pods are
    /// deleted. Allocates. Assumes that adoptions and releases succeed.
    ///
    /// # Errors
    /// Fails if the owner's selector can't be compiled. A sync of such an owner ends before it
    /// reads pods.
    pub fn deletion_order(&self, owner: &Owner, now: Now) -> Result<DeletionOrder, SelectorError> {
        let selector = owner.selector.as_ref().map_err(Clone::clone)?;
        let deleting = owner.object.metadata.is_deleting();
        let mut sync = ReplicaSetSync::default();
        self.count_related(owner, &mut sync);
        let related = &sync.to_delete.related;
        let rank = |fields: &RankFields| match fields.is_scheduled() {
            true => related.get(fields.node()),
            false => 0,
        };

        let mut pods = Vec::new();
        let mut released = 0;
        {
            let members = owner.owned_pods.lock();
            let matches = matching_sets(&members, selector);
            for ((pod, member), fields) in members.iter().zip(members.fields::<RankFields>()) {
                if !member.is_active() {
                    continue;
                }
                if !matches[member.label_set as usize] {
                    released += usize::from(!deleting);
                    continue;
                }
                pods.push(Ranked {
                    pod: pod.clone(),
                    fields: fields.clone(),
                    rank: rank(fields),
                    adopted: false,
                });
            }
        }
        if !deleting && self.adoptable_orphans(owner, selector) {
            let mut orphans = Vec::new();
            self.push_adoptable(owner, selector, &mut orphans);
            pods.extend(orphans.into_iter().map(|pod| {
                let node = pod.node_name.as_deref();
                let node = node.map_or(0, |node| self.pods().node_number(node));
                let fields = RankFields::from_pod(&pod, node);
                Ranked {
                    rank: rank(&fields),
                    pod,
                    fields,
                    adopted: true,
                }
            }));
        }

        let surplus =
            i64::try_from(pods.len()).unwrap_or(i64::MAX) - i64::from(owner.object.replicas());
        let wanted = if deleting { 0 } else { surplus };
        let whole = wanted <= self.burst();
        let wanted = wanted.clamp(0, self.burst());
        let to_delete = usize::try_from(wanted).expect("clamped to the positive");
        let options = self.rank_options(now);
        let mut ranker = Ranker::new();
        let candidates = (0u32..).zip(pods.iter().map(|ranked| &ranked.fields));
        let rank = |node| related.get(node);
        let order = ranker.order(candidates, rank, &options, to_delete, whole);
        let mut unordered: Vec<Option<Ranked>> = pods.into_iter().map(Some).collect();
        let take = |at: &u32| unordered[*at as usize].take();
        let pods: Option<Vec<Ranked>> = order.iter().map(take).collect();
        let pods = pods.expect("an order has every pod once");
        Ok(DeletionOrder {
            is_only_choice: is_only_choice(&pods, to_delete, &options, &mut ranker),
            pods,
            to_delete,
            released,
            options,
        })
    }
}

/// Reports whether the first `to_delete` pods are the only correct choice. O(pods), and O(m log m)
/// in the pods with the same first key as the last pod to delete.
fn is_only_choice(
    pods: &[Ranked],
    to_delete: usize,
    options: &RankOptions,
    ranker: &mut Ranker,
) -> bool {
    if to_delete == 0 || to_delete == pods.len() {
        return true;
    }
    let last = pods[to_delete - 1].candidate();
    let is_alike = |ranked: &&Ranked| has_same_key(last, ranked.candidate(), options);
    let (first, rest) = pods.split_at(to_delete);
    let chosen = first.iter().filter(is_alike).count();
    let owned_pods: Vec<&Ranked> = first.iter().chain(rest).filter(is_alike).collect();
    if chosen == owned_pods.len() {
        return true;
    }
    // All pods have the same rank, so the rank need not be looked up by node.
    let fields = (0u32..).zip(owned_pods.iter().map(|ranked| &ranked.fields));
    let order = ranker.order(fields, |_| last.rank, options, chosen, true);
    let order: Vec<Candidate<'_>> = order
        .iter()
        .map(|at| owned_pods[*at as usize].candidate())
        .collect();
    let found = order_segments(&order, options);
    found.iter().any(|segment| segment.range.end == chosen)
}
