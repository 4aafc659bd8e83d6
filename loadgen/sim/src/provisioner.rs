//! The simulated volume provisioner: creates a volume for each claim for which the binder requests
//! one, and deletes released volumes if their policy is `Delete`.
//!
//! It is an API client, as external provisioners are, so it works with any binder, including that
//! of a real kube-controller-manager.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::client::{EventType, Reason};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{AsyncWorkload, Calls, Steps, SyncFailure, unless_gone};
use podstorm::informer::{Handler, Informers};
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::primitives::{Mutex, lock};
use podstorm::row::{ControllerRow, NumberFlag, NumberForm, Write};
use podstorm::store::{Change, Keyed, Store};
use podstorm::workqueue::{End, QueueRow, RateLimitingQueue, Workers};
use podstorm_apiserver::kind_named;
use podstorm_objects::{DynamicObject, Kind, Map, Node, Now, Str};
use serde_json::{Value, json};

/// The provisioner's name in StorageClasses and in annotations of volumes.
pub const PROVISIONER: &str = "volumes.podstorm";

/// The flag that sets the time that the creation of a volume takes.
const LATENCY: NumberFlag = NumberFlag {
    flag: "volume-latency",
    default: 500_000_000,
    form: NumberForm::Time,
    help: "Time that the simulated provisioner takes to create a volume",
};

/// The annotations with which binders request a volume: the current one, and the one used before
/// Kubernetes 1.23.
const ASKED: [&str; 2] = [
    "volume.kubernetes.io/storage-provisioner",
    "volume.beta.kubernetes.io/storage-provisioner",
];

/// The annotation that names the provisioner of a volume.
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The annotation that names the node of the first pod that needs the claim.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The index of the claim queue.
const CLAIMS: usize = 0;

/// The index of the volume queue.
const VOLUMES: usize = 1;

/// The controller type of the simulated provisioner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeProvisioner;

/// The simulated provisioner. A clone is a handle to the same provisioner.
#[derive(Clone, Debug)]
pub struct Provisioner(Arc<Shared>);

type Cached = Arc<DynamicObject>;

#[derive(Debug)]
struct Shared {
    claims: Arc<Store<Cached>>,
    volumes: Arc<Store<Cached>>,
    classes: Arc<Store<Cached>>,
    queues: [RateLimitingQueue<KeyId>; 2],
    latency_ns: i64,
    /// For each claim whose volume is being created: the time at which the volume is ready, ns.
    due_ns: Mutex<BTreeMap<KeyId, i64>>,
}

/// Returns the row of a queue with one worker.
const fn queue(name: &'static str) -> QueueRow {
    QueueRow {
        workers: Workers::Number(1),
        ..QueueRow::new(name)
    }
}

impl ControllerType for VolumeProvisioner {
    type Workload = Provisioner;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "volume-provisioner",
        alias: "provisioner",
        component: PROVISIONER,
        purpose: "simulated volumes",
        kind: Some(Kind::PERSISTENT_VOLUME_CLAIM),
        reads: &[Kind::PERSISTENT_VOLUME, Kind::STORAGE_CLASS],
        writes: &[
            Write::new(Kind::PERSISTENT_VOLUME, &["create", "delete"]),
            Write::new(Kind::NODE, &["get"]),
        ],
        queues: &[queue("provisioned_claims"), queue("provisioned_volumes")],
        numbers: &[LATENCY],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Provisioner> {
        let queue = |at: usize| RateLimitingQueue::from_row(Self::ROW.queues[at]);
        let shared = Arc::new(Shared {
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            volumes: informers.store(Kind::PERSISTENT_VOLUME, || ()),
            classes: informers.store(Kind::STORAGE_CLASS, || ()),
            queues: [queue(CLAIMS), queue(VOLUMES)],
            latency_ns: LATENCY.value(&setup.numbers),
            due_ns: Mutex::default(),
        });
        for (kind, at) in [
            (Kind::PERSISTENT_VOLUME_CLAIM, CLAIMS),
            (Kind::PERSISTENT_VOLUME, VOLUMES),
        ] {
            let shared = Arc::clone(&shared);
            informers.add_handler::<Cached>(kind, Arc::new(Of { shared, at }));
        }
        Arc::new(Provisioner(shared))
    }
}

/// Queues the objects of one kind.
#[derive(Debug)]
struct Of {
    shared: Arc<Shared>,
    at: usize,
}

impl Handler<Cached> for Of {
    fn handle(&self, change: &Change<Cached>, now: Now) {
        self.shared.queues[self.at].add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Of {
    fn is_idle(&self, key: KeyId) -> bool {
        self.shared.queues[self.at].is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.shared.queues[self.at].forget(key);
        if self.at == CLAIMS {
            lock(&self.shared.due_ns).remove(&key);
        }
    }
}

fn part<'o>(object: &'o DynamicObject, name: &str) -> &'o Value {
    object.fields.get(name).unwrap_or(&Value::Null)
}

async fn make(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let claim = shared.claims.get(key).filter(|claim| is_asked(claim));
    let class = claim.as_ref().and_then(|claim| {
        let class = part(claim, "spec")["storageClassName"].as_str()?;
        shared.classes.get_named("", class)
    });
    let (Some(claim), Some(class)) = (claim, class) else {
        lock(&shared.due_ns).remove(&key);
        return Ok(End::Forget);
    };
    let name = format!("pvc-{}", claim.metadata.uid);
    if shared.volumes.get_named("", &name).is_some() {
        return Ok(End::Forget);
    }
    let (now_ns, known_ns) = (calls.now().mono_ns, lock(&shared.due_ns).get(&key).copied());
    let due_ns = known_ns.unwrap_or_else(|| now_ns.saturating_add(shared.latency_ns));
    if known_ns.is_none() {
        lock(&shared.due_ns).insert(key, due_ns);
        let meta = &claim.metadata;
        let claimed = format!("{}/{}", meta.namespace, meta.name);
        let text = format!("External provisioner is provisioning volume for claim {claimed:?}");
        calls.report(&**claim, EventType::Normal, "Provisioning", text);
    }
    if due_ns > now_ns {
        return Ok(End::After(due_ns - now_ns));
    }
    let mut volume = volume(&name, &claim, &class);
    if let Some(topologies) = class.fields.get("allowedTopologies") {
        let node = match claim.metadata.annotations.get(SELECTED_NODE) {
            // The node may have been deleted. The next sync then finds the annotation of another
            // node.
            Some(node) => calls
                .get::<Node>(Kind::NODE, &Str::default(), node)
                .await
                .ok(),
            None => None,
        };
        volume.fields["spec"]["nodeAffinity"] = affinity(topologies, node.as_deref());
    }
    match calls.create(volume).await {
        Err(error) if error.reason != Reason::AlreadyExists => {
            return Err(SyncFailure::at("create failed")(error));
        }
        _ => {}
    }
    lock(&shared.due_ns).remove(&key);
    let text = format!("Successfully provisioned volume {name}");
    calls.report(&**claim, EventType::Normal, "ProvisioningSucceeded", text);
    Ok(End::Forget)
}

/// Reports whether a claim waits for a volume from this provisioner.
fn is_asked(claim: &DynamicObject) -> bool {
    let mut asked = ASKED
        .iter()
        .filter_map(|it| claim.metadata.annotations.get(it));
    asked.any(|asked| **asked == *PROVISIONER)
        && part(claim, "spec")["volumeName"]
            .as_str()
            .unwrap_or("")
            .is_empty()
        && !claim.metadata.is_deleting()
}

/// Returns the CSI driver of the volumes. Its volumes are never attached to a node, so controllers
/// don't wait for attachment.
pub fn driver() -> DynamicObject {
    let driver = json!({
        "metadata": {"name": PROVISIONER},
        "spec": {"attachRequired": false, "podInfoOnMount": false, "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "requiresRepublish": false, "storageCapacity": false, "volumeLifecycleModes": ["Persistent"]}});
    let kind = kind_named("CSIDriver").expect("CSIDriver is a built-in kind");
    DynamicObject::from_json(kind, driver).expect("the driver is a valid CSIDriver")
}

/// Returns the default StorageClass, for claims that don't name a class.
pub fn default_class() -> DynamicObject {
    let class = json!({
        "metadata": {"name": "standard", "annotations":
            {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"});
    DynamicObject::from_json(Kind::STORAGE_CLASS, class)
        .expect("the default class is a valid StorageClass")
}

/// Returns the node affinity for a volume whose class allows these topologies: the topology that
/// matches the selected node, or else the first one.
fn affinity(topologies: &Value, node: Option<&Node>) -> Value {
    let list = |of: &Value, name: &str| of[name].as_array().cloned().unwrap_or_default();
    let label = |key: &Value| node?.metadata.labels.get(key.as_str()?);
    let has = |expression: &Value| {
        let label = label(&expression["key"]);
        let mut allowed = list(expression, "values").into_iter();
        label.is_some_and(|label| allowed.any(|it| it == **label))
    };
    let terms = topologies.as_array().into_iter().flatten();
    let mut terms = terms.map(|term| list(term, "matchLabelExpressions"));
    let first = terms.clone().next().unwrap_or_default();
    let term = terms.find(|term| term.iter().all(has)).unwrap_or(first);
    let pinned = term.iter().map(|expression| {
        let value = match label(&expression["key"]) {
            Some(label) if has(expression) => json!(&**label),
            _ => expression["values"][0].clone(),
        };
        json!({"key": expression["key"], "operator": "In", "values": [value]})
    });
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": pinned.collect::<Vec<_>>()}]}})
}

/// Returns the volume for a claim. Every node can mount it unless its class restricts the topology.
fn volume(name: &str, claim: &DynamicObject, class: &DynamicObject) -> DynamicObject {
    let (spec, meta) = (part(claim, "spec"), &claim.metadata);
    let policy = match part(class, "reclaimPolicy") {
        Value::Null => json!("Delete"),
        policy => policy.clone(),
    };
    let mut volume = DynamicObject::new(Kind::PERSISTENT_VOLUME);
    volume.metadata.name = name.into();
    let annotations = &mut volume.metadata.annotations;
    *annotations = annotations.with(PROVISIONED_BY, PROVISIONER);
    let spec = json!({
        "accessModes": spec["accessModes"],
        "capacity": {"storage": spec["resources"]["requests"]["storage"]},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": &*meta.namespace, "name": &*meta.name, "uid": meta.uid.to_string(),
            "resourceVersion": meta.resource_version.to_string()},
        "csi": {"driver": PROVISIONER, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": policy,
        "storageClassName": &*class.metadata.name,
        "volumeMode": match &spec["volumeMode"] {
            Value::Null => json!("Filesystem"),
            mode => mode.clone(),
        },
    });
    volume.fields = Map::from_iter([("spec".to_owned(), spec)]);
    if let Some(options) = class.fields.get("mountOptions") {
        volume.fields["spec"]["mountOptions"] = options.clone();
    }
    volume
}

async fn remove(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(volume) = shared.volumes.get(key) else {
        return Ok(End::Forget);
    };
    let meta = &volume.metadata;
    let is_own = meta
        .annotations
        .get(PROVISIONED_BY)
        .is_some_and(|by| **by == *PROVISIONER);
    let is_released = part(&volume, "status")["phase"] == "Released"
        && part(&volume, "spec")["persistentVolumeReclaimPolicy"] == "Delete";
    if !is_own || !is_released || meta.is_deleting() {
        return Ok(End::Forget);
    }
    let deleted = calls.delete(Kind::PERSISTENT_VOLUME, meta, None).await;
    unless_gone(deleted).map_err(SyncFailure::at("delete failed"))?;
    Ok(End::Forget)
}

impl AsyncWorkload for Provisioner {
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        match queue {
            CLAIMS => self.0.claims.name(key),
            _ => self.0.volumes.name(key),
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
    }

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match queue {
                CLAIMS => make(shared, key, calls).await,
                _ => remove(shared, key, calls).await,
            }
        }
    }
}
