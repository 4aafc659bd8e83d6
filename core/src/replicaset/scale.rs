//! Counts an owner's pods and chooses which to delete. Uses the running totals of the cache unless
//! a pod must be claimed; then it walks the claimed pods one by one.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Labels, Now, Pod, Selector, Time, Uid};
use podstorm_runtime::cache::NamespacedSelector;
use smallvec::SmallVec;

use super::owners::{Owner, related_selectors};
use super::reconcile::{StatusCounts, availability_cutoff};
use super::sync::PodCounts;
use super::{Controller, ReplicaSetSync};
use crate::cache::{Member, Members, OwnedPods, Totals};
use crate::ranking::{NodeCounts, RankFields, RankOptions, Ranker};

/// The pods to delete in this sync, with scratch memory for choosing them.
#[derive(Debug, Default)]
pub(super) struct PodsToDelete {
    names: Vec<CompactString>,
    /// The pods' UIDs in the same order, if deletes carry UIDs.
    uids: Vec<Uid>,
    ranker: Ranker,
    pub(super) related: NodeCounts,
    /// The selectors of the related pods; non-empty only while those are counted.
    selectors: Vec<NamespacedSelector>,
    label_sets: Vec<(Labels, Arc<OwnedPods>)>,
    claimed: Vec<RankFields>,
    /// The claimed pods, if they were claimed one by one.
    claimed_pods: Vec<Arc<Pod>>,
}

impl PodsToDelete {
    pub(super) fn names(&self) -> &[CompactString] {
        &self.names
    }

    /// Returns the UIDs in the same order; empty if deletes don't carry UIDs.
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

impl Controller {
    /// Counts the owner's pods and, if there are too many, chooses the pods to delete, all from one
    /// state of the cache. If a pod must be released or adopted, returns the active pods to claim
    /// instead: the owner's pods, then the orphans.
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
                self.choose_pods(&members, selector, (wanted, ranked), to_delete, now);
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
        (wanted, is_ranked): (usize, bool),
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
    pub(super) fn adoptable_orphans(&self, owner: &Owner, selector: &Selector) -> bool {
        owner.orphans.pod_count() > 0 && {
            let members = owner.orphans.lock();
            let mut sets = members.label_sets().iter();
            sets.any(|set| set.totals.active > 0 && selector.matches(&set.labels))
        }
    }

    /// Appends the active matching orphans of the namespace, in cache order. O(orphans), but the
    /// selector is evaluated once per label set.
    pub(super) fn push_adoptable(
        &self,
        owner: &Owner,
        selector: &Selector,
        pods: &mut Vec<Arc<Pod>>,
    ) {
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
    pub(super) fn count_related(&self, owner: &Owner, sync: &mut ReplicaSetSync) {
        let PodsToDelete {
            related,
            selectors,
            label_sets,
            ..
        } = &mut sync.to_delete;
        related.clear();
        related_selectors(&self.owners, owner, selectors);
        if selectors.is_empty() && self.hardened.ranks_without_owner() {
            let selector = owner.selector.iter().cloned();
            let namespace = &owner.object.metadata.namespace;
            selectors.extend(selector.map(|selector| (namespace.clone(), selector)));
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

    /// Returns the related pods of an owner, active or not, that count for co-location. For tests
    /// and explanations. O(pods of the related label sets).
    pub fn related_pods(&self, owner: &Owner) -> Vec<Arc<Pod>> {
        let (mut pods, mut selectors, mut label_sets) = (Vec::new(), Vec::new(), Vec::new());
        related_selectors(&self.owners, owner, &mut selectors);
        let cache = self.pods();
        cache.for_each_matching(&selectors, &mut label_sets, |pod, _| pods.push(pod.clone()));
        pods
    }

    pub(super) fn rank_options(&self, now: Now) -> RankOptions {
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
pub(super) fn matching_sets(members: &Members, selector: &Selector) -> SmallVec<[bool; 8]> {
    let sets = members.label_sets().iter();
    sets.map(|set| set.pods > 0 && selector.matches(&set.labels))
        .collect()
}
