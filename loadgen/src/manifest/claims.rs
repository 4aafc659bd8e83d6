//! PersistentVolumeClaims, PersistentVolumes and StorageClasses in the files of a run: prepares
//! them for binding.
//!
//! A run has the controllers of claims and volumes if its files contain a claim or an object whose
//! controller creates claims. One simulated provisioner replaces all real ones. A claim that can
//! never be bound is refused before the run.

use std::collections::BTreeSet;

use podstorm::volumes::NO_PROVISIONER;
use podstorm_objects::{DynamicObject, Kind, PodClaim, Str, Uid};
use podstorm_sim::provisioner::{PROVISIONER, default_class};
use serde_json::Value;

use super::{ManifestError, Places};
use crate::input::{InputObject, described};
use crate::units::counted;
use crate::workloads;

/// The annotation of a claim whose binding is complete.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

/// The annotation of the default class, which claims without a class get.
const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

/// Prepares the classes and claims for binding and returns warnings. O(n log n).
///
/// # Errors
/// A claim refers to a volume or class that is not in the files.
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
    // The claims in the files, and the claims that controllers create; each has the number of the
    // object that defines it.
    let made = objects.iter().enumerate().flat_map(|(number, object)| {
        let templates = workloads::claim_templates(object.as_object());
        templates
            .into_iter()
            .map(move |template| (number, template))
    });
    let made: Vec<(usize, DynamicObject)> = made.collect();
    let made = || made.iter().map(|(number, claim)| (*number, claim));
    let all = || of(Kind::PERSISTENT_VOLUME_CLAIM).chain(made());
    if all().next().is_none() {
        let claiming = objects.iter().filter(|object| !claims(object).is_empty());
        let claiming = claiming.count();
        return Ok(match claiming {
            0 => Vec::new(),
            claiming => vec![format!(
                "claims are not simulated: the files contain no PersistentVolumeClaim, but pods of {} need one",
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
    for (number, claim) in all() {
        let volume = text(claim, "volumeName");
        let class = text(claim, "storageClassName");
        let is_bound = claim.metadata.annotations.get(BIND_COMPLETED).is_some();
        let problem = if !volume.is_empty() && !volumes.contains(volume) {
            let state = if is_bound { "is bound to" } else { "asks for" };
            format!(
                "{state} PersistentVolume {volume:?}, which is not in the files: add it, or remove spec.volumeName \
                 and the annotation {BIND_COMPLETED} to get a new one"
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
                "names StorageClass {class:?}, which is not in the files: add it, or remove spec.storageClassName \
                 to use the default one"
            )
        };
        let (object, of_object) = (&objects[number], claim.metadata.name.as_str());
        let problem = match object.kind() == Kind::PERSISTENT_VOLUME_CLAIM {
            true => problem,
            false => format!("its claim template {of_object:?} {problem}"),
        };
        let error = places.error(number, &described(object.as_object()), problem);
        return Err(Box::new(error.expect("every object has a place")));
    }
    let held: BTreeSet<(&str, &str)> = of(Kind::PERSISTENT_VOLUME_CLAIM)
        .map(|(_, claim)| (&*claim.metadata.namespace, claim.metadata.name.as_str()))
        .collect();
    let makers: BTreeSet<&Uid> = made()
        .map(|(number, _)| &objects[number].metadata().uid)
        .collect();
    let missing = |object: &InputObject| {
        let meta = object.metadata();
        // The pod's controller creates the missing claims.
        if meta
            .controller()
            .is_some_and(|owner| makers.contains(&owner.uid))
        {
            return None;
        }
        let mut named = claims(object).into_iter().filter(|claim| !claim.is_made);
        let lost = named.find(|claim| !held.contains(&(&meta.namespace, &claim.name)))?;
        Some(format!(
            "{}: pods wait for PersistentVolumeClaim {:?}, which is not in the files",
            described(object.as_object()),
            lost.name
        ))
    };
    let mut missing = objects.iter().filter_map(missing);
    let mut warnings: Vec<String> = missing.next().into_iter().collect();
    let others = missing.count();
    if others > 0 {
        warnings[0] += &format!("; {} like it", counted(others as u64, "more object"));
    }
    let has_default = of(Kind::STORAGE_CLASS).any(|(_, class)| {
        let is_default = class.metadata.annotations.get(IS_DEFAULT);
        is_default.is_some_and(|it| **it == *"true")
    });
    let needs_standard = !classes.contains(standard.metadata.name.as_str())
        && (is_unnamed && !has_default
            || all().any(|(_, it)| text(it, "storageClassName") == standard.metadata.name));
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
    Ok(warnings)
}

fn spec(object: &DynamicObject) -> &Value {
    object.fields.get("spec").unwrap_or(&Value::Null)
}

fn text<'o>(object: &'o DynamicObject, member: &str) -> &'o str {
    spec(object)[member].as_str().unwrap_or("")
}

/// A claim that the pods of an object need.
struct Needed {
    name: Str,
    /// Whether a controller creates the claim, for a generic ephemeral volume.
    is_made: bool,
}

/// Returns the claims that the pods of an object need.
fn claims(object: &InputObject) -> Vec<Needed> {
    let pod = match object {
        InputObject::Pod(pod) => Some(&pod.spec),
        InputObject::Owner(owner) => owner.template().map(|template| &template.spec),
        InputObject::Dynamic(object) => {
            let volumes = &spec(object)["template"]["spec"]["volumes"];
            let volumes = volumes.as_array().into_iter().flatten();
            let needed = |volume: &Value| {
                let named = volume["persistentVolumeClaim"]["claimName"].as_str();
                let is_made = volume.get("ephemeral").is_some();
                let name = named.or(is_made.then_some(""))?.into();
                Some(Needed { name, is_made })
            };
            return volumes.filter_map(needed).collect();
        }
        InputObject::Namespace(_) | InputObject::Node(_) => None,
    };
    let claims = pod.map_or_else(Vec::new, |spec| spec.claims(""));
    let needed = claims
        .into_iter()
        .map(|PodClaim { name, template }| Needed {
            name,
            is_made: template.is_some(),
        });
    needed.collect()
}
