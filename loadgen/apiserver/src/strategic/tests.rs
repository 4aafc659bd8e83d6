//! Tests of merges of documents.

use podstorm_objects::Kind;
use serde_json::json;

use super::*;
use crate::schemas::schema_of_kind;

fn merged(kind: &str, target: &Value, patch: &Value) -> Result<Value, PatchProblem> {
    let kind = crate::kind_named(kind).unwrap_or(Kind::POD);
    let mut target = target.as_object().unwrap().clone();
    let schema = schema_of_kind(kind);
    strategic_merge(schema.as_deref(), &mut target, patch.as_object().unwrap())?;
    Ok(target.into())
}

fn strategic(target: Value, patch: Value) -> Value {
    merged("Pod", &target, &patch).unwrap()
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
fn lists_of_strings_grow_and_shrink_as_sets() {
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
fn new_entries_come_first_unless_the_patch_orders_them() {
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
fn each_field_is_merged_by_its_own_rule_in_the_schema() {
    let ports = |list: Value| json!({"spec": {"ports": list}});
    let (web, extra) = (
        json!({"name": "web", "port": 80}),
        json!({"name": "extra", "port": 90}),
    );
    let strategies = |list: Value| json!({"spec": {"strategy": list}});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    let selected = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
    let hooks = |list: Value| json!({"webhooks": list});
    let hook = |name: &str, policy: &str| json!({"name": name, "failurePolicy": policy});
    for (kind, stored, patch, wanted) in [
        (
            "Service",
            ports(json!([web])),
            ports(json!([extra])),
            ports(json!([extra, web])),
        ),
        (
            "Service",
            ports(json!([web, extra])),
            ports(json!([{"port": 80, "$patch": "delete"}])),
            ports(json!([extra])),
        ),
        (
            "Deployment",
            strategies(rolling),
            strategies(json!({"$retainKeys": ["type"], "type": "Recreate"})),
            strategies(json!({"type": "Recreate"})),
        ),
        // This is the only map that is replaced as a whole.
        (
            "PodDisruptionBudget",
            selected(json!({"a": "1"})),
            selected(json!({"b": "2"})),
            selected(json!({"b": "2"})),
        ),
        (
            "Deployment",
            selected(json!({"a": "1"})),
            selected(json!({"b": "2"})),
            selected(json!({"a": "1", "b": "2"})),
        ),
        (
            "ValidatingWebhookConfiguration",
            hooks(json!([hook("one", "Fail"), hook("two", "Fail")])),
            hooks(json!([hook("two", "Ignore")])),
            hooks(json!([hook("one", "Fail"), hook("two", "Ignore")])),
        ),
        // A list with the same name in another struct has no key.
        (
            "Endpoints",
            json!({"subsets": [{"ports": [web]}]}),
            json!({"subsets": [{"ports": [extra]}]}),
            json!({"subsets": [{"ports": [extra]}]}),
        ),
    ] {
        assert_eq!(merged(kind, &stored, &patch), Ok(wanted), "{kind}: {patch}");
    }
}

#[test]
fn directives_and_nulls_are_never_stored() {
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
    let of = |spec: Value| json!({"spec": spec});
    for (patch, member, wanted) in [
        (
            of(
                json!({"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]}),
            ),
            "/spec/volumes",
            json!([{"name": "v", "emptyDir": {}}]),
        ),
        (
            of(json!({"volumes": [{"name": "v", "$patch": "delete"}]})),
            "/spec/volumes",
            json!(null),
        ),
        (
            of(json!({"volumes": [{"$patch": "replace"}]})),
            "/spec/volumes",
            json!(null),
        ),
        (
            of(json!({"$setElementOrder/volumes": [{"name": "v"}], "volumes": [{"name": "v"}]})),
            "/spec/volumes",
            json!([{"name": "v"}]),
        ),
        (
            of(json!({"$deleteFromPrimitiveList/x": ["a"]})),
            "/spec/x",
            json!(null),
        ),
        (
            of(json!({"nodeSelector": {"$patch": "replace", "a": "1", "b": null}})),
            "/spec/nodeSelector",
            json!(null),
        ),
        (
            of(json!({"nodeSelector": {"$patch": "delete"}})),
            "/spec/nodeSelector",
            json!(null),
        ),
        (
            of(json!({"containers": [{"name": "d", "env": [{"name": "E", "$patch": "delete"}]}]})),
            "/spec/containers/0",
            json!({"name": "d"}),
        ),
        (
            of(json!({"containers": [{"name": "d", "command": null}]})),
            "/spec/containers/0",
            json!({"name": "d"}),
        ),
        (
            of(
                json!({"containers": [{"$patch": "replace"}, {"name": "d", "ports": [{"$patch": "replace"}]}]}),
            ),
            "/spec/containers",
            json!([{"name": "d"}]),
        ),
    ] {
        let patched = strategic(pod.clone(), patch.clone());
        assert!(!patched.to_string().contains('$'), "{patch}: {patched}");
        let found = patched.pointer(member).cloned().unwrap_or_default();
        assert_eq!(found, wanted, "{patch}");
    }
}

#[test]
fn an_impossible_merge_is_refused_with_the_reason() {
    let pod = json!({"metadata": {"ownerReferences": [{"uid": "a"}], "finalizers": ["a", "b"]},
        "spec": {"containers": [{"name": "c"}, {"name": "d"}], "nodeName": "n"}});
    let spec = |patch: Value| json!({"spec": patch});
    let order = |list: Value| spec(json!({"$setElementOrder/containers": list}));
    for (patch, problem) in [
        (
            json!({"metadata": {"$patch": "turn"}}),
            "unknown patch type: turn in map: map[$patch:turn]",
        ),
        (
            owners(json!([{"name": "x"}])),
            "map: map[name:x] does not contain declared merge key: uid",
        ),
        (
            owners(json!([{"$patch": "delete"}])),
            "map: map[$patch:delete] does not contain declared merge key: uid",
        ),
        (
            spec(json!({"$retainKeys": "nodeName"})),
            "invalid patch format of retainKeys",
        ),
        (
            spec(json!({"$retainKeys": [], "nodeName": "m"})),
            "invalid patch format of retainKeys",
        ),
        (
            spec(json!({"$deleteFromPrimitiveList": []})),
            "invalid patch format of primitive list",
        ),
        (
            spec(json!({"$setElementOrder": []})),
            "invalid patch format of setElementOrder list",
        ),
        (
            order(json!("c")),
            "expected a []interface {}, but received a string",
        ),
        (
            spec(json!({"$setElementOrder/nodeName": []})),
            "expected a []interface {}, but received a string",
        ),
        (
            spec(json!({"$setElementOrder/nope": []})),
            "unable to find api field in struct PodSpec for the json field \"nope\"",
        ),
        (
            spec(
                json!({"$setElementOrder/containers": [{"image": "c"}], "containers": [{"name": "c"}]}),
            ),
            "map: map[image:c] does not contain declared merge key: name",
        ),
        (
            json!({"metadata": {"finalizers": [1]}}),
            "list element types are not identical: [[a b] [1]]",
        ),
        (
            spec(json!({"containers": [["c"]]})),
            "list element types are not identical: [[map[name:c] map[name:d]] [[c]]]",
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [{"a": "b"}]}}),
            "list element types are not identical: [[a b] [map[a:b]]]",
        ),
    ] {
        let refused = merged("Pod", &pod, &patch).map_err(|why| why.to_string());
        assert_eq!(refused, Err(problem.to_owned()), "{patch}");
    }
    let mut patch = order(json!([{"name": "c"}, {"name": "d"}]));
    patch["spec"]["containers"] = json!([{"name": "d"}, {"name": "c"}]);
    let refused = merged("Pod", &pod, &patch).unwrap_err().to_string();
    assert!(
        refused.starts_with("The order in patch list:\n[map[name:d] map[name:c]]\n doesn't match")
    );
}

#[test]
fn lists_and_maps_of_the_table_are_merged_or_replaced_as_stated() {
    let mut lists = 0;
    for (schema, of) in crate::schemas::SCHEMAS.iter() {
        for (member, property) in crate::schemas::properties(of) {
            let text = |name: &str| property[name].as_str().unwrap_or("");
            let strategy = text("x-kubernetes-patch-strategy");
            let key = text("x-kubernetes-patch-merge-key");
            let merges = strategy.split(',').any(|it| it == "merge");
            let (one, two) = match key {
                "" => (json!("a"), json!("b")),
                key => (json!({key: "a"}), json!({key: "b"})),
            };
            let (stored, patch, wanted) = if property["type"] == "array" {
                let both = if merges {
                    json!([two, one])
                } else {
                    json!([two])
                };
                (json!([one]), json!([two]), both)
            } else if strategy == "replace" {
                (json!({"a": 1}), json!({"b": 2}), json!({"b": 2}))
            } else {
                continue;
            };
            let mut target = Map::from_iter([(member.clone(), stored)]);
            let patch = Map::from_iter([(member.clone(), patch)]);
            strategic_merge(crate::schemas::schema_named(schema), &mut target, &patch).unwrap();
            assert_eq!(target[member], wanted, "{schema}.{member}");
            lists += 1;
        }
    }
    assert!(lists > 300, "{lists}");
}
