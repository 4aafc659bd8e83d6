//! The admission plugin DefaultStorageClass: a new claim without a class gets the default class.
//!
//! Source: `plugin/pkg/admission/storage/storageclass/setdefault` of Kubernetes.

use crate::defaulting::Fill;
use crate::list::ListOptions;
use crate::{Cluster, Plugin};
use podstorm_objects::{DynamicObject, Kind};

/// The annotations that mark a default class. The older one comes last.
const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// The older annotation for the class of a claim.
const OLD_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

impl Cluster {
    /// Gives a new claim the default class if the claim has no class. A cluster that never had a
    /// class only checks a flag.
    pub(crate) fn give_default_class(&self, claim: &mut DynamicObject) {
        let is_asked =
            self.seen.has_storage_classes() && self.has_plugin(Plugin::DefaultStorageClass);
        if !is_asked || claim.kind() != Kind::PERSISTENT_VOLUME_CLAIM {
            return;
        }
        let names_one = claim.metadata.annotations.get(OLD_CLASS).is_some()
            || claim
                .fields
                .get("spec")
                .is_some_and(|it| !it["storageClassName"].is_null());
        if names_one {
            return;
        }
        if let Some(class) = self.default_storage_class() {
            claim
                .fields
                .with("spec", |spec| spec.set("storageClassName", class));
        }
    }

    /// Returns the newest default class, of equally new ones the first by name; `None` if there is
    /// none.
    fn default_storage_class(&self) -> Option<String> {
        let all = self.api(Kind::STORAGE_CLASS).list(&ListOptions::default());
        let all = all.map(|page| page.items).unwrap_or_default();
        let is_default = |annotations: &podstorm_objects::Labels| {
            IS_DEFAULT
                .iter()
                .any(|it| annotations.get(it).is_some_and(|it| **it == *"true"))
        };
        let defaults = all.iter().map(|class| class.metadata());
        let newest = defaults
            .filter(|meta| is_default(&meta.annotations))
            .max_by(|a, b| {
                let created = a.creation_timestamp.cmp(&b.creation_timestamp);
                created.then_with(|| b.name.cmp(&a.name))
            });
        newest.map(|meta| meta.name.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{at, cluster, cluster_with};
    use crate::{ClusterOptions, Plugins};

    fn create(cluster: &Cluster, kind: Kind, seconds: i64, json: Value) -> Value {
        let api = cluster.api(kind);
        let object = api.read(json).unwrap().unwrap();
        api.create(object, at(seconds)).unwrap().to_json()
    }

    fn class(cluster: &Cluster, name: &str, seconds: i64, is_default: &str) {
        let class = json!({"metadata": {"name": name, "annotations": {IS_DEFAULT[0]: is_default}},
            "provisioner": "x"});
        create(cluster, Kind::STORAGE_CLASS, seconds, class);
    }

    fn class_of(cluster: &Cluster, name: &str, spec: Value) -> Value {
        let mut claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        for (member, value) in spec.as_object().unwrap() {
            claim["spec"][member] = value.clone();
        }
        let made = create(cluster, Kind::PERSISTENT_VOLUME_CLAIM, 9, claim);
        made["spec"]["storageClassName"].clone()
    }

    #[test]
    fn a_claim_without_a_class_gets_the_newest_default_class() {
        let cluster = cluster();
        assert_eq!(class_of(&cluster, "a", json!({})), Value::Null);
        class(&cluster, "none", 3, "false");
        assert_eq!(class_of(&cluster, "b", json!({})), Value::Null);
        class(&cluster, "old", 1, "true");
        class(&cluster, "new-b", 2, "true");
        class(&cluster, "new-a", 2, "true");
        assert_eq!(class_of(&cluster, "c", json!({})), "new-a");
        assert_eq!(class_of(&cluster, "d", json!({"storageClassName": ""})), "");
        assert_eq!(
            class_of(&cluster, "e", json!({"storageClassName": "old"})),
            "old"
        );
    }

    #[test]
    fn the_plugin_can_be_turned_off() {
        let cluster = cluster_with(ClusterOptions {
            plugins: Plugins::default().with(Plugin::DefaultStorageClass, false),
            ..ClusterOptions::default()
        });
        class(&cluster, "standard", 1, "true");
        assert_eq!(class_of(&cluster, "a", json!({})), Value::Null);
    }
}
