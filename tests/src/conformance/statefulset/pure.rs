//! Cases of those decisions of the StatefulSet controller that need no cache:
//! `statefulset_identity`, `statefulset_pod`, `statefulset_pvc_policy`,
//! `statefulset_max_unavailable` and `statefulset_kubectl_rollout_status`.

use std::sync::Arc;

use podstorm::object::{IntOrString, Kind, Map, Object as _, ObjectMeta, OwnerReference};
use podstorm::statefulset::claims::Owners;
use podstorm::statefulset::course::Course;
use podstorm::statefulset::identity::{
    claim_name, identity_matches, is_member, parent_and_ordinal, pod_name, storage_matches,
};
use podstorm::statefulset::pod::Form;
use podstorm::statefulset::spec::{SetSpec, max_unavailable};
use serde_json::{Value, json};

use super::harness::{claim_volumes_by_name, set};
use crate::conformance::shared::pod;
use crate::conformance::{Fields, expect_eq};

fn map(value: Value) -> Map {
    value.as_object().cloned().unwrap_or_default()
}

fn meta(value: Value) -> Result<ObjectMeta, String> {
    ObjectMeta::from_json(value).map_err(|error| error.to_string())
}

/// Runs one case of `statefulset_identity`.
pub(in crate::conformance) fn identity(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let name = case.text("setName")?;
    let templates = case.texts("claimTemplates")?;
    let claims = templates
        .iter()
        .map(|name| json!({"metadata": {"name": name}}));
    let spec = SetSpec::read(&map(json!({
        "replicas": case.value("replicas"),
        "ordinals": {"start": case.value("startOrdinal")},
        "volumeClaimTemplates": claims.collect::<Vec<Value>>(),
    })));
    let set = meta(json!({"name": name, "namespace": case.text("setNamespace")?}))?;
    let mut given = case.object("pod")?;
    let volumes = given.value("volumes");
    let pod = pod(json!({"metadata": given.rest(), "spec": {"volumes": volumes}}))?;
    let (parent, ordinal) = parent_and_ordinal(&pod.metadata.name);
    let claims = templates.iter().map(|it| claim_name(it, &name, ordinal));
    let mut out = case.object("out")?;
    expect_eq("ordinal", &ordinal, &out.int("ordinal")?)?;
    out.is(json!({
        "parent": parent,
        "isMember": is_member(&name, &pod.metadata),
        "inRange": spec.has_ordinal(ordinal),
        "endOrdinal": spec.start + spec.replicas - 1,
        "identityMatches": identity_matches(&set, &pod.metadata),
        "storageMatches": storage_matches(&set, &spec, &pod),
        "claimNames": claims.collect::<Vec<String>>(),
        "podNameForOrdinal": pod_name(&name, ordinal),
    }))
}

/// Runs one case of `statefulset_kubectl_rollout_status`. For this kind, kubectl's flags don't
/// change its output.
pub(in crate::conformance) fn rollout_status(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    case.int("revision")?;
    let course = Course::from_object(&set(case.value("set"))?).ok_or("not a StatefulSet")?;
    let ours = match course.rollout_status() {
        Ok(status) => json!({"message": status.message + "\n", "done": status.done, "error": null}),
        Err(error) => json!({"message": "", "done": true, "error": error.to_string()}),
    };
    case.object("out")?.is(ours)
}

/// Runs one case of `statefulset_pod`.
pub(in crate::conformance) fn pod_of(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let current = case.value("currentSet");
    let set = set(current.clone())?.metadata;
    let spec = map(current["spec"].clone());
    let mut updated = spec.clone();
    updated.insert("template".to_owned(), case.value("updateTemplate"));
    let (old, new) = (case.text("currentRevision")?, case.text("updateRevision")?);
    let reference = Arc::new(Kind::STATEFUL_SET.controller_reference(&set));
    let form = |spec: &Map| Form::new(&set, &reference, spec);
    let (ordinal, count) = (case.int("ordinal")?, &current["status"]["currentReplicas"]);
    let current = form(&spec)?;
    let (form, revision) = match current
        .spec
        .wants_current(ordinal, count.as_i64().unwrap_or(0))
    {
        true => (current, old),
        false => (form(&updated)?, new),
    };
    let mut pod = form.pod(&set, ordinal, &revision)?.to_json();
    let members = pod
        .as_object_mut()
        .expect("an object serializes to a JSON object");
    members.remove("apiVersion");
    members.remove("kind");
    claim_volumes_by_name(&mut pod);
    let templates = form.spec.claim_templates.iter();
    let claims = templates.map(|it| it.claim(&set, ordinal, &form.spec.match_labels).to_json());
    let mut claims: Vec<Value> = claims.collect();
    claims.sort_by_key(|claim| claim["metadata"]["name"].to_string());
    for claim in claims.iter_mut().filter_map(Value::as_object_mut) {
        claim.remove("apiVersion");
        claim.remove("kind");
    }
    let mut out = case.object("out")?;
    out.sent("pod", pod)?;
    out.sent("claims", claims.into())?;
    out.finish()
}

/// Runs one case of `statefulset_pvc_policy`.
pub(in crate::conformance) fn claim_policy(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let mut set = case.object("set")?;
    let spec = SetSpec::read(&map(json!({
        "replicas": set.value("replicas"),
        "ordinals": {"start": set.value("startOrdinal")},
        "persistentVolumeClaimRetentionPolicy": set.value("policy"),
    })));
    let set = meta(Value::Object(set.rest()))?;
    let pod = meta(case.value("pod"))?;
    let refs = meta(json!({"ownerReferences": case.value("ownerReferences")}))?.owner_references;
    let owners = Owners::new(&set, &spec, &pod);
    let corrected = owners.corrected(&refs);
    let corrected: Vec<Value> = corrected
        .iter()
        .map(|it| OwnerReference::to_json(it))
        .collect();
    case.object("out")?.is(json!({
        "upToDate": owners.are_up_to_date(&refs),
        "unexpectedController": owners.has_unexpected_controller(&refs),
        "stalePodRef": owners.is_of_earlier_pod(&refs),
        "ownerReferencesAfterUpdate": corrected,
    }))
}

/// Runs one case of `statefulset_max_unavailable`.
pub(in crate::conformance) fn most_unavailable(case: &mut Fields) -> Result<(), String> {
    case.text("category")?;
    let replicas = i32::try_from(case.int("replicas")?).map_err(|error| error.to_string())?;
    let value = match case.value("maxUnavailable") {
        Value::Null => None,
        Value::String(text) => Some(IntOrString::Text(text.as_str().into())),
        number => Some(IntOrString::Int(number.as_i64().unwrap_or(0) as i32)),
    };
    let most = max_unavailable(value.as_ref(), replicas);
    let error = most.as_ref().err().map(ToString::to_string);
    case.object("out")?
        .is(json!({"value": most.ok(), "error": error}))
}
