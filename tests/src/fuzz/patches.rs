//! Merge patches, compared with a simple merge; strategic merge patches, compared with the same
//! merge where the two types agree; and both through the server. Also JSON patches, and the depth
//! and size of the documents that each type produces.

use podstorm::object::{Kind, Map, Now, Object, Pod, Resource};
use podstorm_apiserver::schemas::schema_of_kind;
use podstorm_apiserver::{Cluster, ClusterOptions, Patch, json_merge, limits, strategic_merge};
use serde_json::{Value, json};

use super::Target;

pub(super) const PATCHES: Target = Target {
    name: "patch",
    claim: "a merge patch merges; a strategic merge patch is refused or idempotent, and without lists and \
            directives equals a merge patch; a JSON patch is carried out, or refused without a change; every result \
            is within the limits of an object; the server responds to all of them",
    run,
    runs: 3_000,
};

/// Runs an input `{"document": {...}, "patch": {...}}`, or `"patch": [...]` with the operations of
/// a JSON patch.
fn run(data: &[u8]) -> bool {
    let Ok(Value::Object(mut input)) = serde_json::from_slice(data) else {
        return false;
    };
    let (document, patch) = match (input.remove("document"), input.remove("patch")) {
        (Some(Value::Object(document)), Some(Value::Object(patch))) => (document, patch),
        (Some(document), Some(Value::Array(patch))) => return operations(document, patch),
        _ => return false,
    };
    for patch in [Patch::Merge(patch.clone()), Patch::Strategic(patch.clone())] {
        is_within_limits(&patch, &mut document.clone().into());
    }
    let mut merged = document.clone();
    json_merge(&mut merged, &patch);
    let expected = plain_merge(
        Value::Object(document.clone()),
        &Value::Object(patch.clone()),
    );
    assert_eq!(Value::Object(merged.clone()), expected);
    let mut again = merged.clone();
    json_merge(&mut again, &patch);
    assert_eq!(again, merged, "merged twice");

    let schema = schema_of_kind(Kind::POD);
    let merge = |document: &mut Map| strategic_merge(schema.as_deref(), document, &patch);
    let mut strategic = document.clone();
    if merge(&mut strategic).is_ok() {
        if is_plain(&Value::Object(patch.clone())) {
            assert_eq!(strategic, merged, "without lists and directives");
        }
        let value = Value::Object(patch.clone());
        let is_named = names_entries(&value, false) && !orders(&value);
        if is_named && has_keyed_lists(&Value::Object(document)) {
            let mut again = strategic.clone();
            let result = merge(&mut again);
            assert!(result.is_ok(), "refused when applied again: {result:?}");
            assert_eq!(again, strategic, "patched twice");
        }
    }
    through_the_server(patch)
}

/// Applies a JSON patch to any document. Returns whether the patch was applied.
fn operations(mut document: Value, patch: Vec<Value>) -> bool {
    let operations: Option<Vec<Map>> = patch
        .into_iter()
        .map(|it| it.as_object().cloned())
        .collect();
    let Some(patch) = operations.and_then(|operations| Patch::json(&operations).ok()) else {
        return false;
    };
    let before = document.clone();
    let is_applied = is_within_limits(&patch, &mut document);
    assert!(is_applied || document == before, "refused: {document}");
    is_applied
}

/// Applies a patch, and asserts that the result can be stored and read back. Returns whether the
/// patch was applied.
fn is_within_limits(patch: &Patch, document: &mut Value) -> bool {
    let is_applied = patch.apply(Kind::POD, document).is_ok();
    if is_applied {
        assert_eq!(limits::check(document), Ok(()));
        let text = document.to_string();
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
    }
    is_applied
}

/// Applies a merge patch exactly as RFC 7386 describes.
fn plain_merge(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (name, value) in patch {
        let old = target.remove(name);
        if !value.is_null() {
            target.insert(name.clone(), plain_merge(old.unwrap_or_default(), value));
        }
    }
    Value::Object(target)
}

/// Reports whether a value contains neither a list nor a directive.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Array(_) => false,
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| !name.starts_with('$') && is_plain(value)),
        _ => true,
    }
}

/// Reports whether a value has a directive that is checked only if there is something to merge
/// with.
fn orders(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(orders),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name.starts_with('$') && name != "$patch" || orders(value)),
        _ => false,
    }
}

/// Reports whether the entries of lists have stable keys. Adding an entry removes nulls and
/// directives within its key (in upstream, too), so such an entry is added again each time.
fn names_entries(value: &Value, in_list: bool) -> bool {
    match value {
        Value::Null => !in_list,
        Value::Array(items) => items.iter().all(|item| names_entries(item, true)),
        Value::Object(members) => members.iter().all(|(name, value)| {
            let is_key = in_list && KEYS.contains(&name.as_str());
            names_entries(value, in_list) && !(is_key && (value.is_object() || value.is_array()))
        }),
        _ => true,
    }
}

/// The members that identify list entries.
const KEYS: [&str; 8] = [
    "uid",
    "name",
    "ip",
    "topologyKey",
    "containerPort",
    "mountPath",
    "devicePath",
    "type",
];

/// Reports whether no list has two entries with equal keys, as in stored objects.
fn has_keyed_lists(value: &Value) -> bool {
    match value {
        Value::Array(items) => {
            let same = |a: &Value, b: &Value| {
                a == b
                    || KEYS
                        .iter()
                        .any(|key| a.get(key).is_some() && a.get(key) == b.get(key))
            };
            let twice = items
                .iter()
                .enumerate()
                .any(|(at, a)| items[..at].iter().any(|b| same(a, b)));
            !twice && items.iter().all(has_keyed_lists)
        }
        Value::Object(members) => members.values().all(has_keyed_lists),
        _ => true,
    }
}

/// Applies the patch to a pod as both types, and asserts that an accepted result can be read back.
/// Returns whether the server accepted either.
fn through_the_server(patch: Map) -> bool {
    let cluster = Cluster::new(ClusterOptions::default());
    let namespace =
        podstorm::object::Namespace::from_json(json!({"metadata": {"name": "default"}}));
    cluster
        .create(namespace.expect("well formed"), Now::default())
        .expect("the namespace is new");
    let pod = json!({
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "web"}, "finalizers": ["x.y/a", "x.y/b"]},
        "spec": {"containers": [{"name": "a", "image": "x", "env": [{"name": "A", "value": "1"}]}]},
    });
    let pod = Pod::from_json(pod).expect("well formed");
    cluster
        .create(pod, Now::default())
        .expect("the pod is valid");
    let mut taken = false;
    for patch in [Patch::Merge(patch.clone()), Patch::Strategic(patch)] {
        let answer = cluster.patch::<Pod>("default", "a", &patch, Now::default());
        if let Ok(pod) = &answer {
            let again = Pod::from_json(pod.to_json());
            assert_eq!(again.as_ref().ok(), Some(&**pod), "{again:?}");
            assert_eq!(limits::check(&pod.to_json()), Ok(()));
            taken = true;
        }
    }
    taken
}
