//! A running cluster for walk-throughs: a test applies manifests and waits for their effects. The
//! same test runs on the virtual engine and on threads.

use std::path::Path;
use std::sync::Arc;

use podstorm::object::{
    Event, Map, Namespace, Node, Now, Pod, ReplicaSet, ReplicationController, Resource, Uid,
};
use podstorm_apiserver::{
    Cluster, ClusterResource, DeleteOptions, Patch, Propagation, ScaleUpdate,
};
use podstorm_faultsim::objects::named;
use podstorm_sim::engine;
use podstorm_sim::options::{EngineKind, SimOptions};
use serde_json::{Value, json};

/// The namespace of the objects in all manifests.
pub const NAMESPACE: &str = "default";

/// The number of nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;

/// The time limit for any wait, on the cluster's clock. A wait needs less than a tenth of it, but a
/// test must not fail on a busy machine.
const LIMIT_NS: i64 = 120 * SECOND_NS;

/// The number of nodes in a cluster.
const NODES: u32 = 20;

/// A running cluster with nodes and the namespace `default`.
#[derive(Debug)]
pub struct Harness {
    inner: engine::Harness,
}

impl Harness {
    /// Creates a cluster without latencies.
    pub fn new(engine: EngineKind) -> Harness {
        Harness::with(engine, |_| {})
    }

    /// Creates a cluster whose options `change` changes.
    pub fn with(engine: EngineKind, change: impl FnOnce(&mut SimOptions)) -> Harness {
        let harness = Harness::without_nodes(engine, change);
        for number in 1..=NODES {
            harness.create(node(number));
        }
        harness
    }

    /// Like [`with`](Harness::with), but without nodes.
    pub fn without_nodes(engine: EngineKind, change: impl FnOnce(&mut SimOptions)) -> Harness {
        let mut options = SimOptions::new(engine, 7);
        options.threads = options.threads.min(2);
        change(&mut options);
        let harness = Harness {
            inner: engine::Harness::new(&options),
        };
        harness.create(Namespace {
            metadata: named(NAMESPACE),
            ..Namespace::default()
        });
        harness
    }

    /// Returns the API server.
    pub fn cluster(&self) -> &Cluster {
        self.inner.cluster()
    }

    /// Returns the current time.
    pub fn now(&self) -> Now {
        self.inner.now()
    }

    /// Creates every object in `tests/manifests/<file>`.
    ///
    /// # Panics
    /// Panics if the file is unreadable, or if the server rejects an object.
    pub fn apply(&self, file: &str) {
        let read = "the manifest's object is readable";
        for object in manifest(file) {
            match object["kind"].as_str() {
                Some("Pod") => self.create(Pod::from_json(object).expect(read)),
                Some("ReplicaSet") => self.create(ReplicaSet::from_json(object).expect(read)),
                Some("ReplicationController") => {
                    self.create(ReplicationController::from_json(object).expect(read));
                }
                other => panic!("manifests of kind {other:?} are not used"),
            }
        }
    }

    fn create<R: ClusterResource>(&self, object: R) {
        let created = self.cluster().create(object, self.now());
        created.expect("the object is accepted");
    }

    /// Returns the ReplicaSet with this name.
    ///
    /// # Panics
    /// Panics if the ReplicaSet does not exist.
    pub fn replica_set(&self, name: &str) -> Arc<ReplicaSet> {
        self.cluster()
            .get(NAMESPACE, name)
            .expect("the ReplicaSet exists")
    }

    /// Returns all pods, sorted by name.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        pods(self.cluster())
    }

    /// Returns all Events.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.cluster().list(Some(NAMESPACE)).0
    }

    /// Runs the cluster until `holds` returns true.
    ///
    /// # Panics
    /// Panics if `holds` does not return true within the time limit.
    pub fn until(&mut self, what: &str, holds: impl FnMut(&Cluster) -> bool) {
        if !self.inner.until(LIMIT_NS, holds) {
            panic!("never happened: {what}\n{}", picture(self.cluster()));
        }
    }

    /// Runs the cluster until a ReplicaSet has exactly this many ready pods and the cluster has
    /// come to rest.
    ///
    /// # Panics
    /// Panics if that takes too long, or if the state does not last.
    pub fn until_ready(&mut self, name: &str, replicas: usize) {
        let settled = |cluster: &Cluster| is_ready(cluster, name, replicas);
        self.until(&format!("{name} with {replicas} ready pods"), settled);
        self.settle();
        assert!(
            settled(self.cluster()),
            "the state did not last\n{}",
            picture(self.cluster())
        );
    }

    /// Runs the cluster until there is nothing left to do.
    ///
    /// # Panics
    /// Panics if the cluster does not come to rest within the time limit.
    pub fn settle(&mut self) {
        assert!(
            self.inner.settle(LIMIT_NS),
            "never quiet\n{}",
            picture(self.cluster())
        );
    }

    /// Sets the `spec.replicas` of a ReplicaSet through the subresource `scale`.
    ///
    /// # Panics
    /// Panics if the server rejects the update.
    pub fn scale(&self, name: &str, replicas: i32) {
        let update = ScaleUpdate {
            replicas,
            ..ScaleUpdate::default()
        };
        self.cluster()
            .update_scale::<ReplicaSet>(NAMESPACE, name, &update, self.now())
            .expect("the scale is accepted");
    }

    /// Applies a JSON merge patch to a pod.
    ///
    /// # Panics
    /// Panics if the server rejects the patch.
    pub fn patch_pod(&self, name: &str, patch: &Value) {
        let patch: Map = serde_json::from_value(patch.clone()).expect("a patch must be an object");
        let patch = Patch::Merge(patch);
        self.cluster()
            .patch::<Pod>(NAMESPACE, name, &patch, self.now())
            .expect("the patch is accepted");
    }

    /// Deletes a ReplicaSet, or begins its deletion. Returns the ReplicaSet as it was last stored.
    ///
    /// # Panics
    /// Panics if the server rejects the deletion.
    pub fn delete_replica_set(&self, name: &str, propagation: Propagation) -> Arc<ReplicaSet> {
        let options = DeleteOptions {
            propagation: Some(propagation),
            ..DeleteOptions::default()
        };
        self.cluster()
            .delete::<ReplicaSet>(NAMESPACE, name, &options, self.now())
            .expect("the deletion is accepted")
            .object
    }
}

/// Returns all pods of a cluster, sorted by name.
pub fn pods(cluster: &Cluster) -> Vec<Arc<Pod>> {
    let mut pods = cluster.list::<Pod>(Some(NAMESPACE)).0;
    pods.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    pods
}

/// Returns the pods whose controller has this UID.
pub fn owned(pods: &[Arc<Pod>], uid: &Uid) -> Vec<Arc<Pod>> {
    let is_owned = |pod: &&Arc<Pod>| pod.metadata.controller().is_some_and(|o| o.uid == *uid);
    pods.iter().filter(is_owned).cloned().collect()
}

/// Reports whether the ReplicaSet wants, has and reports this many pods, whether all of them are
/// ready, and whether it owns no other pods.
fn is_ready(cluster: &Cluster, name: &str, replicas: usize) -> bool {
    let Ok(found) = cluster.get::<ReplicaSet>(NAMESPACE, name) else {
        return false;
    };
    let owned = owned(&pods(cluster), &found.metadata.uid);
    let status = &found.status;
    let counts = [
        found.replicas(),
        status.replicas,
        status.ready_replicas,
        status.available_replicas,
    ];
    counts
        .iter()
        .all(|count| usize::try_from(*count) == Ok(replicas))
        && status.observed_generation == found.metadata.generation
        && status.terminating_replicas == Some(0)
        && owned.len() == replicas
        && owned.iter().all(|pod| pod.is_active() && pod.is_ready())
}

/// Describes the state of a cluster, for the message of a failed test.
fn picture(cluster: &Cluster) -> String {
    let sets = cluster.list::<ReplicaSet>(Some(NAMESPACE)).0;
    let sets = sets.iter().map(|set| {
        format!(
            "{}: wants {}, {:?}",
            set.metadata.name,
            set.replicas(),
            set.status
        )
    });
    let pods = pods(cluster);
    let first = pods.iter().take(20).map(|pod| {
        let owner = pod
            .metadata
            .controller()
            .map(|owner| owner.name.to_string());
        let Pod {
            metadata, status, ..
        } = &**pod;
        let (phase, ready, deleting) = (&status.phase, pod.is_ready(), metadata.is_deleting());
        format!(
            "{}: owner {owner:?}, {phase:?}, ready {ready}, deleting {deleting}",
            metadata.name
        )
    });
    let lines: Vec<String> = sets.chain(first).collect();
    format!("{} pods\n{}", pods.len(), lines.join("\n"))
}

/// Returns the documents in a manifest as JSON.
fn manifest(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("manifests")
        .join(file);
    let text = std::fs::read_to_string(&path).expect("the manifest exists");
    serde_saphyr::from_multiple(&text).expect("the manifest is YAML")
}

fn node(number: u32) -> Node {
    let node = json!({
        "metadata": {"name": format!("node-{number}")},
        "status": {"allocatable": {"pods": "110"}},
    });
    Node::from_json(node).expect("the test's node is valid")
}
