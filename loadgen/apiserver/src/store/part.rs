//! The parts of a pod that have subresources of their own.

use std::sync::Arc;

use podstorm_objects::{Map, Pod};
use serde_json::Value;

use super::counts::Verb;

/// A part of a pod that is written by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPart {
    /// `spec.ephemeralContainers`, through `/ephemeralcontainers`.
    EphemeralContainers,
    /// The amounts that containers ask for and are limited to, through `/resize`.
    Resources,
}

impl PodPart {
    /// The part that a subresource writes.
    pub fn of_subresource(name: &str) -> Option<PodPart> {
        match name {
            "ephemeralcontainers" => Some(PodPart::EphemeralContainers),
            "resize" => Some(PodPart::Resources),
            _ => None,
        }
    }

    pub(crate) fn of(verb: Verb) -> Option<PodPart> {
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

    /// Makes all of `new` but this part that of the stored pod.
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
        // The members of both were readable.
        new.spec = match old.spec.with_members(members) {
            Ok(spec) => Arc::new(spec),
            Err(_) => Arc::clone(&old.spec),
        };
        new.node_name.clone_from(&old.node_name);
        new.token_volume = old.token_volume;
        new.hostname = old.hostname;
        new.status = old.status.clone();
        // Whose fields they are was noted before.
        let noted = std::mem::take(&mut new.metadata.rest);
        new.metadata = old.metadata.clone();
        new.metadata.rest = noted;
    }
}

/// Sets what containers ask for, each of that name, where the order of them is the same.
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
