//! PersistentVolumeClaims, PersistentVolumes and StorageClasses of the files of a run: what their binding needs.
//!
//! A run has the controllers of claims and volumes where its files hold a claim, and one simulated provisioner in the
//! place of all. A claim that could never be bound is refused before anything runs.

use std::collections::BTreeSet;

use podstorm::volumes::NO_PROVISIONER;
use podstorm_objects::{DynamicObject, Kind};
use podstorm_sim::provisioner::{PROVISIONER, default_class};
use serde_json::Value;

use super::{ManifestError, Places};
use crate::input::InputObject;
use crate::units::counted;

/// On a claim that is bound for good.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// On the class of claims that name none.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Makes the classes and claims ready to be bound; gives warnings. O(n log n).
///
/// # Errors
/// A claim whose volume or class the files do not hold.
pub(super) fn prepare(
    objects: &mut Vec<InputObject>,
    places: &Places,
) -> Result<Vec<String>, Box<ManifestError>> {
    let of = |kind: Kind| {
        let objects = objects.iter().enumerate();
        objects.filter_map(move |(number, object)| match object {
            InputObject::Dynamic(object) if object.kind() == kind => Some((number, &**object)),
            _ => None,
        })
    };
    if of(Kind::PERSISTENT_VOLUME_CLAIM).next().is_none() {
        let claiming = objects.iter().filter(|object| names_claims(object)).count();
        return Ok(match claiming {
            0 => Vec::new(),
            claiming => vec![format!(
                "claims do not count: {} of the files name PersistentVolumeClaims or have generic ephemeral volumes, \
                 and the files hold no PersistentVolumeClaim",
                counted(claiming as u64, "object")
            )],
        });
    }
    let names = |kind| -> BTreeSet<&str> {
        let all = of(kind).map(|(_, object)| object.metadata.name.as_str());
        all.collect()
    };
    let (volumes, classes) = (names(Kind::PERSISTENT_VOLUME), names(Kind::STORAGE_CLASS));
    let classes_of_volumes: BTreeSet<&str> = of(Kind::PERSISTENT_VOLUME)
        .map(|(_, volume)| text(volume, "storageClassName"))
        .collect();
    let standard = default_class();
    let mut is_unnamed = false;
    for (number, claim) in of(Kind::PERSISTENT_VOLUME_CLAIM) {
        let volume = text(claim, "volumeName");
        let class = text(claim, "storageClassName");
        let is_bound = claim.metadata.annotations.get(BIND_COMPLETED).is_some();
        let problem = if !volume.is_empty() && !volumes.contains(volume) {
            let state = if is_bound { "is bound to" } else { "asks for" };
            format!(
                "{state} PersistentVolume {volume:?}, which the files do not hold: add it, or leave spec.volumeName \
                 and the annotation {BIND_COMPLETED} out for a new one"
            )
        } else if class.is_empty() || !volume.is_empty() {
            is_unnamed |= spec(claim)
                .get("storageClassName")
                .is_none_or(Value::is_null);
            continue;
        } else if classes.contains(class)
            || classes_of_volumes.contains(class)
            || class == standard.metadata.name
        {
            continue;
        } else {
            format!(
                "names StorageClass {class:?}, which the files do not hold: add it, or leave spec.storageClassName \
                 out for the default one"
            )
        };
        let meta = &claim.metadata;
        let object = format!("PersistentVolumeClaim {}/{}", meta.namespace, meta.name);
        let error = places.error(number, &object, problem);
        return Err(Box::new(error.expect("each object has its place")));
    }
    let has_default = of(Kind::STORAGE_CLASS).any(|(_, class)| {
        let is_default = class.metadata.annotations.get(IS_DEFAULT);
        is_default.is_some_and(|it| **it == *"true")
    });
    let needs_standard = !classes.contains(standard.metadata.name.as_str())
        && (is_unnamed && !has_default
            || of(Kind::PERSISTENT_VOLUME_CLAIM)
                .any(|(_, it)| text(it, "storageClassName") == standard.metadata.name));
    for object in objects.iter_mut() {
        if let InputObject::Dynamic(class) = object
            && class.kind() == Kind::STORAGE_CLASS
            && class
                .fields
                .get("provisioner")
                .is_some_and(|it| it != NO_PROVISIONER)
        {
            class.fields["provisioner"] = PROVISIONER.into();
        }
    }
    if needs_standard {
        objects.push(InputObject::Dynamic(Box::new(standard)));
    }
    Ok(Vec::new())
}

fn spec(object: &DynamicObject) -> &Value {
    object.fields.get("spec").unwrap_or(&Value::Null)
}

fn text<'o>(object: &'o DynamicObject, member: &str) -> &'o str {
    spec(object)[member].as_str().unwrap_or("")
}

/// Whether pods of the object need claims.
fn names_claims(object: &InputObject) -> bool {
    let pod = match object {
        InputObject::Pod(pod) => Some(&pod.spec),
        InputObject::Owner(owner) => owner.template().map(|template| &template.spec),
        InputObject::Dynamic(object) => {
            let volumes = &spec(object)["template"]["spec"]["volumes"];
            let mut volumes = volumes.as_array().into_iter().flatten();
            let is_claimed = |volume: &Value| {
                let members = ["persistentVolumeClaim", "ephemeral"];
                members.iter().any(|member| volume.get(member).is_some())
            };
            return volumes.any(is_claimed);
        }
        InputObject::Namespace(_) | InputObject::Node(_) => None,
    };
    pod.is_some_and(|spec| !spec.claims("").is_empty())
}
