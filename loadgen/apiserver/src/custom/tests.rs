//! Tests of the effects of definitions, by requests in process.

use std::sync::Arc;

use podstorm_objects::{AnyObject, ApiError, DynamicObject, Kind};
use serde_json::{Value, json};

use super::DEFINITION;
use crate::testing::*;
use crate::{Cluster, DeleteOptions, Patch, ScaleUpdate};

fn definition(plural: &str, kind: &str, more: Value) -> Value {
    let mut version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer", "minimum": 0, "default": 1}}},
            "status": {"type": "object", "properties": {"size": {"type": "integer"}}}}}}});
    if let (Value::Object(version), Value::Object(more)) = (&mut version, more) {
        version.extend(more);
    }
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": [version],
        "names": {"plural": plural, "kind": kind}}})
}

fn create(cluster: &Cluster, kind: Kind, object: Value) -> Result<AnyObject, ApiError> {
    let api = cluster.api(kind);
    let object = api.read(object)?.expect("the object is readable");
    api.create(object, at(0))
}

fn define(cluster: &Cluster, definition: Value) -> Result<AnyObject, ApiError> {
    create(cluster, DEFINITION, definition)
}

fn kind(cluster: &Cluster, api_version: &str, name: &str) -> Kind {
    let mut all = cluster.custom_kinds().into_iter();
    let found = all.find(|kind| (kind.api_version(), kind.name()) == (api_version, name));
    found.expect("the kind is served")
}

fn assert_says(refused: &ApiError, part: &str) {
    assert!(refused.message.contains(part), "{}", refused.message);
}

fn conditions(cluster: &Cluster, name: &str) -> Value {
    let found = cluster.api(DEFINITION).get("", name).unwrap().to_json();
    let all = found["status"]["conditions"].as_array();
    let each = all.into_iter().flatten().map(|it| {
        let name = it["type"].as_str().unwrap_or("").to_owned();
        (name, json!([it["status"], it["reason"], it["message"]]))
    });
    Value::Object(each.collect())
}

fn widget(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
}

fn with_shop() -> Cluster {
    let cluster = cluster();
    let shop = json!({"metadata": {"name": "shop"}});
    let shop = cluster.api(Kind::NAMESPACE).read(shop).unwrap().unwrap();
    // Ignore the error: some test clusters already have the namespace.
    let _ = cluster.api(Kind::NAMESPACE).create(shop, at(0));
    cluster
}

#[test]
fn a_definition_serves_its_kind_with_defaults_and_rules() {
    let cluster = with_shop();
    let before = cluster.kinds_generation();
    define(&cluster, definition("widgets", "Widget", json!({}))).unwrap();
    assert_ne!(cluster.kinds_generation(), before);
    let widgets = kind(&cluster, "example.com/v1", "Widget");
    let made = create(&cluster, widgets, widget("a", json!({"bogus": 1}))).unwrap();
    let spec = json!({"size": 1});
    assert_eq!(
        made.to_json()["spec"],
        spec,
        "the object is pruned and has its default"
    );
    let refused = create(&cluster, widgets, widget("b", json!({"size": -1}))).unwrap_err();
    assert_eq!(refused.code, 422);
    assert_says(
        &refused,
        "spec.size in body should be greater than or equal to 0",
    );
    let twice = define(&cluster, definition("widgets", "Widget", json!({}))).unwrap_err();
    assert_eq!(twice.code, 409);
}

#[test]
fn broken_definitions_are_refused_with_every_reason() {
    let cluster = with_shop();
    let table = r#"
{"name": "V1"}
> spec.versions[0].name: Invalid value: "V1": a DNS-1035 label

{"storage": false}
> must have exactly one version marked as storage version

{"schema": {}}
> openAPIV3Schema: Required value: schemas are required

{"additionalPrinterColumns": [{"name": "A", "type": "int", "jsonPath": ".a"}]}
> additionalPrinterColumns[0].type: Invalid value: "int"

{"additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a["}]}
> additionalPrinterColumns[0].jsonPath: Invalid value

{"subresources": {"scale": {"specReplicasPath": ".size"}}}
> specReplicasPath: Invalid value: ".size": should be a json path under .spec
"#;
    for (broken, problems) in cases(table) {
        let refused = define(&cluster, definition("widgets", "Widget", broken)).unwrap_err();
        assert_eq!(refused.code, 422, "{}", refused.message);
        assert_says(&refused, problems[0]);
    }
    let mut misnamed = definition("widgets", "Widget", json!({}));
    misnamed["metadata"]["name"] = "other.example.com".into();
    let refused = define(&cluster, misnamed).unwrap_err();
    assert_says(&refused, "must be spec.names.plural+\".\"+spec.group");
    assert!(cluster.custom_kinds().is_empty());
}

#[test]
fn a_taken_name_is_accepted_once_its_definition_is_deleted() {
    let cluster = with_shop();
    define(&cluster, definition("widgets", "Widget", json!({}))).unwrap();
    define(&cluster, definition("gadgets", "Widget", json!({}))).unwrap();
    let found = conditions(&cluster, "gadgets.example.com");
    let conflict = [
        "False",
        "ListKindConflict",
        "\"WidgetList\" is already in use",
    ];
    assert_eq!(found["NamesAccepted"], json!(conflict));
    assert_eq!(found["Established"][0], "False");
    assert_eq!(cluster.custom_kinds().len(), 1);
    let api = cluster.api(DEFINITION);
    api.delete("", "widgets.example.com", &DeleteOptions::default(), at(1))
        .unwrap();
    assert_eq!(api.get("", "widgets.example.com").unwrap_err().code, 404);
    assert_eq!(
        conditions(&cluster, "gadgets.example.com")["Established"][0],
        "True"
    );
    assert_eq!(cluster.custom_kinds().len(), 1);
    // A definition that never served anything is deleted, too.
    define(&cluster, definition("things", "Widget", json!({}))).unwrap();
    api.delete("", "things.example.com", &DeleteOptions::default(), at(2))
        .unwrap();
    assert_eq!(api.get("", "things.example.com").unwrap_err().code, 404);
}

#[test]
fn a_definition_stays_until_its_objects_lose_their_finalizers() {
    let cluster = with_shop();
    define(&cluster, definition("widgets", "Widget", json!({}))).unwrap();
    let widgets = kind(&cluster, "example.com/v1", "Widget");
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    create(&cluster, widgets, held).unwrap();
    create(&cluster, widgets, widget("free", json!({}))).unwrap();
    let api = cluster.api(DEFINITION);
    let name = "widgets.example.com";
    let begun = api
        .delete("", name, &DeleteOptions::default(), at(1))
        .unwrap();
    assert!(!begun.removed);
    let found = conditions(&cluster, name);
    assert_eq!(found["Terminating"][1], "InstanceDeletionPending");
    assert_eq!(cluster.api(widgets).count(), Ok(1));
    let late = create(&cluster, widgets, widget("late", json!({}))).unwrap_err();
    assert_eq!(late.code, 405);
    let none = json!({"metadata": {"finalizers": null}});
    let none = Patch::Merge(serde_json::from_value(none).unwrap());
    cluster
        .api(widgets)
        .patch("shop", "held", &none, at(2))
        .unwrap();
    assert_eq!(api.get("", name).unwrap_err().code, 404);
    let gone = create(&cluster, widgets, widget("gone", json!({}))).unwrap_err();
    assert_eq!(gone.code, 404);
    // After it is recreated, the kind has no objects.
    define(&cluster, definition("widgets", "Widget", json!({}))).unwrap();
    assert_eq!(cluster.api(widgets).count(), Ok(0));
}

#[test]
fn versions_of_an_object_differ_only_by_their_schemas() {
    let cluster = with_shop();
    let mut two = definition("widgets", "Widget", json!({}));
    let mut beta = two["spec"]["versions"][0].clone();
    beta["name"] = "v1beta1".into();
    beta["storage"] = false.into();
    beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] =
        json!({"colour": {"type": "string", "default": "red"}});
    two["spec"]["versions"].as_array_mut().unwrap().push(beta);
    define(&cluster, two).unwrap();
    let (stable, beta) = (
        kind(&cluster, "example.com/v1", "Widget"),
        kind(&cluster, "example.com/v1beta1", "Widget"),
    );
    assert_eq!(cluster.stored_kind(beta).api_version(), "example.com/v1");
    let made = create(&cluster, stable, widget("a", json!({"size": 2}))).unwrap();
    let made: Arc<DynamicObject> = made.downcast().unwrap();
    let shown = super::as_version(&made, beta);
    assert_eq!(shown.kind().api_version(), "example.com/v1beta1");
    assert_eq!(shown.fields["spec"], json!({"colour": "red"}));
}

#[test]
fn an_update_may_add_a_storage_version_but_change_no_name() {
    let cluster = with_shop();
    define(&cluster, definition("widgets", "Widget", json!({}))).unwrap();
    let api = cluster.api(DEFINITION);
    let name = "widgets.example.com";
    let patch = |patch: Value| {
        let patch = Patch::Merge(serde_json::from_value(patch).unwrap());
        api.patch("", name, &patch, at(1))
    };
    for (change, field) in [
        (json!({"spec": {"scope": "Cluster"}}), "spec.scope"),
        (json!({"spec": {"group": "other.com"}}), "spec.group"),
        (
            json!({"spec": {"names": {"kind": "Thing", "listKind": "Things"}}}),
            "spec.names.kind",
        ),
    ] {
        let refused = patch(change).unwrap_err();
        assert_says(&refused, &format!("{field}: Invalid value"));
    }
    let found = api.get("", name).unwrap().to_json();
    let mut versions = found["spec"]["versions"].clone();
    let mut newer = versions[0].clone();
    newer["name"] = "v2".into();
    versions[0]["storage"] = false.into();
    versions.as_array_mut().unwrap().push(newer);
    patch(json!({"spec": {"versions": versions}})).unwrap();
    let found = api.get("", name).unwrap().to_json();
    assert_eq!(found["status"]["storedVersions"], json!(["v1", "v2"]));
    let only = json!({"spec": {"versions": [found["spec"]["versions"][1]]}});
    let refused = patch(only).unwrap_err();
    assert_says(&refused, "status.storedVersions[0]");
}

#[test]
fn a_scale_uses_the_paths_of_the_definition() {
    let cluster = with_shop();
    let scale = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}});
    let more = json!({"subresources": scale});
    define(&cluster, definition("widgets", "Widget", more)).unwrap();
    let widgets = kind(&cluster, "example.com/v1", "Widget");
    create(&cluster, widgets, widget("a", json!({"size": 2}))).unwrap();
    let api = cluster.api(widgets);
    let update = ScaleUpdate {
        replicas: 5,
        ..ScaleUpdate::default()
    };
    let scaled = api.update_scale("shop", "a", &update, at(1)).unwrap();
    assert_eq!(scaled.replicas, 5);
    let made = api.get("shop", "a").unwrap();
    assert_eq!(made.to_json()["spec"]["size"], 5);
    assert_eq!(made.metadata().generation, 2);
    let refused = create(&cluster, widgets, widget("b", json!({"size": -3}))).unwrap_err();
    let field = |cause: &podstorm_objects::Cause| cause.field.clone();
    let fields: Vec<String> = refused.details.unwrap().causes.iter().map(field).collect();
    assert_eq!(fields, ["spec.size", ".spec.size"]);
}

#[test]
fn a_schema_is_freed_with_its_definition_in_each_cluster() {
    let size = |maximum: u32| {
        json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
            "properties": {"size": {"type": "integer", "maximum": maximum}}}}}}})
    };
    let defined = |maximum| {
        let cluster = with_shop();
        define(&cluster, definition("freed", "Freed", size(maximum))).unwrap();
        let kind = kind(&cluster, "example.com/v1", "Freed");
        (cluster, kind)
    };
    let ((five, kind_of_five), (again, kind_of_again), (ten, kind_of_ten)) =
        (defined(5), defined(5), defined(10));
    assert!(std::ptr::eq(kind_of_five.row(), kind_of_again.row()));
    assert!(!std::ptr::eq(kind_of_five.row(), kind_of_ten.row()));
    let custom = |kind: Kind| kind.row().custom.unwrap();
    assert!(std::ptr::eq(
        custom(kind_of_five).singular,
        custom(kind_of_ten).singular
    ));
    let nine = || widget("a", json!({"size": 9}));
    assert_eq!(create(&five, kind_of_five, nine()).unwrap_err().code, 422);
    create(&ten, kind_of_ten, nine()).unwrap();

    // A change frees the schema if no other cluster has it. Changing back finds the old row.
    let change = |cluster: &Cluster, maximum| {
        let new = definition("freed", "Freed", size(maximum));
        let patch = Patch::Merge(json!({"spec": new["spec"]}).as_object().unwrap().clone());
        let api = cluster.api(DEFINITION);
        api.patch("", "freed.example.com", &patch, at(0)).unwrap();
        kind(cluster, "example.com/v1", "Freed")
    };
    let changed = change(&ten, 7);
    assert!(custom(kind_of_ten).schema.held().is_none());
    assert_eq!(
        create(&ten, changed, widget("b", json!({"size": 9})))
            .unwrap_err()
            .code,
        422
    );
    assert!(std::ptr::eq(change(&ten, 10).row(), kind_of_ten.row()));
    create(&ten, kind_of_ten, widget("b", json!({"size": 9}))).unwrap();
    drop(five);
    assert!(custom(kind_of_again).schema.held().is_some());
    drop(again);
    assert!(custom(kind_of_again).schema.held().is_none());
}
