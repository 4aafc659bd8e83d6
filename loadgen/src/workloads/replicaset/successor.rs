//! Revisions of a ReplicaSet that replace each other without a Deployment controller.

use std::sync::Arc;

use compact_str::format_compact;
use podstorm_objects::{
    LabelSelector, Labels, ObjectMeta, PodTemplate, ReplicaSet, ReplicaSetSpec,
};

use super::super::objects::{recreated, with};

/// The label that distinguishes the pods of a Deployment's ReplicaSets.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// Returns the next revision of a ReplicaSet, without pods: it has the same template, selector and
/// owner, except for the label that distinguishes revisions.
pub(super) fn successor(old: &ReplicaSet, revision: u32) -> ReplicaSet {
    // Remove the suffix that the name got from the previous replacement.
    let last = format_compact!("-r{}", revision.saturating_sub(1));
    let next = |text: &str| {
        let base = match revision {
            0 | 1 => text,
            _ => text.strip_suffix(last.as_str()).unwrap_or(text),
        };
        format_compact!("{base}-r{revision}")
    };
    let template = &old.spec.template;
    let hash = match template.metadata.labels.get(HASH_LABEL) {
        Some(hash) => next(hash),
        None => format_compact!("r{revision}"),
    };
    let label = Labels::from_pairs([(HASH_LABEL, hash.as_str())]);
    let selector = old.spec.selector.as_ref().map(|selector| {
        Arc::new(LabelSelector {
            match_labels: with(&selector.match_labels, &label),
            match_expressions: Arc::clone(&selector.match_expressions),
        })
    });
    let template = PodTemplate {
        metadata: ObjectMeta {
            labels: with(&template.metadata.labels, &label),
            ..template.metadata.clone()
        },
        ..PodTemplate::clone(template)
    };
    ReplicaSet {
        metadata: ObjectMeta {
            name: next(&old.metadata.name),
            labels: with(&old.metadata.labels, &label),
            ..recreated(&old.metadata)
        },
        spec: ReplicaSetSpec {
            replicas: Some(0),
            selector,
            template: Arc::new(template),
            ..old.spec.clone()
        },
        ..ReplicaSet::default()
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;

    use super::*;

    #[test]
    fn a_successor_differs_in_name_and_revision_label() {
        let text = |object: &ReplicaSet| {
            let selector = object.spec.selector.as_ref().unwrap();
            let texts = [
                &object.metadata.labels,
                &selector.match_labels,
                &object.spec.template.metadata.labels,
            ];
            let hashes = texts.map(|labels| labels.get(HASH_LABEL).map(|hash| hash.to_string()));
            assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
            let app = selector.match_labels.get("app").map(|app| &**app);
            assert_eq!(app, Some("web"));
            let hash = hashes[0].clone().unwrap_or_default();
            format!("{} {hash}", object.metadata.name)
        };
        let read = |name: &str, labels: serde_json::Value| {
            ReplicaSet::from_json(serde_json::json!({
                "metadata": {"name": name, "namespace": "shop", "uid": "u1", "labels": labels,
                    "resourceVersion": "7"},
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [{"name": "c", "image": "i"}]},
                    },
                },
                "status": {"replicas": 3},
            }))
            .unwrap()
        };
        let labels = serde_json::json!({"app": "web", HASH_LABEL: "5d4f"});
        let old = read("web-5d4f", labels);
        let first = successor(&old, 1);
        assert_eq!(text(&first), "web-5d4f-r1 5d4f-r1");
        assert_eq!(text(&successor(&first, 2)), "web-5d4f-r2 5d4f-r2");
        assert_eq!(first.spec.replicas, Some(0));
        assert_eq!(first.status.replicas, 0);
        assert!(first.metadata.uid.is_empty() && &*first.metadata.namespace == "shop");
        assert_eq!(first.spec.template.spec, old.spec.template.spec);
        let plain = successor(&read("web-r0", serde_json::json!({"app": "web"})), 1);
        assert_eq!(text(&plain), "web-r0-r1 r1");
    }
}
