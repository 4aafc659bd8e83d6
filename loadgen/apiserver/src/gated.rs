//! Fields that depend on feature gates.
//!
//! Source: `dropDisabledFields` of the strategies in Kubernetes' `pkg/registry`.

use podstorm_objects::{DynamicObject, GatedMember, Map};

use crate::Cluster;

/// Sets the defaults of gated fields if their gate is on. If it is off, drops the fields, except
/// those that the stored object has.
pub(crate) fn apply(object: &mut DynamicObject, old: Option<&DynamicObject>, cluster: &Cluster) {
    let gates = &cluster.options.feature_gates;
    for member in object.kind().row().rules.gated {
        let is_on = gates.get(member.gate).copied().unwrap_or(false);
        let Some(holder) = holder_mut(&mut object.fields, member) else {
            continue;
        };
        if is_on {
            holder
                .entry(member.name)
                .or_insert_with(|| member.default.into());
        } else if !old.is_some_and(|old| has(&old.fields, member)) {
            holder.remove(member.name);
        }
    }
}

/// Returns the object that contains a gated field.
fn holder_mut<'a>(fields: &'a mut Map, member: &GatedMember) -> Option<&'a mut Map> {
    let mut within = member.within.iter();
    within.try_fold(fields, |map, name| map.get_mut(*name)?.as_object_mut())
}

fn has(fields: &Map, member: &GatedMember) -> bool {
    let mut within = member.within.iter();
    let holder = within.try_fold(fields, |map, name| map.get(*name)?.as_object());
    holder.is_some_and(|holder| holder.contains_key(member.name))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_objects::{Kind, Now};
    use serde_json::{Value, json};

    use super::*;
    use crate::ClusterOptions;

    const GATE: &str = "MaxUnavailableStatefulSet";

    fn set(rolling: Value) -> DynamicObject {
        let labels = json!({"app": "web"});
        let set = json!({"metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"matchLabels": labels}, "serviceName": "web",
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        DynamicObject::from_json(Kind::STATEFUL_SET, set).expect("a readable set")
    }

    /// Returns the `rollingUpdate` that the server stores for `new`, over `old`, which was imported
    /// with the gate on.
    fn stored(is_on: bool, old: Option<Value>, new: Value) -> Value {
        let options = ClusterOptions {
            feature_gates: [(GATE.to_owned(), is_on)].into(),
            ..ClusterOptions::default()
        };
        let cluster = Cluster::new(options);
        let now = Now::default();
        cluster
            .create(
                crate::testing::read::<podstorm_objects::Namespace>(
                    json!({"metadata": {"name": "default"}}),
                ),
                now,
            )
            .expect("a new namespace");
        let api = cluster.api(Kind::STATEFUL_SET);
        let written = match old {
            Some(old) => {
                let before = api
                    .import(Arc::new(set(old)), now)
                    .expect("the old set is imported");
                let mut after = set(new);
                after.metadata.resource_version = before.metadata().resource_version.clone();
                api.update(Arc::new(after), now)
            }
            None => api.create(Arc::new(set(new)), now),
        };
        let written = written.expect("the new set is stored").to_json();
        written["spec"]["updateStrategy"]["rollingUpdate"].clone()
    }

    #[test]
    fn a_gated_field_is_stored_if_its_gate_is_on_or_it_was_before() {
        let (two, three) = (json!({"maxUnavailable": 2}), json!({"maxUnavailable": 3}));
        let both = |number: i64| json!({"maxUnavailable": number, "partition": 0});
        let neither = json!({"partition": 0});
        assert_eq!(stored(false, None, two.clone()), neither);
        assert_eq!(stored(false, Some(json!({})), two.clone()), neither);
        assert_eq!(stored(false, Some(two.clone()), three.clone()), both(3));
        assert_eq!(stored(false, Some(two.clone()), json!({})), neither);
        assert_eq!(stored(true, None, two), both(2));
        assert_eq!(stored(true, None, json!({})), both(1));
        assert_eq!(stored(true, Some(both(1)), three), both(3));
    }
}
