//! Claims that wait for a volume, and volumes that no claim has, by their class; volumes by the claim that
//! they are reserved for.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_objects::DynamicObject;
use podstorm_runtime::intern::KeyId;
use serde_json::Value;

use super::{class_of, text};
use crate::volumes::at;

#[derive(Debug, Default)]
pub(super) struct Classes {
    waiting: Keys,
    free: Keys,
    /// By namespace and name of the claim.
    reserved: Keys,
}

/// Keys by class, or by another text, and the text of each key.
#[derive(Debug, Default)]
struct Keys {
    by_class: BTreeMap<String, BTreeSet<KeyId>>,
    class: BTreeMap<KeyId, String>,
}

impl Keys {
    fn set(&mut self, key: KeyId, class: Option<&str>) {
        if self.class.get(&key).map(String::as_str) == class {
            return;
        }
        if let Some(old) = self.class.remove(&key)
            && let Some(keys) = self.by_class.get_mut(&old)
        {
            keys.remove(&key);
            if keys.is_empty() {
                self.by_class.remove(&old);
            }
        }
        if let Some(class) = class {
            self.class.insert(key, class.to_owned());
            self.by_class
                .entry(class.to_owned())
                .or_default()
                .insert(key);
        }
    }

    fn of(&self, class: &str) -> Vec<KeyId> {
        let keys = self.by_class.get(class).into_iter().flatten();
        keys.copied().collect()
    }
}

impl Classes {
    /// A claim was added or changed, or is gone.
    pub(super) fn claim(&mut self, key: KeyId, claim: Option<&DynamicObject>) {
        let claim = claim.filter(|it| text(it, "/spec/volumeName").is_empty());
        self.waiting.set(key, claim.map(class_of));
    }

    /// A volume was added or changed, or is gone; the claims that may want it.
    pub(super) fn volume(&mut self, key: KeyId, volume: Option<&DynamicObject>) -> Vec<KeyId> {
        let is_free = |it: &&DynamicObject| {
            text(it, "/status/phase") == "Available" && at(it, "/spec/claimRef").is_null()
        };
        let claim = volume
            .map(|it| at(it, "/spec/claimRef"))
            .filter(|it| it.is_object());
        let claim = claim.map(|it| reservation(of(it, "namespace"), of(it, "name")));
        self.reserved.set(key, claim.as_deref());
        let class = volume.filter(is_free).map(class_of);
        self.free.set(key, class);
        class
            .map(|class| self.waiting.of(class))
            .unwrap_or_default()
    }

    /// The claims of a class that wait.
    pub(super) fn waiting(&self, class: &str) -> Vec<KeyId> {
        self.waiting.of(class)
    }

    /// The volumes of a class that no claim has, and those that are reserved for this one.
    pub(super) fn candidates(&self, claim: &DynamicObject) -> Vec<KeyId> {
        let meta = &claim.metadata;
        let mut all = self.reserved.of(&reservation(&meta.namespace, &meta.name));
        all.extend(self.free.of(class_of(claim)));
        all
    }
}

fn reservation(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn of<'v>(reference: &'v Value, member: &str) -> &'v str {
    reference[member].as_str().unwrap_or("")
}
