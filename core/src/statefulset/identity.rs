//! The identity of a pod: the ordinal in its name, and the names and labels that follow from it.

use podstorm_objects::{ObjectMeta, Pod};

use super::spec::{ClaimTemplate, SetSpec};

/// The label that holds the name of the pod.
pub const POD_NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";

/// The label that holds the ordinal of the pod.
pub const POD_INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The label that holds the name of the pod's revision.
pub const REVISION_LABEL: &str = "controller-revision-hash";

/// Splits a pod's name into the name of its StatefulSet and the ordinal. Returns an empty name and
/// -1 for a name of another form, and the ordinal -1 if the number is too large.
///
/// Source: `getParentNameAndOrdinal` of Kubernetes' `pkg/controller/statefulset`.
pub fn parent_and_ordinal(pod: &str) -> (&str, i64) {
    let digits = pod.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, number) = pod.split_at(pod.len() - digits);
    match before.strip_suffix('-') {
        Some(parent) if digits > 0 => {
            // Like upstream, whose pattern does not match across lines.
            let parent = parent.rsplit('\n').next().unwrap_or(parent);
            (parent, number.parse::<i32>().map_or(-1, i64::from))
        }
        _ => ("", -1),
    }
}

/// Returns the ordinal of a pod; -1 if it has none.
pub fn ordinal_of(pod: &ObjectMeta) -> i64 {
    parent_and_ordinal(&pod.name).1
}

/// Reports whether a pod's name is one that the set gives to its pods.
pub fn is_member(set: &str, pod: &ObjectMeta) -> bool {
    parent_and_ordinal(&pod.name).0 == set
}

/// Returns the name of the set's pod with this ordinal.
pub fn pod_name(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// Returns the name of the claim from a template for the pod with this ordinal.
pub fn claim_name(template: &str, set: &str, ordinal: i64) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// Reports whether a pod has the name, the namespace and the name label for its ordinal. Ignores
/// the index label.
pub fn identity_matches(set: &ObjectMeta, pod: &ObjectMeta) -> bool {
    let (parent, ordinal) = parent_and_ordinal(&pod.name);
    let label = pod.labels.get(POD_NAME_LABEL);
    // The canonical name has no leading zeros.
    let digits = usize::try_from(ordinal.max(1).ilog10() + 1);
    ordinal >= 0
        && *set.name == *parent
        && digits.is_ok_and(|digits| pod.name.len() == set.name.len() + 1 + digits)
        && pod.namespace == set.namespace
        && label.is_some_and(|label| **label == *pod.name)
}

/// Reports whether a pod has, for each claim template, a volume with the claim of its ordinal.
/// O(bytes of the spec) if there are templates.
pub fn storage_matches(set: &ObjectMeta, spec: &SetSpec, pod: &Pod) -> bool {
    let ordinal = ordinal_of(&pod.metadata);
    if ordinal < 0 || spec.claim_templates.is_empty() {
        return ordinal >= 0;
    }
    let volumes = pod.spec.get("volumes").unwrap_or_default();
    let claim_of = |volume: &str| {
        let volumes = volumes.as_array().into_iter().flatten();
        let mut named = volumes.filter(|it| it["name"] == volume);
        // Of several volumes with the same name, the last one counts.
        named.next_back()?["persistentVolumeClaim"]["claimName"].as_str()
    };
    let mut templates = spec.claim_templates.iter().map(ClaimTemplate::name);
    templates.all(|name| claim_of(name) == Some(&*claim_name(name, &set.name, ordinal)))
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource as _;
    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, volumes: Value) -> Pod {
        let labels = json!({POD_NAME_LABEL: name});
        let pod = json!({"metadata": {"name": name, "namespace": "ns", "labels": labels},
            "spec": {"volumes": volumes}});
        Pod::from_json(pod).expect("a pod")
    }

    #[test]
    fn only_canonical_ordinals_match_a_name() {
        let set = ObjectMeta {
            name: "web".into(),
            namespace: "ns".into(),
            ..ObjectMeta::default()
        };
        for (name, matches) in [
            ("web-0", true),
            ("web-9", true),
            ("web-10", true),
            ("web-2147483647", true),
            ("web-00", false),
            ("web-01", false),
            ("web-2147483648", false),
            ("web-", false),
            ("db-1", false),
        ] {
            let pod = pod(name, Value::Null);
            assert_eq!(identity_matches(&set, &pod.metadata), matches, "{name}");
        }
    }
}
