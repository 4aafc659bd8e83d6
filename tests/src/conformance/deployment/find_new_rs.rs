//! Cases of `deployment_find_new_rs`: the new and the old ReplicaSets, their orders and revisions.

use podstorm::deployment::find_new::{
    by_revision, last_revision, max_revision, new_and_old, readable_revision,
};
use podstorm::object::{ReplicaSet, Resource};
use podstorm::template::TemplateForm;
use serde_json::{Value, json};

use crate::conformance::{Fields, expect_eq};

/// The outputs that only scaling uses. The cases of `deployment_proportions` compare their effects.
const OF_SCALING: [&str; 3] = ["bySizeNewer", "bySizeOlder", "activeOrLatest"];

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let (wanted, wanted_form) = super::template(template_of(&case.value("wantedVersion")))?;
    let given = case.all("replicaSets", replica_set)?;
    let mut out = case.object("out")?;

    let mut claimed: Vec<(&ReplicaSet, TemplateForm)> = given
        .iter()
        .map(|it| (it, TemplateForm::from_template(&it.spec.template)))
        .collect();
    let new = new_and_old(&mut claimed, |it| it.0, |it| &it.1, &wanted, &wanted_form);
    let new = new.map(|place| claimed.remove(place).0);
    let old: Vec<&ReplicaSet> = claimed.into_iter().map(|it| it.0).collect();
    let of = |set: &ReplicaSet| readable_revision(&set.metadata);
    let mut sized = old.clone();
    sized.retain(|it| it.replicas() > 0);
    let ours = json!({
        "new": new.map(|it| it.metadata.name.as_str()), "old": names(&old),
        "oldWithReplicas": names(&sized),
        "maxRevisionOfOld": max_revision(old.iter().copied().filter_map(of)),
        "lastRevision": last_revision(given.iter().filter_map(of)),
    });
    if let Some(recorded) = out.take("byRevision") {
        let mut sorted: Vec<&ReplicaSet> = given.iter().collect();
        sorted.sort_by(|a, b| by_revision(a, b));
        expect_eq("byRevision", &names(&sorted), &recorded)?;
    }
    for member in OF_SCALING {
        out.take(member);
    }
    out.is(ours)
}

fn names(replica_sets: &[&ReplicaSet]) -> Value {
    let names = replica_sets.iter().map(|it| it.metadata.name.as_str());
    names.collect()
}

/// Returns a template that differs for each version.
fn template_of(version: &Value) -> Value {
    json!({"spec": {"containers": [{"name": "c", "image": format!("i:{version}")}]}})
}

fn replica_set(value: Value) -> Result<ReplicaSet, String> {
    let mut given = Fields::new(value, "replicaSet")?;
    let annotations = match given.take("revision") {
        None => Value::Null,
        Some(revision) => json!({"deployment.kubernetes.io/revision": revision}),
    };
    let replica_set = ReplicaSet::from_json(json!({
        "metadata": {"name": given.value("name"), "annotations": annotations,
            "creationTimestamp": given.value("creationTimestamp")},
        "spec": {"replicas": given.int("replicas")?,
            "template": template_of(&given.value("version"))},
    }));
    given.finish()?;
    replica_set.map_err(|error| error.to_string())
}
