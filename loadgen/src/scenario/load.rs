//! Loads objects from files into the cluster, through the API like everything else: the server
//! gives them new UIDs, so references to owners among them are rewritten as they go in.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::object::{
    Kind, Namespace, Node, ObjectMeta, OwnerReferences, Pod, PodPhase, ReplicaSet,
    ReplicationController, Resource, ResourceVersion, Uid,
};
use podstorm::object::{Now, OwnerReference};

use super::tracker::Tracker;
use crate::cluster::{Cluster, DeleteOptions};
use crate::input::InputObject;

/// Objects on their way into the cluster, owners before what they own.
#[derive(Debug)]
pub(super) struct Loader {
    objects: VecDeque<InputObject>,
    /// UIDs in the files, and the ones the server gave.
    uids: BTreeMap<Uid, Uid>,
    pub(super) has_nodes: bool,
    /// Objects the server refused: the first few reasons, and how many in all.
    pub(super) refused: Vec<String>,
    pub(super) refused_count: u64,
}

/// How many refusals are kept in words.
const REFUSED_MAX: usize = 10;

impl Loader {
    /// Sorts the objects so that each is preceded by what it needs; namespaces that are named but
    /// not among the objects are added.
    pub(super) fn new(objects: Vec<InputObject>) -> Loader {
        let mut namespaces: BTreeSet<String> = BTreeSet::new();
        let mut ranked: [Vec<InputObject>; 4] = Default::default();
        for object in objects {
            let meta = object.metadata();
            if object.kind().is_namespaced() {
                namespaces.insert(meta.namespace.to_string());
            }
            let rank = match object.kind() {
                Kind::Namespace => 0,
                Kind::Node => 1,
                Kind::Pod => 3,
                _ => 2,
            };
            ranked[rank].push(object);
        }
        for known in &ranked[0] {
            namespaces.remove(known.metadata().name.as_str());
        }
        let missing = namespaces.into_iter().map(|name| {
            let metadata = ObjectMeta { name: name.into(), ..ObjectMeta::default() };
            InputObject::Namespace(Box::new(Namespace { metadata, ..Namespace::default() }))
        });
        let has_nodes = !ranked[1].is_empty();
        Loader {
            objects: missing.collect::<Vec<_>>().into_iter().chain(ranked.into_iter().flatten()).collect(),
            uids: BTreeMap::new(),
            has_nodes,
            refused: Vec::new(),
            refused_count: 0,
        }
    }

    /// Whether there is a ReplicationController among the objects.
    pub(super) fn has_replication_controllers(objects: &[InputObject]) -> bool {
        objects.iter().any(|object| object.kind() == Kind::ReplicationController)
    }

    /// Loads the next object; false when there is none left.
    pub(super) fn step(&mut self, cluster: &Cluster, tracker: &mut Tracker, now: Now) -> bool {
        let Some(object) = self.objects.pop_front() else { return false };
        let described =
            format!("{} {}/{}", object.kind().name(), object.metadata().namespace, object.metadata().name);
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
            InputObject::Namespace(object) => match self.create(*object, cluster, now) {
                // `default` and `kube-system` may be there from the start.
                Err(error) if error.code == 409 => Ok(()),
                other => other.map(drop),
            },
            InputObject::Node(object) => self.create::<Node>(*object, cluster, now).map(drop),
            InputObject::ReplicaSet(object) => {
                let created: Arc<ReplicaSet> = self.create(*object, cluster, now)?;
                tracker.asked(Kind::ReplicaSet, &created.metadata, created.replicas(), now);
                Ok(())
            }
            InputObject::ReplicationController(object) => {
                let created: Arc<ReplicationController> = self.create(*object, cluster, now)?;
                let replicas = created.replicas.unwrap_or(1);
                tracker.asked(Kind::ReplicationController, &created.metadata, replicas, now);
                Ok(())
            }
            InputObject::Pod(object) => self.load_pod(*object, cluster, now),
        }
    }

    /// A pod brings its status, unless it is still waiting to run; one that was being deleted is
    /// deleted again.
    fn load_pod(&mut self, pod: Pod, cluster: &Cluster, now: Now) -> Result<(), ApiError> {
        let status = pod.status.clone();
        let deleting = pod.metadata.is_deleting();
        let created = self.create::<Pod>(pod, cluster, now)?;
        if !matches!(status.phase, PodPhase::Pending | PodPhase::Unset) {
            let mut written = Pod::clone(&created);
            written.status = status;
            // Whatever a kubelet has written in the meantime is older than the file's word.
            written.metadata.resource_version = ResourceVersion::Unset;
            cluster.update_status(written, now)?;
        }
        if deleting {
            let (meta, options) = (&created.metadata, DeleteOptions::default());
            cluster.delete::<Pod>(&meta.namespace, &meta.name, &options, now)?;
        }
        Ok(())
    }

    /// Creates an object without what the server is to set.
    fn create<R: crate::cluster::ClusterResource>(
        &mut self,
        mut object: R,
        cluster: &Cluster,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let meta = object.metadata_mut();
        let old_uid = std::mem::take(&mut meta.uid);
        meta.resource_version = ResourceVersion::Unset;
        meta.owner_references = self.owners(&meta.owner_references);
        let created = cluster.create(object, now)?;
        if !old_uid.is_empty() {
            self.uids.insert(old_uid, created.metadata().uid.clone());
        }
        Ok(created)
    }

    /// References with the UIDs that the server gave. One to an owner that is not among the
    /// objects is left as it is: it is as dangling here as it is in the files.
    fn owners(&self, old: &OwnerReferences) -> OwnerReferences {
        old.iter()
            .map(|owner| match self.uids.get(&owner.uid) {
                Some(uid) => {
                    Arc::new(OwnerReference { uid: uid.clone(), ..OwnerReference::clone(owner) })
                }
                None => Arc::clone(owner),
            })
            .collect()
    }
}
