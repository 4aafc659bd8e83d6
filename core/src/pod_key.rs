//! Pods by namespace and name, for controllers whose work items are pods: they have no store that
//! assigns keys to them.

use std::fmt::{self, Display, Formatter};

use compact_str::CompactString;
use podstorm_objects::{Pod, Str};
use podstorm_runtime::intern::{KeyId, ObjectKey};

/// The namespace and name of a pod, ordered by namespace, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PodKey {
    pub(crate) namespace: Str,
    pub(crate) name: CompactString,
}

impl PodKey {
    pub(crate) fn of(pod: &Pod) -> PodKey {
        PodKey {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
        }
    }

    pub(crate) fn to_object_key(&self) -> ObjectKey {
        ObjectKey {
            namespace: self.namespace.clone(),
            name: (&*self.name).into(),
        }
    }
}

/// Formats as `namespace/name`.
impl Display for PodKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The queue keys of pods. A freed key is given to another pod.
#[derive(Debug, Default)]
pub(crate) struct PodKeyIds {
    /// The pods by key; `None` for a free key.
    pods: Vec<Option<PodKey>>,
    free: Vec<KeyId>,
}

impl PodKeyIds {
    /// Creates keys without pods. The keys up to `reserved` are never assigned.
    pub(crate) fn after(reserved: KeyId) -> PodKeyIds {
        PodKeyIds {
            pods: vec![None; reserved.index() + 1],
            free: Vec::new(),
        }
    }

    /// Assigns a key to a pod that has none.
    pub(crate) fn assign(&mut self, pod: PodKey) -> KeyId {
        let key = self.free.pop().unwrap_or_else(|| {
            self.pods.push(None);
            KeyId(u32::try_from(self.pods.len() - 1).expect("the number of pods fits 32 bits"))
        });
        self.pods[key.index()] = Some(pod);
        key
    }

    /// Frees a key.
    pub(crate) fn free(&mut self, key: KeyId) {
        self.pods[key.index()] = None;
        self.free.push(key);
    }

    /// Returns the pod of a key; `None` for a free key.
    pub(crate) fn pod(&self, key: KeyId) -> Option<&PodKey> {
        self.pods.get(key.index())?.as_ref()
    }

    /// Returns the number of keys, including free ones.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pods.len()
    }
}
