//! Masks for values that differ between two equal runs: generated names, UIDs, times, versions, and
//! the nodes of pods.
//!
//! The differences between 1.20 and 1.36 are a closed list: [`YOUNGER`].

use serde_json::{Map, Value};

/// Members that differ from run to run.
const DRAWN: &str = "resourceVersion managedFields nodeName podIP podIPs hostIP hostIPs containerID startedAt finishedAt";

/// Members of a status that 1.20 lacks.
const YOUNGER: [&str; 1] = ["terminatingReplicas"];

/// The reasons for which a container waits for its image: its pull has failed, and one second later
/// it waits for a retry. Virtual time stands still on one side.
const FAILED_PULL: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// A member that Go's protobuf writes even if it is empty; other clients may omit it.
const WRITTEN_EMPTY: &str = "resources";

/// The letters of generated names.
const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Returns the masked objects of a namespace, sorted.
pub(super) fn state(objects: &[Value]) -> Vec<String> {
    let mut texts: Vec<_> = objects.iter().map(|object| one(object, objects)).collect();
    texts.sort();
    texts
}

fn one(object: &Value, all: &[Value]) -> String {
    let mut object = object.clone();
    let metadata = object["metadata"]
        .as_object_mut()
        .expect("every object has metadata");
    if let Some(Value::String(generate)) = metadata.get("generateName") {
        metadata.insert("name".into(), format!("{generate}*").into());
    }
    metadata.remove("uid");
    let owners = metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut);
    for owner in owners.into_iter().flatten() {
        let there = all
            .iter()
            .any(|other| other["metadata"]["uid"] == owner["uid"]);
        owner["uid"] = if there {
            "of its owner"
        } else {
            "of one that is gone"
        }
        .into();
    }
    mask(&mut object);
    object.to_string()
}

fn mask(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| {
                let is_empty =
                    name == WRITTEN_EMPTY && value.as_object().is_some_and(Map::is_empty);
                let is_drawn = DRAWN.split(' ').any(|drawn| drawn == name);
                !is_empty && !is_drawn && !YOUNGER.contains(&name.as_str())
            });
            mask_times(members);
            mask_failed_pull(members);
            members.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => *text = without_drawn_names(text),
        _ => {}
    }
}

/// Replaces times, but keeps that there is one, e.g. that of a deletion.
fn mask_times(members: &mut Map<String, Value>) {
    for (name, value) in members {
        if (name.ends_with("Time") || name.ends_with("Timestamp")) && value.is_string() {
            *value = "some time".into();
        }
    }
}

fn mask_failed_pull(members: &mut Map<String, Value>) {
    let reason = members.get("reason").and_then(Value::as_str);
    if reason.is_some_and(|reason| FAILED_PULL.contains(&reason)) {
        members.insert("reason".into(), FAILED_PULL.join(" or ").into());
        members.remove("message");
    }
}

/// Replaces the generated part of each name in a text by `*`.
fn without_drawn_names(text: &str) -> String {
    let is_drawn = |end: &str| end.len() == 5 && end.chars().all(|letter| LETTERS.contains(letter));
    let word = |word: &str| match word.rsplit_once('-') {
        Some((start, end)) if is_drawn(end) => format!("{start}-*"),
        _ => word.to_owned(),
    };
    let words: Vec<_> = text.split('"').map(word).collect();
    words.join("\"")
}

#[test]
fn only_reasons_of_failed_pulls_are_masked() {
    let masked = |reason: &str| {
        let mut state = serde_json::json!({"waiting": {"reason": reason, "message": "m"}});
        mask(&mut state);
        state
    };
    assert_eq!(masked("ErrImagePull"), masked("ImagePullBackOff"));
    assert_ne!(masked("ErrImagePull"), masked("CrashLoopBackOff"));
}

#[test]
fn only_generated_parts_of_names_are_masked() {
    let text = "pods \"web-4xk2z\" is forbidden: exceeded quota: few-pods";
    let masked = "pods \"web-*\" is forbidden: exceeded quota: few-pods";
    assert_eq!(without_drawn_names(text), masked);
    assert_eq!(
        without_drawn_names("kube-api-access-x7z2b"),
        "kube-api-access-*"
    );
    assert_eq!(without_drawn_names("app-label"), "app-label");
}
