//! Objects from outside: manifest files as people have them, and single objects as JSON.

use std::path::PathBuf;

use podstorm::object::{
    Event, Kind, Namespace, Node, Pod, ReplicaSet, ReplicationController, Resource,
};
use podstorm_loadgen::input::InputObject;
use podstorm_loadgen::manifest::{self, Loaded};
use serde_json::{Value, json};

use super::{Outcome, Target, outcome};

const WORDS: &[&str] = &[
    "apiVersion",
    "kind",
    "metadata",
    "spec",
    "status",
    "name",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "uid",
    "controller",
    "true",
    "false",
    "null",
    "~",
    "y",
    "no",
    "apps/v1",
    "v1",
    "ReplicaSet",
    "Pod",
    "List",
    "Node",
    "Namespace",
    "ReplicationController",
    "items",
    "replicas",
    "selector",
    "matchLabels",
    "template",
    "containers",
    "conditions",
    "Ready",
    "phase",
    "Running",
    "creationTimestamp",
    "2026-01-02T03:04:05Z",
    "deletionTimestamp",
    "finalizers",
    "resources",
    "requests",
    "cpu",
    "100m",
    "1Gi",
    "1e3",
    "restartCount",
    "nodeName",
    "---\n",
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "|\n",
    ">-\n",
    "# ",
    "generateName",
    "resourceVersion",
    "...\n",
    "? ",
];

pub(super) const FILES: Target = Target {
    name: "manifest",
    claim: "a file is refused with a reason or gives objects, which written as JSON are read back the same",
    run: files,
    words: WORDS,
    short_runs: 2_500,
};

pub(super) const OBJECTS: Target = Target {
    name: "object",
    claim: "an object that can be read is written, read back the same and written the same",
    run: objects,
    words: WORDS,
    short_runs: 5_000,
};

fn files(data: &[u8]) -> Outcome {
    let loaded = match load(data) {
        Ok(loaded) => loaded,
        Err(message) => return outcome(&message),
    };
    let json_of = |object: &InputObject| object.as_object().to_json();
    let items: Vec<Value> = loaded.objects.iter().map(json_of).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let again = match load(list.to_string().as_bytes()) {
        Ok(again) => again,
        Err(message) => panic!("{message}\nin what was read and written: {list}"),
    };
    let items_again: Vec<Value> = again.objects.iter().map(json_of).collect();
    assert_eq!(items_again, items);
    let kinds: Vec<&str> = loaded
        .objects
        .iter()
        .map(|object| object.kind().name())
        .collect();
    outcome(&format!(
        "{} {}",
        kinds.join(" "),
        loaded.counts.ignored.len()
    ))
}

fn load(data: &[u8]) -> Result<Loaded, String> {
    let loaded = manifest::load(&[PathBuf::from("-")], data);
    loaded.map_err(|error| error.to_string())
}

fn objects(data: &[u8]) -> Outcome {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return 0;
    };
    [
        there_and_back::<Pod>(&value),
        there_and_back::<ReplicaSet>(&value),
        there_and_back::<ReplicationController>(&value),
        there_and_back::<Node>(&value),
        there_and_back::<Namespace>(&value),
        there_and_back::<Event>(&value),
    ]
    .into_iter()
    .fold(0, |all: Outcome, one| all.rotate_left(9) ^ one)
}

fn there_and_back<R: Resource + PartialEq>(value: &Value) -> Outcome {
    let object = match R::from_json(value.clone()) {
        Ok(object) => object,
        Err(error) => return outcome(&error.to_string()),
    };
    let written = object.to_json();
    let again = match R::from_json(written.clone()) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nin what was read and written: {written}"),
    };
    assert_eq!(again.to_json(), written);
    assert_eq!(again, object, "written as {written}");
    let of_kind = Kind::TYPED
        .into_iter()
        .zip(1..)
        .find(|(kind, _)| *kind == R::KIND);
    of_kind.expect("a kind with a type").1
}
