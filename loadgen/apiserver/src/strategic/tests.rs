//! Merges of documents.

use serde_json::json;

use super::*;

fn strategic(target: Value, patch: Value) -> Value {
    let (Value::Object(mut target), Value::Object(patch)) = (target, patch) else {
        panic!("both are maps");
    };
    strategic_merge(&mut target, &patch).unwrap();
    Value::Object(target)
}

fn owners(list: Value) -> Value {
    json!({"metadata": {"name": "a", "ownerReferences": list}})
}

#[test]
fn owner_references_merge_by_uid() {
    let owner = |uid: &str| json!({"uid": uid, "name": "x"});
    let (a, b) = (owner("a"), owner("b"));
    let control_a = json!([{"uid": "a", "controller": true}]);
    let controlled = json!({"uid": "a", "name": "x", "controller": true});
    let drop_a = json!([{"$patch": "delete", "uid": "a"}]);
    let table = [
        (json!([a]), json!([b]), json!([b, a])),
        (json!([a, b]), control_a, json!([controlled, b])),
        (json!([a, b]), drop_a.clone(), json!([b])),
        (json!([b]), drop_a.clone(), json!([b])),
        (json!([a]), json!([{"$patch": "replace"}, b]), json!([b])),
    ];
    for (stored, patch, wanted) in table {
        assert_eq!(strategic(owners(stored), owners(patch)), owners(wanted));
    }
}

#[test]
fn lists_of_texts_grow_and_shrink_as_sets() {
    let of = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    let (one, two) = (of(&["a"]), of(&["a", "b"]));
    assert_eq!(strategic(one, two.clone()), two);
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}});
    assert_eq!(strategic(two, patch), of(&["b"]));
}

#[test]
fn containers_merge_by_name_and_other_lists_are_replaced() {
    let of = |containers: Value| json!({"spec": {"containers": containers}});
    let stored = of(json!([{"name": "c", "image": "x:1", "args": ["a", "b"]}]));
    let patch = of(json!([{"name": "c", "image": "x:2", "args": ["c"]}]));
    let wanted = of(json!([{"name": "c", "image": "x:2", "args": ["c"]}]));
    assert_eq!(strategic(stored, patch), wanted);
}

#[test]
fn new_entries_come_before_those_the_patch_does_not_name_unless_ordered() {
    let list = |names: &[&str]| {
        let entries: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        json!({"spec": {"containers": entries}})
    };
    assert_eq!(strategic(list(&["a"]), list(&["b"])), list(&["b", "a"]));
    let mut patch = list(&["b"]);
    patch["spec"]["$setElementOrder/containers"] = json!([{"name": "a"}, {"name": "b"}]);
    assert_eq!(strategic(list(&["a"]), patch), list(&["a", "b"]));
}

#[test]
fn unknown_directives_and_missing_keys_are_refused() {
    let bad = [
        json!({"metadata": {"$patch": "turn"}}),
        owners(json!([{"name": "x"}])),
        owners(json!([{"$patch": "delete"}])),
    ];
    for patch in bad {
        let merged = strategic_merge(&mut Map::new(), patch.as_object().unwrap());
        assert!(merged.is_err(), "{patch}");
    }
}
