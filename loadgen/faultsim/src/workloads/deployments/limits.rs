//! The limits and the template of a Deployment, computed from its spec independently of the
//! controller's code.

use podstorm_objects::{Deployment, IntOrString, PodTemplate, ReplicaSet};

/// The maximum number of pods, and the minimum number of available pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// The maximum number of pods: `replicas` plus `maxSurge`.
    pub(super) most: i64,
    /// The minimum number of available pods: `replicas` minus `maxUnavailable`; 0 with `Recreate`.
    pub(super) least_available: i64,
}

/// Returns the limits of a Deployment. A percentage for the surge is rounded up, and one for
/// unavailable pods down. If both results are 0, one pod may be unavailable.
pub(super) fn limits(deployment: &Deployment) -> Limits {
    let replicas = i64::from(deployment.replicas());
    let strategy = &deployment.spec.strategy;
    if *strategy.kind == *"Recreate" {
        return Limits {
            most: replicas,
            least_available: 0,
        };
    }
    let rolling = strategy.rolling_update.as_ref();
    let amount = |value: Option<&IntOrString>, up: bool| match value {
        None => 0,
        Some(IntOrString::Int(number)) => i64::from(*number),
        Some(IntOrString::Text(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().expect("a percentage");
            (percent * replicas + if up { 99 } else { 0 }) / 100
        }
    };
    let surge = amount(rolling.and_then(|it| it.max_surge.as_ref()), true);
    let unavailable = amount(rolling.and_then(|it| it.max_unavailable.as_ref()), false);
    let unavailable = match (surge, unavailable) {
        (0, 0) => 1,
        _ => unavailable,
    };
    Limits {
        most: replicas + surge,
        least_available: (replicas - unavailable).max(0),
    }
}

/// Reports whether two templates of schedules are equal. Such templates can differ only in their
/// image and scheduler.
pub(super) fn is_same(a: &PodTemplate, b: &PodTemplate) -> bool {
    let images = |it: &PodTemplate| {
        let containers = it.spec.containers.iter();
        containers.map(|it| it.image.clone()).collect::<Vec<_>>()
    };
    let scheduler = |it: &PodTemplate| it.spec.scheduler_name.clone();
    images(a) == images(b) && scheduler(a) == scheduler(b)
}

/// Reports whether a Deployment of a schedule, whose selector has only labels, selects a
/// ReplicaSet.
pub(super) fn selects(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let selector = deployment.spec.selector.as_ref();
    selector.is_some_and(|it| set.metadata.labels.contains_all(&it.match_labels))
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;
    use serde_json::{Value, json};

    use super::*;

    fn parse(replicas: i32, strategy: Value) -> Limits {
        let spec = json!({"spec": {"replicas": replicas, "strategy": strategy}});
        limits(&Deployment::from_json(spec).expect("a Deployment"))
    }

    #[test]
    fn percentages_are_rounded_so_that_a_rollout_can_progress() {
        let rolling = |surge: Value, unavailable: Value| {
            let amounts = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            let strategy = json!({"type": "RollingUpdate", "rollingUpdate": amounts});
            let limits = parse(10, strategy);
            (limits.most, limits.least_available)
        };
        assert_eq!(rolling(json!("25%"), json!("25%")), (13, 8));
        assert_eq!(rolling(json!(0), json!("1%")), (10, 9));
        assert_eq!(rolling(json!(2), json!(0)), (12, 10));
        assert_eq!(rolling(json!(0), json!(20)), (10, 0));
        let recreate = parse(3, json!({"type": "Recreate"}));
        assert_eq!((recreate.most, recreate.least_available), (3, 0));
    }
}
