//! Finds deviations from the desired state in the Deployments of files, before the run.

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm::deployment::find_new::new_and_old;
use podstorm::deployment::rollout::rollout_status;
use podstorm::intern::FIXED_STATE;
use podstorm::template::TemplateForm;
use podstorm_objects::{Deployment, ReplicaSet, Uid};

use super::super::Findings;
use crate::input::InputObject;
use crate::owned_pods::{OwnedPods, PodsByOwner, pods};

/// Adds the deviations of Deployments to `found`. O(objects).
pub(super) fn examine(objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings) {
    let mut sets: HashMap<&Uid, Vec<&ReplicaSet>, RandomState> = HashMap::with_hasher(FIXED_STATE);
    for object in objects {
        if let Some(set) = object.as_object().downcast_ref::<ReplicaSet>()
            && let Some(owner) = set.metadata.controller()
        {
            sets.entry(&owner.uid).or_default().push(set);
        }
    }
    for object in objects {
        if let InputObject::Dynamic(object) = object
            && let Some(deployment) = Deployment::of_untyped(&**object)
        {
            let sets = sets.remove(&deployment.metadata.uid).unwrap_or_default();
            examine_one(deployment, &sets, owned, found);
        }
    }
}

fn examine_one(
    mut deployment: Deployment,
    sets: &[&ReplicaSet],
    owned: &PodsByOwner<'_>,
    found: &mut Findings,
) {
    let none = OwnedPods::default();
    let pods_of = |set: &ReplicaSet| owned.get(&set.metadata.uid).unwrap_or(&none);
    let mut all = OwnedPods::default();
    sets.iter().for_each(|set| all.add(pods_of(set)));
    let template = &deployment.spec.template;
    let formed = sets.iter();
    let mut formed: Vec<(&ReplicaSet, TemplateForm)> = formed
        .map(|set| (*set, TemplateForm::from_template(&set.spec.template)))
        .collect();
    let form = TemplateForm::from_template(template);
    let new = new_and_old(&mut formed, |it| it.0, |it| &it.1, template, &form);
    let updated = new.map_or(0, |at| pods_of(formed[at].0).active);
    let meta = &deployment.metadata;
    let name = format!("Deployment {}/{}", meta.namespace, meta.name);
    let status = &mut deployment.status;
    if status.observed_generation != meta.generation {
        found
            .stale
            .push(format!("{name} has a status of an older spec"));
    } else if (status.replicas, status.ready_replicas) != (all.active, all.ready) {
        found.stale.push(format!(
            "{name} reports {}, {} ready, and has {}, {} ready",
            pods(status.replicas),
            status.ready_replicas,
            all.active,
            all.ready
        ));
    }
    // The status that the controller will see.
    status.replicas = all.active;
    status.updated_replicas = updated;
    status.available_replicas = all.ready;
    let why = match rollout_status(&deployment, 0) {
        Ok(status) if status.done => return,
        _ if deployment.spec.paused => "it is paused".to_owned(),
        Ok(status) => all.problem(None).unwrap_or(status.message),
        Err(error) => all.problem(None).unwrap_or_else(|| error.to_string()),
    };
    found
        .rollouts
        .push(format!("{name} is not complete: {why}"));
}
