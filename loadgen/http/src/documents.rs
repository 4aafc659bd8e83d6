//! Documents from files: conversion to the stored version and form, the same as for the body of a
//! create.

use podstorm_objects::Kind;
use serde_json::{Map, Value};

use crate::decode::{self, By, Form};
use crate::view;

pub use crate::yaml::{Cause, Doubled, LineColumn, Problem, Yaml, read as yaml};
pub use view::at_version;

/// A document in the version in which objects of its kind are stored.
#[derive(Clone, Debug)]
pub struct Document {
    /// The stored kind.
    pub kind: Kind,
    /// All members of the object.
    pub members: Value,
    /// Paths of unknown members, which were removed, e.g. `spec.ports[0].prot`.
    pub unknown: Vec<String>,
}

/// Reports whether objects of a kind are stored in this version rather than in another one.
pub fn is_stored(kind: Kind) -> bool {
    !view::is_version(kind)
}

/// Converts the document of an object of any served version to the form in which a server stores
/// it. For a new object, all types are checked, unknown members removed and quantities normalized;
/// an existing object has that form already. O(members).
///
/// # Errors
/// Fails with Kubernetes' message about the first member of a wrong type.
pub fn stored(kind: Kind, is_new: bool, members: Map<String, Value>) -> Result<Document, String> {
    let mut members = members;
    let mut unknown = Vec::new();
    if is_new {
        let mut read = decode::tree(members.into(), Form::Kind(kind), By::Json);
        members = read.members();
        if let Some(problem) = read.wrong {
            return Err(problem);
        }
        let told = read.strict.iter();
        let paths = told.filter_map(|told| told.split_once('"')?.1.strip_suffix('"'));
        unknown = paths.map(str::to_owned).collect();
    }
    let stored = view::stored_kind(kind);
    Ok(Document {
        kind: stored,
        members: view::converted(kind, stored, Value::Object(members)),
        unknown,
    })
}

#[cfg(test)]
mod tests {
    use podstorm_apiserver::kind_named;
    use serde_json::json;

    use super::*;

    fn members(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_document_is_converted_to_the_stored_version() {
        let stored_kind = kind_named("HorizontalPodAutoscaler").expect("a served kind");
        let kind = at_version(stored_kind, "autoscaling/v1").expect("a served kind");
        let of = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
        let document = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "grow"}, "spec": {"maxReplicas": 3, "scaleTargetRef": of,
            "targetCPUUtilizationPercentage": 60, "colour": "red"}});
        let found = stored(kind, true, members(document.clone())).expect("all fits");
        assert_eq!(found.kind.api_version(), "autoscaling/v2");
        assert_eq!(found.members["apiVersion"], "autoscaling/v2");
        let target = &found.members["spec"]["metrics"][0]["resource"]["target"];
        assert_eq!(target["averageUtilization"], 60);
        assert_eq!(found.unknown, ["spec.colour"]);
        assert_eq!(at_version(stored_kind, "autoscaling/v2beta2"), None);

        let mut wrong = document;
        wrong["spec"]["maxReplicas"] = json!("three");
        let problem = stored(kind, true, members(wrong)).expect_err("the value is not a number");
        assert!(problem.contains("spec.maxReplicas"), "{problem}");
    }
}
