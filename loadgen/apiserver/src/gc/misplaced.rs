//! Events about owner references that cross namespaces.
//!
//! Source: `reportInvalidNamespaceOwnerRef` in Kubernetes' `pkg/controller/garbagecollector`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{
    Event, EventTopic, Kind, Now, ObjectMeta, ObjectReference, OwnerReference, Regarding, Uid,
};

use crate::Cluster;
use crate::Places;
use crate::store::owners::ObjectKey;

/// The source component of the Events.
const COMPONENT: &str = "garbage-collector-controller";

impl Cluster {
    /// Writes an Event about the object `key` for each of `owners` that is in another namespace.
    /// O(n) in the objects of the owners' kinds.
    pub(super) fn report_misplaced(&self, key: &ObjectKey, owners: &[Uid], now: Now) {
        let Some(metadata) = self.metadata_of(key, ObjectMeta::clone) else {
            return;
        };
        let all = &metadata.owner_references;
        let uids: Places<&Uid> = all.iter().map(|owner| &owner.uid).collect();
        let owners = owners
            .iter()
            .filter_map(|uid| Some(&all[uids.position(&uid)?]));
        let owners = owners.filter_map(|owner| Some((self.kind_of(owner)?, owner)));
        let owners: Vec<(Kind, &Arc<OwnerReference>)> =
            owners.filter(|(kind, _)| kind.is_namespaced()).collect();
        let kinds: BTreeSet<Kind> = owners.iter().map(|(kind, _)| *kind).collect();
        let places = kinds.into_iter().filter_map(|kind| {
            let of_kind = owners.iter().filter(|(of, _)| *of == kind);
            let uids: Places<&Uid> = of_kind.map(|(_, owner)| &owner.uid).collect();
            let places = self.with_store(kind, |store| store.namespaces_of(&uids));
            Some((kind, places.ok()?))
        });
        let places: BTreeMap<Kind, _> = places.collect();
        for (kind, owner) in &owners {
            let place = places.get(kind).and_then(|of_kind| of_kind.get(&owner.uid));
            if place.is_some_and(|place| *place != metadata.namespace) {
                // Ignore the error: an Event that can't be written is lost, as in upstream.
                let _ = self.create(event(key.kind, &metadata, owner, now), now);
            }
        }
    }
}

fn event(kind: Kind, metadata: &ObjectMeta, owner: &OwnerReference, now: Now) -> Event {
    let namespace = &metadata.namespace;
    let message = format!(
        "ownerRef [{}/{}, namespace: {namespace}, name: {}, uid: {}] does not exist in namespace \
         \"{namespace}\"",
        owner.api_version, owner.kind, owner.name, owner.uid
    );
    let topic = EventTopic {
        kind: "Warning".into(),
        reason: "OwnerRefInvalidNamespace".into(),
        component: COMPONENT.into(),
        reporting_component: COMPONENT.into(),
        ..EventTopic::default()
    };
    Event {
        metadata: ObjectMeta {
            name: format!("{}.{:x}", metadata.name, now.wall_ns).into(),
            // Events about cluster-scoped objects are in the default namespace.
            namespace: match namespace.is_empty() {
                true => "default".into(),
                false => namespace.clone(),
            },
            ..ObjectMeta::default()
        },
        regarding: Some(Regarding::Object(Arc::new(ObjectReference::new(
            kind, metadata,
        )))),
        topic: Arc::new(topic),
        message: message.into(),
        count: 1,
        first_timestamp: now.wall(),
        last_timestamp: now.wall(),
        ..Event::default()
    }
}
