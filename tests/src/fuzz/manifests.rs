//! Objects from outside: manifest files that people write, and single objects as JSON.

use std::path::PathBuf;

use podstorm::object::{Event, Namespace, Node, Pod, ReplicaSet, ReplicationController, Resource};
use podstorm_loadgen::input::InputObject;
use podstorm_loadgen::manifest::{self, Loaded, ManifestError};
use serde_json::{Value, json};

use super::Target;

pub(super) const FILES: Target = Target {
    name: "manifest",
    claim: "a file is refused with a reason, or its objects survive a round trip through JSON",
    run: files,
    runs: 2_500,
};

pub(super) const OBJECTS: Target = Target {
    name: "object",
    claim: "a readable object survives a round trip, and its two written forms are equal",
    run: objects,
    runs: 5_000,
};

fn files(data: &[u8]) -> bool {
    let of_runs: Load = |files, data| manifest::load(files, data);
    let of_servers: Load = |files, data| manifest::load_served(files, data);
    [of_runs, of_servers]
        .map(|load| taken(data, load))
        .contains(&true)
}

type Load = fn(&[PathBuf], &[u8]) -> Result<Loaded, Box<ManifestError>>;

fn taken(data: &[u8], load: Load) -> bool {
    let load = |data: &[u8]| load(&[PathBuf::from("-")], data);
    let Ok(loaded) = load(data) else {
        return false;
    };
    let json_of = |object: &InputObject| object.as_object().to_json();
    let items: Vec<Value> = loaded.objects.iter().map(json_of).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let again = match load(list.to_string().as_bytes()) {
        Ok(again) => again,
        Err(message) => panic!("{message}\nin the written form: {list}"),
    };
    let items_again: Vec<Value> = again.objects.iter().map(json_of).collect();
    assert_eq!(items_again, items);
    true
}

fn objects(data: &[u8]) -> bool {
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return false;
    };
    [
        there_and_back::<Pod>(&value),
        there_and_back::<ReplicaSet>(&value),
        there_and_back::<ReplicationController>(&value),
        there_and_back::<Node>(&value),
        there_and_back::<Namespace>(&value),
        there_and_back::<Event>(&value),
    ]
    .contains(&true)
}

fn there_and_back<R: Resource + PartialEq>(value: &Value) -> bool {
    let Ok(object) = R::from_json(value.clone()) else {
        return false;
    };
    let written = object.to_json();
    let again = match R::from_json(written.clone()) {
        Ok(again) => again,
        Err(error) => panic!("{error}\nin the written form: {written}"),
    };
    assert_eq!(again.to_json(), written);
    assert_eq!(again, object, "written as {written}");
    true
}
