//! Parts of a pod that have a subresource of their own.

use std::sync::Arc;

use podstorm_objects::{Map, Pod};
use serde_json::Value;

use super::counts::Verb;

/// A part of a pod that has a subresource of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPart {
    /// `spec.ephemeralContainers`, through `/ephemeralcontainers`.
    EphemeralContainers,
    /// The requests and limits of containers, through `/resize`.
    Resources,
}

impl PodPart {
    /// Returns the part that a subresource writes; `None` if the subresource writes no such part.
    pub fn of_subresource(name: &str) -> Option<PodPart> {
        match name {
            "ephemeralcontainers" => Some(PodPart::EphemeralContainers),
            "resize" => Some(PodPart::Resources),
            _ => None,
        }
    }

    pub(crate) fn for_verb(verb: Verb) -> Option<PodPart> {
        match verb {
            Verb::UpdateEphemeralContainers => Some(PodPart::EphemeralContainers),
            Verb::UpdateResources => Some(PodPart::Resources),
            _ => None,
        }
    }

    pub(crate) fn verb(self) -> Verb {
        match self {
            PodPart::EphemeralContainers => Verb::UpdateEphemeralContainers,
            PodPart::Resources => Verb::UpdateResources,
        }
    }

    /// Replaces everything in `new` except this part with the values of the stored pod.
    pub(crate) fn keep_the_rest(self, new: &mut Pod, old: &Pod) {
        let mut members = old.spec.to_map(None);
        let mut sent = new.spec.to_map(None);
        match self {
            PodPart::EphemeralContainers => {
                let list = "ephemeralContainers";
                match sent.remove(list) {
                    Some(sent) => drop(members.insert(list.to_owned(), sent)),
                    None => drop(members.remove(list)),
                }
            }
            PodPart::Resources => {
                for list in ["containers", "initContainers"] {
                    put_resources(&mut members, &sent, list);
                }
            }
        }
        // The members of both pods were read without an error before.
        new.spec = match old.spec.with_members(members) {
            Ok(spec) => Arc::new(spec),
            Err(_) => Arc::clone(&old.spec),
        };
        new.node_name.clone_from(&old.node_name);
        new.token_volume = old.token_volume;
        new.hostname = old.hostname;
        new.status = old.status.clone();
        // Keeps the field owners, which have already been recorded for this write.
        let noted = std::mem::take(&mut new.metadata.rest);
        new.metadata = old.metadata.clone();
        new.metadata.rest = noted;
    }
}

/// Copies the resources of containers from `sent`. Compares containers by position, and skips a
/// pair whose names differ.
fn put_resources(members: &mut Map, sent: &Map, list: &str) {
    let sent = sent.get(list).and_then(Value::as_array);
    let all = members.get_mut(list).and_then(Value::as_array_mut);
    for (old, new) in all.into_iter().flatten().zip(sent.into_iter().flatten()) {
        let (Value::Object(old), Value::Object(new)) = (old, new) else {
            continue;
        };
        if old.get("name") != new.get("name") {
            continue;
        }
        for member in ["resources", "resizePolicy"] {
            match new.get(member) {
                Some(value) => drop(old.insert(member.to_owned(), value.clone())),
                None => drop(old.remove(member)),
            }
        }
    }
}
