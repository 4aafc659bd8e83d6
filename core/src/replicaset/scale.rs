//! Counts an owner's pods and chooses which to delete. Uses the running totals of the cache unless
//! a pod must be claimed; in that case it walks the claimed pods one by one.
//!
//! [`DeletionOrder`] explains the choice: it finds, ranks and chooses pods with the functions that
//! a sync uses, and sends no request.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Labels, Now, Pod, Selector, SelectorError, Time, Uid};
use podstorm_runtime::cache::NamespacedSelector;
use smallvec::SmallVec;

use super::owners::{Owner, related_selectors};
use super::reconcile::{StatusCounts, availability_cutoff};
use super::sync::PodCounts;
use super::{Controller, ReplicaSetSync};
use crate::cache::{Member, Members, OwnedPods, Totals};
use crate::ranking::{
    Candidate, NodeCounts, RankFields, RankOptions, Ranker, has_same_key, order_segments,
};

/// The pods to delete in this sync, with scratch memory for choosing them.
#[derive(Debug, Default)]
pub(super) struct PodsToDelete {
    names: Vec<CompactString>,
    /// The UIDs of the pods, in the order of `names`; empty if deletes don't carry UIDs.
    uids: Vec<Uid>,
    ranker: Ranker,
    related: NodeCounts,
    /// The selectors of the related owners; non-empty only while the related pods are counted.
    selectors: Vec<NamespacedSelector>,
    label_sets: Vec<(Labels, Arc<OwnedPods>)>,
    claimed: Vec<RankFields>,
    /// The claimed pods; empty unless they were claimed one by one.
    claimed_pods: Vec<Arc<Pod>>,
}

impl PodsToDelete {
    pub(super) fn names(&self) -> &[CompactString] {
        &self.names
    }

    /// Returns the UIDs in the order of the names; empty if deletes don't carry UIDs.
    pub(super) fn uids(&self) -> &[Uid] {
        &self.uids
    }

    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.uids.clear();
        self.related.clear();
        self.claimed.clear();
        self.claimed_pods.clear();
    }
}

/// A ranked pod.
#[derive(Clone, Debug)]
pub struct Ranked {
    /// The pod.
    pub pod: Arc<Pod>,
    /// Its ranking fields.
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

/// The surplus pods that the next sync of an owner would delete, and the order of all pods.
#[derive(Clone, Debug)]
pub struct DeletionOrder {
    /// Every active pod that the owner has claimed or would adopt, in deletion order.
    pub pods: Vec<Ranked>,
    /// The number of pods that the sync deletes, from the front: the surplus, capped by the burst.
    pub to_delete: usize,
    /// The number of the owner's active pods that its selector no longer matches. The sync releases
    /// them, so they are not in `pods`.
    pub released: usize,
    /// Whether no other set of `to_delete` pods would be correct to delete.
    pub is_only_choice: bool,
    /// The ranking options.
    pub options: RankOptions,
}

impl Controller {
    /// Counts the owner's pods and, if there are too many, chooses the pods to delete, all from one
    /// state of the cache. If a pod must be released or adopted, instead returns the active pods to
    /// claim: the owner's pods, then the orphans.
    ///
    /// O(label sets) for the counts. Reads individual pods only to delete some, to compute
    /// availability with `minReadySeconds`, or to claim.
    pub(super) fn count_pods(
        &self,
        owner: &Owner,
        selector: &Selector,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Option<Vec<Arc<Pod>>> {
        let deleting = owner.object.metadata.is_deleting();
        let adoptable = !deleting && self.adoptable_orphans(owner, selector);
        let mut related_counted = false;
        loop {
            let mut members = owner.owned_pods.lock();
            debug_assert!(
                members.totals_are_exact(),
                "running totals must equal a recount"
            );
            let mut matching = Totals::default();
            let mut fully_labeled = 0;
            let mut others_active = 0;
            for set in members.label_sets().iter().filter(|set| set.pods > 0) {
                if selector.matches(&set.labels) {
                    matching.merge(set.totals);
                    if set
                        .labels
                        .contains_all(&owner.object.spec.template.metadata.labels)
                    {
                        fully_labeled += set.totals.active;
                    }
                } else {
                    others_active += set.totals.active;
                }
            }
            sync.counts.terminating = count(matching.terminating);
            if adoptable || (others_active > 0 && !deleting) {
                let own = members.iter().filter(|(_, member)| member.is_active());
                let mut pods: Vec<Arc<Pod>> = own.map(|(pod, _)| pod.clone()).collect();
                drop(members);
                self.push_adoptable(owner, selector, &mut pods);
                return Some(pods);
            }
            sync.counts.status = StatusCounts {
                replicas: count(matching.active),
                fully_labeled: count(fully_labeled),
                ready: count(matching.ready),
                available: 0,
            };
            let surplus = i64::from(matching.active) - i64::from(owner.object.replicas());
            let wanted = surplus.clamp(0, self.burst());
            let wanted = usize::try_from(wanted).expect("clamped to the positive");
            let ranked = wanted < matching.active as usize;
            if sync.may_scale && wanted > 0 && ranked && !related_counted {
                // Counting locks the pods of other owners, so this owner's lock is released first.
                drop(members);
                self.count_related(owner, sync);
                related_counted = true;
                continue;
            }
            if owner.object.spec.min_ready_seconds > 0 {
                let cutoff = availability_cutoff(owner.object.spec.min_ready_seconds, now.wall_ns);
                self.count_available(&mut members, selector, cutoff, &mut sync.counts);
            }
            if sync.may_scale && wanted > 0 {
                let to_delete = &mut sync.to_delete;
                self.choose_pods(&members, selector, wanted, ranked, to_delete, now);
            }
            return None;
        }
    }

    /// Chooses `wanted` of the owner's matching active pods to delete: by rank, or all of them if
    /// `is_ranked` is false.
    #[inline(never)]
    fn choose_pods(
        &self,
        members: &Members,
        selector: &Selector,
        wanted: usize,
        is_ranked: bool,
        to_delete: &mut PodsToDelete,
        now: Now,
    ) {
        let matches = matching_sets(members, selector);
        let mut sets = members.label_sets().iter().zip(&matches);
        // The common case: all pods are active and match.
        let all =
            sets.all(|(set, matches)| set.pods == 0 || (*matches && set.totals.active == set.pods));
        let is_candidate =
            |member: &Member| all || (member.is_active() && matches[member.label_set as usize]);
        let fields = members.fields::<RankFields>();
        let PodsToDelete {
            names,
            uids,
            ranker,
            related,
            ..
        } = to_delete;
        let by_uid = self.hardened.deletes_by_uid();
        names.clear();
        uids.clear();
        if is_ranked {
            let options = self.rank_options(now);
            let chosen = ranker.choose_among(
                members.members(),
                fields,
                is_candidate,
                |node| related.get(node),
                &options,
                wanted,
            );
            let name = |at: usize| members.pod(at).metadata.name.clone();
            names.extend(chosen.iter().map(|&at| name(at as usize)));
            if by_uid {
                let uid = |at: usize| members.pod(at).metadata.uid.clone();
                uids.extend(chosen.iter().map(|&at| uid(at as usize)));
            }
            let active = members.members().iter().zip(fields);
            let active = active.filter(|(member, _)| is_candidate(member));
            let chosen = chosen.iter().map(|&at| &fields[at as usize]);
            self.observe_age_ratios(active.map(|(_, fields)| fields), chosen, now);
        } else {
            let active = members.iter().filter(|(_, member)| is_candidate(member));
            for (pod, _) in active {
                names.push(pod.metadata.name.clone());
                if by_uid {
                    uids.push(pod.metadata.uid.clone());
                }
            }
        }
    }

    /// Counts the claimed pods one by one and, if there are too many, chooses the pods to delete.
    pub(super) fn count_claimed(
        &self,
        owner: &Owner,
        claimed: &[Arc<Pod>],
        sync: &mut ReplicaSetSync,
        now: Now,
    ) {
        let spec = &owner.object.spec;
        sync.counts.status = StatusCounts::count(
            claimed.iter().map(|pod| &**pod),
            &spec.template.metadata.labels,
            spec.min_ready_seconds,
            now.wall_ns,
        );
        let ready = claimed.iter().filter(|pod| pod.is_ready());
        sync.counts.ready_times.clear();
        sync.counts
            .ready_times
            .extend(ready.map(|pod| (pod.ready_time(), 1)));
        sync.to_delete.claimed_pods.extend_from_slice(claimed);
        let surplus = i64::from(sync.counts.status.replicas) - i64::from(owner.object.replicas());
        let wanted = surplus.clamp(0, self.burst());
        let wanted = usize::try_from(wanted).expect("clamped to the positive");
        if !sync.may_scale || wanted == 0 {
            return;
        }
        let by_uid = self.hardened.deletes_by_uid();
        if wanted == claimed.len() {
            let names = claimed.iter().map(|pod| pod.metadata.name.clone());
            sync.to_delete.names.extend(names);
            if by_uid {
                let uids = claimed.iter().map(|pod| pod.metadata.uid.clone());
                sync.to_delete.uids.extend(uids);
            }
            return;
        }
        self.count_related(owner, sync);
        let nodes = self.pods();
        let PodsToDelete {
            names,
            uids,
            ranker,
            related,
            claimed: fields,
            ..
        } = &mut sync.to_delete;
        fields.extend(claimed.iter().map(|pod| {
            RankFields::from_pod(
                pod,
                pod.node_name
                    .as_deref()
                    .map_or(0, |node| nodes.node_number(node)),
            )
        }));
        let candidates = fields
            .iter()
            .enumerate()
            .map(|(at, fields)| (index(at), fields));
        let options = self.rank_options(now);
        let chosen = ranker.choose(candidates, |node| related.get(node), &options, wanted);
        let name = |at: usize| claimed[at].metadata.name.clone();
        names.extend(chosen.iter().map(|&at| name(at as usize)));
        if by_uid {
            let uid = |at: usize| claimed[at].metadata.uid.clone();
            uids.extend(chosen.iter().map(|&at| uid(at as usize)));
        }
        let to_delete = chosen.iter().map(|&at| &fields[at as usize]);
        self.observe_age_ratios(fields.iter(), to_delete, now);
    }

    /// Recounts the available pods for a `minReadySeconds` other than the one `count_pods` used.
    pub(super) fn recount_available(&self, owner: &Owner, sync: &mut ReplicaSetSync, cutoff: Time) {
        if !sync.to_delete.claimed_pods.is_empty() {
            return; // The claim collected all times.
        }
        if let Ok(selector) = &owner.selector {
            let mut members = owner.owned_pods.lock();
            self.count_available(&mut members, selector, cutoff, &mut sync.counts);
        }
    }

    /// Counts the pods that became ready at or before the cutoff and collects the ready times of
    /// the others.
    fn count_available(
        &self,
        members: &mut Members,
        selector: &Selector,
        cutoff: Time,
        counts: &mut PodCounts,
    ) {
        counts.available_at_cutoff = 0;
        counts.ready_times.clear();
        for index in 0..members.label_sets().len() {
            let set = &members.label_sets()[index];
            if set.totals.ready > 0 && selector.matches(&set.labels) {
                let index = u32::try_from(index).expect("fewer label sets than pods");
                counts.available_at_cutoff +=
                    members.ready_by(index, cutoff, &mut counts.ready_times);
            }
        }
    }

    /// Reports whether an active orphan of the namespace matches. O(label sets among the orphans).
    #[inline]
    fn adoptable_orphans(&self, owner: &Owner, selector: &Selector) -> bool {
        owner.orphans.pod_count() > 0 && {
            let members = owner.orphans.lock();
            let mut sets = members.label_sets().iter();
            sets.any(|set| set.totals.active > 0 && selector.matches(&set.labels))
        }
    }

    /// Appends the active matching orphans of the namespace, in cache order. O(orphans), but the
    /// selector is evaluated once per label set.
    fn push_adoptable(&self, owner: &Owner, selector: &Selector, pods: &mut Vec<Arc<Pod>>) {
        let members = owner.orphans.lock();
        let matches = matching_sets(&members, selector);
        let adoptable = members
            .iter()
            .filter(|(_, member)| member.is_active() && matches[member.label_set as usize]);
        pods.extend(adoptable.map(|(pod, _)| pod.clone()));
    }

    /// Counts, by node, the active pods that match the selector of any sibling. The siblings are
    /// the owners with the same controller, this owner included. Without a controller nothing is
    /// counted, except this owner's own pods in the hardened behaviour.
    fn count_related(&self, owner: &Owner, sync: &mut ReplicaSetSync) {
        let PodsToDelete {
            related,
            selectors,
            label_sets,
            ..
        } = &mut sync.to_delete;
        related.clear();
        related_selectors(&self.owners, owner, selectors);
        if selectors.is_empty() && self.hardened.ranks_without_owner() {
            let selector = owner.selector.iter();
            selectors.extend(selector.map(|it| NamespacedSelector::new(&owner.namespace, it)));
        }
        if selectors.is_empty() {
            return;
        }
        self.pods()
            .for_each_matching(selectors, label_sets, |_, member| {
                if member.is_active() {
                    related.add(member.node);
                }
            });
        selectors.clear();
    }

    /// Returns the pods, active or not, that match the selector of any sibling of the owner. For
    /// tests and explanations. O(pods of the matching label sets).
    pub fn related_pods(&self, owner: &Owner) -> Vec<Arc<Pod>> {
        let (mut pods, mut selectors, mut label_sets) = (Vec::new(), Vec::new(), Vec::new());
        related_selectors(&self.owners, owner, &mut selectors);
        let cache = self.pods();
        cache.for_each_matching(&selectors, &mut label_sets, |pod, _| pods.push(pod.clone()));
        pods
    }

    /// Ranks the active pods of an owner as a sync at `now` would. If the burst leaves part of the
    /// surplus to a later sync, only the pods to delete are sorted, at the front; the others keep
    /// the order of the cache. An owner that is being deleted neither deletes nor adopts pods.
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
    fn rank_options(&self, now: Now) -> RankOptions {
        RankOptions {
            now_wall_ns: Some(now.wall_ns),
            pod_deletion_cost: self.options.gates.pod_deletion_cost,
            logarithmic_scale_down: true,
        }
    }

    /// Observes `replicaset_controller_sorting_deletion_age_ratio`: for each ready pod to delete,
    /// its age divided by the age of the youngest ready candidate. As in upstream, it uses whole
    /// milliseconds and integer division. Observes nothing if the youngest age is under a
    /// millisecond.
    fn observe_age_ratios<'a>(
        &self,
        candidates: impl Iterator<Item = &'a RankFields>,
        to_delete: impl Iterator<Item = &'a RankFields>,
        now: Now,
    ) {
        let age_ms = |fields: &RankFields| {
            let created = fields.creation_time().unix_nanos();
            created.map_or(i64::MAX, |created| now.wall_ns.saturating_sub(created)) / 1_000_000
        };
        let ready = candidates.filter(|fields| fields.is_ready());
        // The latest creation time gives the smallest age. An unset time sorts before all others.
        let Some(youngest) = ready.max_by_key(|fields| fields.creation_time()) else {
            return;
        };
        let youngest = age_ms(youngest);
        if youngest == 0 {
            return;
        }
        let to_delete = to_delete.filter(|fields| fields.is_ready());
        self.metrics
            .sorting_deletion_age_ratio
            .observe_all(to_delete.map(|fields| (age_ms(fields) / youngest) as f64));
    }
}

fn count(pods: u32) -> i32 {
    i32::try_from(pods).expect("a ReplicaSet's pods fit 31 bits")
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("a ReplicaSet's pods fit 32 bits")
}

/// Returns, for each label set, whether it has pods and the selector matches them.
fn matching_sets(members: &Members, selector: &Selector) -> SmallVec<[bool; 8]> {
    let sets = members.label_sets().iter();
    sets.map(|set| set.pods > 0 && selector.matches(&set.labels))
        .collect()
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
    // All these pods have the same rank, so no look-up by node is needed.
    let fields = (0u32..).zip(owned_pods.iter().map(|ranked| &ranked.fields));
    let order = ranker.order(fields, |_| last.rank, options, chosen, true);
    let order: Vec<Candidate<'_>> = order
        .iter()
        .map(|at| owned_pods[*at as usize].candidate())
        .collect();
    let found = order_segments(&order, options);
    found.iter().any(|segment| segment.range.end == chosen)
}
