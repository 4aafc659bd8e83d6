//! Loads objects from files into the cluster as they are, status and UIDs included, as a backup is
//! restored: owners before what they own, so that the garbage collector finds them.

use std::collections::VecDeque;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Node, Now, ReplicaSet, ReplicationController, Str};

use super::tracker::Tracker;
use crate::input::{InputObject, missing_namespaces};
use crate::scenario::Scenario;
use crate::size::InputSize;

/// Objects on their way into the cluster, owners before what they own.
#[derive(Debug)]
pub(super) struct Loader {
    objects: VecDeque<InputObject>,
    pub(super) has_nodes: bool,
    /// Names of the nodes that were loaded.
    pub(super) nodes: Vec<Str>,
    /// Numbers in the tracker of the ReplicaSets and ReplicationControllers that were loaded, and the
    /// pods they ask for.
    pub(super) owners: Vec<(usize, i32)>,
    /// Objects the server refused: the first few reasons, and how many in all.
    pub(super) refused: Vec<String>,
    pub(super) refused_count: u64,
}

/// How many refusals are kept in words.
const REFUSED_MAX: usize = 10;

impl Scenario {
    /// Whether it can be played over such files.
    ///
    /// # Errors
    /// What it would need, and the mend.
    pub(crate) fn check_input(&self, input: &InputSize) -> Result<(), String> {
        let name = &self.name;
        if !self.loads_input() {
            return Err(format!(
                "--scenario {name} generates its own cluster and can't be used with -f; leave \
                 --scenario out to run the objects of the files"
            ));
        }
        if self.rolls_out() && input.owners > 0 && input.owners == input.replication_controllers {
            return Err(format!(
                "the scenario {name} rolls out ReplicaSets, as their Deployments do, and the files \
                 have ReplicationControllers only, which no Deployment rolls out: give files with \
                 ReplicaSets, or a scenario without rollOut (recreateReplicaSets and relabelPods are \
                 about both kinds)"
            ));
        }
        // Nothing is known before the files are read.
        let is_known = input.owners + input.pods + input.nodes > 0;
        if self.sets_images() && is_known && input.deployments == 0 {
            return Err(format!(
                "the scenario {name} gives Deployments new images, and the files have none: dump them too, \
                 with kubectl get deploy,rs,rc,pods,nodes -A -o json, or roll ReplicaSets out by hand with \
                 --scenario rollout-storm"
            ));
        }
        Ok(())
    }
}

impl Loader {
    /// Sorts the objects so that each is preceded by what it needs, and ReplicaSets by no
    /// ReplicationController; namespaces that are named but not among the objects are added.
    pub(super) fn new(objects: Vec<InputObject>) -> Loader {
        let missing: Vec<InputObject> = missing_namespaces(&objects).collect();
        let mut ranked: [Vec<InputObject>; 6] = Default::default();
        for object in objects {
            let rank = match object {
                InputObject::Namespace(_) => 0,
                InputObject::Node(_) => 1,
                InputObject::Dynamic(_) => 2,
                InputObject::ReplicaSet(_) => 3,
                InputObject::ReplicationController(_) => 4,
                InputObject::Pod(_) => 5,
            };
            ranked[rank].push(object);
        }
        let has_nodes = !ranked[1].is_empty();
        Loader {
            objects: missing
                .into_iter()
                .chain(ranked.into_iter().flatten())
                .collect(),
            has_nodes,
            nodes: Vec::new(),
            owners: Vec::new(),
            refused: Vec::new(),
            refused_count: 0,
        }
    }

    /// Loads the next object; false when there is none left.
    pub(super) fn step(&mut self, cluster: &Cluster, tracker: &mut Tracker, now: Now) -> bool {
        let Some(object) = self.objects.pop_front() else {
            return false;
        };
        let described = format!(
            "{} {}/{}",
            object.kind().name(),
            object.metadata().namespace,
            object.metadata().name
        );
        if let Err(error) = self.load(object, cluster, tracker, now) {
            self.refused_count += 1;
            if self.refused.len() < REFUSED_MAX {
                self.refused.push(format!("{described}: {error}"));
            }
        }
        true
    }

    fn load(
        &mut self,
        object: InputObject,
        cluster: &Cluster,
        tracker: &mut Tracker,
        now: Now,
    ) -> Result<(), ApiError> {
        match object {
            InputObject::Namespace(object) => match cluster.import(*object, now) {
                // Named twice, or there from the start.
                Err(error) if error.code == 409 => Ok(()),
                other => other.map(drop),
            },
            InputObject::Node(object) => {
                let stored: Arc<Node> = cluster.import(*object, now)?;
                self.nodes.push(stored.metadata.name.as_str().into());
                Ok(())
            }
            InputObject::Pod(object) => cluster.import(*object, now).map(drop),
            InputObject::Dynamic(object) => {
                let object: Arc<DynamicObject> = object.into();
                cluster.api(object.kind()).import(object, now).map(drop)
            }
            InputObject::ReplicaSet(object) => {
                let stored: Arc<ReplicaSet> = cluster.import(*object, now)?;
                let at = tracker.asked(&stored.metadata, stored.replicas(), now);
                self.owners.push((at, stored.replicas()));
                Ok(())
            }
            InputObject::ReplicationController(object) => {
                let stored: Arc<ReplicationController> = cluster.import(*object, now)?;
                let replicas = stored.replicas.unwrap_or(1);
                let at = tracker.asked(&stored.metadata, replicas, now);
                tracker.owners[at].is_rc = true;
                self.owners.push((at, replicas));
                Ok(())
            }
        }
    }
}
