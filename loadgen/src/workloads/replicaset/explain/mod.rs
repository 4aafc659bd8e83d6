//! Explains which pods a scale-down deletes: puts the objects of files into the controller's own
//! cache, and ranks the pods with the controller's own selection
//! ([`podstorm::replicaset::DeletionOrder`]).
//!
//! [`Objects`] contains the objects of the files, [`find`] finds the ReplicaSet in question,
//! [`order`] computes which pods its syncs would delete, [`prefer`] computes the annotations that
//! make preferred pods be deleted first; [`words`], [`table`] and [`json`] format the answer.

pub mod find;
pub mod json;
mod notes;
pub mod order;
pub mod prefer;
pub mod selection;
pub mod table;
pub mod words;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm::cache::PodCache;
use podstorm::replicaset::{Controller, ControllerOptions, Gates};
use podstorm_objects::{
    AnyObject, Kind, Labels, Now, Object, Pod, ReplicaSet, ReplicationController, ResourceVersion,
    Time,
};

use self::find::full_name;
use self::order::{Outcome, Question};
use self::prefer::Advice;
use self::selection::{Preferred, Wished};
use crate::input::{InputCounts, InputObject};
use crate::workloads::explain::{Asked, Explanation, Layout};

/// The answer to a question about a scale-down.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The order of the pods, and which of them are deleted.
    pub outcome: Outcome,
    /// The annotations that make preferred pods be deleted first; `None` unless requested.
    pub advice: Option<(Preferred, Wished, Advice)>,
    /// Other remarks, in sentences.
    pub notes: Vec<String>,
    /// The counts of the objects in the files.
    pub input: InputCounts,
}

/// Ranks the pods, and finds the annotations for preferred pods.
///
/// # Errors
/// A selector can't be compiled or matches nothing.
pub fn answer(
    objects: &Objects,
    question: &Question,
    preferred: Preferred,
    input: InputCounts,
) -> Result<Answer> {
    let outcome = order::outcome(objects, question, &[])?;
    let advice = match preferred.is_none() {
        true => None,
        false => {
            let wished = preferred.find(objects, &outcome)?;
            let advice = prefer::advise(objects, question, &outcome, &wished)?;
            Some((preferred, wished, advice))
        }
    };
    Ok(Answer {
        notes: notes::notes(objects, question, &outcome),
        outcome,
        advice,
        input,
    })
}

/// Explains the owner of pods with this kind and name.
///
/// # Errors
/// No object or several have this name, something is missing in the input, or a selector matches
/// nothing.
pub(super) fn of_owner(kind: Kind, name: &str, asked: Asked) -> Result<Box<dyn Explanation>> {
    about(kind, asked, |objects| {
        Ok((find::find(objects, kind, name)?, None))
    })
}

/// Explains the newest ReplicaSet of the Deployment with this name.
///
/// # Errors
/// The same as [`of_owner`].
pub(in crate::workloads) fn of_newest(name: &str, asked: Asked) -> Result<Box<dyn Explanation>> {
    about(Kind::REPLICA_SET, asked, |objects| {
        find::find_deployment(objects, name)
    })
}

/// Explains the object that `find` returns. The second value of `find` describes its choice.
fn about(
    kind: Kind,
    asked: Asked,
    find: impl FnOnce(&Objects) -> Result<(Arc<ReplicaSet>, Option<String>)>,
) -> Result<Box<dyn Explanation>> {
    let objects = Objects::new(asked.objects)?;
    let (object, chosen) = find(&objects)?;
    let question = Question {
        object,
        replicas: asked.replicas,
        options: ControllerOptions {
            burst_replicas: asked.burst_replicas,
            gates: Gates::from_flags(&asked.gates),
            policy: asked.policy,
            ..ControllerOptions::new(kind)
        },
        now: asked.now,
    };
    let mut answer = answer(&objects, &question, asked.preferred, asked.counts)?;
    // The note about the choice comes before the other notes.
    answer.notes.splice(0..0, chosen);
    Ok(Box::new(answer))
}

impl Explanation for Answer {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        crate::text::json::write(out, &json::document(self))
    }

    fn text(&self, layout: Layout) -> String {
        table::render(self, layout)
    }
}

/// The objects in the files that affect a ranking.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The pods, sorted by namespace and name like in a server's list, so that the cache does not
    /// depend on the order of the files.
    pods: Vec<Arc<Pod>>,
    /// The labels of each node, by the node's name.
    nodes: BTreeMap<String, Labels>,
    replica_sets: Vec<Arc<ReplicaSet>>,
    /// The ReplicationControllers, in the form that the controller sees.
    replication_controllers: Vec<Arc<ReplicaSet>>,
}

impl Objects {
    /// Collects the objects from files.
    ///
    /// # Errors
    /// A pod has no name, or there are no pods.
    pub fn new(input: Vec<InputObject>) -> Result<Objects> {
        let mut objects = Objects {
            pods: Vec::new(),
            nodes: BTreeMap::new(),
            replica_sets: Vec::new(),
            replication_controllers: Vec::new(),
        };
        for object in input {
            match object {
                InputObject::Pod(mut pod) => {
                    if pod.metadata.name.is_empty() {
                        bail!(
                            "Pod {}/{}...: has generateName and no name; pods are ranked as a \
                             cluster has them, with the names that it gave them",
                            pod.metadata.namespace,
                            pod.metadata.generate_name.as_deref().unwrap_or("")
                        );
                    }
                    pod.strip_for_cache();
                    objects.pods.push(Arc::new(*pod));
                }
                InputObject::Node(node) => {
                    let name = node.metadata.name.to_string();
                    objects.nodes.insert(name, node.metadata.labels.clone());
                }
                InputObject::Owner(owner) => {
                    let owner: &dyn Object = &*owner;
                    if let Some(set) = owner.downcast_ref::<ReplicaSet>() {
                        objects.replica_sets.push(Arc::new(set.clone()));
                    } else if let Some(rc) = owner.downcast_ref::<ReplicationController>() {
                        let set = Arc::new(rc.to_replica_set());
                        objects.replication_controllers.push(set);
                    }
                }
                InputObject::Namespace(_) | InputObject::Dynamic(_) => {}
            }
        }
        if objects.pods.is_empty() {
            bail!(
                "the input has no Pod, so there is nothing to rank; dump the pods too: kubectl \
                 get rs,rc,pods,nodes -A -o json"
            );
        }
        objects.pods.sort_by(|a, b| {
            let (a, b) = (&a.metadata, &b.metadata);
            (&*a.namespace, &*a.name).cmp(&(&*b.namespace, &*b.name))
        });
        Ok(objects)
    }

    /// Returns the objects of a kind that owns pods.
    pub fn owners(&self, kind: Kind) -> &[Arc<ReplicaSet>] {
        match kind == Kind::REPLICATION_CONTROLLER {
            true => &self.replication_controllers,
            false => &self.replica_sets,
        }
    }

    /// Returns the latest time in any pod; unset if the pods contain no time.
    fn newest_time(&self) -> Time {
        let times = self.pods.iter().flat_map(|pod| {
            let conditions = pod.status.conditions.iter();
            let changed = conditions.map(|condition| condition.last_transition_time.get());
            changed.chain([pod.metadata.creation_timestamp])
        });
        times.max().unwrap_or(Time::UNSET)
    }

    /// Returns a controller that has seen all objects, with `changed` in place of the object with
    /// the same name and `pods` in place of the pods.
    fn controller(
        &self,
        options: ControllerOptions,
        changed: &Arc<ReplicaSet>,
        pods: Vec<Arc<Pod>>,
    ) -> Arc<Controller> {
        let cache = Arc::new(PodCache::new());
        let kind = options.kind;
        let (controller, informer) = Controller::alone(options, Arc::clone(&cache));
        let version = ResourceVersion::from(1);
        let name = |owner: &ReplicaSet| full_name(&owner.metadata);
        let owners = self.owners(kind).iter();
        let owners = owners.map(|owner| match name(owner) == name(changed) {
            true => Arc::clone(changed) as AnyObject,
            false => Arc::clone(owner) as AnyObject,
        });
        informer.replace(owners.collect(), &version, Now::default());
        cache.replace(pods, &version);
        controller
    }
}
