//! The gauges of rolling updates, under upstream's names.
//!
//! The gauges exist only with the gate `MaxUnavailableStatefulSet`. A sync that reaches the rolling
//! update sets the gauges of its set. Upstream keeps the series of a deleted set; this controller
//! drops them.
//!
//! Source: `metrics` in Kubernetes' `pkg/controller/statefulset`.

use podstorm_objects::Str;
use podstorm_runtime::metrics::{self, Family, Series, Value};

use super::Shared;

/// The gauges of one set, as numbers of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gauges {
    /// The maximum number of pods that the rolling update may make unavailable.
    pub(super) max_unavailable: i64,
    /// The number of pods that were unavailable before the sync deleted any.
    pub(super) unavailable: i64,
}

impl Shared {
    /// Returns both gauges of all sets, sorted by namespace and name; nothing if the gate is off.
    pub(super) fn families(&self) -> Vec<Family> {
        if !self.options.uses_max_unavailable {
            return Vec::new();
        }
        let mut gauges = Vec::new();
        self.gauges
            .for_each(|key, state| gauges.extend(state.map(|state| (key, state))));
        let mut rows: Vec<(Vec<_>, Gauges)> = gauges
            .into_iter()
            .filter_map(|(key, gauges)| {
                let set = self.sets.get(key)?;
                let meta = &set.object.metadata;
                let policy = match set.spec.read.is_parallel {
                    true => "Parallel",
                    false => "OrderedReady",
                };
                let labels = vec![
                    ("statefulset_namespace", Str::from(meta.namespace.as_str())),
                    ("statefulset_name", Str::from(meta.name.as_str())),
                    ("pod_management_policy", Str::from(policy)),
                ];
                Some((labels, gauges))
            })
            .collect();
        rows.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let family = |name, help, value: fn(&Gauges) -> i64| Family {
            name,
            help,
            kind: metrics::Kind::Gauge,
            series: rows
                .iter()
                .map(|(labels, gauges)| Series {
                    labels: labels.clone(),
                    value: Value::Number(value(gauges) as f64),
                })
                .collect(),
        };
        vec![
            family(
                "statefulset_controller_statefulset_max_unavailable",
                "The most pods of the StatefulSet that a rolling update may make unavailable.",
                |gauges| gauges.max_unavailable,
            ),
            family(
                "statefulset_controller_statefulset_unavailable_replicas",
                "Pods of the StatefulSet that were unavailable at its last rolling step.",
                |gauges| gauges.unavailable,
            ),
        ]
    }
}
