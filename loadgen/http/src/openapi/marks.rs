//! What Kubernetes' structs say of their members besides types: which values these may have, as `kubectl
//! explain` lists them, and which lists and maps are owned and merged part by part, which as a whole, as
//! server-side apply needs to know. The marks are in `marks.txt`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::properties;

/// What the description of a member adds about its values.
const DESCRIBED: &str = "\n\nPossible enum values:\n - `\"Recreate\"` Kill all existing pods before creating new ones.\n - `\"RollingUpdate\"` Replace the old ReplicaSets by new one using rolling update i.e gradually scale down the old ReplicaSets and scale up the new one.";

const LIST: &str = "x-kubernetes-list-type";
const MAP: &str = "x-kubernetes-map-type";

/// The marks of structs and of members, by their names: each a word, and what stands behind it.
pub(super) struct Marks(BTreeMap<&'static str, Vec<(&'static str, Vec<&'static str>)>>);

impl Marks {
    pub(super) fn read() -> Marks {
        let mut marks = BTreeMap::new();
        let lines = include_str!("marks.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let (name, mark) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let of_name: &mut Vec<_> = marks.entry(name).or_default();
            of_name.push((mark, words.collect()));
        }
        Marks(marks)
    }

    fn of(&self, name: &str) -> &[(&'static str, Vec<&'static str>)] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The members of a struct that Go writes even where they are empty, as they are no pointers.
    pub(super) fn written<'s>(&self, full_name: &str, schema: &'s Value) -> Vec<&'s str> {
        const OF_OBJECTS: [&str; 3] = ["metadata", "spec", "status"];
        const OF_CONDITIONS: [&str; 4] = [
            "lastHeartbeatTime",
            "lastProbeTime",
            "lastTransitionTime",
            "lastUpdateTime",
        ];
        let name = full_name.rsplit('.').next().unwrap_or("");
        let declares = |member| schema.pointer(&format!("/properties/{member}")).is_some();
        let is_object = declares("metadata") && declares("kind");
        let is_written = |member: &&str| {
            let mut marks = self.of(&format!("{name}.{member}")).iter();
            is_object && OF_OBJECTS.contains(member)
                || name.ends_with("Condition") && OF_CONDITIONS.contains(member)
                || marks.any(|(mark, _)| *mark == "written")
        };
        let members = properties(schema).map(|(member, _)| member.as_str());
        members.filter(is_written).collect()
    }
}

/// Marks all schemas.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    let marks = Marks::read();
    for (full_name, schema) in schemas {
        let name = full_name.rsplit('.').next().unwrap_or("");
        // Structs of one name and another group stand there in full.
        for (_, words) in marks.of(name).iter().chain(marks.of(full_name)) {
            schema[MAP] = words[0].into();
        }
        let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
        for (member, property) in properties.into_iter().flatten() {
            let of_member = marks.of(&format!("{name}.{member}"));
            let is_said = |(mark, _): &(&str, _)| ["keys", "list"].contains(mark);
            if property.get("items").is_some() && !of_member.iter().any(is_said) {
                // By default conditions are told apart by their type, and other lists are wholes.
                match member.as_str() {
                    "conditions" => mark_keyed(property, &["type"]),
                    _ => property[LIST] = "atomic".into(),
                }
            }
            for (mark, words) in of_member {
                match *mark {
                    "keys" => mark_keyed(property, words),
                    "list" => property[LIST] = words[0].into(),
                    "map" => property[MAP] = words[0].into(),
                    "default" => property["default"] = words[0].into(),
                    "values" => mark_values(property, words),
                    // `optional` is read below, `written` in another place.
                    _ => {}
                }
            }
        }
        let_members_be_absent(name, schema, &marks);
        let described = "/properties/type/description";
        if name == "DeploymentStrategy"
            && let Some(Value::String(description)) = schema.pointer_mut(described)
        {
            description.push_str(DESCRIBED);
        }
    }
}

fn mark_keyed(property: &mut Value, keys: &[&str]) {
    property[LIST] = "map".into();
    property["x-kubernetes-list-map-keys"] = json!(keys);
}

fn mark_values(mut property: &mut Value, values: &[&str]) {
    if property["type"] == "array" {
        property = &mut property["items"];
    }
    let values = values.iter().map(|value| value.trim_matches('"'));
    property["enum"] = values.collect();
}

/// Takes it back that metadata and some names must be given: the types that the schemas are written from
/// always have them, which says nothing of what upstream's documents ask for.
fn let_members_be_absent(name: &str, schema: &mut Value, marks: &Marks) {
    let Some(Value::Array(required)) = schema.get_mut("required") else {
        return;
    };
    required.retain(|member| {
        let member = member.as_str().unwrap_or("");
        let mut marks = marks.of(&format!("{name}.{member}")).iter();
        member != "metadata" && !marks.any(|(mark, _)| *mark == "optional")
    });
    if let (true, Value::Object(members)) = (required.is_empty(), schema) {
        members.remove("required");
    }
}
