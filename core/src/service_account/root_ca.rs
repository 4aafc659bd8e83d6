//! The root CA publisher: it maintains the ConfigMap `kube-root-ca.crt` in each active namespace.
//! Pods use its certificates to verify the API server.
//!
//! Source: Kubernetes' `pkg/controller/certificates/rootcacertpublisher`.

use std::sync::Arc;

use podstorm_objects::{AnyObject, DynamicObject, Kind, Map, Namespace, Now};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, RateLimitingQueue};
use serde_json::json;

use super::{Namespaces, is_terminating, object, one_worker};
use crate::controller::{ControllerType, Setup};

/// The name of the ConfigMap.
pub const CONFIG_MAP: &str = "kube-root-ca.crt";

/// The key of the certificates in the ConfigMap's data.
const KEY: &str = "ca.crt";

const DESCRIPTION: &str = "kubernetes.io/description";
/// The text of the annotation that describes the ConfigMap, the same as upstream's.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
                         endpoints such as the internal service IP or kubernetes.default.svc. No other usage is \
                         guaranteed across distributions of Kubernetes clusters.";

/// The root CA publisher, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootCa;

impl ControllerType for RootCa {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "root-ca-certificate-publisher-controller",
        alias: "root-ca-cert-publisher",
        component: "root-ca-cert-publisher",
        purpose: "the ConfigMap `kube-root-ca.crt` of each namespace",
        reads: &[Kind::NAMESPACE, Kind::CONFIG_MAP],
        writes: &[Write::new(Kind::CONFIG_MAP, &["create", "update"])],
        queues: &[one_worker("root_ca_cert_publisher_queue")],
        served_only: true,
        populates: true,
        ..ControllerRow::DEFAULT
    };

    fn make(setup: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let root_ca = Arc::clone(&setup.identity.root_ca);
        Arc::new(Controller::new(root_ca, informers))
    }
}

/// The root CA publisher. Other controllers may share its informers. A clone is a handle to the
/// same publisher.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    root_ca: Arc<str>,
    namespaces: Namespaces,
    maps: Arc<Store<AnyObject>>,
}

/// The handler that wakes the namespace of a changed or deleted ConfigMap.
struct Maps(Arc<Shared>);

impl Controller {
    /// Creates a controller that publishes the certificates in `root_ca`, and reads namespaces and
    /// ConfigMaps from `informers`.
    pub fn new(root_ca: Arc<str>, informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            root_ca,
            namespaces: Namespaces {
                store: informers.store(Kind::NAMESPACE, || ()),
                queue: RateLimitingQueue::from_row(RootCa::ROW.queues[0]),
            },
            maps: informers.store(Kind::CONFIG_MAP, || ()),
        });
        informers.add_handler::<Arc<Namespace>>(Kind::NAMESPACE, Arc::clone(&shared) as _);
        let maps = Arc::new(Maps(Arc::clone(&shared)));
        informers.add_handler::<AnyObject>(Kind::CONFIG_MAP, maps);
        Controller(shared)
    }
}

impl Handler<Arc<Namespace>> for Shared {
    fn handle(&self, change: &Change<Arc<Namespace>>, now: Now) {
        let is_active = |namespace: &Arc<Arc<Namespace>>| !namespace.terminating;
        if change.new.as_ref().is_some_and(is_active) {
            self.namespaces.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.namespaces.queue)
    }
}

impl Handler<AnyObject> for Maps {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        // A new ConfigMap is either correct, or the sync of the new namespace corrects it.
        let changed = change.old.as_ref().and(change.new.as_ref());
        let changed = changed.map(|map| &***map).or(change.last.as_deref());
        if let Some(map) = changed
            && map.metadata().name == CONFIG_MAP
        {
            self.0
                .namespaces
                .wake(&map.metadata().namespace, now.mono_ns);
        }
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.namespaces.store.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.namespaces.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

/// Builds the ConfigMap for a new namespace.
pub fn root_ca_map(namespace: &str, root_ca: &str) -> DynamicObject {
    let mut map = object(Kind::CONFIG_MAP, namespace, CONFIG_MAP, data(root_ca));
    let annotations = &mut map.metadata.annotations;
    *annotations = annotations.with(DESCRIPTION, DESCRIBED);
    map
}

fn data(root_ca: &str) -> Map {
    let mut members = Map::new();
    members.insert("data".to_owned(), json!({KEY: root_ca}));
    members
}

/// Creates the ConfigMap of a namespace, or corrects its data and description. If the cached
/// version is outdated, the update fails, and the retry sees a newer version.
async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(namespace) = shared.namespaces.store.get(key) else {
        return Ok(End::Forget);
    };
    let name = &namespace.metadata.name;
    let Some(cached) = shared.maps.get_named(name, CONFIG_MAP) else {
        let map = root_ca_map(name, &shared.root_ca);
        return match calls.create(map).await {
            Err(error) if !error.is_not_found() && !is_terminating(&error) => {
                Err(SyncFailure::at("create failed")(error))
            }
            _ => Ok(End::Forget),
        };
    };
    let Some(cached) = cached.downcast_ref::<DynamicObject>() else {
        return Ok(End::Forget);
    };
    let wanted = data(&shared.root_ca);
    let description = cached.metadata.annotations.get(DESCRIPTION);
    let is_described = description.is_some_and(|text| !text.is_empty());
    if cached.fields.get("data") == wanted.get("data") && is_described {
        return Ok(End::Forget);
    }
    let mut map = cached.clone();
    map.fields.extend(wanted);
    map.metadata.annotations = map.metadata.annotations.with(DESCRIPTION, DESCRIBED);
    let written = calls.put(map).await;
    written.map_err(SyncFailure::at("update failed"))?;
    Ok(End::Forget)
}

#[cfg(test)]
mod tests {
    use super::super::harness::World;
    use super::*;
    use crate::identity::PLACEHOLDER_CA;

    const CREATED: [&str; 1] = ["create ConfigMap shop/kube-root-ca.crt: 201"];
    const UPDATED: [&str; 1] = ["update ConfigMap shop/kube-root-ca.crt: 200"];

    fn world() -> World<Controller> {
        World::new(&[Kind::NAMESPACE, Kind::CONFIG_MAP], |informers| {
            Controller::new(PLACEHOLDER_CA.into(), informers)
        })
    }

    fn is_whole(world: &World<Controller>) -> bool {
        let map = world.get(Kind::CONFIG_MAP, "shop", CONFIG_MAP);
        let description = map["metadata"]["annotations"][DESCRIPTION].as_str();
        map["data"] == json!({"ca.crt": PLACEHOLDER_CA}) && description == Some(DESCRIBED)
    }

    #[test]
    fn a_deleted_config_map_is_recreated() {
        let mut world = world();
        world.namespace("shop", "Active");
        assert_eq!(world.sync(0), CREATED);
        assert!(is_whole(&world));
        world.namespace("shop", "Active");
        assert!(world.sync(1).is_empty());
        world.delete(Kind::CONFIG_MAP, "shop", CONFIG_MAP);
        assert_eq!(world.sync(2), CREATED);
        // The publisher ignores other ConfigMaps.
        world.put(Kind::CONFIG_MAP, "shop", "settings", &[]);
        world.delete(Kind::CONFIG_MAP, "shop", "settings");
        assert!(world.sync(3).is_empty());
    }

    #[test]
    fn changes_of_the_config_map_are_reverted() {
        let mut world = world();
        world.namespace("shop", "Active");
        world.sync(0);
        for (round, change) in [
            json!({"data": {"ca.crt": "other"}}),
            json!({"data": {"ca.crt": PLACEHOLDER_CA, "more": ""}}),
            json!({"data": null}),
            json!({"metadata": {"annotations": {DESCRIPTION: ""}}}),
            json!({"metadata": {"annotations": null}}),
        ]
        .into_iter()
        .enumerate()
        {
            let at = 1 + i64::try_from(round).unwrap();
            world.change(Kind::CONFIG_MAP, "shop", CONFIG_MAP, &change);
            assert_eq!(world.sync(at), UPDATED, "{change}");
            assert!(is_whole(&world), "{change}");
        }
        // Other members stay.
        let other = json!({"metadata": {"annotations": {"mine": "1", DESCRIPTION: "Ours"}}});
        world.change(Kind::CONFIG_MAP, "shop", CONFIG_MAP, &other);
        assert!(world.sync(9).is_empty(), "any description will do");
    }

    #[test]
    fn the_retry_writes_a_config_map_that_changed_meanwhile() {
        let mut world = world();
        world.namespace("shop", "Active");
        world.sync(0);
        let change = json!({"data": {"ca.crt": "other"}});
        world.change(Kind::CONFIG_MAP, "shop", CONFIG_MAP, &change);
        world.hold_back(Kind::CONFIG_MAP);
        world.change(
            Kind::CONFIG_MAP,
            "shop",
            CONFIG_MAP,
            &json!({"data": {"k": "v"}}),
        );
        assert_eq!(
            world.sync(1),
            ["update ConfigMap shop/kube-root-ca.crt: 409"]
        );
        world.release(Kind::CONFIG_MAP);
        assert_eq!(world.sync(2), UPDATED);
        assert!(is_whole(&world));
    }

    #[test]
    fn a_terminating_namespace_gets_nothing() {
        let mut world = world();
        world.namespace("shop", "Terminating");
        assert!(world.sync(0).is_empty());
        world.namespace("late", "Active");
        world.refuse_namespace("late");
        assert_eq!(
            world.sync(1),
            ["create ConfigMap late/kube-root-ca.crt: 403"]
        );
        assert_eq!(world.next_due(), None);
        world.namespace("lost", "Active");
        world.lose_namespace("lost");
        assert_eq!(
            world.sync(2),
            ["create ConfigMap lost/kube-root-ca.crt: 404"]
        );
        assert_eq!(world.next_due(), None);
    }
}
