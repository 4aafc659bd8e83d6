//! The requirements for StatefulSets at rest, which L1 checks.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::statefulset::Controller;
use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Kind, ObjectMeta, Pod, Uid};
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::read::{
    POD_NAME, Read, is_running_and_ready, number_of, revision_of, template_of_revision,
};
use super::users::sets;
use crate::objects::{NAMESPACE, listed};
use crate::simulation::Simulation;

/// Returns the first difference between a live controller's caches and the server, if there is any.
/// While there is one, pending events may cause more work.
pub(super) fn behind(harness: &FaultHarness) -> Option<String> {
    let cluster = harness.cluster();
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let (all, claims) = (
        sets(cluster),
        listed(cluster, Kind::PERSISTENT_VOLUME_CLAIM),
    );
    let revisions = listed(cluster, Kind::CONTROLLER_REVISION);
    let version = |meta: &ObjectMeta| meta.resource_version.number();
    harness.controllers::<Controller>().find_map(|controller| {
        all.iter().find_map(|object| {
            let (set, meta) = (Read::from_object(object), &object.metadata);
            let behind = |of: &str| Some(format!("a cache is stale: {of} of {}", meta.name));
            let key = controller.key(&meta.namespace, &meta.name);
            let Some(cached) = controller.cached(key) else {
                return behind("the set");
            };
            if version(&cached.set.metadata) != version(meta) {
                return behind("the set");
            }
            let is_free = |it: &ObjectMeta| it.controller().is_none();
            let pods = pods
                .iter()
                .map(|pod| &pod.metadata)
                .filter(|it| set.owns(it) || is_free(it) && set.ordinal(it).is_some());
            let there: BTreeSet<_> = pods.map(version).collect();
            let known = cached.pods.iter().map(|pod| version(&pod.metadata));
            if there != known.collect() {
                return behind("pods");
            }
            let revisions = revisions.iter().map(|it| &it.metadata);
            let there = revisions.filter(|it| set.selects(it) && (set.owns(it) || is_free(it)));
            let there: BTreeSet<_> = there.map(version).collect();
            let known = cached.revisions.iter().map(|it| version(&it.0.metadata));
            if there != known.collect() {
                return behind("revisions");
            }
            let mut claims = claims.iter().map(|it| &it.metadata);
            let is_known = |claim: &ObjectMeta| {
                let known = controller.cached_claim(&claim.namespace, &claim.name);
                known.is_some_and(|known| version(&known.metadata) == version(claim))
            };
            claims.find_map(|claim| match is_known(claim) {
                true => None,
                false => behind("claims"),
            })
        })
    })
}

/// Returns the first deviation from the required state at rest, if there is any. A set that got
/// the status of another set may have an observed generation above its own generation, because
/// upstream never writes a lower one.
pub(super) fn missing(misplaced: &BTreeSet<Uid>, simulation: &Simulation) -> Option<String> {
    let harness = &simulation.harness;
    let all = sets(harness.cluster());
    let mut found = all.iter().filter_map(|set| {
        let set = Read::from_object(set);
        let may_be_ahead = misplaced.contains(&set.set.metadata.uid);
        let difference = difference(&set, may_be_ahead, harness)?;
        Some(format!("{}: {difference}", set.name()))
    });
    // The retry may write a state that is correct by chance once more.
    let retries = || harness.has_retries();
    let retries = || retries().then(|| "a failed sync is still waiting for its retry".to_owned());
    found.next().or_else(retries)
}

fn difference(set: &Read<'_>, may_be_ahead: bool, harness: &FaultHarness) -> Option<String> {
    if set.is_deleting() {
        return Some("it is still being deleted".to_owned());
    }
    let cluster = harness.cluster();
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    let revisions = listed(cluster, Kind::CONTROLLER_REVISION);
    let (said, generation) = (set.count("observedGeneration"), set.set.metadata.generation);
    if said != generation && !(may_be_ahead && said > generation) {
        return Some(format!(
            "its status has generation {said} instead of {generation}"
        ));
    }
    let wall_ns = harness.now().wall_ns;
    of_pods(set, &pods, wall_ns)
        .or_else(|| of_revisions(set, &revisions, &pods))
        .or_else(|| of_status(set, &pods, &revisions, wall_ns))
        .or_else(|| of_claims(set, cluster, &pods))
}

fn own<'a>(set: &'a Read<'_>, pods: &'a [Arc<Pod>]) -> impl Iterator<Item = &'a Arc<Pod>> {
    pods.iter().filter(|pod| set.owns(&pod.metadata))
}

/// Checks that a set has exactly its pods, each with its identity, ready, and up to date unless
/// users prevent the update.
fn of_pods(set: &Read<'_>, pods: &[Arc<Pod>], wall_ns: i64) -> Option<String> {
    for pod in pods {
        let meta = &pod.metadata;
        let is_member = set.ordinal(meta).is_some() && set.selects(meta);
        if is_member && meta.controller().is_none() {
            return Some(format!("{} is not adopted", meta.name));
        }
        if set.owns(meta) && !is_member {
            return Some(format!("{} is not released", meta.name));
        }
    }
    let names: BTreeSet<String> = own(set, pods)
        .map(|pod| pod.metadata.name.to_string())
        .collect();
    let wanted: BTreeSet<String> = set.ordinals().map(|ordinal| set.pod(ordinal)).collect();
    if names != wanted {
        return Some(format!("it has {names:?} instead of {wanted:?}"));
    }
    own(set, pods).find_map(|pod| {
        let meta = &pod.metadata;
        let label = meta.labels.get(POD_NAME);
        if label.is_none_or(|label| **label != *meta.name) {
            return Some(format!("{} lacks the label with its name", meta.name));
        }
        if !set.is_healthy(pod, wall_ns) {
            return Some(format!("{} is not available", meta.name));
        }
        let (revision, ordinal) = (revision_of(meta), set.ordinal(meta)?);
        let stays = set.is_on_delete() || ordinal < set.first_updated();
        let is_old = revision != set.said("updateRevision");
        (is_old && !stays).then(|| format!("{} has revision {revision}", meta.name))
    })
}

/// Checks that the revision of the template exists and has the highest number, and that the history
/// is within its limit.
fn of_revisions(
    set: &Read<'_>,
    revisions: &[Arc<DynamicObject>],
    pods: &[Arc<Pod>],
) -> Option<String> {
    let own: Vec<&Arc<DynamicObject>> = revisions
        .iter()
        .filter(|it| set.owns(&it.metadata))
        .collect();
    let update = set.said("updateRevision");
    let Some(found) = own.iter().find(|it| *it.metadata.name == *update) else {
        return Some(format!("{update} does not exist"));
    };
    if template_of_revision(found) != set.template() {
        return Some(format!("{update} has another template"));
    }
    let number = number_of(found);
    if own.iter().any(|it| number_of(it) > number) {
        return Some(format!("{update} is not the last one"));
    }
    let is_live = |name: &str| {
        let mut pods = self::own(set, pods);
        let is_said = [update, set.said("currentRevision")].contains(&name);
        is_said || pods.any(|pod| revision_of(&pod.metadata) == name)
    };
    let history = own.iter().filter(|it| !is_live(&it.metadata.name));
    let (history, limit) = (history.count() as i64, set.history_limit());
    (history > limit).then(|| format!("it keeps {history} old revisions instead of {limit}"))
}

/// Checks that the status of a set equals a recount.
fn of_status(
    set: &Read<'_>,
    pods: &[Arc<Pod>],
    revisions: &[Arc<DynamicObject>],
    wall_ns: i64,
) -> Option<String> {
    let count = |is: &dyn Fn(&Pod) -> bool| own(set, pods).filter(|pod| is(pod)).count() as i64;
    let current = set.said("currentRevision");
    let at = |revision: &str| count(&|pod| revision_of(&pod.metadata) == revision);
    for (member, is) in [
        ("replicas", count(&|_| true)),
        ("readyReplicas", count(&is_running_and_ready)),
        (
            "availableReplicas",
            count(&|pod| set.is_available(pod, wall_ns)),
        ),
        ("updatedReplicas", at(set.said("updateRevision"))),
        ("currentReplicas", at(current)),
    ] {
        let said = set.count(member);
        if said != is {
            return Some(format!("its status has {said} {member} instead of {is}"));
        }
    }
    if set.is_complete(*set) && current != set.said("updateRevision") {
        return Some(format!(
            "its status has the wrong current revision {current}"
        ));
    }
    let is_there = revisions.iter().any(|it| *it.metadata.name == *current);
    (!is_there).then(|| format!("the current revision {current} does not exist"))
}

/// Checks that the claims of a set's pods have the owners with which they are deleted at the right
/// time. A claim that was deleted while its pod ran is not recreated.
fn of_claims(set: &Read<'_>, cluster: &Cluster, pods: &[Arc<Pod>]) -> Option<String> {
    let claims = listed(cluster, Kind::PERSISTENT_VOLUME_CLAIM);
    own(set, pods).find_map(|pod| {
        set.claim_templates().find_map(|template| {
            let name = format!("{template}-{}", pod.metadata.name);
            let claim = claims.iter().find(|it| *it.metadata.name == *name)?;
            let refs = &claim.metadata.owner_references;
            let owners: Vec<_> = refs.iter().map(|it| it.uid.clone()).collect();
            let is_right = set.is_hands_off(&pod.metadata, refs)
                || owners == set.claim_owners(&pod.metadata, refs);
            (!is_right).then(|| format!("{name} has the owners {owners:?}"))
        })
    })
}
