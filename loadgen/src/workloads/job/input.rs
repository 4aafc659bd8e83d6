//! Finds problems in files that involve several Jobs.

use std::collections::BTreeMap;

use podstorm_objects::{DynamicObject, Kind};

use crate::input::InputObject;

/// Describes Jobs in the same namespace that select the same pods: each adopts the orphans of all
/// of them, but does not count the pods of the others. O(Jobs).
pub(super) fn shared_selectors(objects: &[InputObject]) -> Vec<String> {
    let mut by_selector: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for object in objects {
        let job = object.as_object().downcast_ref::<DynamicObject>();
        let Some(job) = job.filter(|_| object.kind() == Kind::JOB) else {
            continue;
        };
        let spec = job.fields.get("spec");
        if let Some(selector) = spec.and_then(|spec| spec.get("selector")) {
            let meta = &job.metadata;
            let key = (meta.namespace.to_string(), selector.to_string());
            by_selector.entry(key).or_default().push(&meta.name);
        }
    }
    let shared = by_selector.into_iter().filter(|(_, names)| names.len() > 1);
    let words = shared.map(|((namespace, selector), names)| {
        format!(
            "the Jobs {} in {namespace} have one selector, {selector}: each may adopt the pods that both select; remove \
             spec.selector and manualSelector, and the server gives each its own",
            names.join(" and ")
        )
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_with_the_same_selector_are_reported() {
        let job = |name: &str, namespace: &str, app: &str| {
            let job = json!({"metadata": {"name": name, "namespace": namespace},
                "spec": {"selector": {"matchLabels": {"app": app}}}});
            InputObject::Dynamic(Box::new(DynamicObject::from_json(Kind::JOB, job).unwrap()))
        };
        let jobs = [
            job("a", "shop", "x"),
            job("b", "shop", "x"),
            job("c", "shop", "y"),
            job("d", "mart", "x"),
        ];
        let found = shared_selectors(&jobs);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("the Jobs a and b in shop have one selector"));
        assert!(shared_selectors(&jobs[2..]).is_empty());
    }
}
