//! Which volumes suit a claim, and which of them is the best.
//!
//! Source: `FindMatchingVolume` of Kubernetes' `k8s.io/component-helpers/storage/volume`.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, LabelSelector, Quantity, Selector};
use serde_json::Value;

use super::{at, class_of, text};

fn quantity(value: &Value) -> Quantity {
    Quantity::from_json(value).unwrap_or_default()
}

pub(super) fn capacity(volume: &DynamicObject) -> Quantity {
    quantity(at(volume, "/spec/capacity/storage"))
}

/// Reports whether the volume is reserved for the claim, or bound to it.
pub(super) fn is_for(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    let reference = at(volume, "/spec/claimRef");
    let (meta, uid) = (&claim.metadata, reference["uid"].as_str().unwrap_or(""));
    reference["name"] == *meta.name
        && reference["namespace"] == *meta.namespace
        && (uid.is_empty() || meta.uid == uid.into())
}

/// Returns why a volume that a claim or a user names can't be used for the claim; `None` if it can.
pub(super) fn problem(volume: &DynamicObject, claim: &DynamicObject) -> Option<&'static str> {
    if quantity(at(claim, "/spec/resources/requests/storage")) > capacity(volume) {
        return Some("requested PV is too small");
    }
    if class_of(claim) != class_of(volume) {
        return Some("storageClassName does not match");
    }
    if mode(claim) != mode(volume) {
        return Some("incompatible volumeMode");
    }
    (!has_modes(volume, claim)).then_some("incompatible accessMode")
}

fn mode(object: &DynamicObject) -> &str {
    match text(object, "/spec/volumeMode") {
        "" => "Filesystem",
        mode => mode,
    }
}

fn has_modes(volume: &DynamicObject, claim: &DynamicObject) -> bool {
    let of = |it| at(it, "/spec/accessModes").as_array().into_iter().flatten();
    of(claim).all(|mode| of(volume).any(|it| it == mode))
}

/// The requirements that a claim has for its volume.
#[derive(Debug)]
pub(super) struct Wish<'c> {
    claim: &'c DynamicObject,
    selector: Option<Selector>,
    /// Whether only a reserved volume is acceptable.
    only_reserved: bool,
}

impl<'c> Wish<'c> {
    pub(super) fn from_claim(claim: &'c DynamicObject, only_reserved: bool) -> Wish<'c> {
        let selector = match at(claim, "/spec/selector") {
            Value::Null => None,
            json => {
                // A selector that can't be parsed matches nothing.
                let read = LabelSelector::from_json(json.clone()).ok();
                let read = read.and_then(|it| Selector::compile(Some(&it)).ok());
                Some(read.unwrap_or_else(Selector::nothing))
            }
        };
        Wish {
            claim,
            selector,
            only_reserved,
        }
    }

    /// Returns the minimum size of the volume.
    pub(super) fn size(&self) -> Quantity {
        quantity(at(self.claim, "/spec/resources/requests/storage"))
    }

    pub(super) fn is_met_by(&self, volume: &DynamicObject) -> bool {
        let is_free = at(volume, "/spec/claimRef").is_null();
        !volume.metadata.is_deleting()
            && problem(volume, self.claim).is_none()
            && (is_for(volume, self.claim)
                || is_free
                    && !self.only_reserved
                    && text(volume, "/status/phase") == "Available"
                    && self
                        .selector
                        .as_ref()
                        .is_none_or(|it| it.matches(&volume.metadata.labels)))
    }
}

/// Returns the smallest volume that suits a claim; a reserved volume comes before all others. With
/// `only_reserved`, considers only reserved volumes. `None` if none suits. O(volumes).
pub fn best<'v>(
    volumes: impl Iterator<Item = &'v Arc<DynamicObject>>,
    claim: &DynamicObject,
    only_reserved: bool,
) -> Option<Arc<DynamicObject>> {
    let wish = Wish::from_claim(claim, only_reserved);
    let suiting = volumes.filter(|volume| wish.is_met_by(volume));
    let best = suiting.min_by_key(|volume| {
        let name = volume.metadata.name.clone();
        (!is_for(volume, claim), capacity(volume), name)
    });
    best.cloned()
}
