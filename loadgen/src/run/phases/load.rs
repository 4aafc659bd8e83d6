//! Loads the objects of files into the cluster unchanged, including status and UIDs, as a backup is
//! restored. Owners come before the objects that they own, so that the garbage collector finds
//! them.

use std::collections::VecDeque;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Kind, Node, Now, Str};

use super::tracker::Tracker;
use crate::input::{InputObject, described, missing_namespaces};
use crate::workloads;

/// Loads objects, owners before the objects that they own.
#[derive(Debug)]
pub(super) struct Loader {
    objects: VecDeque<InputObject>,
    pub(super) has_nodes: bool,
    /// The names of the loaded nodes.
    pub(super) nodes: Vec<Str>,
    /// The tracker's numbers of the loaded owners of pods, with their desired pods.
    pub(super) owners: Vec<(usize, i32)>,
    /// The reasons for which the server refused objects, at most [`REFUSED_MAX`]. The next field is
    /// the number of refused objects.
    pub(super) refused: Vec<String>,
    pub(super) refused_count: u64,
}

/// The maximum number of refusals to describe.
const REFUSED_MAX: usize = 10;

impl Loader {
    /// Sorts the objects so that each follows its owner and the other objects that it needs, and so
    /// that owners of pods are in the order of their kinds. Adds the namespaces that are referenced
    /// but missing.
    pub(super) fn new(mut objects: Vec<InputObject>) -> Loader {
        let mut all: VecDeque<InputObject> = missing_namespaces(&objects).collect();
        let owners: Vec<Kind> = workloads::owners().map(|it| it.kind()).collect();
        let rank_of = |kind: &str| owners.iter().position(|owner| owner.name() == kind);
        let owned = 3 + owners.len();
        objects.sort_by_key(|object| match object {
            InputObject::Namespace(_) => 0,
            InputObject::Node(_) => 1,
            InputObject::Pod(_) => owned + 1,
            other => match rank_of(other.kind().name()) {
                Some(at) => 3 + at,
                None => {
                    let owners = other.metadata().owner_references.iter();
                    let rank = owners.map(|owner| match &*owner.kind {
                        "Pod" => owned + 2,
                        kind if rank_of(kind).is_some() => owned,
                        _ => 2,
                    });
                    rank.max().unwrap_or(2)
                }
            },
        });
        let has_nodes = objects.iter().any(|it| matches!(it, InputObject::Node(_)));
        all.extend(objects);
        Loader {
            objects: all,
            has_nodes,
            nodes: Vec::new(),
            owners: Vec::new(),
            refused: Vec::new(),
            refused_count: 0,
        }
    }

    /// Loads the next object. Returns false if there are none left.
    pub(super) fn step(&mut self, cluster: &Cluster, tracker: &mut Tracker, now: Now) -> bool {
        let Some(object) = self.objects.pop_front() else {
            return false;
        };
        let described = described(object.as_object());
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
                // The object occurs twice, or exists from the start.
                Err(error) if error.code == 409 => Ok(()),
                other => other.map(drop),
            },
            InputObject::Node(object) => {
                let stored: Arc<Node> = cluster.import(*object, now)?;
                self.nodes.push(stored.metadata.name.as_str().into());
                Ok(())
            }
            InputObject::Pod(object) => cluster.import(*object, now).map(drop),
            other => {
                let kind = other.kind();
                let stored = cluster.api(kind).import(other.into_any(), now)?;
                if let Some(workload) = workloads::for_kind(kind)
                    && let Some(pods) = workload.pods()
                    && let Some(demand) = pods.demand(&*stored)
                {
                    let meta = stored.metadata();
                    let at = tracker.asked(workload, meta, demand.replicas, now);
                    self.owners.push((at, demand.replicas));
                }
                Ok(())
            }
        }
    }
}
