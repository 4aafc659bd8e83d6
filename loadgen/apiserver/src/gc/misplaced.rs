//! Events about references to owners in another namespace.
//!
//! Source: `reportInvalidNamespaceOwnerRef` in Kubernetes' `pkg/controller/garbagecollector`.

use std::sync::Arc;

use podstorm_objects::{
    Event, EventTopic, Kind, Now, ObjectMeta, ObjectReference, OwnerReference, Regarding, Uid,
};

use crate::Cluster;
use crate::store::owners::ObjectKey;

/// Who reports.
const COMPONENT: &str = "garbage-collector-controller";

impl Cluster {
    /// Writes an Event about an object whose owner of that UID lives in another namespace. O(n) in
    /// the objects of the owner's kind.
    pub(super) fn report_misplaced(&self, key: &ObjectKey, owner: &Uid, now: Now) {
        let found = self.metadata_of(key, |metadata| {
            let named = metadata.owner_references.iter();
            let named = named.into_iter().find(|named| named.uid == *owner);
            named.map(|named| (Arc::clone(named), metadata.clone()))
        });
        let Some((owner, metadata)) = found.flatten() else {
            return;
        };
        let Some(kind) = self.kind_of(&owner).filter(|kind| kind.is_namespaced()) else {
            return;
        };
        let place = self.with_store(kind, |store| store.namespace_of(&owner.uid));
        let place = place.ok().flatten();
        if place.is_some_and(|place| place != metadata.namespace) {
            // An Event that can't be written is lost, as upstream's are.
            let _ = self.create(event(key.kind, &metadata, &owner, now), now);
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
