//! Cases of ControllerRevisions: `statefulset_revision_hash`, `statefulset_revision_apply` and
//! `statefulset_history`.

use std::sync::Arc;

use podstorm::object::{DynamicObject, Kind, Object as _, ObjectMeta};
use podstorm::revisions::{
    Owner, Revision, RevisionData, next_number, restored_spec, revision_hash, revision_name, sort,
};
use serde_json::{Value, json};

use crate::conformance::{Fields, expect_eq};

/// Runs one case of `statefulset_revision_hash`.
pub(in crate::conformance) fn hash(case: &mut Fields) -> Result<(), String> {
    let category = case.text("category")?;
    let mut out = case.object("out")?;
    if category == "name" {
        let name = revision_name(&case.text("prefix")?, &case.text("hash")?);
        return out.is(json!({"name": name}));
    }
    let count = case.opt_int("collisionCount")?;
    let count = count.map(|count| i32::try_from(count).unwrap_or(i32::MAX));
    if category == "bytes" {
        let hash = revision_hash(&case.text("data")?, count);
        return out.is(json!({"hash": hash.as_str()}));
    }
    let number = case.int("revisionNumber")?;
    let meta = ObjectMeta::from_json(case.value("set")).map_err(|error| error.to_string())?;
    let data = RevisionData::of_template(&case.value("template"));
    let data = data.map_err(|error| error.to_string())?;
    let owner = Owner {
        kind: Kind::STATEFUL_SET,
        meta: &meta,
        reference: &Arc::new(Kind::STATEFUL_SET.controller_reference(&meta)),
        collision_count: 0,
    };
    let text = data.text();
    let revision = owner.new_revision(&data, &text, number, count).to_json();
    let made = &revision["metadata"];
    out.is(json!({
        "data": text,
        "hash": revision_hash(&text, count).as_str(),
        "name": made["name"],
        "labels": made["labels"],
        "annotations": made["annotations"],
        "ownerReferences": made["ownerReferences"],
        "revision": revision["revision"],
    }))
}

/// Runs one case of `statefulset_revision_apply`.
pub(in crate::conformance) fn apply(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let set = case.value("set");
    let spec = set["spec"].as_object().ok_or("the set must have a spec")?;
    let mut out = case.object("out")?;
    // Decode from text, like an object from a server.
    let restored = serde_json::from_str(&case.text("data")?);
    let restored = restored.map_err(|error| error.to_string());
    let restored = restored
        .and_then(|data: Value| restored_spec(spec, &data).map_err(|error| error.to_string()));
    expect_eq("error", &restored.is_err(), &out.flag("error")?)?;
    let spec = restored.unwrap_or_default();
    if !spec.is_empty() {
        let template = spec.get("template").cloned().unwrap_or_default();
        expect_eq("template", &template, &out.value("template"))?;
    }
    let number = |name: &str| spec.get(name).and_then(Value::as_i64);
    out.is(json!({"replicas": number("replicas"), "minReadySeconds": number("minReadySeconds")}))
}

/// Runs one case of `statefulset_history`.
pub(in crate::conformance) fn history(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let read = |value| DynamicObject::from_json(Kind::CONTROLLER_REVISION, value);
    let mut revisions = case.all("revisions", |value| {
        let revision = read(value).map_err(|error| error.to_string())?;
        Ok(Revision(Arc::new(revision)))
    })?;
    sort(&mut revisions);
    let needle = case.value("needle");
    let names = |is_wanted: &dyn Fn(&&Revision) -> bool| -> Vec<String> {
        let wanted = revisions.iter().filter(is_wanted);
        wanted.map(|it| it.name().to_owned()).collect()
    };
    case.object("out")?.is(json!({
        "sorted": names(&|_| true),
        "equal": names(&|it| *it.data() == needle),
        "next": next_number(&revisions),
    }))
}
